"""The lines of uniform loops as a lane sees them that takes part, and as one that does not."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ptxsw import isa
from ptxsw.flow.dataflow import Facts, defs
from ptxsw.ir import (
    Body,
    Guard,
    Instruction,
    Int,
    Label,
    Mem,
    Operand,
    Reg,
    Statement,
    Symbol,
)
from ptxsw.plan import UniformLoop
from ptxsw.verify.align import Divergence

_LOGIC = ("and", "not")
_PLACED = frozenset({"param", "const"})


class Mismatch(Exception):
    """A uniform loop is not what the plan says."""

    def __init__(self, reason: str, instruction: Instruction | None = None) -> None:
        super().__init__(reason)
        self.apart = Divergence(reason, instruction)


class Found(Struct):
    """A uniform loop in the rewritten text. `inside` is its predicate and `go` what is voted;
    `start` is the statement that sets the predicate where no branch is in its place."""

    loop: UniformLoop
    inside: Reg
    go: Reg
    blocks: frozenset[int] = frozenset()
    lasting: Facts = frozenset()  # registers that are read behind the loop
    start: int = -1


class Lanes:
    """The lines of uniform loops one by one: what a lane does that does not take part, which must
    be nothing that lasts, and how they read for one that does."""

    def __init__(
        self,
        statements: Sequence[Statement],
        first: Body,
        gone: set[int],
        put: dict[int, Instruction],
    ) -> None:
        self._statements, self._first = statements, first
        self._gone, self._put = gone, put
        self.collective: dict[int, UniformLoop] = {}
        self._labels = {s.name for s in first.statements if isinstance(s, Label)}
        self._all_in = False  # behind a branch that is only passed if all lanes take part
        self._copies = False  # in a stretch that is there twice
        self._done: str | None = None  # the label at its end
        self._full: set[Reg] = set()  # predicates that are false only if they do

    def run(self, run: Sequence[int], loops: Sequence[Found]) -> None:
        """One block, with the uniform loops around it, outer ones first. Raises Mismatch."""
        labels = self._labels_before(run[0])
        if labels:
            self._all_in = False
        if self._done in labels or labels & self._labels:
            self._copies, self._done = False, None
        self._full = set()
        self._loops = loops
        self._names = {found.inside: found for found in loops}
        self._with: set[Reg] = set()  # predicates that are true only in lanes that take part
        self._guards: dict[Reg, Guard] = {}  # what a predicate and `in` together stand for
        self._turned: tuple[Reg, int] | None = None  # what the last line negates
        self._mask: Reg | None = None
        self._saved: dict[Reg, Reg] = {}
        self._set: dict[Reg, Instruction] = {}  # what lasts and was set by all lanes
        for at in run:
            if at not in self._gone:
                self._line(at, self._statements[at])
        for reg, line in self._set.items():
            raise Mismatch(
                f"{reg.name} is read behind the loop and set by lanes that left it", line
            )

    def _labels_before(self, at: int) -> set[str]:
        """The labels between an instruction and the one before it."""
        found: set[str] = set()
        while at > 0 and not isinstance(self._statements[at - 1], Instruction):
            at -= 1
            statement = self._statements[at]
            if isinstance(statement, Label):
                found.add(statement.name)
        return found

    def _line(self, at: int, statement: Statement) -> None:
        assert isinstance(statement, Instruction)
        line = statement
        if not self._loops:
            return
        inmost = self._loops[-1].inside
        if self._predicates(at, line, inmost):
            return
        under = self._is_under(line.guard, inmost) or self._all_in
        guard = None if line.guard is None else self._guards.get(line.guard.reg)
        self._lasts(line, under)
        if self._merged(at, line, inmost):
            return
        if _touches(line) and not under:
            raise Mismatch(f"{line.name} is made by lanes that have left the loop", line)
        self._follow(line, inmost)
        self._read_on(at, line, inmost, guard)

    def _is_under(self, guard: Guard | None, inmost: Reg) -> bool:
        """Is a guard true only in lanes that take part?"""
        if guard is None:
            return False
        known = self._full if guard.negated else {inmost, *self._with}
        return guard.reg in known

    # ------------------------------------------------------------ lanes that take no part

    def _lasts(self, line: Instruction, under: bool) -> None:
        for reg in defs(line):
            if not under and any(reg in found.lasting for found in self._loops):
                self._set.setdefault(reg, line)
            self._with.discard(reg)
            self._full.discard(reg)
            self._guards = {
                name: guard for name, guard in self._guards.items() if reg not in (name, guard.reg)
            }
            self._saved = {r: old for r, old in self._saved.items() if old != reg}
            if self._mask == reg:
                self._mask = None

    def _merged(self, at: int, line: Instruction, inmost: Reg) -> bool:
        """`mov old, r; ...; selp r, r, old, in`: lanes that take no part keep what they had."""
        operands = line.operands
        if line.opcode == "mov" and line.guard is None and len(operands) == 2:
            old, reg = operands
            if isinstance(old, Reg) and isinstance(reg, Reg) and reg not in self._set:
                self._saved[reg] = old
        if line.opcode != "selp" or line.guard is not None or operands[3:] != (inmost,):
            return False
        reg = operands[0]
        if not isinstance(reg, Reg) or operands[1] != reg or self._saved.get(reg) != operands[2]:
            raise Mismatch("not a merge that can be read", line)
        self._set.pop(reg, None)
        self._gone.add(at)
        return True

    # ------------------------------------------------------------ predicates

    def _predicates(self, at: int, line: Instruction, inmost: Reg) -> bool:
        """`not.pred b, p; and.pred b, b, in`: the guard of the original and `in` together. Such
        lines are gone."""
        if line.guard is not None or line.modifiers != ("pred",) or line.opcode not in _LOGIC:
            return False
        if len(line.operands) < 2:
            return False
        dest, *sources = line.operands
        if not isinstance(dest, Reg) or self._is_old(dest):
            return False
        if line.opcode == "not" and isinstance(sources[0], Reg) and self._is_old(sources[0]):
            self._lasts(line, True)
            self._turned = (sources[0], at)
            return False
        if line.opcode != "and" or inmost not in sources:
            return False
        other = sources[0] if sources[1] == inmost else sources[1]
        if not isinstance(other, Reg):
            return False
        turned = self._turned if self._turned is not None and self._turned[1] == at - 1 else None
        self._lasts(line, True)
        self._with.add(dest)
        if turned is not None and other == dest:
            self._guards[dest] = Guard(turned[0], True)
            self._gone |= {at, turned[1]}
        elif self._is_old(other):
            self._guards[dest] = Guard(other, False)
            self._gone.add(at)
        else:
            self._put[at] = line._replace(opcode="mov", operands=(dest, other), modifiers=("pred",))
        return True

    def _follow(self, line: Instruction, inmost: Reg) -> None:
        """What an added predicate says of who takes part."""
        if line.guard is not None:
            return
        dest = line.operands[0] if line.operands else None
        if line.opcode == "bra":
            return
        if not isinstance(dest, Reg) or self._is_old(dest):
            return
        sources = line.operands[1:]
        if is_line(line, "vote.sync.ballot.b32", dest, inmost, Int(-1)):
            self._mask = dest
        elif line.opcode == "setp" and line.modifiers[:1] == ("ne",) and sources[:2] == (
            self._mask, Int(-1),
        ) and line.modifiers[1:-1] in ((), ("or",)):  # fmt: skip
            self._full.add(dest)
        elif line.modifiers == ("pred",) and line.opcode == "or":
            if any(s in self._full for s in sources):
                self._full.add(dest)
        elif line.modifiers == ("pred",) and line.opcode == "not":
            if sources and sources[0] in self._full:
                self._with.add(dest)
        elif line.name == "and.pred" and any(s in self._with for s in sources):
            self._with.add(dest)

    # ------------------------------------------------------------ for lanes that take part

    def _read_on(self, at: int, line: Instruction, inmost: Reg, guard: Guard | None) -> None:
        """How a line reads where `in` is true; `guard` is what stands for its own."""
        loop = self._loops[-1].loop
        put = self._put.get(at, line)
        if line.opcode == "bra":
            self._branch(line)
        elif line.opcode == "activemask":
            raise Mismatch("lanes that have left the loop are active, too", line)
        elif line.opcode == "vote" and line.operands[:1] == (self._mask,):
            if self._copies:
                raise Mismatch("not all lanes come to a ballot in a copy of a stretch", line)
            put = line._replace(opcode="activemask", modifiers=("b32",), operands=line.operands[:1])
            self.collective[line.span.start] = loop
        elif line.opcode in ("shfl", "vote") and line.operands[-1] == Int(-1):
            self.collective[line.span.start] = loop
            if self._mask is not None:
                put = line._replace(operands=(*line.operands[:-1], self._mask))
        if line.guard is not None:
            if line.guard.reg == inmost and not line.guard.negated:
                put = put._replace(guard=None)
            elif guard is not None and not line.guard.negated:
                put = put._replace(guard=guard)
        if any(reg in self._names for reg in isa.uses(put)) or any(
            reg in self._names for reg in defs(put)
        ):
            raise Mismatch("who takes part in the loop is used in a way that is not known", line)
        if put is not line:
            self._put[at] = put

    def _branch(self, line: Instruction) -> None:
        """An added branch begins a stretch that is there twice: the first copy may be for when all
        lanes take part, and ends with a branch behind the second."""
        added = target(line) not in self._labels
        guard = line.guard
        self._all_in = added and guard is not None and not guard.negated and guard.reg in self._full
        if added and guard is not None:
            self._copies, self._done = True, None
        elif added:
            self._done = target(line)

    def _is_old(self, reg: Reg) -> bool:
        return self._first.declaration(reg) is not None


def _touches(line: Instruction) -> bool:
    """Does it touch memory at an address that may be wrong in a lane that has left?"""
    if isa.space(line) is None:
        return False
    addresses = [o.base for o in line.operands if isinstance(o, Mem)]
    return isa.space(line) not in _PLACED or not all(isinstance(a, Symbol) for a in addresses)


def is_line(line: Instruction, name: str, *operands: Operand) -> bool:
    """Is it this very instruction, unguarded?"""
    return line.guard is None and line.name == name and line.operands == operands


def target(line: Instruction) -> str | None:
    """The label to which a branch goes."""
    last = line.operands[-1] if line.operands else None
    return last.name if isinstance(last, Symbol) else None
