"""Names in a body: which of them are registers, and in which `{ }` they were declared."""

from __future__ import annotations

from ptxsw.ir import Int, Operand, Special, Variable
from ptxsw.parser.make import make_reg, make_symbol

_DIGITS = "0123456789"
_LONGEST = 20  # digits of a member's number; no family has as many members


class Scope:
    """The names one `{ }` declares, and the scope around it.

    `number` is 0 for the outermost scope. `labels` are the labels that stand in this scope: a
    branch may name one before it is met.
    """

    __slots__ = ("_families", "_initials", "_names", "labels", "number", "parent", "seen")

    def __init__(
        self, number: int, parent: Scope | None, labels: frozenset[str] = frozenset()
    ) -> None:
        self.number = number
        self.parent = parent
        self.labels = labels
        self.seen: set[str] = set()  # names resolved here, so that a late declaration is noticed
        self._names: dict[str, bool] = {}  # name -> is a register
        self._families: dict[str, tuple[int, bool]] = {}  # `%r` of `%r<5>` -> 5, a register
        self._initials: set[str] = set()  # first characters of families

    def declare(self, variable: Variable) -> bool:
        """Add a declaration; True if names resolved earlier may now mean something else."""
        register = variable.space == "reg"
        if variable.count is None:
            self._names[variable.name] = register
            return variable.name in self.seen
        self._families[variable.name] = (variable.count, register)
        self._initials.add(variable.name[0])
        return bool(self.seen)

    def foreign(self, text: str) -> bool:
        """Is it certain that no name in an operand text is declared in this very scope?"""
        if self._families or self.labels or len(self._names) > 4:
            return False
        for name in self._names:  # noqa: SIM110 - a generator costs more than the search
            if name in text:
                return False
        return True

    def _own(self, name: str) -> bool | None:
        """Is `name` a register declared here? None if it is not declared here."""
        found = self._names.get(name)
        if found is not None:
            return found
        if name[0] not in self._initials or name[-1] not in _DIGITS:
            return None
        first = max(len(name.rstrip(_DIGITS)), len(name) - _LONGEST + 1)
        for cut in range(first, len(name)):
            count, register = self._families.get(name[:cut], (0, False))
            if int(name[cut:]) < count:
                return register
        return None

    def resolve(self, name: str) -> Operand:
        """What an identifier stands for."""
        scope: Scope | None = self
        while scope is not None:
            scope.seen.add(name)
            register = scope._own(name)
            if register is not None:
                number = scope.number
                return make_reg(name, number) if register else make_symbol(name, number)
            if name in scope.labels:
                return make_symbol(name, scope.number)
            scope = scope.parent
        if name == "WARP_SZ":
            return Int(32)
        return Special(name) if name[0] == "%" else make_symbol(name, 0)
