"""The table of hash-consed terms: equal nodes are one object, so that `is` compares them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptxsw.emulator.node import Term, Variance


class Table:
    """Makes nodes as they are asked for; what is equal in value `Terms` makes equal in form."""

    def __init__(self) -> None:
        self._table: dict[tuple[Any, ...], Term] = {}
        self._fresh = 0

    def _node(
        self,
        kind: str,
        width: int,
        args: tuple[Term, ...] = (),
        value: Any = None,
        variance: Variance | None = None,
    ) -> Term:
        # Of two unknowns of one name that vary differently neither may stand for the other.
        key = (kind, width, value, args if args else variance)
        found = self._table.get(key)
        if found is not None:
            return found
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
        term.size = min(1 + sum(a.size for a in args), 1 << 30)
        term._ones = None
        self._table[key] = term
        return term

    def const(self, value: int, width: int) -> Term:
        return self._node("const", width, (), value & ((1 << width) - 1))

    def atom(self, name: str, width: int, variance: Variance, ones: int | None = None) -> Term:
        """An unknown value. `ones` masks the bits that may be set (default: all)."""
        term = self._node("atom", width, (), name, variance)
        if ones is not None:
            term._ones = ones & ((1 << width) - 1)
        return term

    def fresh(self, name: str, width: int, variance: Variance = Variance.LANE) -> Term:
        """An unknown value equal to no other."""
        self._fresh += 1
        return self.atom(f"{name}#{self._fresh}", width, variance)

    def apply(
        self, name: tuple[Any, ...], width: int, args: Sequence[Term], variance: Variance
    ) -> Term:
        """An uninterpreted function, such as a load: equal arguments give the equal value. It
        varies as much as `variance` or its arguments do."""
        most = max((variance, *(a.variance for a in args)))
        return self._node("apply", width, tuple(args), (name, variance), most)

    def floating(self, name: str, width: int, operands: Sequence[Term]) -> Term:
        return self._node("float", width, tuple(operands), name)

    def width(self, a: Term) -> int:
        return a.width
