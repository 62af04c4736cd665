"""The test of a loop without the sum that only it needs.

    LOOP: ...                             sub.s32 %sw_sum1, %n, 2;      before the loop
          add.s32 %i, %i, %s;       =>    LOOP: ...
          add.s32 %k, %i, 2;                    add.s32 %i, %i, %s;
          setp.lt.u32 %p, %k, %n;               setp.lt.u32 %p, %i, %sw_sum1;

Equality may always be shifted: both sides change alike, modulo 2^32. An order stays the same only
if neither side wraps. A loop that is entered while `%i + 2 < %n`, with a small `%i` that is not
negative, has `%n` above 2, so `%n - 2` does not wrap.
"""

from __future__ import annotations

from ptxsw.analysis.loop_sums import LoopSums
from ptxsw.codegen.loop_guard import AddressSum
from ptxsw.codegen.lower_strength_reduction import ShiftedTest
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import defs
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Instruction, Int, Operand, Reg
from ptxsw.rewrites.iteration_cost import IterationCost
from ptxsw.rewrites.loop_counter import MORE
from ptxsw.terms.node import Term

_EQUAL = frozenset({"eq", "ne"})
_BELOW = {1: frozenset({"lt", "lo", "ge", "hs"}), 2: frozenset({"gt", "hi", "le", "ls"})}
"""Comparisons that ask whether operand number 1, or 2, is less than the other."""
_SUMS = (("s32",), ("u32",), ("b32",))


class LoopGuard:
    """Looks at the comparison that decides whether a loop goes on. `small` are the carried
    registers that the test before the loop bounds: not negative, and at most 2^30 in every
    iteration. The accesses `moved` no longer need registers for their addresses; the registers
    `kept` are still needed."""

    def __init__(
        self, cfg: Cfg, loop: Loop, sums: LoopSums, small: frozenset[Term], cost: IterationCost,
        moved: frozenset[int], kept: frozenset[str],
    ) -> None:  # fmt: skip
        self._cfg, self._loop, self._sums, self._small = cfg, loop, sums, small
        self._cost, self._moved, self._kept = cost, moved, kept

    def shifted(self) -> ShiftedTest | None:
        """The test with one sum less; None where that saves nothing, or is not known to be the
        same."""
        for number in self._loop.latches:
            test = deciding_comparison(self._cfg, number)
            for operand in (1, 2) if test is not None else ():
                assert test is not None
                test_above = self._without_sum(self._cfg.blocks[number].start, test, operand)
                if test_above is not None:
                    return test_above
        return None

    def _without_sum(self, start: int, test: int, operand: int) -> ShiftedTest | None:
        instruction = self._cfg.instructions[test]
        total, other = instruction.operands[operand], instruction.operands[3 - operand]
        at = last_writer(self._cfg, start, test, total)
        bound = self._bound(other)
        if at is None or bound is None or not isinstance(total, Reg):
            return None
        add = self._cfg.instructions[at]
        if add.opcode != "add" or add.modifiers not in _SUMS or add.guard is not None:
            return None
        _, register, more = add.operands
        if not isinstance(register, Reg) or not isinstance(more, Int):
            return None
        number = wrapped(more.value, 32)
        if last_writer(self._cfg, at, test, register) is not None:
            return None
        # With another reader the sum stays, and shifting the test saves nothing.
        if self._cost.readers(total, self._moved, self._kept) != frozenset({test}):
            return None
        if instruction.modifiers[0] not in _EQUAL and not (
            instruction.modifiers[0] in _BELOW[operand]
            and 0 < number < MORE
            and self._is_next(self._sums.values[at], number)
        ):
            return None
        return ShiftedTest(test, operand, register.name, bound, number)

    def _bound(self, operand: Operand) -> AddressSum | None:
        """What a sum is compared with, where no iteration changes it."""
        if isinstance(operand, Int):
            return AddressSum((), wrapped(operand.value, 32))
        if not isinstance(operand, Reg) or self._sums.is_set_inside(operand):
            return None
        return AddressSum(((operand.name, 1),))

    def _is_next(self, total: Term, number: int) -> bool:
        """Is it `number` more than a small register has in the next iteration?"""
        terms = self._sums.terms
        register = terms.sub(total, terms.const(number, 32))
        steps = ((carried, self._sums.step(carried)) for carried in self._small)
        return any(step and terms.add(carried, step) is register for carried, step in steps)


def last_writer(cfg: Cfg, start: int, end: int, register: Operand) -> int | None:
    """The last instruction from `start` on, before `end`, that sets a register."""
    code = cfg.instructions
    return next((i for i in range(end - 1, start - 1, -1) if register in defs(code[i])), None)


def deciding_comparison(cfg: Cfg, number: int) -> int | None:
    """The comparison in a block that decides where its branch goes; None where the branch is not
    guarded, or something else sets its guard."""
    block = cfg.blocks[number]
    guard = cfg.instructions[block.end - 1].guard
    at = None if guard is None else last_writer(cfg, block.start, block.end - 1, guard.reg)
    return at if at is not None and _compares(cfg.instructions[at]) else None


def _compares(instruction: Instruction) -> bool:
    """Is it a comparison of two numbers of 32 bits, and nothing else?"""
    return (
        instruction.opcode == "setp"
        and instruction.guard is None
        and len(instruction.modifiers) == 2
        and instruction.modifiers[1] in ("s32", "u32", "b32")
        and len(instruction.operands) == 3
        and isinstance(instruction.operands[0], Reg)
    )
