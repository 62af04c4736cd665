"""Two bodies side by side: which statements of the second are the first's, which were added.

Rewriting only inserts: an added instruction is one that names a register which the original
does not have. What is left must be the original, but for loads that are now guarded or whose
registers other instructions set. A stretch may be there twice, under one added branch:

    @%p bra slow;  FIRST COPY  bra done;  slow:  SECOND COPY  done:

Both copies are then compared with the same stretch of the original.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ptxsw import isa
from ptxsw.ir import (
    Body,
    Close,
    Directive,
    Function,
    Instruction,
    Label,
    Open,
    Reg,
    Statement,
    Symbol,
    Variable,
    leaves,
)


@dataclass(frozen=True, slots=True)
class Aligned:
    """One instruction of the second body.

    `kind` is "same" for an instruction of the first, "guarded" for one under a new guard,
    "added" for a new one, "replaces" for the last of the new ones that stand where a load was,
    and "branch" for the two branches around a stretch that is there twice. `index` is the
    position in the first body's instructions; for an added one, of the instruction that follows
    it.
    """

    kind: str
    instruction: Instruction
    index: int


@dataclass(frozen=True, slots=True)
class Apart:
    """Why two bodies cannot be aligned; `instruction` is of the second, where there is one."""

    reason: str
    instruction: Instruction | None = None


def align(first: Function, second: Function) -> tuple[Aligned, ...] | Apart:
    """The instructions of `second` in order, each with its part in `first`."""
    if _header(first) != _header(second):
        return Apart("the parameters or directives of the kernels differ")
    known = {_variable(v) for v in first.body.variables}
    more = [v for v in second.body.variables if _variable(v) not in known]
    if len(second.body.variables) - len(more) != len(known) or any(v.space != "reg" for v in more):
        return Apart("the variables of the kernels differ")
    return _Aligner(first.body, second.body).run()


def _header(function: Function) -> tuple[object, ...]:
    return tuple(map(_variable, function.params)), function.directives, function.linkage


def _variable(v: Variable) -> tuple[object, ...]:
    return (v.space, v.type, v.name, v.count, v.dims, v.vector, v.align, v.attributes, v.scope)


class _Aligner:
    def __init__(self, first: Body, second: Body) -> None:
        self._first = first
        self._wanted = [s for s in first.statements if _counts(s)]
        self._given = [s for s in second.statements if _counts(s)]
        self._labels = {s.name for s in first.statements if isinstance(s, Label)}
        self._own: dict[Reg, bool] = {}
        self._found: list[Aligned] = []
        self._index = 0  # of the next instruction of the first body
        self._at = 0  # of the next statement of the first body

    def run(self) -> tuple[Aligned, ...] | Apart:
        refused = self._stretch(self._given)
        if refused is not None:
            return refused
        if self._at < len(self._wanted):
            return Apart("the second kernel ends early")
        return tuple(self._found)

    def _stretch(self, given: Sequence[Statement]) -> Apart | None:
        """Statements of the second body, from where the first one is."""
        number = 0
        while number < len(given):
            slow = self._new_target(given[number], guarded=True)
            if slow is None:
                refused = self._take(given, number)
                number += 1
            else:
                ends = self._copies(given, number, slow)
                refused = self._twice(given, number, *ends) if ends is not None else _STRAY
                number = ends[1] + 1 if ends is not None else number
            if refused is not None:
                return refused
        return None

    def _new_target(self, statement: Statement, *, guarded: bool) -> str | None:
        """The label to which an added branch goes."""
        if not isinstance(statement, Instruction) or statement.opcode != "bra":
            return None
        (*_, target) = statement.operands
        if not isinstance(target, Symbol) or target.name in self._labels:
            return None
        return target.name if (statement.guard is not None) == guarded else None

    def _copies(self, given: Sequence[Statement], branch: int, slow: str) -> tuple[int, int] | None:
        """Where the second copy of a stretch begins, and where it ends: the two labels."""
        second = _label(given, branch, slow)
        done = self._new_target(given[second - 1], guarded=False) if second > branch else None
        last = _label(given, second, done) if done is not None else -1
        return (second, last) if last > second else None

    def _twice(self, given: Sequence[Statement], at: int, second: int, last: int) -> Apart | None:
        begin = self._at, self._index
        self._branch(given[at])
        refused = self._stretch(given[at + 1 : second - 1])
        end = self._at
        self._branch(given[second - 1])
        self._at, self._index = begin
        refused = refused or self._stretch(given[second + 1 : last])
        if refused is None and self._at != end:
            return Apart("the two copies of a stretch differ")
        return refused

    def _branch(self, statement: Statement) -> None:
        assert isinstance(statement, Instruction)
        self._found.append(Aligned("branch", statement, self._index))

    def _take(self, statements: Sequence[Statement], number: int) -> Apart | None:
        given = statements[number]
        wanted = self._wanted[self._at] if self._at < len(self._wanted) else None
        if wanted is not None and _same(wanted, given):
            self._match("same", given)
            return None
        if not isinstance(given, Instruction):
            return Apart("labels, scopes or directives of the kernels differ")
        if not self._is_new(given):
            return Apart("an instruction of the kernels differs", given)
        if isinstance(wanted, Instruction) and _guarded(wanted, given):
            self._match("guarded", given)
            return None
        return self._add(wanted, given, islice(statements, number + 1, None))

    def _add(
        self, wanted: Statement | None, given: Instruction, rest: Iterable[Statement]
    ) -> Apart | None:
        old = [r for r in isa.defs(given) if not self._fresh(r)]
        if not old:
            self._found.append(Aligned("added", given, self._index))
            return None
        load = isinstance(wanted, Instruction) and wanted.opcode == "ld" and wanted.guard is None
        if not load or not isinstance(wanted, Instruction) or not _sets(wanted, old):
            return Apart(f"an added instruction writes {old[0].name}", given)
        if self._goes_on(wanted, rest):
            self._found.append(Aligned("added", given, self._index))
        else:
            self._match("replaces", given)
        return None

    def _goes_on(self, load: Instruction, rest: Iterable[Statement]) -> bool:
        """Do the added instructions that set a load's registers go on?"""
        for statement in rest:
            if not isinstance(statement, Instruction) or not self._is_new(statement):
                return False
            if _guarded(load, statement):
                return True
            old = [r for r in isa.defs(statement) if not self._fresh(r)]
            if old:
                return _sets(load, old)
        return False

    def _match(self, kind: str, given: Statement) -> None:
        self._at += 1
        if isinstance(given, Instruction):
            self._found.append(Aligned(kind, given, self._index))
            self._index += 1

    def _is_new(self, instruction: Instruction) -> bool:
        return any(self._fresh(reg) for reg in registers(instruction))

    def _fresh(self, reg: Reg) -> bool:
        found = self._own.get(reg)
        if found is None:
            found = self._own[reg] = self._first.declaration(reg) is None
        return found


_STRAY = Apart("a branch of the second kernel is not around a stretch that is there twice")


def _label(statements: Sequence[Statement], start: int, name: str | None) -> int:
    """Where a label stands behind a place; -1 where it does not."""
    for at in range(start + 1, len(statements)):
        statement = statements[at]
        if isinstance(statement, Label) and statement.name == name:
            return at
    return -1


def _sets(load: Instruction, registers: Sequence[Reg]) -> bool:
    """Are these among the registers that a load sets?"""
    return set(registers) <= set(isa.defs(load))


def _counts(statement: Statement) -> bool:
    """Does the statement matter? Variables are compared apart; line numbers are not."""
    return isinstance(statement, Instruction | Label | Directive | Open | Close)


def _same(a: Statement, b: Statement) -> bool:
    match a, b:
        case Instruction(), Instruction():
            return a.guard == b.guard and _same_work(a, b)
        case Label(), Label():
            return a.name == b.name and a.scope == b.scope
        case Directive(), Directive():
            return (a.name, a.label, a.names) == (b.name, b.label, b.names)
        case _:
            return type(a) is type(b)


def _same_work(a: Instruction, b: Instruction) -> bool:
    return a.opcode == b.opcode and a.modifiers == b.modifiers and a.operands == b.operands


def _guarded(load: Instruction, given: Instruction) -> bool:
    """The same load under a guard, where there was none?"""
    return (
        load.opcode == "ld"
        and load.guard is None
        and given.guard is not None
        and _same_work(load, given)
    )


def registers(instruction: Instruction) -> Iterator[Reg]:
    """All registers that an instruction names."""
    if instruction.guard is not None:
        yield instruction.guard.reg
    for leaf in leaves(instruction.operands):
        if isinstance(leaf, Reg):
            yield leaf
