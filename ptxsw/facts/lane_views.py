"""Terms as another thread sees them: a given lane of the warp, or any thread."""

from __future__ import annotations

from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, arguments, bottom_up, ones
from ptxsw.terms.origin import Origin
from ptxsw.terms.readings import is_lane_atom
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms

_THREAD = 1  # `%tid.x`
_LANE = 2  # `%laneid`
_THREAD_BITS = 4  # low bits of `%tid.x`
_ROWS = 8  # what is the same for another lane only in the same row of the block
OWN_VALUE = 16
"""A load, or another result, that is another in each lane."""
OTHER_LANE = 32
"""What only another lane knows."""


class Mentioned:
    """What terms have somewhere in them, as a sum of these numbers, remembered by term."""

    def __init__(self) -> None:
        self._memo: dict[Term, int] = {}

    def of(self, *terms: Term) -> int:
        """All that is mentioned in some terms."""
        flags_of, together = self._memo, 0
        for term in terms:
            for node in bottom_up(flags_of, arguments, term):
                flags = _own_mentions(node)
                for part in node.args:
                    flags |= flags_of[part]
                flags_of[node] = flags
            together |= flags_of[term]
        return together


def _own_mentions(node: Term) -> int:
    flags = _ROWS if node.variance == Variance.ROW else 0
    if node.kind is op.ATOM:
        name = node.value
        if name in _INDICES:
            flags |= _ROWS
        if name == "%tid.x":
            flags |= _THREAD
        elif name == "%laneid":
            flags |= _LANE
    elif node.kind is op.APPLY and node.variance == Variance.LANE:
        flags |= OWN_VALUE
    elif is_thread_bits(node):
        flags |= _THREAD_BITS
    return flags | (OTHER_LANE if node.origin is Origin.OTHER_LANE else 0)


class ShiftedLane:
    """Terms as lane i + `number` of the warp sees them, or lane `number` - i where `mirror` is
    set, said with the terms of lane i: its `%laneid` and `%tid.x`, and a value of its own for
    whatever else varies over lanes. Uniform values, and those that are equal in a row of the
    block, stay.

    All of it holds where there is such a lane. What is said of `%tid.x` holds where rows of the
    block do not wrap inside a warp: `%tid.x >> 5` is then equal in the warp, and the low bits of
    `%tid.x`, five or more, differ as the lanes do.
    """

    def __init__(
        self,
        terms: Terms,
        number: int,
        mirror: bool = False,
        mentioned: Mentioned | None = None,
    ) -> None:
        """`mentioned` knows terms from lane to lane."""
        self._terms = terms
        self._number = number
        self.mentioned = mentioned or Mentioned()
        self.mirror = mirror
        self._memo: dict[Term, Term] = {}
        self.unknown: list[Term] = []

    def __call__(self, term: Term) -> Term:
        return substitute(self._terms, term, self._leaf, self._memo)

    def exists(self, *addresses: Term) -> frozenset[Term]:
        """What lane i knows where there is such a lane, as far as the addresses speak of it."""
        facts = set()
        named = self.mentioned.of(*addresses)
        for name, flag, limit in (("%tid.x", _THREAD, 1023), ("%laneid", _LANE, 31)):
            own = self._terms.atom(name, 32, Variance.LANE)
            if named & flag and (name == "%laneid" or not self.mirror):
                facts.add(self._terms.ule(self._moved(own), self._terms.const(limit, 32)))
        if named & _THREAD and (self.mirror or named & _THREAD_BITS):
            bits = self._moved(self._terms.zext(thread_bits(self._terms)[1], 32))
            facts.add(self._terms.ule(bits, self._terms.const(31, 32)))
        return frozenset(facts)

    def _leaf(self, node: Term) -> Term | None:
        if node.variance < Variance.LANE:
            return node
        if node.kind is op.ZEXT and is_thread_bits(node.args[0]):
            # zext(bits) + N is zext(bits + N): the other lane exists, so its low five bits do not
            # overflow, and rows that do not wrap keep the bits above.
            return self._moved(node)
        if is_thread_bits(node):
            return self._moved(node)
        if node.kind is op.EXTRACT and node.value >= 5 and _is_thread(node.args[0]):
            return node
        if node.kind is op.ATOM:
            if is_lane_atom(node):
                return self._moved(node)
            self.unknown.append(node)
            return self._terms.fresh("other lane", node.width, origin=Origin.OTHER_LANE)
        if node.kind is op.APPLY and node.value[1] is Variance.LANE:
            self.unknown.append(node)
            return self._terms.fresh("other lane", node.width, origin=Origin.OTHER_LANE)
        return None

    def _moved(self, own: Term) -> Term:
        """A term that differs from lane to lane as the lanes do."""
        terms = self._terms
        number = terms.const(self._number, own.width)
        if not self.mirror:
            return terms.add(own, number)
        # From lane i to lane K - i it is K - 2·i: added, so that upper bits of `own` stay.
        return terms.add(own, terms.sub(number, terms.scale(self._lane(own), 2)))

    def _lane(self, own: Term) -> Term:
        """Lane i's number, in the width of a term that moves."""
        inner = own.args[0] if own.kind is op.ZEXT else own
        if inner.kind is op.ATOM and inner.value == "%laneid":
            return own
        return self._terms.zext(thread_bits(self._terms)[1], own.width)


class SplitTid:
    """Terms with `%tid.x`, which is below 1024, as 32 times its upper bits and its lower five: so
    that what is made of the parts and what is made of the whole can meet."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._memo: dict[Term, Term] = {}

    def __call__(self, term: Term) -> Term:
        return substitute(self._terms, term, self._leaf, self._memo)

    def _leaf(self, node: Term) -> Term | None:
        terms = self._terms
        if node.variance < Variance.LANE:
            return node
        if node.kind is op.EXTRACT and _is_thread(node.args[0]):
            if node.value == 5 and node.width > 5:
                return terms.zext(thread_bits(terms)[0], node.width)
            return node
        if _is_thread(node):
            upper, lower = (terms.zext(half, 32) for half in thread_bits(terms))
            return terms.add(terms.scale(upper, 32), lower)
        return None

    def before(self, term: Term) -> Term:
        """The term that this one was made from, so that a register that holds it can be found. Both
        are equal."""
        return next((old for old, new in self._memo.items() if new is term), term)


def _is_thread(term: Term) -> bool:
    return term.kind is op.ATOM and term.value == "%tid.x"


_INDICES = frozenset({"%tid.x", "%tid.y", "%tid.z"})


def needs_rows(mentioned: Mentioned, *addresses: Term) -> bool:
    """Does the view of another lane hold for the addresses only if rows of the block do not wrap
    inside a warp? Not if `%laneid` is the only thing in them that differs between threads."""
    return bool(mentioned.of(*addresses) & _ROWS)


class ArbitraryThread:
    """Leaves as some thread of the warp sees them: everything that varies is unknown."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._memo: dict[Term, Term] = {}

    def __call__(self, node: Term) -> Term | None:
        if node.variance == Variance.UNIFORM:
            return node
        varies = node.kind is op.ATOM or (node.kind is op.APPLY and node.value[1] > 0)
        if not varies:
            return None
        if node not in self._memo:
            fresh = self._terms.fresh("any thread", node.width)
            self._memo[node] = self._terms.atom(fresh.value, node.width, fresh.variance, ones(node))
        return self._memo[node]


def is_lane_bits(term: Term) -> bool:
    """Is it the low five bits of `%tid.x`?"""
    return term.kind is op.EXTRACT and term.width == 5 and is_thread_bits(term)


def is_thread_bits(term: Term) -> bool:
    """Is it the low bits of `%tid.x`, five or more of them?"""
    return (
        term.kind is op.EXTRACT
        and term.value == 0
        and term.width >= 5
        and term.args[0].kind is op.ATOM
        and term.args[0].value == "%tid.x"
    )


def thread_bits(terms: Terms) -> tuple[Term, Term]:
    """The upper and the lower five bits of `%tid.x`, which is below 1024."""
    thread = terms.atom("%tid.x", 32, Variance.LANE)
    return terms.extract(thread, 5, 5), terms.extract(thread, 0, 5)
