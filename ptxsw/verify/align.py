"""Two bodies side by side: which statements of the second are the first's, which were added.

Rewriting only inserts: an added instruction is one that names a register which the original
does not have. What is left must be the original, but for loads that are now guarded or whose
registers other instructions set. A stretch may be there twice, under one added branch:

    @%p bra slow;  FIRST COPY  bra done;  slow:  SECOND COPY  done:

Both copies are then compared with the same stretch of the original. Scopes must have the numbers
that they have in the first body (`ptxsw.validate.scopes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ptxsw import isa
from ptxsw.flow.dataflow import read_first
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


class Aligned(Struct, frozen=True):
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


class Divergence(Struct, frozen=True):
    """Why two bodies cannot be aligned; `instruction` is of the second, where there is one."""

    reason: str
    instruction: Instruction | None = None


COPIES_DIFFER = Divergence("the two copies of a stretch differ")


def align(first: Function, second: Function) -> tuple[Aligned, ...] | Divergence:
    """The instructions of `second` in order, each with its part in `first`."""
    if _header(first) != _header(second):
        return Divergence("the parameters or directives of the kernels differ")
    if not _same_variables(first.body, second.body):
        return Divergence("the variables of the kernels differ")
    return _Aligner(first.body, second.body).run()


def _header(function: Function) -> tuple[object, ...]:
    return tuple(map(_variable, function.params)), function.directives, function.linkage


def _variable(v: Variable) -> tuple[object, ...]:
    return (v.space, v.type, v.name, v.count, v.dims, v.vector, v.align, v.attributes, v.scope)


def _same_variables(first: Body, second: Body) -> bool:
    """Does the second body have all variables of the first, and otherwise registers only? Those of
    a nested scope may be there once for each copy of it."""
    given = Counter(map(_variable, second.variables))
    for variable, times in Counter(map(_variable, first.variables)).items():
        copies = given.pop(variable, 0)
        space, *_, scope = variable
        if copies < times or (copies > times and not (space == "reg" and scope)):
            return False
    return all(space == "reg" for space, *_ in given)


class _Aligner:
    def __init__(self, first: Body, second: Body) -> None:
        self._first = first
        self._wanted = [s for s in first.statements if _counts(s)]
        self._given = [s for s in second.statements if _counts(s)]
        self._labels = {s.name for s in first.statements if isinstance(s, Label)}
        self._own: dict[Reg, bool] = {}
        self._found: list[Aligned] = []
        self._written: set[Reg] = set()  # by added instructions, of the load that comes next
        self._index = 0  # of the next instruction of the first body
        self._at = 0  # of the next statement of the first body

    def run(self) -> tuple[Aligned, ...] | Divergence:
        refused = self._stretch(self._given)
        if refused is not None:
            return refused
        if self._at < len(self._wanted):
            return Divergence("the second kernel ends early")
        return tuple(self._found)

    def _stretch(self, given: Sequence[Statement]) -> Divergence | None:
        """Statements of the second body, from where the first one is."""
        number = 0
        while number < len(given):
            slow = self._new_target(given[number], guarded=True)
            if slow is None or self._is_next(given[number]):
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

    def _twice(
        self, given: Sequence[Statement], at: int, second: int, last: int
    ) -> Divergence | None:
        begin = self._at, self._index
        self._branch(given[at])
        refused = self._stretch(given[at + 1 : second - 1])
        end = self._at
        kept = _kept_over(self._wanted[begin[0] : end])
        if refused is None and kept is not None:
            return Divergence(f"the copies of a stretch do not share {kept.name}")
        self._branch(given[second - 1])
        self._at, self._index = begin
        self._written = set()
        refused = refused or self._stretch(given[second + 1 : last])
        if refused is None and self._at != end:
            return COPIES_DIFFER
        return refused

    def _branch(self, statement: Statement) -> None:
        assert isinstance(statement, Instruction)
        self._found.append(Aligned("branch", statement, self._index))

    def _is_next(self, given: Statement) -> bool:
        """Is it the statement of the first body that comes next?"""
        return self._at < len(self._wanted) and _same(self._wanted[self._at], given)

    def _take(self, statements: Sequence[Statement], number: int) -> Divergence | None:
        given = statements[number]
        wanted = self._wanted[self._at] if self._at < len(self._wanted) else None
        if wanted is not None and _same(wanted, given):
            self._match("same", given)
            return None
        if not isinstance(given, Instruction):
            return Divergence("labels, scopes or directives of the kernels differ")
        if not self._is_new(given):
            return Divergence("an instruction of the kernels differs", given)
        if isinstance(wanted, Instruction) and _guarded(wanted, given):
            self._match("guarded", given)
            return None
        return self._add(wanted, given, (statements[n] for n in range(number + 1, len(statements))))

    def _add(
        self, wanted: Statement | None, given: Instruction, rest: Iterable[Statement]
    ) -> Divergence | None:
        old = self._old(given)
        if not old:
            self._found.append(Aligned("added", given, self._index))
            return None
        load = isinstance(wanted, Instruction) and wanted.opcode == "ld" and wanted.guard is None
        if not load or not isinstance(wanted, Instruction) or not _sets(wanted, old):
            return Divergence(f"an added instruction writes {old[0].name}", given)
        self._written |= set(old)
        if set(isa.defs(wanted)) <= self._written and not self._made_next(wanted, rest):
            self._match("replaces", given)
        else:
            self._found.append(Aligned("added", given, self._index))
        return None

    def _made_next(self, load: Instruction, rest: Iterable[Statement]) -> bool:
        """Is a load made under a guard, behind added instructions that have set its registers?
        One that sets them once more belongs to the load behind it."""
        for statement in rest:
            if not isinstance(statement, Instruction) or not self._is_new(statement):
                return False
            if _guarded(load, statement):
                return True
            if self._old(statement):
                return False
        return False

    def _old(self, instruction: Instruction) -> list[Reg]:
        """The registers of the first body that an instruction sets."""
        return [reg for reg in isa.defs(instruction) if not self._fresh(reg)]

    def _match(self, kind: str, given: Statement) -> None:
        self._at += 1
        self._written = set()
        if isinstance(given, Instruction):
            self._found.append(Aligned(kind, given, self._index))
            self._index += 1

    def _is_new(self, instruction: Instruction) -> bool:
        return any(self._fresh(reg) for reg in registers(instruction))

    def _fresh(self, reg: Reg) -> bool:
        twin = self._own.get(reg)
        if twin is None:
            twin = self._own[reg] = self._first.declaration(reg) is None
        return twin


def _kept_over(stretch: Sequence[Statement]) -> Reg | None:
    """A register declared in the stretch that may be read before it is set there: with a
    stretch that is there twice, one copy would not have what the other has set."""
    inside = {s.scope for s in stretch if isinstance(s, Open)}
    if not inside:
        return None
    read = read_first([s for s in stretch if isinstance(s, Instruction)])
    return next((reg for reg in sorted(read) if reg.scope in inside), None)


_STRAY = Divergence("a branch of the second kernel is not around a stretch that is there twice")


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
        case (Open(scope), Open(other)) | (Close(scope), Close(other)):
            return scope == other
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
