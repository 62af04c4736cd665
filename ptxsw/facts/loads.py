"""Loads of bytes that nobody writes, told by what else is read.

    ld.global.nc.f32 %f1, [%rd4];    nobody writes these bytes while the kernel runs,
    ld.global.f32 %f2, [%rd4];       so this gives the same, whatever was stored before

What is read by `.nc` in one case of a choice alone tells nothing of other cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms

_MAX_LOADS = 64

CONSTANT = -1
"""The epoch of unwritten memory: parameters, constants, and what is read by `.nc`."""


def is_load(node: Term) -> bool:
    """Is it a load: what memory held at some time, after some stores or none?"""
    name: Any = node.value[0] if node.kind is op.APPLY else ()
    return len(name) == 4 and name[0] == "load"


def is_constant_load(node: Term) -> bool:
    """Is it a load of unwritten memory?"""
    return is_load(node) and node.value[0][2] == CONSTANT and not node.value[0][3]


def steady(terms: Terms, a: Term, b: Term) -> tuple[Term, Term]:
    """Two values in which loads of bytes that the first text reads by `.nc`, too, are these."""
    constant = [node for node in _without_cases(a, b) if _epoch(node) == CONSTANT]
    if not constant or len(constant) > _MAX_LOADS:
        return a, b

    def leaf(node: Term) -> Term | None:
        epoch = _epoch(node)
        if epoch is None or epoch == CONSTANT:
            return None
        return _put_together(terms, constant, node.args[0], node.width)

    memo: dict[Term, Term] = {}
    return substitute(terms, a, leaf, memo), substitute(terms, b, leaf, memo)


def _put_together(terms: Terms, constant: Sequence[Term], place: Term, width: int) -> Term | None:
    """What some bits at a place are, where loads of unwritten memory have all of them."""
    for load in constant:
        if place.width != load.args[0].width:
            continue
        distance = terms.sub(place, load.args[0])
        if distance.kind is op.CONST and 8 * distance.value < load.width:
            first = 8 * distance.value
            low = terms.extract(load, first, min(width, load.width - first))
            if low.width == width:
                return low
            behind = terms.add(place, terms.const(low.width // 8, place.width))
            high = _put_together(terms, constant, behind, width - low.width)
            if high is not None:
                return terms.concat(high, low)
    return None


def _epoch(node: Term) -> int | None:
    """The epoch in which global memory is read, if that is what a node stands for."""
    name: tuple[Any, ...] = node.value[0] if node.kind is op.APPLY else ()
    return name[2] if len(name) == 4 and name[:2] == ("load", "global") else None


def _without_cases(*terms: Term) -> Iterator[Term]:
    """All nodes but those that only one case of a choice has."""
    work, seen = list(terms), set(terms)
    while work:
        node = work.pop()
        yield node
        for arg in node.args[:1] if node.kind is op.ITE else node.args:
            if arg not in seen:
                seen.add(arg)
                work.append(arg)


def compared_places(terms: Terms, a: Term, b: Term) -> tuple[Term, Term] | None:
    """The addresses of two loads of global memory of which one is of bytes that the first text
    reads by `.nc`: any load at the same address gives the same. None for other values."""
    (first, place), (second, other) = _read(terms, a), _read(terms, b)
    if place is None or other is None or CONSTANT not in (first, second):
        return None
    return place, other


def _read(terms: Terms, node: Term) -> tuple[int | None, Term | None]:
    """The epoch and address of a load of global memory, or of some bytes of one."""
    at = 0
    if node.kind is op.EXTRACT and node.value % 8 == node.width % 8 == 0:
        at, node = node.value // 8, node.args[0]
    epoch = _epoch(node)
    if epoch is None:
        return None, None
    place = node.args[0]
    return epoch, terms.add(place, terms.const(at, place.width))
