"""x and y that were swapped: one cause of columns and bank conflicts all over a kernel.

    int row = blockIdx.x * 32 + threadIdx.x;       lanes lie in one column: 32 sectors
    int col = blockIdx.y * 32 + threadIdx.y;
    c[row * n + col] = …

Tried by counting: the same addresses with x and y exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.coalescing import SECTOR
from ptxsw.analysis.path_choice import with_one_path
from ptxsw.analysis.traffic import Traffic
from ptxsw.emulator.trace import AccessView
from ptxsw.findings.base import FETCH, WAVEFRONT, Draft, Scene, Site, rule
from ptxsw.findings.cost import passes
from ptxsw.findings.index_reader import LONGEST, SPECIALS
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Special
from ptxsw.ptx.patterns import pattern
from ptxsw.terms import op
from ptxsw.terms.node import Term, walk
from ptxsw.terms.readings import UnwrappedReading
from ptxsw.terms.substitution import substitute

_OTHER = {"x": "y", "y": "x"}
_PLACES = frozenset({"%tid.x", "%tid.y"})
_EXCHANGED = frozenset(
    f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xy"
)
_LESS = 0.5  # of what it costs now, or it is no mistake
_MOST = 5  # symptoms that are named


class Symptom(Struct, frozen=True):
    """An access that takes other figures with x and y exchanged: sectors, or passes through the
    banks."""

    site: Site
    before: int
    after: int

    @property
    def unit(self) -> float:
        """Quarters of a cycle for each of them."""
        return WAVEFRONT if self.site.shown.space == "shared" else 1 + FETCH

    @property
    def saved(self) -> float:
        return (self.before - self.after) * self.unit * self.site.times


@rule("ptxsw-swapped-axes", "x and y are swapped: adjacent threads lie in the same column.")
def swapped_axes(scene: Scene) -> Iterator[Draft]:
    symptoms = exchanged(scene)
    if not symptoms:
        return
    better = [symptom for symptom in symptoms if symptom.saved > 0]
    better.sort(key=lambda symptom: -symptom.saved)
    saves = dict.fromkeys(("sectors", "l2_bytes", "dram_bytes", "passes"), 0.0)
    for symptom in symptoms:
        fewer = (symptom.before - symptom.after) * symptom.site.times
        if symptom.site.shown.space == "shared":
            saves["passes"] += fewer
        else:
            saves["sectors"] += fewer
            saves["l2_bytes"] += SECTOR * fewer
            saves["dram_bytes"] += SECTOR * fewer
    yield scene.finding(
        swapped_axes, "warning", scene.heaviest_first(s.site for s in better),
        measure=f"{len(better)} accesses",
        what="x and y look swapped: `threadIdx.x` runs down the columns, so the lanes of a warp "
        f"are a row apart. With x and y exchanged, {_listed(scene, better)}.",
        advice=_advice(scene),
        saves=saves, accesses=len(better),
    )  # fmt: skip


def _advice(scene: Scene) -> str:
    """The lines with x and y exchanged, which is what was counted."""
    lines = " ".join(_lines_exchanged(scene))
    write = (
        f"Write `{lines}`"
        if lines
        else "Compute columns from `threadIdx.x` and `blockIdx.x`, and rows from `threadIdx.y` and "
        "`blockIdx.y`"
    )
    return f"{write}; launch with the same block, and x and y of the grid exchanged."


@lru_cache(maxsize=1)
def exchanged(scene: Scene) -> tuple[Symptom, ...]:
    """What becomes of all accesses if x and y are exchanged; empty where that is no great gain."""
    if scene.is_guess or not _has_columns(scene):
        return ()
    symptoms = tuple(_symptoms(scene))
    before = sum(s.before * s.unit * s.site.times for s in symptoms)
    after = sum(s.after * s.unit * s.site.times for s in symptoms)
    mended = any(s.site.is_global and s.after < s.before for s in symptoms)
    return symptoms if mended and after <= _LESS * before else ()


def _has_columns(scene: Scene) -> bool:
    """Does a global address depend on both axes, so that they may be exchanged?"""
    return any(
        site.is_global
        and (site.shown.sectors or 0) >= 2
        and ({str(t.value) for v in site.access.variants for t in walk(v.address)} >= _PLACES)
        for site in scene.sites
    )


def _symptoms(scene: Scene) -> Iterator[Symptom]:
    exchange = _Exchange(scene)
    for site in scene.sites:
        shared = site.shown.space == "shared"
        before = passes(site) if shared else site.shown.sectors
        if before is None or not (shared or site.is_global):
            continue
        after = exchange.figure(site)
        if after is not None:
            yield Symptom(site, before, after)


class _Exchange:
    """Accesses as they are with x and y exchanged."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._unwrapped = scene, UnwrappedReading()
        self._memo: dict[Term, Term] = {}

    def figure(self, site: Site) -> int | None:
        """Sectors of the access, or passes through the banks; None where they are not known."""
        alone = with_one_path(self._scene.trace.terms, site.access)
        views = tuple(
            AccessView(
                self._term(view.address),
                self._term(view.guard),
                frozenset(map(self._term, view.conditions)),
            )
            for view in alone.variants
        )
        moved = Traffic.of(replace(alone, variants=views), self._unwrapped, self._scene.warps)
        if site.shown.space != "shared":
            return moved.sectors()[0]
        ways, size = moved.banks(self._unwrapped), site.shown.bytes or 4
        return None if ways is None else ways * max(1, size // 4)

    def _term(self, term: Term) -> Term:
        return substitute(self._scene.trace.terms, term, self._leaf, self._memo)

    def _leaf(self, node: Term) -> Term | None:
        if node.kind is not op.ATOM or node.value not in _EXCHANGED:
            return None
        name, _, axis = str(node.value).rpartition(".")
        return self._scene.trace.terms.special(f"{name}.{_OTHER[axis]}")


def _listed(scene: Scene, symptoms: Sequence[Symptom]) -> str:
    """ "32 sectors become 4 (lines 19, 20), and …": lines of the source, or of the PTX."""
    lines: dict[str, set[int]] = {}
    for one in symptoms:
        unit = "passes through the banks" if one.site.shown.space == "shared" else "sectors"
        told = f"{one.before} {unit} become {one.after}"
        lines.setdefault(told, set()).add(scene.shown_line(one.site.index))
    parts = [f"{told} ({_lines(sorted(at))})" for told, at in lines.items()]
    return ", and ".join(parts[:_MOST]) + ", …" * (len(parts) > _MOST)


def _lines(numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers[:_MOST])) + ", …" * (len(numbers) > _MOST)
    return f"line{'s' * (len(numbers) > 1)} {listed}"


# ---------------------------------------------------------------- the lines to write

_AXES = pattern(r"\b((?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*)([xy])\b")
_MOST_LINES = 3  # lines that are told


def _lines_exchanged(scene: Scene) -> tuple[str, ...]:
    """The lines in which a kernel reads the place of a thread, with x and y exchanged; empty where
    these are not all known, or too many."""
    reading = [
        index
        for index, one in enumerate(scene.trace.cfg.instructions)
        if any(isinstance(used, Special) and used.name in _READ for used in isa.uses(one))
    ]
    places = {scene.place(index) for index in reading}
    lines = sorted({place.line for place in places if place and place.file == scene.source.file})
    new = [_exchanged(scene.source.line(line)) for line in lines]
    return tuple(new) if len(places) == len(lines) <= _MOST_LINES and all(new) else ()


_READ = frozenset(special for name, special in SPECIALS.items() if name[-1] in "xy")


def _exchanged(line: str) -> str:
    new = _AXES.sub(lambda match: match[1] + ("y" if match[2] == "x" else "x"), line)
    return new if new != line and len(line) <= LONGEST else ""
