"""Divisions of 64 bits, read as the second text computes them.

Where the upper halves of both operands are zero, quotient and remainder are those of the lower
halves. A remainder is the dividend less the product of quotient and divisor. And what a division by
zero gives PTX leaves open (manual 9.7.1.7), so the first text may be read as giving then what the
second does. Only the first text is read so, on all its paths beside one of the second, which has to
be right whatever the machine answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from ptxsw.facts.conditions import assumed
from ptxsw.facts.prover import Prover
from ptxsw.ptx.ir import Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, walk
from ptxsw.terms.op import Op
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms
from ptxsw.validate.evaluate import BY_ZERO
from ptxsw.validate.memory_ssa import Bytes
from ptxsw.validate.path import Path

_REMAINDERS = {op.UREM: op.UDIV, op.SREM: op.SDIV}
"""Remainders and the quotients of the same operands."""


class Divisions:
    """Reads the divisions of the first text as a path of the `second` computes them, where the
    conditions `given` hold."""

    def __init__(
        self,
        terms: Terms,
        prover: Prover,
        second: Path,
        live: Collection[Reg],
        given: Sequence[Term],
    ) -> None:
        """`live` are the registers that count where the second text's path ends."""
        self._terms, self._prover, self._given = terms, prover, tuple(given)
        # A condition is true where it holds: what it asks is seen by the others alone.
        others = ((c, tuple(o for o in given if o is not c)) for c in second.conditions)
        asked = (prover.simplifier.simplified(c, rest) for c, rest in others)
        self._second = frozenset(walk(*asked, *map(self._simplified, _values(second, live))))
        self._memo: dict[Term, Term] = {}
        self._changed = False

    def read(self, path: Path) -> Path | None:
        """A path of the first text; None where all of it is read as before."""
        self._changed = False
        result = _mapped(path, self._term, self._terms)
        return result if self._changed else None

    def _term(self, term: Term) -> Term:
        read = substitute(self._terms, term, self._leaf, self._memo)
        self._changed = self._changed or read is not term
        return read

    def _simplified(self, term: Term) -> Term:
        """A term where the conditions hold: what they have decided is no part of it."""
        return self._prover.simplifier.simplified(term, self._given)

    def _has(self, *candidates: Term) -> bool:
        """Has the second text computed one of these values?"""
        return not self._second.isdisjoint(map(self._simplified, candidates))

    def _leaf(self, node: Term) -> Term | None:
        if node.width != 64:
            return None
        if _is_by_zero(node):
            a, b = map(self._term, node.args)
            return self._open(node.value[0], a, b)
        if node.kind in op.QUOTIENTS:
            a, b = map(self._term, node.args)
            return self._read(node.kind, a, b)
        if node.kind is op.ITE and _is_by_zero(node.args[1]):
            zero, open_, division = node.args
            if division.kind in op.QUOTIENTS and zero is self._is_zero(division.args[1]):
                a, b = map(self._term, division.args)
                return self._read(division.kind, a, b, open_.value[0])
        return None

    def _read(self, kind: Op, a: Term, b: Term, by_zero: tuple[Any, ...] | None = None) -> Term:
        """A quotient or remainder: wide where the second text has it so, or where its operands are
        not known to fit; a remainder from the quotient where the second text has no remainder. The
        operands are those that were read: the second text may have tested a quotient that is
        divided again. `by_zero` names what it gives by zero, if the divisor may be zero."""
        terms, low, divisor = self._terms, self._low(a), self._low(b)
        wide = self._made(kind, a, b)
        fit = not self._has(wide) and self._fit(a, b)
        if kind in _REMAINDERS:
            opened = () if by_zero is None else self._opened(by_zero, a, b)
            if not self._has(wide, terms.urem(low, divisor), *opened):
                return self._from_quotient(_REMAINDERS[kind], a, b, by_zero, fit=fit)
        zero = self._simplified(self._is_zero(b))
        if by_zero is not None and zero.kind is op.CONST:
            return self._open(by_zero, a, b) if zero.value else self._read(kind, a, b)
        narrow = self._made(op.UREM if kind in _REMAINDERS else op.UDIV, low, divisor)
        if by_zero is None:
            return terms.zext(narrow, 64) if fit else wide
        open_ = self._open(by_zero, a, b)
        if not fit:
            return terms.ite(self._is_zero(b), open_, wide)
        if open_.kind is op.ZEXT:
            return terms.zext(terms.ite(self._is_zero(divisor), self._low(open_), narrow), 64)
        return terms.ite(self._is_zero(divisor), open_, terms.zext(narrow, 64))

    def _from_quotient(
        self, kind: Op, a: Term, b: Term, by_zero: tuple[Any, ...] | None, *, fit: bool
    ) -> Term:
        """A remainder as the dividend less a product; `kind` is that of the quotient."""
        terms, low, divisor = self._terms, self._low(a), self._low(b)
        name = None if by_zero is None else (BY_ZERO, "div", by_zero[2])
        product = terms.mul(self._read(kind, a, b, name), b)
        halved = terms.udiv(low, divisor)
        if self._has(product) or not fit or not self._has(halved):
            return terms.sub(a, product)
        if name is not None:
            halved = terms.ite(self._is_zero(divisor), self._opened(name, a, b)[1], halved)
        return terms.zext(terms.sub(low, terms.mul(halved, divisor)), 64)

    def _open(self, name: tuple[Any, ...], a: Term, b: Term) -> Term:
        """What a division by zero gives: what it does in the second text, wide or narrow, else what
        it does by the hardware."""
        terms, is_quotient = self._terms, name[1] == "div"
        hardware = terms.const(-1, 64) if is_quotient else a
        wide, narrow = self._opened(name, a, b)
        if self._has(wide):
            return wide
        # Beside a quotient that is all ones, the narrow one is in a product with zero, at most.
        ones = is_quotient and self._has(hardware, self._low(hardware))
        return terms.zext(narrow, 64) if self._has(narrow) and not ones else hardware

    def _opened(self, name: tuple[Any, ...], a: Term, b: Term) -> tuple[Term, Term]:
        """What the machine may give by zero, with 64 and with 32 bits."""
        made, narrow = self._terms.apply, (*name[:2], ("u32",))
        return (
            made(name, 64, [a, b], Variance.LANE),
            made(narrow, 32, [self._low(a), self._low(b)], Variance.LANE),
        )

    def _made(self, kind: Op, a: Term, b: Term) -> Term:
        made: Term = getattr(self._terms, kind)(a, b)
        return made

    def _is_zero(self, value: Term) -> Term:
        return self._terms.eq(value, self._terms.const(0, value.width))

    def _low(self, value: Term) -> Term:
        return self._terms.extract(value, 0, 32)

    def _fit(self, *values: Term) -> bool:
        zero = self._terms.const(0, 32)
        highs = (self._terms.extract(value, 32, 32) for value in values)
        return all(self._prover.holds(self._terms.eq(h, zero), self._given) for h in highs)


def _is_by_zero(term: Term) -> bool:
    return term.kind is op.APPLY and term.value[0][0] == BY_ZERO


def _values(path: Path, live: Collection[Reg]) -> Iterator[Term]:
    """All by which a path is compared, but for its conditions."""
    yield from (value for reg, value in path.written.items() if reg in live)
    for stores in path.stores:
        for store in stores:
            yield from (store.target.place, store.value, store.guard)
    for touch in path.touches:
        yield from (touch.target.place, touch.guard)
    for event in path.events:
        yield from (*event.operands, event.guard)
    if path.end is not None and path.end.chosen is not None:
        yield path.end.chosen


def _mapped(path: Path, rewrite: Callable[[Term], Term], terms: Terms) -> Path:
    """A path with all its terms rewritten."""

    def target(of: Bytes) -> Bytes:
        return replace(of, place=rewrite(of.place))

    conditions: tuple[Term, ...] = ()
    for condition in path.conditions:
        conditions = assumed(conditions, rewrite(condition), terms)
    end = path.end
    if end is not None and end.chosen is not None:
        end = replace(end, chosen=rewrite(end.chosen))
    return Path(
        lambda reg: rewrite(path.base(reg)),
        conditions,
        path.position,
        {reg: rewrite(value) for reg, value in path.written.items()},
        [
            [
                replace(s, target=target(s.target), value=rewrite(s.value), guard=rewrite(s.guard))
                for s in epoch
            ]
            for epoch in path.stores
        ],
        [replace(t, target=target(t.target), guard=rewrite(t.guard)) for t in path.touches],
        [
            replace(e, operands=tuple(map(rewrite, e.operands)), guard=rewrite(e.guard))
            for e in path.events
        ],
        end,
    )
