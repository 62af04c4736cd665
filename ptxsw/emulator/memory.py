"""Which memory a load reads: epochs, and the stores that are proved to miss it.

A load is an uninterpreted function of its address and of an epoch: two loads of one address in
one epoch are one term. A term speaks of one thread. Of what happens between two of its loads only
three things can make their values differ:
- what the thread itself writes. A store ends the epoch of every load but those whose bytes it is
  proved to miss, on this path, in this iteration of each loop;
- what another thread writes and this one may see: only over a barrier, a fence, an atomic or a
  strong access, an asynchronous copy, a call or an unknown instruction, which end the epochs of
  all loads. A write by another thread without any of these between is a race, and a value read in
  a race may be the older one (manual, chapter 8);
- another iteration of a loop that writes, which begins with a new epoch.
Nothing is said about the value another lane finds at an address: loads of writable memory vary
over lanes (`Variance.LANE`), so that no load is shared between lanes on the word of its epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, ones, split, walk
from ptxsw.terms.solver import Solver
from ptxsw.terms.terms import Terms

SPACES = ("global", "shared", "local")
"""Spaces that hold what may be written, in the order of `Epochs`."""

# An epoch is followed back over this many others; of what lies before it nothing is known.
_MAX_EPOCHS = 16
_MAX_STORES = 16

# Distances of more nodes, or that may be more numbers of bytes, are not looked into.
_MAX_SIZE = 200
_MAX_MEETINGS = 8


class Store(Struct, frozen=True):
    """Bytes that may have been written. The address counts from the start of `space`; `given`
    holds wherever the store was made."""

    space: str
    address: Term
    bytes: int
    given: tuple[Term, ...] = ()


class Epoch(Struct, frozen=True):
    """The time from event `mark` on. Between the epoch before and this one nothing was written
    but `stores`; the first epoch of a history began with anything."""

    mark: int
    stores: tuple[Store, ...] = ()


History = tuple[Epoch, ...]
Epochs = tuple[History, History, History]
"""The history of each of `SPACES`, newest epoch last, never empty."""

FIRST: Epochs = ((Epoch(0),), (Epoch(0),), (Epoch(0),))


def ended(epochs: Epochs, spaces: Iterable[str], mark: int) -> Epochs:
    """Anything may be written to `spaces` at `mark`."""
    new = (Epoch(mark),)
    return _each(*(new if s in spaces else h for s, h in zip(SPACES, epochs, strict=True)))


def stored(epochs: Epochs, spaces: Iterable[str], store: Store, mark: int) -> Epochs:
    """A store at `mark`, which may be to any of `spaces`."""
    new = Epoch(mark, (store,))
    return _each(
        *(
            (*h, new)[-_MAX_EPOCHS:] if s in spaces else h
            for s, h in zip(SPACES, epochs, strict=True)
        )
    )


def renamed(epochs: Epochs) -> Epochs:
    """The same epochs where terms get other names: addresses of before are not followed."""
    return _each(*((Epoch(h[-1].mark),) for h in epochs))


def joined(a: Epochs, b: Epochs, mark: int) -> Epochs:
    """The epochs of a state that may be either of two, which meet at `mark`."""
    return _each(*(_joined(x, y, mark) for x, y in zip(a, b, strict=True)))


def _each(*histories: History) -> Epochs:
    first, second, third = histories
    return first, second, third


def _joined(a: History, b: History, mark: int) -> History:
    if a == b:
        return a
    places = {epoch.mark: at for at, epoch in enumerate(b)}
    for at in reversed(range(len(a))):
        other = places.get(a[at].mark)
        if other is None:
            continue
        shared = _shared(a[: at + 1], b[: other + 1])
        since = _union(s for e in (*a[at + 1 :], *b[other + 1 :]) for s in e.stores)
        if at == len(a) - 1 and other == len(b) - 1:
            return shared
        if len(since) > _MAX_STORES:
            break
        return (*shared, Epoch(mark, since))[-_MAX_EPOCHS:]
    return (Epoch(mark),)


def _shared(a: History, b: History) -> History:
    """What two histories that end in epochs of one mark have in common."""
    epochs: list[Epoch] = []
    for x, y in zip(reversed(a), reversed(b), strict=False):
        if x.mark != y.mark:
            break
        stores = _union((*x.stores, *y.stores))
        epochs.append(Epoch(x.mark, stores))
        if len(stores) > _MAX_STORES:
            break
    return tuple(reversed(epochs))


def _union(stores: Iterable[Store]) -> tuple[Store, ...]:
    """Each store once, given what holds whenever one like it was made."""
    union: dict[tuple[str, Term, int], Store] = {}
    for store in stores:
        key = (store.space, store.address, store.bytes)
        earlier = union.get(key)
        if earlier is not None and earlier.given != store.given:
            store = Store(*key, tuple(c for c in earlier.given if c in store.given))
        union[key] = store
    return tuple(union.values())


class Aliasing:
    """Finds the epoch of a load. Looks at the normal form of the distance to a store first and
    asks the solver last; without one, never."""

    def __init__(self, terms: Terms, solver: Solver | None = None) -> None:
        self._terms = terms
        self._solver = solver
        self._claims: dict[tuple[Term, int, int], Term] = {}

    def epoch(
        self, history: History, space: str, address: Term, size: int, given: Sequence[Term]
    ) -> int:
        """The mark of the oldest epoch since whose start nothing of the `size` bytes at `address`
        was written, where the conditions `given` hold."""
        at = len(history) - 1
        while at and all(self._apart(s, space, address, size, given) for s in history[at].stores):
            at -= 1
        return history[at].mark

    def _apart(
        self, store: Store, space: str, address: Term, size: int, given: Sequence[Term]
    ) -> bool:
        """Are the bytes surely others?"""
        # Global memory lies in the generic space where it lies in its own; the others do not.
        if store.space != space and not {store.space, space} <= {"global", "generic"}:
            return False
        if store.address.width != address.width:
            return False
        key = self._terms.sub(address, store.address), store.bytes, size
        claim = self._claims.get(key)
        if claim is None:
            claim = self._claims[key] = self.apart(*key)
        if claim.kind is op.CONST or self._solver is None:
            return bool(claim.kind is op.CONST and claim.value)
        return self._solver.soon(claim, (*store.given, *given))

    def apart(self, distance: Term, stored: int, loaded: int) -> Term:
        """A condition under which no byte is in both ranges, `distance` from the start of the
        stored one to that of the loaded one, sizes in bytes. What is constant needs no proof."""
        terms, width = self._terms, distance.width
        constant, items = split(distance)
        step = min((c & -c for _, c in items), default=1 << width)
        meet = [d for d in range(1 - loaded, stored) if (d - constant) % step == 0]
        if not meet or not items:
            return terms.const(not meet, 1)
        if distance.size > _MAX_SIZE or len(meet) > _MAX_MEETINGS or _anything(items, width):
            return terms.const(0, 1)
        # Distances are `constant + step * x`: is x ever one of a few numbers? With the summands
        # on the side where they are positive, Z3 answers in a tenth of the time.
        shift = step.bit_length() - 1
        low = width - shift
        sides = terms.const(0, low), terms.const(0, low)
        for atom, coefficient in items:
            scaled = terms.scale(
                terms.extract(atom, 0, low), abs(wrapped(coefficient, width)) >> shift
            )
            sides = _plus(terms, sides, scaled, coefficient >> (width - 1) == 0)
        claim = terms.const(1, 1)
        for d in meet:
            x = wrapped(d - constant, width) >> shift
            left, right = _plus(terms, sides, terms.const(abs(x), low), x < 0)
            claim = terms.and_(claim, terms.not_(terms.eq(left, right)))
        return claim


def _plus(terms: Terms, sides: tuple[Term, Term], more: Term, left: bool) -> tuple[Term, Term]:
    a, b = sides
    return (terms.add(a, more), b) if left else (a, terms.add(b, more))


def _anything(items: Sequence[tuple[Term, int]], width: int) -> bool:
    """Can a sum be any number, whatever part of it is? So is the distance of two pointers."""
    return any(
        atom.kind in (op.ATOM, op.APPLY)
        and coefficient & 1
        and ones(atom) == (1 << width) - 1
        and not any(node is atom for node in walk(*(t for t, _ in items if t is not atom)))
        for atom, coefficient in items
    )
