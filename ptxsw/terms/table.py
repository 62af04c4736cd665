"""The table of hash-consed terms: equal nodes are one object, so that `is` compares them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.op import Op
from ptxsw.terms.origin import Origin, behind
from ptxsw.terms.specials import SPECIALS


class TermTable:
    """Makes nodes as they are asked for; what is equal in value `Terms` makes equal in form."""

    def __init__(self) -> None:
        self._table: dict[tuple[Any, ...], Term] = {}
        self._fresh = 0

    def _node(
        self,
        kind: Op,
        width: int,
        args: tuple[Term, ...] = (),
        value: Any = None,
        variance: Variance | None = None,
    ) -> Term:
        # Of two unknowns of one name that vary differently neither may stand for the other.
        key = (kind, width, value, args if args else variance)
        node = self._table.get(key)
        if node is not None:
            return node
        term = Term()
        term.id = len(self._table)
        term.kind = kind
        term.width = width
        term.args = args
        term.value = value
        if variance is None:
            variance = Variance.UNIFORM
            for arg in args:
                if arg.variance > variance:
                    variance = arg.variance
        term.variance = variance
        term.origin = Origin.COMPUTED
        term.of = ()
        size = 1
        for arg in args:
            size += arg.size
        term.size = min(size, 1 << 30)
        term._ones = term._items = term.operation = None
        self._table[key] = term
        return term

    def const(self, value: int, width: int) -> Term:
        return self._node(op.CONST, width, (), value & ((1 << width) - 1))

    def atom(
        self, name: str, width: int, variance: Variance, ones: int | None = None,
        origin: Origin = Origin.NAMED, of: tuple[str, ...] = (),
    ) -> Term:  # fmt: skip
        """An unknown value. `ones` masks the bits that may be set (default: all). The name tells
        it from others; what it stands for is `origin`, and `of` what. Names of special registers
        are theirs alone."""
        term = self._node(op.ATOM, width, (), name, variance)
        if ones is not None:
            term._ones = ones & ((1 << width) - 1)
        if term.origin is Origin.COMPUTED or origin is not Origin.NAMED:
            term.origin = Origin.SPECIAL if name in SPECIALS else origin
            term.of = of
        return term

    def special(self, name: str) -> Term:
        """The value of a special register, in any launch."""
        return self.atom(name, 32, *SPECIALS[name])

    def fresh(
        self, name: str, width: int, variance: Variance = Variance.LANE,
        origin: Origin = Origin.UNKNOWN,
    ) -> Term:  # fmt: skip
        """An unknown value equal to no other."""
        self._fresh += 1
        return self.atom(f"{name}#{self._fresh}", width, variance, None, origin)

    def iteration(self, label: str) -> Term:
        """How often the loop of a label has been gone round before this time."""
        return self.atom(f"iter({label})", 64, Variance.UNIFORM, None, Origin.ITERATION, (label,))

    def behind(self, atom: Term) -> Term:
        """An atom of a loop as it is named behind it, where lanes that leave after different
        counts carry different values away."""
        name = f"last {atom.value}"
        return self.atom(name, atom.width, Variance.LANE, None, behind(atom.origin), atom.of)

    def apply(
        self, name: tuple[Any, ...], width: int, args: Sequence[Term], variance: Variance
    ) -> Term:
        """An uninterpreted function, such as a load: equal arguments give the equal value. It
        varies as much as `variance` or its arguments do."""
        most = max((variance, *(a.variance for a in args)))
        term = self._node(op.APPLY, width, tuple(args), (name, variance), most)
        if name[0] == "load":
            term.origin = Origin.LOAD
        return term

    def floating(self, name: str, width: int, operands: Sequence[Term]) -> Term:
        return self._node(op.FLOAT, width, tuple(operands), name)

    def width(self, a: Term) -> int:
        return a.width
