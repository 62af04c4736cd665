"""A loop that only counts, beside a pointer that grows with its counter.

                                                cvt.u32.u64 %sw_low1, %rd1;     before the loop
                                                add.s32 %sw_stop1, %sw_low1, 392;
    LOOP: ld.global.f32 %f1, [%rd1];            LOOP: ld.global.f32 %f1, [%rd1];
          add.s64 %rd1, %rd1, 8;          =>          cvt.u32.u64 %sw_low2, %rd1;
          add.s32 %i, %i, 2;                          setp.ne.s32 %p, %sw_low2, %sw_stop1;
          setp.ne.s32 %p, %i, 100;                    add.s64 %rd1, %rd1, 8;
          @%p bra LOOP;                               add.s32 %i, %i, 2;
                                                      @%p bra LOOP;

The pointer takes a fixed multiple of the counter's steps, a power of two, so both come to their
ends in the same iteration, unless 32 bits of the pointer come there earlier: the whole distance
has to be shorter than 2^32 bytes, so start and end of the counter must be numbers. Nobody reads the
counter any more, and `ptxas` removes it. Behind the sum the comparison would keep two values of
the pointer alive, which costs a move.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ptxsw.analysis.loop_sums import LoopSums
from ptxsw.changes.claim import Claim
from ptxsw.codegen.lower_strength_reduction import PointerGuard
from ptxsw.codegen.versioning import LoopPlace
from ptxsw.facts.iteration_bounds import until_0
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import writers
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Instruction, Int, Reg
from ptxsw.rewrites.iteration_cost import IterationCost
from ptxsw.rewrites.loop_counter import signed_number
from ptxsw.rewrites.loop_guard import deciding_comparison, last_writer
from ptxsw.terms.node import Term, split

_EQUAL = frozenset({"eq", "ne"})
_WIDE = (("s64",), ("u64",), ("b64",))
_SHORT = 20
"""Instructions of the longest iteration in which saving one is the gain of 5 % that mode auto
asks for."""


def ending_comparison(cfg: Cfg, loop: Loop, *, short: bool) -> int | None:
    """The comparison on which a loop goes round, if it asks whether a register has come to a
    number, and there is a pointer that might tell as well. With `short`, in short loops only."""
    if len(loop.latches) != 1:
        return None
    code = cfg.indices(loop.blocks)
    if short and len(code) > _SHORT:
        return None
    at = deciding_comparison(cfg, loop.latches[0])
    if at is None:
        return None
    comparison = cfg.instructions[at]
    _, counter, end = comparison.operands
    asked = comparison.modifiers[0] in _EQUAL and isinstance(counter, Reg) and isinstance(end, Int)
    return at if asked and any(_advances(cfg.instructions[i]) for i in code) else None


def _advances(instruction: Instruction) -> bool:
    """Does it add a number to a register of 64 bits?"""
    return (
        instruction.opcode == "add"
        and instruction.modifiers in _WIDE
        and instruction.operands[0] == instruction.operands[1]
        and isinstance(instruction.operands[2], Int)
    )


class _Counter(Struct, frozen=True):
    """The loop runs `iterations` times. Its counter is `register`, which grows by `step`, a power
    of two or minus one, and holds `last` in the last iteration."""

    register: Reg
    last: int
    step: int
    iterations: int


class _Pointer(Struct, frozen=True):
    """A register of 64 bits that instruction `sum` makes grow by `step`. It is compared before
    instruction `before`, when it has grown by `already`."""

    register: Reg
    sum: int
    step: int
    before: int
    already: int


class PointerGuards:
    """What can be made of the comparison `at` on which one loop, at a `place`, goes round."""

    def __init__(
        self, cfg: Cfg, loop: Loop, place: LoopPlace, at: int, sums: LoopSums, cost: IterationCost
    ) -> None:
        self._cfg, self._loop, self._place, self._at = cfg, loop, place, at
        self._sums, self._cost = sums, cost
        self._writers = writers(cfg.written, cfg.indices(loop.blocks))

    def find(self, prefix: str, number: int) -> tuple[PointerGuard, tuple[Claim, ...]] | None:
        """The kernel's `number`-th test on a pointer, and the claims about it; None if the counter
        is needed, or no pointer can replace it. New names begin with `prefix`."""
        counter = self._counter()
        pointer = None if counter is None else self._pointer(counter)
        if counter is None or pointer is None:
            return None
        distance = (counter.iterations - 1) * pointer.step + pointer.already
        stop = f"{prefix}stop{number}"
        test = PointerGuard(
            self._place, self._at, pointer.register.name, stop, distance, pointer.before
        )
        label = self._cfg.name(self._loop.header)
        claims = (_in_step(label, counter, prefix), _stops(label, stop, counter, pointer, prefix))
        return test, claims

    # ------------------------------------------------------------ the counter

    def _counter(self) -> _Counter | None:
        """What counts the iterations, where nothing else needs it, from a number on to another
        one."""
        compared = self._cfg.instructions[self._at].operands[1]
        latch = self._cfg.blocks[self._loop.latches[0]]
        if last_writer(self._cfg, self._at, latch.end, compared) is not None:
            return None  # ptxas makes more of it
        # The loop ends when this is 0; one of its sides is the end.
        left, items = self._until_0(self._sums.again)
        first, counted = self._until_0(self._sums.again_by_count)
        if len(items) != 1 or len(counted) != 1 or items[0][0] not in self._sums.registers:
            return None
        register, sign = self._sums.registers[items[0][0]], wrapped(items[0][1], 32)
        step, grown = signed_number(self._sums.step(items[0][0])), wrapped(counted[0][1], 32)
        if abs(sign) != 1 or register.scope or not step or abs(step) & (abs(step) - 1):
            return None
        # Behind `n` iterations the difference is `first + grown · n`.
        distance = (-first if grown > 0 else first) % (1 << 32)
        # Otherwise the counter would step over its end.
        if abs(grown) != abs(step) or distance % abs(step) or not self._is_free():
            return None
        iterations = (distance or 1 << 32) // abs(step)
        return _Counter(register, wrapped(-sign * left, 32), step, iterations)

    def _until_0(self, again: Term | None) -> tuple[int, tuple[tuple[Term, int], ...]]:
        """The number and the other summands of the difference of 32 bits on which a loop goes round
        until it is 0; none where there is no such difference."""
        left = None if again is None else until_0(again, self._sums.terms)
        return (0, ()) if left is None or left.width != 32 else split(left)

    def _is_free(self) -> bool:
        """Does an iteration need the counter for the comparison only?"""
        # If so, removing the comparison also makes the counter's own sum dead: the cost falls by
        # more than one instruction.
        without = self._cost.of(given=frozenset({self._at}))
        return without + 1 < self._cost.of()

    # ------------------------------------------------------------ the pointer

    def _pointer(self, counter: _Counter) -> _Pointer | None:
        """A register that an iteration needs in any case, and that tells the iterations apart: the
        one that grows last."""
        return max(self._pointers(counter), key=lambda pointer: pointer.sum, default=None)

    def _pointers(self, counter: _Counter) -> Iterator[_Pointer]:
        given = frozenset({self._at})
        without = self._cost.of(given=given)
        for atom, register in self._sums.registers.items():
            fits = atom.width == 64 and not register.scope
            step = signed_number(self._sums.step(atom)) if fits else None
            # Over a longer distance the low 32 bits would take the value of the end more than once.
            if not step or step % counter.step or (counter.iterations - 1) * abs(step) >= 1 << 32:
                continue
            ratio = abs(step // counter.step)
            needed = self._cost.of(given=given, kept=frozenset({register.name})) == without
            if needed and ratio & (ratio - 1) == 0 and len(self._writers[register]) == 1:
                yield self._compared(register, step)

    def _compared(self, register: Reg, step: int) -> _Pointer:
        """A pointer, compared before it grows where the comparison may stand there: behind the sum
        the old and the new value would both be alive, which takes a move."""
        (total,) = self._writers[register]
        same = self._cfg.block_of[total] == self._cfg.block_of[self._at]
        if same and total < self._at and self._may_move_to(total):
            return _Pointer(register, total, step, total, 0)
        grown = not same or total < self._at
        return _Pointer(register, total, step, self._at, step if grown else 0)

    def _may_move_to(self, before: int) -> bool:
        """Does nothing on the way ask for what the comparison sets, or sets it?"""
        result = frozenset(self._cfg.written[self._at])
        between = range(before, self._at)
        return all(result.isdisjoint((*self._cfg.read[i], *self._cfg.written[i])) for i in between)


def _in_step(label: str, counter: _Counter, prefix: str) -> Claim:
    """The claim that the counter is a whole number of steps from its end, and no more than the
    loop has iterations."""
    size, name = abs(counter.step), f"{prefix}claim_"
    ends = (str(counter.last), counter.register.name)
    to, of = ends if counter.step > 0 else reversed(ends)
    code = (
        f"sub.s32 {name}left, {to}, {of};\n"
        f"and.b32 {name}rest, {name}left, {size - 1};\n"
        f"setp.le.u32 {name}near, {name}left, {(counter.iterations - 1) * size};\n"
        f"setp.eq.and.s32 {name}true, {name}rest, 0, {name}near;"
    )
    declare = f".reg .b32 {name}left, {name}rest; .reg .pred {name}near, {name}true;"
    return Claim(label, "", code, f"{name}true", declare, "true")


def _stops(label: str, stop: str, counter: _Counter, pointer: _Pointer, prefix: str) -> Claim:
    """The claim about where the pointer will be in the last iteration: as many of its steps ahead
    as the counter has steps left."""
    name = f"{prefix}claim_"
    code = (
        f"cvt.u32.u64 {name}low, {pointer.register.name};\n"
        f"sub.s32 {name}left, {counter.last}, {counter.register.name};\n"
        f"mad.lo.s32 {name}there, {name}left, {pointer.step // counter.step}, {name}low;\n"
        f"add.s32 {name}stop, {name}there, {pointer.already};"
    )
    declare = f".reg .b32 {name}low, {name}left, {name}there, {name}stop;"
    return Claim(label, stop, code, f"{name}stop", declare)
