"""Lanes that want different words of one bank of shared memory wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from msgspec import Struct

from ptxsw.analysis.banks import BANKS, bank_ways
from ptxsw.analysis.coalescing import LANES
from ptxsw.analysis.descriptors import descriptors
from ptxsw.analysis.traffic import Traffic, addressing_lanes
from ptxsw.findings.base import Draft, Scene, Site, counted, plural, rule
from ptxsw.report.model import SourceEdit
from ptxsw.terms import op
from ptxsw.terms.node import walk
from ptxsw.terms.origin import Origin

_LITTLE = 2  # ways of a conflict that is not worth a warning if nothing ends it
_PADS = 4  # elements by which rows may be padded
_WORD = 4  # bytes
_ROW = BANKS * _WORD
_CHUNK = 16  # bytes that a swizzle moves together


@rule("ptxsw-bank-conflicts", "Lanes access different words in the same bank of shared memory.")
def bank_conflicts(scene: Scene) -> Iterator[Draft]:
    by_pattern: dict[object, list[Site]] = {}
    for site in scene.sites:
        if site.shown.space == "shared" and _ways(scene, site) > 1:
            key = (array_of(site), site.shown.lane_stride, site.shown.lanes)
            by_pattern.setdefault(key, []).append(site)
    for sites in by_pattern.values():
        yield _finding(scene, sites)


def array_of(site: Site) -> str:
    """The symbol of the array that is accessed; empty where there is none, or more than one."""
    names = {
        str(term.of[0])
        for view in site.access.variants
        for term in walk(view.address)
        if term.origin is Origin.SYMBOL and term.of
    }
    return names.pop() if len(names) == 1 else ""


def _ways(scene: Scene, site: Site) -> int:
    """The most words of one bank that lanes want at a time: no more than lanes make the access."""
    ways = site.shown.bank_conflicts or 1
    return min(ways, scene.lanes(site)) if ways > 1 else 1


def _finding(scene: Scene, sites: list[Site]) -> Draft:
    ways = max(_ways(scene, site) for site in sites)
    stride = sites[0].shown.lane_stride
    apart = f"adjacent lanes are {abs(stride):,} bytes apart, so " if stride else ""
    array = scene.source.variable(array_of(sites[0]))
    saved = sum(_extra(scene, site) * site.times for site in sites)
    advice = _advice(scene, sites)
    return scene.finding(
        bank_conflicts, "warning" if advice.helps or ways > _LITTLE else "note",
        scene.heaviest_first(sites),
        measure=f"{ways}-way conflict",
        what=f"{ways}-way bank conflict{_where(array, sites)}: {apart}up to {ways} lanes "
        f"of a warp access different words in the same bank ({counted(sites)}).",
        advice=advice.words, edits=advice.edits,
        saves={"passes": saved},
        ways=ways, stride=stride, times=sites[0].times,
    )  # fmt: skip


def _where(array: str, sites: list[Site]) -> str:
    """Which array it is, and whose."""
    peers = any("shared::cluster" in site.access.instruction.modifiers for site in sites)
    return f" in `{array}`" * bool(array) + " of another block" * peers


def _extra(scene: Scene, site: Site) -> float:
    """Passes that conflicts add; where the stride changes from iteration to iteration, on
    average."""
    wide = max(1, (site.shown.bytes or 4) // 4)
    conflicts = [
        iteration.bank_conflicts for iteration in site.shown.iterations if iteration.bank_conflicts
    ]
    ways = sum(conflicts) / len(conflicts) if conflicts else _ways(scene, site)
    return (ways - 1) * wide


# ---------------------------------------------------------------- what to do


class _Advice(Struct, frozen=True):
    """What to do, whether it was tried and `helps`, and how to write it."""

    words: str
    helps: bool
    edits: tuple[SourceEdit, ...] = ()


def _advice(scene: Scene, sites: list[Site]) -> _Advice:
    permuted = (
        "; or `ptxsw optimize --rewrites bank-conflicts` permutes the words"
        if scene.works("bank-conflicts")
        else ""
    )
    if any(site.shown.iterations for site in sites):
        return _Advice(f"{_for_doubling(sites)}{permuted}.", helps=True)
    array = array_of(sites[0])
    if _is_copied(scene, array):
        return _Advice(_swizzle(scene, array, sites), helps=True)
    padding = padding_of(scene, array, sites)
    if padding is None:
        words = f"Let consecutive lanes access consecutive words{permuted}."
        return _Advice(words, helps=bool(permuted))
    left = "" if padding.ways == 1 else f", which leaves {padding.ways}-way conflicts"
    declared = scene.source.padded(array, elements=padding.elements, row=padding.row)
    if declared is not None:
        words = f"Pad the rows: `{declared.new}`{left}{permuted}."
        return _Advice(words, helps=True, edits=(declared,))
    name = scene.source.variable(array)
    steps = f" * {padding.elements}" if padding.elements > 1 else ""
    words = (
        f"Pad the rows{f' of `{name}`' * bool(name)}: leave {plural(padding.elements, 'element')} "
        f"free after each {padding.row} (index by `i + i / {padding.row}{steps}`){left}{permuted}."
    )
    return _Advice(words, helps=True)


def _swizzle(scene: Scene, array: str, sites: list[Site]) -> str:
    """What to do about a tile whose layout copies or tensor cores share."""
    given = _given_swizzle(scene, array)
    row = given or _ROW
    permutation = f"16-byte chunk c of row r lies at `c ^ ({_rows(row)})`"
    ways = [_ways_with(scene, site, _ROW, partial(_swizzled, row=row)) for site in sites]
    known = [way for way in ways if way is not None]
    best = max(known, default=0)
    left = f", which leaves {best}-way conflicts" if best > 1 else ""
    if given and (best >= max(_ways(scene, site) for site in sites) or _is_permuted(sites)):
        return (
            f"Copies or tensor cores fix how this tile lies (its descriptors say a swizzle of "
            f"{given} bytes): let 8 lanes one after another access the 16-byte chunks of one row."
        )
    if given:
        return (
            f"The descriptors by which tensor cores read `{scene.source.variable(array)}` say a "
            f"swizzle of {given} bytes: index this tile by the same permutation{left}: in rows of "
            f"{given} bytes, {permutation}."
        )
    read = " Its descriptors say no swizzle." if given == 0 else ""
    return (
        f"Copies or tensor cores fix how this tile lies.{read} Choose a swizzle mode for it "
        "(`CU_TENSOR_MAP_SWIZZLE_128B` in the tensor map, the same in the descriptor), and index "
        f"it by the same permutation{left}: {permutation}."
    )


def _is_permuted(sites: list[Site]) -> bool:
    """Are places in the tile computed by exclusive or, as a swizzle has it?"""
    terms = walk(*(view.address for site in sites for view in site.access.variants))
    return any(term.kind is op.XOR for term in terms)


def _given_swizzle(scene: Scene, array: str) -> int | None:
    """The bytes of a row in which the descriptors of an array say that it is swizzled: 0 for no
    swizzle, None where they do not all say the same."""
    modes = {
        one.swizzle if one.chunk == _CHUNK else None
        for one in descriptors(scene.trace.module, scene.trace.function)
        if array in one.arrays
    }
    return modes.pop() if len(modes) == 1 else None


def _rows(swizzle: int) -> str:
    """What chunks are permuted by, in rows of so many bytes."""
    lines, chunks = _ROW // swizzle, swizzle // _CHUNK
    return f"r / {lines} % {chunks}" if lines > 1 else f"r % {chunks}"


def _swizzled(at: int, *, row: int) -> int:
    """The place of a byte in rows of so many bytes (PTX ISA 9.0, 5.5.7, swizzling modes)."""
    return at ^ (at // _ROW % (row // _CHUNK) * _CHUNK)


def _is_copied(scene: Scene, array: str) -> bool:
    """Do bulk copies or tensor cores access the array, which expect a layout of their own?"""
    tensor = any(
        one.opcode == "wgmma" or (one.opcode == "tcgen05" and "mma" in one.modifiers)
        for one in scene.trace.cfg.instructions
    )
    return tensor or any(
        site.access.instruction.opcode == "cp"
        and "bulk" in site.access.instruction.modifiers
        and array in _symbols(site)
        for site in scene.sites
    )


def _symbols(site: Site) -> set[str]:
    terms = walk(*(view.address for view in site.access.variants))
    return {str(term.of[0]) for term in terms if term.origin is Origin.SYMBOL and term.of}


def _for_doubling(sites: Iterable[Site]) -> str:
    """What to do about a distance that doubles in each iteration."""
    halve = (
        "Let consecutive lanes work on consecutive words: halve the distance in each iteration "
        "instead of doubling it"
    )
    left = max(
        (
            _with_words_between(iteration.lane_stride, site.shown.bytes or _WORD)
            for site in sites
            for iteration in site.shown.iterations
            if iteration.lane_stride
        ),
        default=BANKS,
    )
    if left > 2:
        return halve
    rest = f", which leaves {left}-way conflicts" if left > 1 else ""
    return f"{halve}. To keep the order, index by `i + i / 32`{rest}"


def _with_words_between(stride: int, size: int) -> int:
    """The ways of a conflict once a word is left free behind each 32."""
    places = [lane * stride for lane in range(LANES)]
    return bank_ways(tuple(at + at // _ROW * _WORD for at in places), size)


class Padding(Struct, frozen=True):
    """Bytes and elements from row to row; elements to add to each; the ways of the worst conflict
    that is left."""

    pitch: int
    row: int
    elements: int
    ways: int


def padding_of(scene: Scene, array: str, conflicting: list[Site]) -> Padding | None:
    """The smallest padding of an array's rows, or of each 128 bytes, that leaves the fewest
    conflicts, by counting those of all accesses to the array; None where that cannot be counted,
    or helps none."""
    sites = [s for s in scene.sites if s.shown.space == "shared" and array in _symbols(s)]
    pitch = _pitch(scene, conflicting[0])
    if not array or not pitch:
        return None
    element = min(site.access.bits // 8 or site.shown.bytes or 1 for site in sites)
    unit = max(max(site.access.bits // 8, site.shown.bytes or 1) for site in sites)
    worst = max(site.shown.bank_conflicts or 1 for site in conflicting)
    tried: list[tuple[int, bool, int, int]] = []
    for row in dict.fromkeys((pitch, _ROW)):
        for more in (pad * unit for pad in range(1, _PADS + 1)):
            move = partial(_padded, pitch=row, more=more)
            ways = [_ways_with(scene, site, row, move) for site in sites]
            known = [way for way in ways if way is not None]
            if len(known) < len(ways):
                return None
            tried.append((max(known), row != pitch, more, row))
    left, _, more, row = min(tried)
    return Padding(row, row // element, more // element, left) if left < worst else None


def _pitch(scene: Scene, site: Site) -> int | None:
    """Bytes from row to row: the largest step that lanes make."""
    steps = [
        abs(factor)
        for monomial, factor in scene.polynomial(site.access) or ()
        if any(not scene.warps.uniform(term) for term in monomial)
    ]
    return max(steps, default=None)


def _ways_with(scene: Scene, site: Site, pitch: int, move: Callable[[int], int]) -> int | None:
    """The ways of an access's conflict if each byte were moved; of all places in a row where a warp
    may begin, the worst."""
    asked = Traffic.of(site.access, scene.unwrapped, scene.warps)
    if not asked.requests or not asked.size or not all(r.exact for r in asked.requests):
        return None
    moves = any(
        factor % pitch and all(scene.warps.uniform(term) for term in monomial)
        for monomial, factor in scene.polynomial(site.access) or ()
        if monomial and not any(term.origin is Origin.SYMBOL for term in monomial)
    )
    starts = range(0, pitch, max(_WORD, asked.size)) if moves else (0,)
    lanes = slice(0, addressing_lanes(site.access))
    return max(
        bank_ways(tuple(move(at + start) for at in warp[lanes]), asked.size)
        for request in asked.requests
        for warp in request.warps
        for start in starts
    )


def _padded(at: int, *, pitch: int, more: int) -> int:
    """The place of a byte once each row before it has so many more."""
    return at + at // pitch * more
