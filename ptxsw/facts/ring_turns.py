"""Rings: what a loop does in turn, as in `s[k % 3]`, told apart by the iteration modulo the turns.

    for (k = 0; k < n; k++)  copy to s[(k + 2) % 3], read s[k % 3]
    k = 3·q + 1              copy to s[0],           read s[1]

A quotient or remainder of a count by a number is linear in `q` for each turn, and a register that
goes round in a circle holds one value. Compilers divide by a product: `(k * 0xaaaaaaab) >> 33` is
`k / 3` (Granlund and Montgomery, 1994).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd, lcm

from msgspec import Struct, field
from msgspec.structs import replace

from ptxsw.emulator.state import named
from ptxsw.emulator.trace import Access, AccessView
from ptxsw.facts.thread_views import BY_TURNS, ThreadViews
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, split, unknowns, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.substitution import substitute

MOST_TURNS = 24
_SMALL = 4  # bits of a count that tell turns apart
_WORD, _PRODUCT = 32, 64  # bits
_SIGNED = frozenset({op.SDIV, op.SREM})
_DIVISIONS = frozenset({op.UDIV, op.UREM}) | _SIGNED


class _Divided(Struct, frozen=True):
    """`constant + factor · count` in `width` bits, divided by a number, rounding down. Below
    `most` it is exact."""

    constant: int
    factor: int
    by: int
    most: int
    remainder: bool = False


class Rings:
    """Those of one loop of a kernel, which counts its iterations in `count`."""

    def __init__(self, views: ThreadViews, header: int) -> None:
        self._views, self._terms = views, views.terms
        self.header, self.label = header, views.trace.loop_facts[header].label
        self.count = self._terms.iteration(self.label)

    def turns(self, values: Iterable[Term]) -> int:
        """After how many iterations what depends on a ring in some terms is the same again; 1 where
        there is no ring, or too large a one."""
        turns = 1
        for node in walk(*values):
            turns = lcm(turns, self._turns(node))
            if turns > MOST_TURNS:
                return 1
        return turns

    def _turns(self, node: Term) -> int:
        if node.origin is Origin.LOOP_VALUE and node.of[0] == self.label:
            return len(self._circle(node)) or 1
        if node.kind is op.EXTRACT and node.value + node.width <= _SMALL:
            return 1 << (node.value + node.width) if self._affine(node.args[0]) else 1
        divided = self._divided(node)
        if divided is None or divided.by >> _WORD:
            return 1
        return divided.by // gcd(divided.by, divided.factor)

    def _circle(self, atom: Term) -> tuple[Term, ...]:
        """The values that a register takes in turn, again and again; none where that is not
        known."""
        trace = self._views.trace
        facts = trace.loop_facts[self.header]
        after = {named(reg): value for reg, value in facts.after.items()}.get(atom.of[1])
        if after is None or len(unknowns(after)) != 1:
            return ()  # it depends on more than itself
        values = [self._views.own(one.value) for one in trace.iterations.get(atom, ())]
        again = next((n for n in range(1, len(values)) if values[n] is values[0]), 0)
        shared = all(
            v.variance is Variance.UNIFORM and not self._in_loop(v) for v in values[:again]
        )
        return tuple(values[:again]) if shared else ()

    def _in_loop(self, value: Term) -> bool:
        return any(a.of and a.of[0] == self.label for a in unknowns(value))

    # ------------------------------------------------------------ divisions

    def _affine(self, term: Term) -> tuple[int, int] | None:
        """The constant and the factor, where a term is a count times a number plus a number."""
        constant, items = split(term)
        if len(items) != 1:
            return None
        part, factor = items[0]
        low = self._terms.extract(self.count, 0, part.width)
        if part is not low:
            return None
        return wrapped(constant, term.width), wrapped(factor, term.width)

    def _divided(self, node: Term) -> _Divided | None:
        if node.kind in _DIVISIONS:
            whole, by = node.args
            affine = self._affine(whole) if by.kind is op.CONST and by.value else None
            if affine is None:
                return None
            top = 1 << (whole.width - (node.kind in _SIGNED))
            return _Divided(*affine, int(by.value), top, node.kind in (op.UREM, op.SREM))
        if node.kind is op.EXTRACT:
            return self._by_product(node)
        return None

    def _by_product(self, node: Term) -> _Divided | None:
        """The high bits of a product with a number, which are a quotient."""
        constant, items = split(node.args[0])
        if constant or len(items) != 1 or node.args[0].width != _PRODUCT:
            return None
        (extended, factor), shift = items[0], int(node.value)
        if extended.kind not in op.EXTENSIONS or extended.args[0].width != _WORD or shift < _WORD:
            return None
        affine = self._affine(extended.args[0])
        if affine is None or factor <= 1:
            return None
        bits = _WORD - (extended.kind is op.SEXT)
        by = -(-(1 << shift) // factor)
        if factor * by - (1 << shift) > 1 << (shift - bits):
            return None
        return _Divided(*affine, by, 1 << bits)

    @property
    def own(self) -> Callable[[Term], Term]:
        return self._views.own

    def changes(self, access: Access) -> bool:
        """Does an access hold registers that change in the loop in other ways?"""
        terms = (t for v in access.variants for t in (v.address, v.guard, *v.conditions))
        return any(
            atom.origin is Origin.LOOP_VALUE and atom.of[0] == self.label
            for atom in unknowns(*terms)
        )

    def at(self, turn: int, turns: int, most: int | None) -> Turn:
        """Terms in iteration `turns · q + turn`, of `most` at most."""
        bits = ((1 << _PRODUCT) // turns if most is None else most // turns + 1).bit_length()
        ones = (1 << min(bits, _PRODUCT - turns.bit_length())) - 1
        label = self.label + BY_TURNS
        rounds = self._terms.atom(
            f"{turns} turns of {label}",
            _PRODUCT,
            Variance.UNIFORM,
            ones,
            Origin.ITERATION,
            (label,),
        )
        return Turn(self, turn, turns, rounds)


class Turn(Struct):
    """A turn of a ring. `needs` have to be at most 0 for the terms that were asked for."""

    rings: Rings
    turn: int
    turns: int
    rounds: Term
    needs: dict[Polynomial, None] = field(default_factory=dict)
    _memo: dict[Term, Term] = field(default_factory=dict)

    def __call__(self, term: Term) -> Term:
        return substitute(self.rings._terms, term, self._leaf, self._memo)

    def _leaf(self, node: Term) -> Term | None:
        terms = self.rings._terms
        if node is self.rings.count:
            return terms.sum(node.width, self.turn, [(self.rounds, self.turns)])
        if node.origin is Origin.LOOP_VALUE and node.of[0] == self.rings.label:
            circle = self.rings._circle(node)
            fits = circle and self.turns % len(circle) == 0
            return circle[self.turn % len(circle)] if fits else None
        divided = self.rings._divided(node)
        return None if divided is None else self._quotient(node, divided)

    def _quotient(self, node: Term, divided: _Divided) -> Term | None:
        step = divided.factor * self.turns
        first = divided.constant + divided.factor * self.turn
        if first < 0 or step <= 0:
            return None
        rounds = self.rings._terms.extract(self.rounds, 0, node.width)
        last = Polynomial.atom(self.rounds) * step + (first + 1 - divided.most)
        if divided.by >> _WORD:  # more than any word holds
            self.needs[last] = None
            return self.rings._terms.const(0, node.width)
        if step % divided.by:
            return None
        self.needs[last] = None
        if divided.remainder:
            return self.rings._terms.const(first % divided.by, node.width)
        return self.rings._terms.sum(
            node.width, first // divided.by, [(rounds, step // divided.by)]
        )


class InTurn(Struct, frozen=True):
    """Two accesses in one turn of a ring. `needs` have to be at most 0."""

    first: Access
    second: Access
    needs: tuple[Polynomial, ...]


def in_each_turn(
    rings: Rings, accesses: tuple[Access, Access], ahead: int, trips: int | None
) -> list[InTurn]:
    """Two accesses, of which the second is so many iterations ahead of the first, in all turns of a
    ring; none where there is no ring, or more changes in the loop than is followed. The loop is
    gone round `trips` times at most, where that is known."""
    own, last = rings.own, None if trips is None else trips - 1
    first, second = (_seen(access, own) for access in accesses)
    turns = rings.turns(v.address for access in (first, second) for v in access.variants)
    cases: list[InTurn] = []
    for number in range(turns if turns > 1 else 0):
        here = rings.at(number + max(-ahead, 0), turns, last)
        there = rings.at(number + max(ahead, 0), turns, last)
        one, two = _seen(first, here), _seen(second, there)
        case = InTurn(one, two, tuple({**here.needs, **there.needs}))
        if ahead and any(map(rings.changes, (case.first, case.second))):
            return []
        cases.append(case)
    return cases


def _seen(access: Access, now: Callable[[Term], Term]) -> Access:
    """An access with other terms in the place of its own."""
    views = tuple(
        AccessView(now(v.address), now(v.guard), frozenset(map(now, v.conditions)))
        for v in access.variants
    )
    return replace(access, variants=views)
