"""Are the bytes the same? The address of a source in lane i + N against that of a load in lane i.

Prove, then guard, then assume: a pair that normal form does not settle holds where certain
index sums do not overflow; that is proved from the path's conditions, or tested at run time
where the index is extended into an address, or assumed if the user said so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ptxsw.emulator.affine import is_lane_atom
from ptxsw.emulator.node import Term, Variance, split, walk
from ptxsw.emulator.show import show
from ptxsw.emulator.solver import Proved, Solver
from ptxsw.emulator.state import SPECIALS
from ptxsw.emulator.terms import Terms
from ptxsw.emulator.trace import Trace, Variant, Widening
from ptxsw.shuffle.plan import WrapGuard


@dataclass(frozen=True, slots=True)
class NoOverflow:
    """`value + step` keeps its sign- (or zero-) extended value."""

    value: Term
    step: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Obligation:
    """What was proved: `claim` holds wherever all of `given` do."""

    claim: Term
    given: frozenset[Term] = frozenset()


@dataclass(frozen=True, slots=True)
class Same:
    """The addresses are equal wherever no sum of `needs` overflows."""

    proved: Obligation
    needs: tuple[NoOverflow, ...] = ()


@dataclass(frozen=True, slots=True)
class Different:
    """They may differ; why, in words."""

    reason: str


def neighbour_exists(terms: Terms, delta: int) -> frozenset[Term]:
    """What lane i knows where lane i + delta is a thread of its row: both indices are in range."""
    facts = set()
    for name, limit in (("%tid.x", 1023), ("%laneid", 31)):
        own = terms.atom(name, 32, Variance.LANE)
        other = terms.add(own, terms.const(delta, 32))
        facts.add(terms.ule(other, terms.const(limit, 32)))
    return frozenset(facts)


class LaneShift:
    """Terms as another lane of the warp sees them: `%tid.x + N`, `%laneid + N`, and a value of
    its own for whatever else varies over lanes. Uniform values, and those that are equal in a
    row of the block, stay."""

    def __init__(self, terms: Terms, delta: int) -> None:
        self._terms = terms
        self._delta = delta
        self._memo: dict[Term, Term] = {}
        self.unknown: list[Term] = []

    def __call__(self, term: Term) -> Term:
        return self._terms.substitute(term, self._leaf, self._memo)

    def _leaf(self, node: Term) -> Term | None:
        if node.variance < Variance.LANE:
            return node
        if node.kind == "atom":
            if is_lane_atom(node):
                return self._terms.add(node, self._terms.const(self._delta, node.width))
            self.unknown.append(node)
            return self._terms.fresh("other lane", node.width)
        if node.kind == "apply" and node.value[1] is Variance.LANE:
            self.unknown.append(node)
            return self._terms.fresh("other lane", node.width)
        return None


def same_bytes(
    terms: Terms,
    solver: Solver,
    source: Variant,
    dest: Variant,
    delta: int,
    displacement: int,
    known: frozenset[Term],
) -> Same | Different:
    """Does `source` in lane i + delta, `displacement` bytes further on, have the address that
    `dest` has in lane i, given what is known in lane i?"""
    shift = LaneShift(terms, delta)
    moved = shift(source.address) if delta else source.address
    moved = terms.add(moved, terms.const(displacement, moved.width))
    difference = terms.sub(moved, dest.address)
    claim = terms.eq(moved, dest.address)
    if difference.kind == "const":
        equal = difference.value == 0
        return Same(Obligation(claim)) if equal else Different("the addresses differ")
    own = {t for t in walk(difference) if t.kind == "apply" and t.variance == Variance.LANE}
    if own or any(str(t.value).startswith("other lane") for t in walk(difference)):
        names = ", ".join(sorted({show(t) for t in own or shift.unknown})[:2])
        return Different(f"the address depends on {names}, which differs from lane to lane")
    same = _pair_up(terms, difference, dest.address)
    if same is not None:
        return same
    if isinstance(solver.prove(claim, known), Proved):
        return Same(Obligation(claim, known))
    return Different("the addresses are not provably equal")


def _pair_up(terms: Terms, difference: Term, address: Term) -> Same | None:
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
        partner = _partner(terms, term, coefficient, open_items, mask)
        if partner is None:
            return None
        open_items.remove((partner, (-coefficient) & mask))
        # Lane i's own index is the one whose extension stands in its own address.
        ours, theirs = (term, partner) if _occurs(term, address) else (partner, term)
        step = _signed(terms.sub(theirs.args[0], ours.args[0]))
        sign = coefficient if theirs is term else -coefficient
        total += sign * step
        extend = terms.sext if ours.kind == "sext" else terms.zext
        index = terms.fresh("index", ours.args[0].width)
        moved = extend(terms.add(index, terms.const(step, index.width)), width)
        apart = terms.sub(moved, extend(index, width))
        general = terms.add(general, terms.scale(apart, sign))
        needs.append(NoOverflow(ours.args[0], step, ours.kind == "sext"))
        given.add(no_overflow(terms, NoOverflow(index, step, ours.kind == "sext")))
    if total & mask:
        return None
    claim = terms.eq(general, terms.const(0, width))
    return Same(Obligation(claim, frozenset(given)), tuple(needs))


def _partner(
    terms: Terms, term: Term, coefficient: int, items: Sequence[tuple[Term, int]], mask: int
) -> Term | None:
    for other, factor in items:
        if (
            other.kind == term.kind
            and (factor + coefficient) & mask == 0
            and other.args[0].width == term.args[0].width
            and terms.sub(other.args[0], term.args[0]).kind == "const"
        ):
            return other
    return None


def _occurs(term: Term, address: Term) -> bool:
    return any(t is term for t, _ in split(address)[1])


def _signed(term: Term) -> int:
    value: int = term.value
    return value - (1 << term.width) if value >> (term.width - 1) else value


# ---------------------------------------------------------------- discharging


def settle(
    terms: Terms, solver: Solver, need: NoOverflow, conditions: frozenset[Term]
) -> Obligation | None:
    """The proof that the sum does not overflow, from the path's conditions, if there is one.

    Z3 is asked only where a condition bounds this very index: it is compared up to a constant.
    """
    claim = no_overflow(terms, need)
    if claim.kind == "const":
        return Obligation(claim) if claim.value else None
    bounds = frozenset(c for c in conditions if _bounds(terms, c, need.value))
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


def _bounds(terms: Terms, condition: Term, value: Term) -> bool:
    while condition.kind == "not":
        condition = condition.args[0]
    if condition.kind in ("and", "or", "xor"):
        return any(_bounds(terms, arg, value) for arg in condition.args)
    return any(
        side.width == value.width and terms.sub(side, value).kind == "const"
        for side in condition.args
    )


class Guards:
    """Finds where an index can be tested: an instruction that extends a register which holds
    the index up to a constant, on every way to the load."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._by_class: dict[object, list[tuple[Widening, int]]] = {}
        for widening in trace.widenings:
            if len(widening.terms) == 1:
                constant, items = split(widening.terms[0])
                key = (widening.terms[0].width, items)
                self._by_class.setdefault(key, []).append((widening, constant))

    def place(self, need: NoOverflow, before: int) -> WrapGuard | None:
        """The test for `need` at a place that dominates instruction `before`, the newest such."""
        cfg = self._trace.cfg
        constant, items = split(need.value)
        block = cfg.block_of[before]
        around = set(cfg.loops_around(block))
        for widening, held in reversed(self._by_class.get((need.value.width, items), [])):
            own = cfg.block_of[widening.index]
            in_time = widening.index < before if own == block else cfg.dominates(own, block)
            # A place in a loop that the load is not in speaks of an earlier turn.
            if in_time and around.issuperset(cfg.loops_around(own)):
                return WrapGuard(
                    widening.index, widening.reg, need.value.width,
                    _wrap(constant - held, need.value.width), need.step, need.signed,
                )  # fmt: skip
        return None


def _wrap(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def apart(
    terms: Terms, solver: Solver, store: Variant, store_bytes: int, load: Variant, load_bytes: int
) -> bool:
    """Is the stored range, in any thread, proved to miss the loaded range in this one?"""
    if store.address.width != load.address.width:
        return False
    moved = terms.substitute(store.address, _Anyone(terms))
    distance = terms.sub(load.address, moved)
    width = distance.width
    behind = terms.ule(terms.const(store_bytes, width), distance)
    ahead = terms.ule(terms.const(load_bytes, width), terms.neg(distance))
    return isinstance(solver.prove(terms.and_(behind, ahead)), Proved)


class _Anyone:
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
        return self._known.setdefault(node, self._terms.fresh("any thread", node.width))


def pointer_bases(address: Term) -> Mapping[Term, int]:
    """The pointers in a sum: parameters, symbols and loaded values that stand there once,
    unscaled."""
    return {t: c for t, c in split(address)[1] if c == 1 and _may_point(t)}


def _may_point(term: Term) -> bool:
    if term.kind == "apply":
        return bool(term.value[0][0] == "load")
    name = str(term.value)
    return term.kind == "atom" and name not in SPECIALS and "(" not in name
