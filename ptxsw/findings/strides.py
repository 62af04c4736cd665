"""Strides that a parameter decides: is it the length of a row, or may it be 1?

    a[i * width + k]    lanes i, any index k: rows do not overlap, so `width` is their length
    x[i * step]         `step` may be 1, or large: nobody knows without the launch

Where no other index runs along the elements, both cases have to be said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from msgspec import Struct

from ptxsw.analysis.coalescing import Offsets, sectors
from ptxsw.analysis.traffic import taking_part
from ptxsw.analysis.warps import TRIALS
from ptxsw.findings.base import Scene, Site
from ptxsw.findings.cost import Group
from ptxsw.terms.node import Term, unknowns
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Monomial, Polynomial
from ptxsw.terms.specials import OF_LAUNCH

_WIDEST = 16  # bytes that a lane accesses at once


class OpenStride(Struct, frozen=True):
    """A parameter that may be 1, and the sectors of a warp if it is."""

    parameter: str
    sectors: int


def open_stride(scene: Scene, group: Group) -> OpenStride | None:
    """The parameter that decides how far lanes are apart, if it may be 1 as far as the kernel
    shows, and if fewer sectors are touched then."""
    site = group.sites[0]
    polynomial = scene.polynomial(site.access)
    together = max(_WIDEST, group.bytes)  # of an unrolled loop's copies
    if polynomial is None or _has_element_index(polynomial, together):
        return None
    cases = [
        OpenStride(_name(scene, p), _at_one(scene, site, polynomial, p))
        for p in _deciding(polynomial)
    ]
    best = min(cases, key=lambda case: case.sectors, default=None)
    return best if best is not None and best.sectors < (site.shown.sectors or 0) else None


def _deciding(polynomial: Polynomial) -> Iterator[Term]:
    """The parameters by which what differs over lanes is multiplied."""
    factors = (
        term
        for monomial, _ in polynomial
        if any(_is_index(t) for t in monomial)
        for term in monomial
        if term.origin is Origin.PARAMETER
    )
    yield from dict.fromkeys(factors)


def _has_element_index(polynomial: Polynomial, together: int) -> bool:
    """Does an index run along adjacent elements, so that all else leads from row to row?"""
    return any(
        abs(factor) <= together and any(map(_is_index, monomial)) and not _has_parameter(monomial)
        for monomial, factor in polynomial
    )


def _has_parameter(monomial: Monomial) -> bool:
    return any(term.origin is Origin.PARAMETER for term in monomial)


def _is_index(term: Term) -> bool:
    """Is it the place of a thread or block, the number of an iteration, or computed of these?"""
    leaves = unknowns(term) if term.origin is Origin.COMPUTED else (term,)
    return any(
        leaf.origin is Origin.ITERATION
        or (leaf.origin is Origin.SPECIAL and leaf.value not in OF_LAUNCH)
        for leaf in leaves
    )


def _at_one(scene: Scene, site: Site, polynomial: Polynomial, parameter: Term) -> int:
    """The sectors of an access if a parameter is 1, for the warp that touches most: by the values
    of what differs over lanes, which are known by now."""
    size, warps = site.shown.bytes or 1, scene.warps
    moved = [(m, n) for m, n in polynomial if not all(map(warps.uniform, m))]
    most = 0
    for trial in range(TRIALS):
        values = {t: _values(scene, t, trial) for m, _ in moved for t in m if t is not parameter}
        for number, count in enumerate(warps.counts):
            at = tuple(
                polynomial.offset + sum(n * _product(m, values, number, lane) for m, n in moved)
                for lane in range(count)
            )
            most = max(most, *(sectors(w, size) for w in taking_part(site.access, warps, at)))
    return most


def _values(scene: Scene, term: Term, trial: int) -> tuple[Offsets, ...]:
    """What a term is in the lanes of each warp, read as signed."""
    half, full = 1 << (term.width - 1), 1 << term.width
    every = scene.warps.addresses(term, "usual", trial, frozenset())
    return tuple(tuple((at + half) % full - half for at in warp) for warp in every)


def _product(
    monomial: Monomial, values: Mapping[Term, tuple[Offsets, ...]], number: int, lane: int
) -> int:
    return prod(values[term][number][lane] for term in monomial if term in values)


def _name(scene: Scene, parameter: Term) -> str:
    return str(parameter.value).removeprefix(f"{scene.trace.function.name}_")
