"""Names in a body: which of them are registers, and in which `{ }` they were declared."""

from __future__ import annotations

from ptxsw.parser.node_factory import make_reg, make_symbol, make_vector
from ptxsw.ptx.ir import Int, Operand, Special, Variable
from ptxsw.ptx.operand_shapes import VECTOR_SPECIALS

_SCALARS = """
    laneid warpid nwarpid smid nsmid gridid is_explicit_cluster cluster_ctarank cluster_nctarank
    lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt clock clock_hi clock64
    globaltimer globaltimer_lo globaltimer_hi total_smem_size aggr_smem_size dynamic_smem_size
    current_graph_exec reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap
    reserved_smem_offset_0 reserved_smem_offset_1
"""

SPECIAL_REGISTERS = frozenset({
    *VECTOR_SPECIALS, *(f"%{name}" for name in _SCALARS.split()),
    *(f"%envreg{number}" for number in range(32)),
    *(f"%pm{number}{wide}" for number in range(8) for wide in ("", "_64")),
})  # fmt: skip
"""The names that PTX itself declares (chapter 10 of the manual), those of vectors without `.x`."""


_DIGITS = "0123456789"
_NONE: dict[str, tuple[int, int]] = {}  # stays empty
_LONGEST = 20  # digits of a member's number; no family has as many members


class Scope:
    """The names one `{ }` declares, and the scope around it.

    `number` is 0 for the outermost scope. `labels` are the labels that stand in this scope: a
    branch may name one before it is met.
    """

    __slots__ = (
        "_families", "_initials", "labels", "names", "number", "parent", "seen", "unknown",
    )  # fmt: skip

    def __init__(
        self, number: int, parent: Scope | None, labels: frozenset[str] = frozenset()
    ) -> None:
        self.number = number
        self.parent = parent
        self.labels = labels
        # Names of this body that nothing around them declares: labels outside, functions, mistakes.
        self.unknown: set[str] = parent.unknown if parent is not None and number else set()
        self.seen: set[str] = set()  # names resolved here, so that a late declaration is noticed
        # name -> elements of the register it is; 0 for what is no register
        self.names: dict[str, int] = {}
        # `%r` of `%r<5>` -> 5 registers of one element; and the first characters of families.
        self._families = _NONE
        self._initials = ""

    def declare(self, variable: Variable) -> bool:
        """Add a declaration; True if names resolved earlier may now mean something else."""
        register = variable.vector if variable.space == "reg" else 0
        if variable.count is None:
            self.names[variable.name] = register
            return variable.name in self.seen
        if self._families is _NONE:
            self._families = {}
        self._families[variable.name] = (variable.count, register)
        if variable.name[0] not in self._initials:
            self._initials += variable.name[0]
        return bool(self.seen)

    def foreign(self, text: str) -> bool:
        """Is it certain that no name in an operand text is declared in this very scope?"""
        if self._families or self.labels or len(self.names) > 4:
            return False
        for name in self.names:  # noqa: SIM110 - a generator costs more than the search
            if name in text:
                return False
        return True

    def knows(self, name: str) -> bool:
        """Is a name declared or was it met in this scope or one around it?"""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.seen or name in scope.names or name in scope.labels:
                return True
            if scope._families and name[-1] in _DIGITS and scope._member(name) is not None:
                return True
            scope = scope.parent
        return False

    def _member(self, name: str) -> int | None:
        """Elements of the register that `name`, member of a family declared here, is; None if it is
        no member."""
        first = max(len(name.rstrip(_DIGITS)), len(name) - _LONGEST + 1)
        for cut in range(first, len(name)):
            count, register = self._families.get(name[:cut], (0, 0))
            if int(name[cut:]) < count:
                return register
        return None

    def resolve(self, name: str) -> Operand:
        """What an identifier stands for."""
        scope: Scope | None = self
        numbered = name[-1] in _DIGITS
        while scope is not None:
            scope.seen.add(name)
            register = scope.names.get(name)
            if register is None and numbered and name[0] in scope._initials:
                register = scope._member(name)
            if register is not None:
                number = scope.number
                if register > 1:
                    return make_vector(name, register, number)
                return make_reg(name, number) if register else make_symbol(name, number)
            if name in scope.labels:
                return make_symbol(name, scope.number)
            scope = scope.parent
        if name == "WARP_SZ":
            return Int(32)
        if name in SPECIAL_REGISTERS:
            return Special(name)
        self.unknown.add(name)
        return Special(name) if name[0] == "%" else make_symbol(name, 0)
