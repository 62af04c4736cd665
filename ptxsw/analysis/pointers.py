"""The pointers on which addresses are built."""

from __future__ import annotations

from ptxsw.emulator.trace import Access
from ptxsw.terms import op
from ptxsw.terms.node import Term, split
from ptxsw.terms.origin import NUMBERED, POINTERS, Origin
from ptxsw.terms.show import show

Pointers = frozenset[Term] | None  # None: not known
_INDEX_ORIGINS = frozenset({Origin.SPECIAL, Origin.ITERATION, Origin.LAST_ITERATION})


def pointer_bases(address: Term) -> frozenset[Term]:
    """The pointers in a sum: parameters, symbols and loaded values that stand there once,
    unscaled. Empty, too, where something else stands there that may be a pointer, as a choice
    of two."""
    bases = {t for t, c in split(address)[1] if c == 1 and not _is_index(t)}
    return frozenset(bases) if all(map(_is_pointer, bases)) else frozenset()


def _is_index(term: Term) -> bool:
    """Is it surely no pointer: an extended index, a product, a special register, a loop count?"""
    return term.kind in (op.SEXT, op.ZEXT, op.MUL) or term.origin in _INDEX_ORIGINS


def _is_pointer(term: Term) -> bool:
    """Is it one value wherever it stands, which may be a pointer?"""
    return term.origin in POINTERS and term.origin not in NUMBERED


def pointers(access: Access | None) -> Pointers:
    """The pointers of an access on all paths; None where they are not all known, or where the
    emulation has not reached it."""
    terms: set[Term] = set()
    for variant in access.variants if access is not None else ():
        bases = pointer_bases(variant.address)
        if not bases:
            return None
        terms.update(bases)
    return frozenset(terms) if terms else None


def unrelated(a: Pointers, b: Pointers) -> bool:
    """Are the pointers of both known, and none in common? What is loaded from one place twice, with
    a store between, may well be one pointer: it is shown alike."""
    if a is None or b is None:
        return False
    return not {show(t) for t in a} & {show(t) for t in b}
