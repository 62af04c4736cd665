"""What registers hold by the instructions that write them, wherever control came from.

    mov.u32 %r1, %tid.x;                        %tid.x
    shr.u32 %r2, %r1, 5;                        %tid.x >> 5
    shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;      the same, as the whole warp has one

A register that one instruction writes holds what that computes of its sources. Of one that several
write nothing is known, and each reader is taken to find another value in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set

from ptxsw.emulator.state import State
from ptxsw.emulator.symbolic_machine import SymbolicMachine
from ptxsw.flow.cfg import Cfg, build
from ptxsw.ptx.ir import Function, Instruction, Module, Operand, Pair, Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.terms import Terms

_DEEPEST = 8  # registers that are followed back from a loop
_DEEPEST = 8  # registers that are followed back from a loop
_EVERY = 0xFFFFFFFF  # lanes


class RegisterTerms:
    """The values of some registers of a function as terms. `is_shared` tells whether a term is the
    same for all lanes of a warp."""

    def __init__(
        self, module: Module, function: Function, wanted: Iterable[Reg],
        is_shared: Callable[[Term], bool],
    ) -> None:  # fmt: skip
        self.cfg = build(function.body)
        self.terms = Terms()
        self._machine = SymbolicMachine(module, function, self.terms)
        self._is_shared = is_shared
        self._values: dict[Reg, Term] = {}
        self._leading: dict[int, Set[int]] = {}
        slice_ = backward_slice(self.cfg, wanted, self.cfg.sole_writers)
        for block in self.cfg.order:  # what is read was written before, but around a loop
            for index in self.cfg.indices((block,)):
                if index in slice_:
                    self._run(index)

    def _run(self, index: int) -> None:
        instruction = self.cfg.instructions[index]
        given = self._given(instruction)
        if given is not None:
            own = self.read(instruction.operands[1])
            if self._is_shared(own):  # so that it does not matter which lane gives it
                self._values[given] = own
                return
        self._values.update(self.after(index, self._before(index)))

    def after(self, index: int, before: Mapping[Reg, Term]) -> Mapping[Reg, Term]:
        """What an instruction leaves in the registers that it writes, from what it reads."""
        state, written = State(dict(before)), frozenset(self.cfg.written[index])
        step = self._machine.prepare(self.cfg.instructions[index], written)
        if step is not None:
            self._machine.run(step, state, index)
        return {reg: state.env[reg] for reg in written if reg in state.env}

    def first(self, reg: Reg, at: int, depth: int = _DEEPEST) -> Term:
        """What a register holds as an instruction is come to for the first time: what the last one
        wrote that is passed on all ways there, if on no way another one is."""
        known = self._values.get(reg) if reg in self.cfg.sole_writers else None
        if known is not None:
            return known
        place, block_of = self._place(at), self.cfg.block_of
        leading = self._leading_to(block_of[at])
        before = [i for i in self.cfg.writers.get(reg, ()) if block_of[i] in leading]
        last = max((i for i in before if self._place(i) < place), key=self._place, default=None)
        if last is None or not depth or not self.cfg.dominates(block_of[last], block_of[at]):
            return self.unknown(reg)
        if self.cfg.instructions[last].guard is not None:
            return self.unknown(reg)
        read = {each: self.first(each, last, depth - 1) for each in self.cfg.read[last]}
        return self.after(last, read).get(reg) or self.unknown(reg)

    def _leading_to(self, block: int) -> Set[int]:
        if block not in self._leading:
            self._leading[block] = self.cfg.reaching([block])
        return self._leading[block]

    def _place(self, index: int) -> tuple[int, int]:
        """Orders instructions as they are come to for the first time; those never come to last."""
        cfg = self.cfg
        return cfg.rank.get(cfg.block_of[index], len(cfg.blocks)), index

    def behind(self, address: Term, offset: int) -> Term:
        """So many bytes behind an address."""
        return self.terms.add(address, self.terms.const(offset, address.width))

    def unknown(self, reg: Reg) -> Term:
        """A value of which nothing is known."""
        return self.terms.fresh(reg.name, self._machine.width(reg))

    def _given(self, instruction: Instruction) -> Reg | None:
        """The register that gets another lane's value, where all lanes of the warp take part."""
        if instruction.opcode != "shfl" or "idx" not in instruction.modifiers:
            return None
        into, mask = instruction.operands[0], self.read(instruction.operands[-1])
        into = into.first if isinstance(into, Pair) else into
        whole = mask.kind is op.CONST and int(mask.value) & _EVERY == _EVERY
        return into if whole and isinstance(into, Reg) else None

    def _before(self, index: int) -> dict[Reg, Term]:
        return {reg: self._read(reg) for reg in self.cfg.read[index]}

    def _read(self, reg: Reg) -> Term:
        """What a reader finds in a register: what is known, or something of its own."""
        known = self._values.get(reg) if reg in self.cfg.sole_writers else None
        return self.unknown(reg) if known is None else known

    def read(self, operand: Operand) -> Term:
        """The value of an operand that one instruction reads."""
        value = self._machine.read(operand, self._read)
        return self.terms.const(value, 64) if isinstance(value, int) else value


def backward_slice(
    cfg: Cfg, wanted: Iterable[Reg], writers: Mapping[Reg, int] | Mapping[Reg, Iterable[int]]
) -> frozenset[int]:
    """The instructions that some registers depend on, by the writers that are followed."""
    found: set[int] = set()
    work = list(wanted)
    while work:
        at = writers.get(work.pop(), ())
        for index in (at,) if isinstance(at, int) else at:
            if index not in found:
                found.add(index)
                work.extend(cfg.read[index])
    return frozenset(found)
