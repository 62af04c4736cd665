"""Are the bytes the same? The address of a source in lane i + N against that of a load in lane i.

Prove, then guard, then assume: a pair that normal form does not settle holds where certain
index sums do not overflow; that is proved from the path's conditions, or tested at run time
where the index is extended into an address, or assumed if the user said so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from math import prod

from msgspec import Struct

from ptxsw.changes.claim import Obligation
from ptxsw.emulator.trace import AccessView
from ptxsw.facts.extensions import NoOverflow, no_overflow, varying_part
from ptxsw.facts.lane_views import (
    OTHER_LANE,
    OWN_VALUE,
    ArbitraryThread,
    Mentioned,
    ShiftedLane,
    SplitTid,
)
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, bottom_up, ones, signed, split, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.show import show
from ptxsw.terms.solver import Proved, Solver
from ptxsw.terms.substitution import rebuild, substitute
from ptxsw.terms.terms import Terms


class Same(Struct, frozen=True):
    """The addresses are equal wherever no sum of `needs` overflows."""

    proved: Obligation
    needs: tuple[NoOverflow, ...] = ()


class Unequal(Struct, frozen=True):
    """They may differ; why, in words."""

    reason: str


UNPROVED = Unequal("the addresses are not provably equal")


def prove_equal(
    terms: Terms,
    solver: Solver | None,
    source: Term,
    dest: Term,
    other: ShiftedLane | None,
    conditions: frozenset[Term],
    moved: Term | None = None,
) -> Same | Unequal:
    """Does the address `source` in the other lane (this one, where there is no other) equal
    the address `dest` in lane i, given what is known in lane i? Without a solver only sums that
    differ by what their extensions add are told to be equal. `moved` is the source as the other
    lane has it, where more is known of that."""
    address = dest
    if moved is None:
        moved = source if other is None else other(source)
    if source.width != dest.width:
        return Unequal("the addresses are of different widths")
    # In lane K - i the low five bits of `%tid.x` change and the upper ones stay. Only with both in
    # one form can a sum of them meet `%tid.x` itself.
    halves = SplitTid(terms)
    if other is not None and other.mirror:
        moved, dest = halves(moved), halves(dest)
    difference = terms.sub(moved, dest)
    claim = terms.eq(moved, dest)
    if difference.kind is op.CONST:
        equal = difference.value == 0
        return Same(Obligation(claim)) if equal else Unequal("the addresses differ")
    # A value of one lane alone is left over. The other lane's value is an unknown of its own, so
    # no solver could prove the difference 0: it is not asked.
    mentioned = (Mentioned() if other is None else other.mentioned).of(difference)
    if mentioned & (OWN_VALUE | OTHER_LANE):
        own = {t for t in walk(difference) if t.kind is op.APPLY and t.variance == Variance.LANE}
        unknown = own or (other.unknown if other is not None else ())
        names = ", ".join(sorted({show(t) for t in unknown})[:2])
        return Unequal(f"the address depends on {names}, which differs from lane to lane")
    same = _pair_up(terms, difference, dest, halves)
    if same is not None:
        return same
    if solver is None:
        return UNPROVED
    given = conditions
    if other is not None:
        given = conditions | other.exists(source, address)
    if isinstance(solver.prove(claim, given), Proved):
        return Same(Obligation(claim, given))
    return UNPROVED


def assume_no_overflow(unwrap: NoOverflowView, source: Term, dest: Term) -> Same | Unequal:
    """The same question where no signed index sum or product wraps and no loop goes through 2^31
    iterations, which the user vouches for: an extended sum is then the sum of the extended
    parts."""
    claim = unwrap.terms.eq(unwrap(source), unwrap(dest))
    return Same(Obligation(claim)) if claim.kind is op.CONST and claim.value else UNPROVED


class NoOverflowView:
    """Terms with their extensions moved inward to the atoms: sign extensions as if nothing wrapped,
    zero extensions only where that is known."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._done: dict[Term, Term] = {}
        self._spreads: dict[Term, Term | None] = {}
        self._largest: dict[Term, int] = {}

    def __call__(self, term: Term) -> Term:
        for node in bottom_up(self._done, self._parts, term):
            spread = self._spread(node)
            args = tuple(self._done[a] for a in node.args) if spread is None else ()
            same = all(x is y for x, y in zip(args, node.args, strict=False))
            if spread is not None:
                self._done[node] = self._done[spread]
            else:
                self._done[node] = node if same else rebuild(self.terms, node, args)
        return self._done[term]

    def _parts(self, node: Term) -> tuple[Term, ...]:
        spread = self._spread(node)
        return node.args if spread is None else (spread,)

    def _spread(self, node: Term) -> Term | None:
        """An extension one step further inward; None where it stays where it is."""
        if node not in self._spreads:
            spread: Term | None = None
            # Signed overflow is what the user vouches for. Unsigned sums may wrap in C, so theirs
            # are spread only if their largest value fits.
            if node.kind is op.SEXT or (
                node.kind is op.ZEXT and self._most(node.args[0]) >> node.args[0].width == 0
            ):
                spread = self._inward(node.args[0], node.width, signed=node.kind is op.SEXT)
            self._spreads[node] = None if spread is node else spread
        return self._spreads[node]

    def _inward(self, inner: Term, width: int, *, signed: bool) -> Term | None:
        """An extended term as terms of its extended parts; None where it has no parts."""
        terms = self.terms
        extend = terms.sext if signed else terms.zext
        if inner.kind is op.MUL:
            product = terms.const(1, width)
            for factor in inner.args:
                product = terms.mul(product, extend(factor, width))
            return product
        if inner.kind is op.SUM:
            constant, items = split(inner)
            if signed:
                constant = wrapped(constant, inner.width)
                items = tuple((atom, wrapped(times, inner.width)) for atom, times in items)
            total = terms.const(constant, width)
            for atom, times in items:
                total = terms.add(total, terms.scale(extend(atom, width), times))
            return total
        # The low half of the 64-bit count of iterations, which by assumption stays below 2^31.
        if signed and inner.kind is op.EXTRACT and inner.value == 0 and inner.width == 32:
            count = inner.args[0]
            iterations = count.origin is Origin.ITERATION
            return count if iterations and count.width == width else None
        return None

    def _most(self, term: Term) -> int:
        """An upper bound of the value of a sum or product if it were not taken modulo 2^width."""
        largest = self._largest
        for node in bottom_up(largest, _summands, term):
            if node.kind is op.MUL:
                most = prod(largest[t] for t in node.args)
            elif node.kind is op.SUM:
                constant, items = split(node)
                most = constant + sum(c * largest[t] for t, c in items)
            else:
                most = ones(node)
            largest[node] = min(most, _HUGE)
        return largest[term]


_NEAR = 1 << 20  # how far apart a sum and its parts may be, far below a quarter of 32 bits

_HUGE = 1 << 256
"""More than any term holds. A product of products may be as many bits longer as it is deep."""


def _summands(term: Term) -> tuple[Term, ...]:
    return term.args if term.kind in (op.SUM, op.MUL) else ()


def _pair_up(terms: Terms, difference: Term, address: Term, halves: SplitTid) -> Same | None:
    """Prove `difference == 0` by pairs of extended indices that differ by a constant: if no index
    sum overflows, these constants cancel what was added outside the extensions.

    The obligation is about each index as one unknown: how it is made up does not matter.
    """
    constant, items = split(difference)
    width = difference.width
    mask = (1 << width) - 1
    open_items = list(items)
    general = terms.const(constant, width)
    total = constant
    needs: list[NoOverflow] = []
    given: set[Term] = set()
    while open_items:
        term, coefficient = open_items.pop()
        if term.kind not in op.EXTENSIONS:
            return None
        partner = _partner(term, coefficient, open_items, mask)
        if partner is None:
            parted = _parted(terms, term, coefficient, open_items, mask)
            if parted is None:
                return None
            total += parted.total
            general = terms.add(general, parted.general)
            needs += (NoOverflow(halves.before(n.value), n.step, True) for n in parted.needs)
            given |= parted.given
            for part in parted.items:
                open_items.remove(part)
            continue
        open_items.remove((partner, (-coefficient) & mask))
        # Lane i's own index is the one whose extension stands in its own address.
        ours, theirs = (term, partner) if _occurs(term, address) else (partner, term)
        step = signed(terms.sub(theirs.args[0], ours.args[0]))
        sign = coefficient if theirs is term else -coefficient
        total += sign * step
        extend = terms.sext if ours.kind is op.SEXT else terms.zext
        index = terms.fresh("index", ours.args[0].width)
        moved = extend(terms.add(index, terms.const(step, index.width)), width)
        apart = terms.sub(moved, extend(index, width))
        general = terms.add(general, terms.scale(apart, sign))
        value = halves.before(ours).args[0]
        needs.append(NoOverflow(value, step, ours.kind is op.SEXT))
        given.add(no_overflow(terms, NoOverflow(index, step, ours.kind is op.SEXT)))
    if total & mask:
        return None
    claim = terms.eq(general, terms.const(0, width))
    return Same(Obligation(claim, frozenset(given)), tuple(needs))


class _Parted(Struct, frozen=True):
    """An extended sum paired with the extended parts of a sum that differs by a constant: the
    `items` of the difference that this uses up, their `total` if no sum overflows, and the same in
    `general` form, with unknowns for the parts."""

    items: tuple[tuple[Term, int], ...]
    total: int
    general: Term
    needs: tuple[NoOverflow, ...]
    given: frozenset[Term]


def _parted(
    terms: Terms, term: Term, coefficient: int, items: Sequence[tuple[Term, int]], mask: int
) -> _Parted | None:
    """Read `sext(a + b + c) - sext(a) - sext(b)` as `c`, which it is where `a` and `b` are small:
    the sum itself may be in no register that could be tested. Clang extends some sums by parts.
    The whole may come first, or one of its parts."""
    if term.kind is not op.SEXT:
        return None
    same = [i for i in items if i[0].kind is op.SEXT and i[0].args[0].width == term.args[0].width]
    first = term, coefficient
    whole_first = [(first, a, b) for a, b in combinations(same, 2)]
    part_first = [(whole, first, b) for whole, b in permutations(same, 2)]
    for whole, a, b in (*whole_first, *part_first):
        # Both parts have one factor, the whole its negative: only then do they cancel.
        if a[1] != b[1] or (whole[1] + a[1]) & mask:
            continue
        inner = [t.args[0] for t, _ in (whole, a, b)]
        apart = terms.sub(inner[0], terms.add(inner[1], inner[2]))
        if apart.kind is op.CONST and abs(signed(apart)) < _NEAR:
            used = tuple(i for i in (whole, a, b) if i[0] is not term)
            return _of_parts(terms, whole, (inner[1], inner[2]), signed(apart), used)
    return None


def _of_parts(
    terms: Terms,
    whole: tuple[Term, int],
    parts: tuple[Term, Term],
    apart: int,
    used: tuple[tuple[Term, int], ...],
) -> _Parted:
    """The sum of two parts that are less than a quarter of their type, and a number."""
    extended, coefficient = whole
    inner, width = extended.args[0].width, extended.width
    # If `part + most` and `part - most` fit the type, |part| is at most 2^(width - 2) - |apart|.
    # Then two parts and the number `apart` add up to something that fits, too.
    most = (1 << inner - 2) + abs(apart)
    unknowns = [terms.fresh("part", inner) for _ in parts]
    together = terms.add(terms.add(*unknowns), terms.const(apart, inner))
    difference = terms.sext(together, width)
    for unknown in unknowns:
        difference = terms.sub(difference, terms.sext(unknown, width))
    return _Parted(
        used,
        coefficient * apart,
        terms.scale(difference, coefficient),
        tuple(NoOverflow(part, step, True) for part in parts for step in (-most, most)),
        frozenset(
            no_overflow(terms, NoOverflow(unknown, step, True))
            for unknown in unknowns
            for step in (-most, most)
        ),
    )


def _partner(
    term: Term, coefficient: int, items: Sequence[tuple[Term, int]], mask: int
) -> Term | None:
    for other, factor in items:
        if (
            other.kind == term.kind
            and (factor + coefficient) & mask == 0
            and other.args[0].width == term.args[0].width
            and varying_part(other.args[0]) == varying_part(term.args[0])
        ):
            return other
    return None


def _occurs(term: Term, address: Term) -> bool:
    return any(t is term for t, _ in split(address)[1])


# ---------------------------------------------------------------- discharging


def prove_disjoint(
    terms: Terms,
    solver: Solver,
    store: AccessView,
    store_bytes: int,
    load: AccessView,
    load_bytes: int,
) -> Obligation | None:
    """The proof that the stored range, in any thread, misses the loaded range in this one."""
    if store.address.width != load.address.width:
        return None
    moved = substitute(terms, store.address, ArbitraryThread(terms))
    distance = terms.sub(load.address, moved)
    if solver.is_free(distance):  # then Z3 need not be asked
        return None
    width = distance.width
    # On the circle of 2^width addresses: going up from the store it is at least its size to the
    # load, and going up from the load at least the load's size to the store.
    behind = terms.ule(terms.const(store_bytes, width), distance)
    ahead = terms.ule(terms.const(load_bytes, width), terms.neg(distance))
    claim = terms.and_(behind, ahead)
    return Obligation(claim) if isinstance(solver.prove(claim), Proved) else None
