"""Strides that a parameter decides: is it the length of a row, or may it be 1?

    a[i * width + k]    lanes i, any index k: rows do not overlap, so `width` is their length
    x[i * step]         `step` may be 1, or large: nobody knows without the launch

Where no other index runs along the elements, both cases have to be said.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.traffic import Traffic
from ptxsw.findings.base import Scene, Site
from ptxsw.findings.cost import Group
from ptxsw.terms.node import Term, unknowns
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Monomial, Polynomial
from ptxsw.terms.readings import UnwrappedReading
from ptxsw.terms.specials import SPECIALS
from ptxsw.terms.substitution import substitute

_WIDEST = 16  # bytes that a lane accesses at once
_SIZES = frozenset(n for n in SPECIALS if n.startswith(("%ntid", "%nctaid", "%ncluster")))


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
    cases = [OpenStride(_name(scene, p), _at_one(scene, site, p)) for p in _deciding(polynomial)]
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
        or (leaf.origin is Origin.SPECIAL and leaf.value not in _SIZES)
        for leaf in leaves
    )


def _at_one(scene: Scene, site: Site, parameter: Term) -> int:
    """The sectors of an access if a parameter is 1; as many as otherwise where that is not
    known."""
    one = {parameter: scene.trace.terms.const(1, parameter.width)}.get
    views = tuple(
        replace(view, address=substitute(scene.trace.terms, view.address, one))
        for view in site.access.variants
    )
    moved = Traffic.of(replace(site.access, variants=views), UnwrappedReading(), scene.warps)
    return moved.sectors()[0] or site.shown.sectors or 0


def _name(scene: Scene, parameter: Term) -> str:
    return str(parameter.value).removeprefix(f"{scene.trace.function.name}_")
