"""Divisions of 64 bits whose operands fit 32.

Where the upper halves of both operands are zero, quotient and remainder are those of the lower
halves. What a division by zero gives PTX leaves open (manual 9.7.1.7), so the first text may be
read as giving then what the narrow division gives. Only the first text is read so, on all its
paths beside one of the second, which has to be right whatever the machine answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from ptxsw.facts.conditions import assumed
from ptxsw.facts.prover import Prover
from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms
from ptxsw.validate.evaluate import BY_ZERO
from ptxsw.validate.memory_ssa import Bytes
from ptxsw.validate.path import Path

_HALVES = {op.UDIV: op.UDIV, op.SDIV: op.UDIV, op.UREM: op.UREM, op.SREM: op.UREM}


def readings(
    terms: Terms, prover: Prover, path: Path, given: Sequence[Term]
) -> Iterator[Path | None]:
    """Ways to read a path's divisions, where the conditions `given` allow it; None where it has
    none that can be read so. Narrow: what a 64-bit division gives is what the one of the halves
    gives, by zero, too. Ones: but a narrow quotient by zero is all ones. Usual: and a wide
    remainder is the dividend less its quotient times the divisor, so by zero the dividend."""
    # PTX leaves the quotient by zero open, so the proof may pick one machine's answer for the first
    # text, as long as the same is picked on all its paths.
    for read in (_Narrow, _Ones, _Usual):
        reading = read(terms, prover, given)
        result = _mapped(path, reading.term, terms)
        yield result if reading.changed else None


class _Narrow:
    """Reads the terms of one path."""

    def __init__(self, terms: Terms, prover: Prover, given: Sequence[Term]) -> None:
        self.terms, self.changed = terms, False
        self._prover, self._given = prover, given
        self._memo: dict[Term, Term] = {}

    def term(self, term: Term) -> Term:
        """A term with its divisions read in this way."""
        return substitute(self.terms, term, self._leaf, self._memo)

    def _leaf(self, node: Term) -> Term | None:
        by_zero = node.kind is op.APPLY and node.value[0][0] == BY_ZERO
        if node.width != 64 or not (by_zero or node.kind in _HALVES):
            return None
        fit = all(_fits(self.terms, self._prover, a, self._given) for a in node.args)
        narrow = self._by_zero(node, fit) if by_zero else self._division(node, fit)
        self.changed = self.changed or narrow is not None
        return narrow

    def _division(self, node: Term, fit: bool) -> Term | None:
        return self._halved(node, _HALVES[node.kind]) if fit else None

    def _by_zero(self, node: Term, fit: bool) -> Term | None:
        if not fit:
            return None
        name = (BY_ZERO, node.value[0][1], ("u32",))
        halves = [self.term(self.terms.extract(a, 0, 32)) for a in node.args]
        return self.terms.zext(self.terms.apply(name, 32, halves, node.value[1]), 64)

    def _halved(self, node: Term, operation: str) -> Term:
        halves = [self.term(self.terms.extract(a, 0, 32)) for a in node.args]
        return self.terms.zext(getattr(self.terms, operation)(*halves), 64)


class _Ones(_Narrow):
    def _by_zero(self, node: Term, fit: bool) -> Term | None:
        if fit and node.value[0][1] == "div":
            return self.terms.const(-1, 64)
        return super()._by_zero(node, fit)


class _Usual(_Ones):
    def _division(self, node: Term, fit: bool) -> Term | None:
        if fit or node.kind in (op.UDIV, op.SDIV):
            return super()._division(node, fit)
        # Only remainders: `a - (a / b) * b` is what a text writes that has the quotient already.
        a, b = map(self.term, node.args)
        quotient = self.terms.udiv(a, b) if node.kind is op.UREM else self.terms.sdiv(a, b)
        return self.terms.sub(a, self.terms.mul(quotient, b))

    def _by_zero(self, node: Term, fit: bool) -> Term | None:
        if fit or node.value[0][1] == "div":
            return super()._by_zero(node, fit)
        return self.term(node.args[0])


def _fits(terms: Terms, prover: Prover, value: Term, given: Sequence[Term]) -> bool:
    high = terms.extract(value, 32, 32)
    return prover.holds(terms.eq(high, terms.const(0, 32)), given)


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
