"""Terms as some lane of a warp sees them.

Two such views of a condition say what it takes for two lanes of one warp to meet it: whatever is
the same in the whole warp is the same term in both.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.analysis.warps import Warps
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.origin import Origin
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms

_BITS = 5  # of a lane's number, and of the number of a warp in its block
_WIDTH = 32  # of a special register


class WarpLane:
    """Terms as lane `lane` of warp `warp` of a block sees them. What differs over lanes, and is no
    special register, has in each view a value of its own."""

    def __init__(self, terms: Terms, warps: Warps) -> None:
        self._terms, self._warps = terms, warps
        self.lane = terms.fresh("lane", _BITS)
        self.warp = terms.atom("number of the warp", _BITS, Variance.UNIFORM)
        self._memo: dict[Term, Term] = {}
        self._registers = dict(self._special_registers())

    def __call__(self, term: Term) -> Term:
        return substitute(self._terms, term, self._leaf, self._memo)

    def _leaf(self, node: Term) -> Term | None:
        if node.kind not in op.OPAQUE:
            return None
        if node.kind is op.ATOM and node.value in self._registers:
            return self._registers[node.value]
        if self._warps.uniform(node):
            return node
        if node.origin is Origin.ELECTED and node.width == 1:
            elected = self._terms.atom(f"elected {node.id}", _BITS, Variance.UNIFORM)
            return self._terms.eq(self.lane, elected)
        return self._terms.fresh("of a lane", node.width)

    def _special_registers(self) -> Iterator[tuple[str, Term]]:
        terms = self._terms
        thread = terms.zext(terms.concat(self.warp, self.lane), _WIDTH)
        yield "%laneid", terms.zext(self.lane, _WIDTH)
        if self._warps.block is None:  # a warp lies in one row, as rows of whole warps have it
            whole = terms.atom("warps of a row", _WIDTH - _BITS, Variance.UNIFORM)
            yield "%tid.x", thread
            yield "%ntid.x", terms.concat(whole, terms.const(0, _BITS))
            return
        for axis, size in zip("xyz", self._warps.block, strict=True):
            count = terms.const(size, _WIDTH)
            yield f"%ntid.{axis}", count
            yield f"%tid.{axis}", terms.urem(thread, count)
            thread = terms.udiv(thread, count)
