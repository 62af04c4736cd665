"""Are the bytes the same? The address of a source in lane i + N against that of a load in lane i.

Prove, then guard, then assume: a pair that normal form does not settle holds where certain
index sums do not overflow; that is proved from the path's conditions, or tested at run time
where the index is extended into an address, or assumed if the user said so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from msgspec import Struct

from ptxsw.analysis.lane_reuse import is_thread_bits, thread_bits
from ptxsw.emulator.affine import is_lane_atom
from ptxsw.emulator.node import OPAQUE, Term, Variance, bottom_up, ones, signed, split, walk
from ptxsw.emulator.origin import NUMBERED, POINTERS, Origin
from ptxsw.emulator.show import show
from ptxsw.emulator.solver import Proved, Solver
from ptxsw.emulator.terms import Terms
from ptxsw.emulator.trace import Variant


class NoOverflow(Struct, frozen=True):
    """`value + step` keeps its sign- (or zero-) extended value."""

    value: Term
    step: int
    signed: bool


class Obligation(Struct, frozen=True):
    """What was proved: `claim` holds wherever all of `given` do."""

    claim: Term
    given: frozenset[Term] = frozenset()


class Same(Struct, frozen=True):
    """The addresses are equal wherever no sum of `needs` overflows."""

    proved: Obligation
    needs: tuple[NoOverflow, ...] = ()


class Different(Struct, frozen=True):
    """They may differ; why, in words."""

    reason: str


UNPROVED = Different("the addresses are not provably equal")


class ShiftedLane:
    """Terms as lane i + `number` of the warp sees them, or lane `number` - i where `mirror` is
    set, said with the terms of lane i: its `%laneid` and `%tid.x`, and a value of its own for
    whatever else varies over lanes. Uniform values, and those that are equal in a row of the
    block, stay.

    All of it holds where there is such a lane. What is said of `%tid.x` holds where rows of the
    block do not wrap inside a warp: `%tid.x >> 5` is then equal in the warp, and the low bits of
    `%tid.x`, five or more, differ as the lanes do.
    """

    def __init__(self, terms: Terms, number: int, mirror: bool = False) -> None:
        self._terms = terms
        self._number = number
        self.mirror = mirror
        self._memo: dict[Term, Term] = {}
        self.unknown: list[Term] = []

    def __call__(self, term: Term) -> Term:
        return self._terms.substitute(term, self._leaf, self._memo)

    def exists(self, *addresses: Term) -> frozenset[Term]:
        """What lane i knows where there is such a lane, as far as the addresses speak of it."""
        facts = set()
        named = {t.value for t in walk(*addresses) if is_lane_atom(t)}
        for name, limit in (("%tid.x", 1023), ("%laneid", 31)):
            own = self._terms.atom(name, 32, Variance.LANE)
            if name in named and (name == "%laneid" or not self.mirror):
                facts.add(self._terms.ule(self._moved(own), self._terms.const(limit, 32)))
        if "%tid.x" in named and (self.mirror or any(map(is_thread_bits, walk(*addresses)))):
            bits = self._moved(self._terms.zext(thread_bits(self._terms)[1], 32))
            facts.add(self._terms.ule(bits, self._terms.const(31, 32)))
        return frozenset(facts)

    def _leaf(self, node: Term) -> Term | None:
        if node.variance < Variance.LANE:
            return node
        if node.kind == "zext" and is_thread_bits(node.args[0]):
            return self._moved(node)  # both are below 2^5, or cross no multiple of it
        if is_thread_bits(node):
            return self._moved(node)
        if node.kind == "extract" and node.value >= 5 and _is_thread(node.args[0]):
            return node
        if node.kind == "atom":
            if is_lane_atom(node):
                return self._moved(node)
            self.unknown.append(node)
            return self._terms.fresh("other lane", node.width, origin=Origin.OTHER_LANE)
        if node.kind == "apply" and node.value[1] is Variance.LANE:
            self.unknown.append(node)
            return self._terms.fresh("other lane", node.width, origin=Origin.OTHER_LANE)
        return None

    def _moved(self, own: Term) -> Term:
        """A term that differs from lane to lane as the lanes do."""
        terms = self._terms
        number = terms.const(self._number, own.width)
        if not self.mirror:
            return terms.add(own, number)
        return terms.add(own, terms.sub(number, terms.scale(self._lane(own), 2)))

    def _lane(self, own: Term) -> Term:
        """Lane i's number, in the width of a term that moves."""
        inner = own.args[0] if own.kind == "zext" else own
        if inner.kind == "atom" and inner.value == "%laneid":
            return own
        return self._terms.zext(thread_bits(self._terms)[1], own.width)


class SplitTid:
    """Terms with `%tid.x`, which is below 1024, as 32 times its upper bits and its lower five: so
    that what is made of the parts and what is made of the whole can meet."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._memo: dict[Term, Term] = {}

    def __call__(self, term: Term) -> Term:
        return self._terms.substitute(term, self._leaf, self._memo)

    def _leaf(self, node: Term) -> Term | None:
        terms = self._terms
        if node.variance < Variance.LANE:
            return node
        if node.kind == "extract" and _is_thread(node.args[0]):
            if node.value == 5 and node.width > 5:
                return terms.zext(thread_bits(terms)[0], node.width)
            return node
        if _is_thread(node):
            upper, lower = (terms.zext(half, 32) for half in thread_bits(terms))
            return terms.add(terms.scale(upper, 32), lower)
        return None

    def before(self, term: Term) -> Term:
        """The term of which this one was made: an equal one, in any case."""
        return next((old for old, new in self._memo.items() if new is term), term)


def _is_thread(term: Term) -> bool:
    return term.kind == "atom" and term.value == "%tid.x"


_INDICES = frozenset({"%tid.x", "%tid.y", "%tid.z"})


def needs_rows(*addresses: Term) -> bool:
    """Do the addresses say the same of another lane only where rows of the block do not wrap
    inside a warp? Not where of all that tells threads apart only `%laneid` is in them."""
    return any(
        (t.kind == "atom" and t.value in _INDICES) or t.variance == Variance.ROW
        for t in walk(*addresses)
    )


def prove_equal(
    terms: Terms,
    solver: Solver | None,
    source: Term,
    dest: Term,
    other: ShiftedLane | None,
    conditions: frozenset[Term],
) -> Same | Different:
    """Does the address `source` in the other lane (this one, where there is no other) equal
    the address `dest` in lane i, given what is known in lane i? Without a solver only sums that
    differ by what their extensions add are told to be equal."""
    known = conditions
    moved = source
    if other is not None:
        moved, known = other(source), conditions | other.exists(source, dest)
    if source.width != dest.width:
        return Different("the addresses are of different widths")
    halves = SplitTid(terms)
    if other is not None and other.mirror:
        moved, dest = halves(moved), halves(dest)
    difference = terms.sub(moved, dest)
    claim = terms.eq(moved, dest)
    if difference.kind == "const":
        equal = difference.value == 0
        return Same(Obligation(claim)) if equal else Different("the addresses differ")
    own = {t for t in walk(difference) if t.kind == "apply" and t.variance == Variance.LANE}
    if own or any(t.origin is Origin.OTHER_LANE for t in walk(difference)):
        unknown = own or (other.unknown if other is not None else ())
        names = ", ".join(sorted({show(t) for t in unknown})[:2])
        return Different(f"the address depends on {names}, which differs from lane to lane")
    same = _pair_up(terms, difference, dest, halves)
    if same is not None:
        return same
    if solver is not None and isinstance(solver.prove(claim, known), Proved):
        return Same(Obligation(claim, known))
    return UNPROVED


def assume_no_overflow(terms: Terms, source: Term, dest: Term) -> Same | Different:
    """The same question where no signed index sum or product wraps and no loop goes through 2^31
    turns, which the user vouches for: an extended sum is then the sum of the extended parts."""
    unwrap = NoOverflowView(terms)
    claim = terms.eq(unwrap(source), unwrap(dest))
    return Same(Obligation(claim)) if claim.kind == "const" and claim.value else UNPROVED


class NoOverflowView:
    """Terms whose extensions are taken inward, to atoms: signed ones as if nothing wrapped, the
    others where that is known."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
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
                self._done[node] = node if same else self._terms.rebuild(node, args)
        return self._done[term]

    def _parts(self, node: Term) -> tuple[Term, ...]:
        spread = self._spread(node)
        return node.args if spread is None else (spread,)

    def _spread(self, node: Term) -> Term | None:
        """An extension one step further inward; None where it stays where it is."""
        if node not in self._spreads:
            found: Term | None = None
            if node.kind == "sext" or (
                node.kind == "zext" and self._most(node.args[0]) >> node.args[0].width == 0
            ):
                found = self._inward(node.args[0], node.width, signed=node.kind == "sext")
            self._spreads[node] = None if found is node else found
        return self._spreads[node]

    def _inward(self, inner: Term, width: int, *, signed: bool) -> Term | None:
        """An extended term as terms of its extended parts; None where it has no parts."""
        terms = self._terms
        extend = terms.sext if signed else terms.zext
        if inner.kind == "mul":
            product = terms.const(1, width)
            for factor in inner.args:
                product = terms.mul(product, extend(factor, width))
            return product
        if inner.kind == "sum":
            constant, items = split(inner)
            read = partial(_read, width=inner.width, signed=signed)
            total = terms.const(read(constant), width)
            for atom, coefficient in items:
                total = terms.add(total, terms.scale(extend(atom, width), read(coefficient)))
            return total
        if signed and inner.kind == "extract" and inner.value == 0 and inner.width == 32:
            count = inner.args[0]
            turns = count.origin is Origin.ITERATION
            return count if turns and count.width == width else None
        return None

    def _most(self, term: Term) -> int:
        """An upper bound of the value of a sum or product if it were not taken modulo 2^width."""
        known = self._largest
        for node in bottom_up(known, _summands, term):
            if node.kind == "mul":
                most = prod(known[t] for t in node.args)
            elif node.kind == "sum":
                constant, items = split(node)
                most = constant + sum(c * known[t] for t, c in items)
            else:
                most = ones(node)
            known[node] = min(most, _HUGE)
        return known[term]


_HUGE = 1 << 256
"""More than any term holds. A product of products may be as many bits longer as it is deep."""


def _summands(term: Term) -> tuple[Term, ...]:
    return term.args if term.kind in ("sum", "mul") else ()


def _read(value: int, *, width: int, signed: bool) -> int:
    return value - (1 << width) if signed and value >> (width - 1) else value


def _pair_up(terms: Terms, difference: Term, address: Term, halves: SplitTid) -> Same | None:
    """Read `difference == 0` as: extended indices that are a constant apart, and that constant
    cancels what was added outside, provided that no index sum overflows.

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
        if term.kind not in ("sext", "zext"):
            return None
        partner = _partner(term, coefficient, open_items, mask)
        if partner is None:
            return None
        open_items.remove((partner, (-coefficient) & mask))
        # Lane i's own index is the one whose extension stands in its own address.
        ours, theirs = (term, partner) if _occurs(term, address) else (partner, term)
        step = signed(terms.sub(theirs.args[0], ours.args[0]))
        sign = coefficient if theirs is term else -coefficient
        total += sign * step
        extend = terms.sext if ours.kind == "sext" else terms.zext
        index = terms.fresh("index", ours.args[0].width)
        moved = extend(terms.add(index, terms.const(step, index.width)), width)
        apart = terms.sub(moved, extend(index, width))
        general = terms.add(general, terms.scale(apart, sign))
        value = halves.before(ours).args[0]
        needs.append(NoOverflow(value, step, ours.kind == "sext"))
        given.add(no_overflow(terms, NoOverflow(index, step, ours.kind == "sext")))
    if total & mask:
        return None
    claim = terms.eq(general, terms.const(0, width))
    return Same(Obligation(claim, frozenset(given)), tuple(needs))


def _partner(
    term: Term, coefficient: int, items: Sequence[tuple[Term, int]], mask: int
) -> Term | None:
    for other, factor in items:
        if (
            other.kind == term.kind
            and (factor + coefficient) & mask == 0
            and other.args[0].width == term.args[0].width
            and _varying(other.args[0]) == _varying(term.args[0])
        ):
            return other
    return None


def _occurs(term: Term, address: Term) -> bool:
    return any(t is term for t, _ in split(address)[1])


# ---------------------------------------------------------------- discharging


def discharge(
    terms: Terms, solver: Solver, need: NoOverflow, conditions: frozenset[Term]
) -> Obligation | None:
    """The proof that the sum does not overflow, from the path's conditions, if there is one.

    Z3 is asked only where a condition bounds this very index: it is compared up to a constant.
    """
    claim = no_overflow(terms, need)
    if claim.kind == "const":
        return Obligation(claim) if claim.value else None
    bounds = frozenset(c for c in conditions if _bounds(c, need.value))
    if bounds and isinstance(solver.prove(claim, bounds), Proved):
        return Obligation(claim, bounds)
    return None


def no_overflow(terms: Terms, need: NoOverflow) -> Term:
    """The condition that a sum does not overflow."""
    value, step, width = need.value, need.step, need.value.width
    if need.signed:
        low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
        if step >= 0:
            return terms.sle(value, terms.const(high - step, width))
        return terms.sle(terms.const(low - step, width), value)
    if step >= 0:
        return terms.ule(value, terms.const((1 << width) - 1 - step, width))
    return terms.ule(terms.const(-step, width), value)


def _varying(term: Term) -> tuple[int, tuple[tuple[Term, int], ...]]:
    """The same for terms that differ by a constant, and for no others."""
    return term.width, split(term)[1]


def _bounds(condition: Term, value: Term) -> bool:
    """Does a comparison in the condition speak of this very value, up to a constant?"""
    seen, wanted = set[Term](), _varying(value)
    for node in bottom_up(seen, _joined, condition):
        seen.add(node)
        if not _joined(node) and any(_varying(side) == wanted for side in node.args):
            return True
    return False


def _joined(condition: Term) -> tuple[Term, ...]:
    """The conditions that one is made of."""
    return condition.args if condition.kind in ("not", "and", "or", "xor") else ()


def apart(
    terms: Terms, solver: Solver, store: Variant, store_bytes: int, load: Variant, load_bytes: int
) -> Obligation | None:
    """The proof that the stored range, in any thread, misses the loaded range in this one."""
    if store.address.width != load.address.width:
        return None
    moved = terms.substitute(store.address, ArbitraryThread(terms))
    distance = terms.sub(load.address, moved)
    if _is_free(distance):
        return None
    width = distance.width
    behind = terms.ule(terms.const(store_bytes, width), distance)
    ahead = terms.ule(terms.const(load_bytes, width), terms.neg(distance))
    claim = terms.and_(behind, ahead)
    return Obligation(claim) if isinstance(solver.prove(claim), Proved) else None


def _is_free(distance: Term) -> bool:
    """Can it surely be any number? It has an unbounded unknown that stands in it once, with an odd
    factor, such as another array's pointer. Then Z3 need not be asked."""
    items = split(distance)[1]
    for number, (term, factor) in enumerate(items):
        if term.kind in OPAQUE and factor & 1 and ones(term) == (1 << term.width) - 1:
            rest = (other for at, (other, _) in enumerate(items) if at != number)
            if term not in set(walk(*rest)):
                return True
    return False


class ArbitraryThread:
    """Leaves as some thread of the warp sees them: everything that varies is unknown."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._known: dict[Term, Term] = {}

    def __call__(self, node: Term) -> Term | None:
        if node.variance == Variance.UNIFORM:
            return node
        varies = node.kind == "atom" or (node.kind == "apply" and node.value[1] > 0)
        if not varies:
            return None
        if node not in self._known:
            fresh = self._terms.fresh("any thread", node.width)
            self._known[node] = self._terms.atom(
                fresh.value, node.width, fresh.variance, ones(node)
            )
        return self._known[node]


def pointer_bases(address: Term) -> frozenset[Term]:
    """The pointers in a sum: parameters, symbols and loaded values that stand there once,
    unscaled. Empty, too, where something else stands there that may be a pointer, as a choice
    of two."""
    found = {t for t, c in split(address)[1] if c == 1 and not _is_index(t)}
    return frozenset(found) if all(map(_is_pointer, found)) else frozenset()


_INDEX_ORIGINS = frozenset({Origin.SPECIAL, Origin.ITERATION, Origin.LAST_ITERATION})


def _is_index(term: Term) -> bool:
    """Is it surely no pointer: an extended index, a product, a special register, a loop count?"""
    return term.kind in ("sext", "zext", "mul") or term.origin in _INDEX_ORIGINS


def _is_pointer(term: Term) -> bool:
    """Is it one value wherever it stands, which may be a pointer?"""
    return term.origin in POINTERS and term.origin not in NUMBERED
