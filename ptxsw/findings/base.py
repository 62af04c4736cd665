"""What a rule is, and what it is given: a kernel with its accesses measured and weighed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from ptxsw.analysis.active_lanes import ActiveLanes
from ptxsw.analysis.block_shape import rows_hold_warps
from ptxsw.analysis.coalescing import SECTOR
from ptxsw.analysis.trip_count import TRIPS, iterations, most_iterations
from ptxsw.analysis.warps import Block, Warps
from ptxsw.cost.accesses import AccessFigures
from ptxsw.emulator.trace import Access, Trace
from ptxsw.findings.kernel_source import KernelSource
from ptxsw.findings.leaders import is_led
from ptxsw.findings.second_addresses import SecondAddresses, copies, in_peers
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.flow_graph import Loop
from ptxsw.flow.loop_exits import waits_for_mbarrier
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Int
from ptxsw.report import model
from ptxsw.report.model import LEVELS as LEVELS
from ptxsw.report.source_places import SourcePlace, source_places
from ptxsw.terms import op
from ptxsw.terms.node import walk
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.readings import UnwrappedReading

_ROWS = frozenset({"%tid.y", "%tid.z"})
_MOST = 1 << 20  # times that an instruction is executed


FETCH = 2
"""Quarters of a cycle of a sector that the L1 cache does not hold."""
BEYOND = 0.5
"""The share of the sectors of local memory that are taken to lie beyond the L1 cache."""
WAVEFRONT = 4
"""The same of a pass through the banks of shared memory."""

Saved = Mapping[str, float]
"""What a kernel asks for no more, by the names of the figures of an account or of its pipes."""

_QUARTERS: Saved = {
    "instructions": 1, "sectors": 1, "l2_bytes": FETCH / SECTOR, "passes": WAVEFRONT,
    "constants": WAVEFRONT, "atomics": WAVEFRONT,
}  # fmt: skip
"""Of a cycle, by which findings are ranked."""


def quarters(saved: Saved) -> float:
    """What is asked for no more as the weight of a finding. Memory is another place for what the L2
    cache may hold, and does not count."""
    return sum(max(0.0, amount) * _QUARTERS.get(name, 0) for name, amount in saved.items())


class KernelResources(Struct, frozen=True, kw_only=True):
    """What ptxas made of a kernel. Sizes are bytes: `stack` and spills of a thread, `shared` static
    memory of a block. `unbounded` is the same without the kernel's launch bounds, where these may
    be why it spills."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int
    unbounded: KernelResources | None = None


class Draft(Struct, frozen=True):
    """A finding on its way. Those of one rule, level and `cause` become one; `saves` is what the
    kernel asks for no more once it is mended (`cost.Saved`): empty where nobody can tell."""

    finding: model.Finding
    cause: Hashable
    saves: Saved = field(default_factory=dict)
    own: int = 0  # lines of the PTX before it became one with others


class Site(Struct, frozen=True):
    """An access: as it was run, as the report shows it, and how often a warp makes it."""

    access: Access
    shown: model.Access
    times: float

    @property
    def index(self) -> int:
        return self.access.index

    @property
    def is_global(self) -> bool:
        return self.shown.space in ("global", "generic")


class Scene(Struct, frozen=True, dict=True, eq=False):
    """A kernel as rules see it. `block` is its shape, where it is known. (Scenes are compared by
    identity, so that what several rules ask of one is computed once.)"""

    trace: Trace
    accesses: tuple[model.Access, ...]
    block: Block | None
    arch: str | None
    resources: KernelResources | None = None
    executed_in_launch: Mapping[int, float] | None = None  # by an instruction's place in the text
    works: Callable[[str], bool] = lambda rewrite: False
    """Does the rewrite of a name change the kernel?"""
    source: KernelSource = KernelSource()
    second: SecondAddresses | None = None
    figures: Mapping[int, AccessFigures] = field(default_factory=dict)
    """Of the accesses, as all commands give them."""
    assumed: Block | None = None
    """The shape by which the kernel computes its indices, where no block is known."""

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """The accesses in program order, parameters left out."""
        given = (access for access in self.trace.accesses if access.space != "param")
        pairs: Iterable[tuple[Access, model.Access]] = zip(given, self.accesses, strict=True)
        if self.second is not None and self.second.peers:
            pairs = (in_peers(self.trace, self.second, self.warps, *pair) for pair in pairs)
        return tuple(Site(access, shown, self.times(access.index)) for access, shown in pairs)

    @cached_property
    def copies(self) -> tuple[Site, ...]:
        """The loads from global memory that `cp.async` makes."""
        if self.second is None:
            return ()
        return tuple(
            Site(access, shown, self.times(access.index))
            for access, shown in copies(self.trace, self.second, self.warps)
        )

    @cached_property
    def has_tensor_work(self) -> bool:
        return any(map(self.is_tensor_work, range(len(self.trace.cfg.instructions))))

    def is_tensor_work(self, index: int) -> bool:
        return isa.has(self.trace.cfg.instructions[index], isa.Trait.TENSOR)

    @cached_property
    def unwrapped(self) -> UnwrappedReading:
        return self.trace.unwrapped

    @cached_property
    def is_guess(self) -> bool:
        """Is it not even likely that rows of a block hold whole warps, as is assumed?"""
        return self.block is None and self.assumed is None and not rows_hold_warps(self.trace)

    @cached_property
    def warps(self) -> Warps:
        return Warps(self.block or self.assumed)

    @cached_property
    def _in_rows(self) -> frozenset[int]:
        """The accesses that depend on the row of the block in which a thread lies, by index."""
        return frozenset(
            access.index
            for access in self.trace.accesses
            for view in access.variants
            if any(term.value in _ROWS for term in walk(view.address) if term.kind is op.ATOM)
        )

    def _assumed(self, indices: Iterable[int]) -> str:
        """What a finding about accesses takes for granted of a block whose shape is not known."""
        if self._in_rows.isdisjoint(indices):
            return ""
        if self.block is None and self.assumed is not None:
            x, y, z = self.assumed
            shape = f"{x}x{y}x{z}" if z > 1 else f"{x}x{y}"
            return f" Blocks are taken to be {shape}, judging by the kernel's index computation."
        if self.block is None:
            return (
                " This assumes that `blockDim.x` is a multiple of 32, so that a warp lies in one "
                "row of the block; `--block` sets another shape."
            )
        launch = self.source.launch
        if launch is None or launch.block != self.block or self.trace.function.block_shape:
            return ""
        x, y, z = launch.block
        shape = f"{x}x{y}x{z}" if z > 1 else f"{x}x{y}"
        return f" Blocks are {shape}, as launched in line {launch.line}."

    @cached_property
    def _active_lanes(self) -> ActiveLanes:
        return ActiveLanes(self.trace.terms, self.warps)

    @cached_property
    def _places(self) -> Mapping[int, SourcePlace]:
        return source_places(self.trace)

    @cached_property
    def _trips(self) -> dict[int, int]:
        return {}

    @cached_property
    def executed(self) -> float:
        """The instructions that a warp executes."""
        cfg = self.trace.cfg
        if self.executed_in_launch is not None:
            return sum(map(self.times, range(len(cfg.instructions))))
        return sum((b.end - b.start) * self._block_times(b.number) for b in cfg.blocks)

    def executed_in(self, blocks: Iterable[int]) -> float:
        """The instructions of some blocks that a warp executes."""
        runs = (self.trace.cfg.blocks[number] for number in blocks)
        return sum((b.end - b.start) * self.times(b.start) for b in runs if b.end > b.start)

    def place(self, index: int) -> SourcePlace | None:
        """Of an instruction; of the first that has one, where it has none."""
        return self._places.get(index) or next(iter(self._places.values()), None)

    def is_counted(self, header: int) -> bool:
        """Do literals of the code say how often a loop's body is run?"""
        loop = self.trace.cfg.loops[header]
        return _ends_at_number(self.trace.cfg, loop) and iterations(self.trace, loop) is not None

    def trips(self, header: int) -> int:
        """How often a loop's body is run."""
        count = self._trips.get(header)
        if count is None:
            loop = self.trace.cfg.loops[header]
            count = iterations(self.trace, loop) if _ends_at_number(self.trace.cfg, loop) else None
            if waits_for_mbarrier(self.trace.cfg, loop):
                count = 1
            if count is None:
                most = most_iterations(self.trace, loop, self.warps.sizes)
                count = TRIPS if most is None else min(most, TRIPS)
            self._trips[header] = count
        return count

    def times(self, index: int) -> float:
        """How often a warp that runs once through the kernel makes an instruction: as counted in a
        launch, or by the loops around it."""
        if self.executed_in_launch is not None:
            at = self.trace.cfg.instructions[index].span.start
            return self.executed_in_launch.get(at, 0.0)
        return self._block_times(self.trace.cfg.block_of[index])

    def _block_times(self, number: int) -> int:
        total = 1
        for header in self.trace.cfg.loops_around(number):
            total = min(total * self.trips(header), _MOST)
        return total

    def polynomial(self, access: Access) -> Polynomial | None:
        """The address as a sum; None where it is not the same on all paths."""
        addresses = {v.address for v in access.variants}
        return self.unwrapped.polynomial(addresses.pop()) if len(addresses) == 1 else None

    def lanes(self, site: Site) -> int:
        """The most lanes of a warp that make an access together."""
        lanes = self._active_lanes.of(site.access)
        return 1 if lanes > 1 and is_led(self.trace.cfg, site.index) else lanes

    def line(self, index: int) -> int:
        return self.trace.module.source.line(self.trace.cfg.instructions[index].span.start)

    def heaviest_first(self, sites: Iterable[Site]) -> tuple[int, ...]:
        """Accesses as `finding` takes them: first those of the source line that makes most."""
        every = tuple(sites)
        of_line: Counter[Hashable] = Counter()
        lines = {site.index: self._source_line(site.index) for site in every}
        for site in every:
            of_line[lines[site.index]] += math.ceil(site.times)
        heavy = sorted(every, key=lambda s: (-of_line[lines[s.index]], -s.times, s.index))
        return tuple(site.index for site in heavy)

    def shown_line(self, index: int) -> int:
        """The line of an instruction in the source, where it is known; else in the PTX."""
        place = self._places.get(index)
        return self.line(index) if place is None else place.line

    @cached_property
    def _by_line(self) -> Mapping[int, SourcePlace]:
        return {self.line(index): place for index, place in self._places.items()}

    def place_of_line(self, line: int) -> SourcePlace | None:
        """Where a line of the PTX is from."""
        return self._by_line.get(line)

    def _source_line(self, index: int) -> Hashable:
        place = self._places.get(index)
        return self.line(index) if place is None else (place.file, place.line)

    def finding(
        self,
        rule: Rule,
        level: str,
        indices: Iterable[int],
        *,
        measure: str,
        what: str,
        advice: str,
        weight: float | None = None,
        saves: Saved | None = None,
        cause: Hashable = None,
        by_lanes: bool = True,
        edits: tuple[model.SourceEdit, ...] = (),
        **figures: Any,
    ) -> Draft:
        """A finding about instructions, placed at the first of them; at the kernel's head where
        there are none. It weighs as much as mending it saves, if nothing else is said. `by_lanes`:
        does it depend on which threads lie in one warp? `edits` are of the kernel's file, and kept
        where the finding is about that."""
        every = tuple(indices)
        start = self.trace.function.span.start
        if every:
            start = self.trace.cfg.instructions[every[0]].span.start
        assumed = self._assumed(every) if by_lanes else ""
        if assumed and level == "warning" and self.is_guess:
            level = "note"
        what += assumed
        line, column = self.trace.module.source.place(start)
        place = self.place(every[0] if every else 0)
        weight = quarters(saves or {}) if weight is None else weight
        measure, what, advice = map(self.source.named, (measure, what, advice))
        if place is None or place.file != self.source.file:
            edits = ()
        finding = model.Finding(
            rule.name, level, self.trace.function.name, line, column, measure, what, advice,
            round(max(weight, 0.0), 1),
            place.file if place else None, place.line if place else None,
            (place.column or None) if place else None,
            tuple(dict.fromkeys(map(self.line, every))) or (line,), figures=figures,
            edits=edits,
        )  # fmt: skip
        shared = (line, measure) if cause is None else cause
        return Draft(finding, shared, saves or {}, len(finding.lines))


def _ends_at_number(cfg: Cfg, loop: Loop) -> bool:
    """Does a loop end with a comparison with a literal? Others need not be counted."""
    for source, _ in loop.exits:
        block = cfg.blocks[source]
        guard = cfg.instructions[block.end - 1].guard
        for instruction in cfg.instructions[block.start : block.end]:
            compared = instruction.operands
            if guard is not None and compared and compared[0] == guard.reg:
                return any(isinstance(operand, Int) for operand in compared[1:])
    return False


class Rule(Struct, frozen=True):
    """A rule: its name, a sentence for lists of rules, and what it finds in a kernel. `asks_ptxas`:
    does it look at `Scene.resources`? That may be None."""

    name: str
    summary: str
    find: Callable[[Scene], Iterator[Draft]]
    asks_ptxas: bool = False


def rule(
    name: str, summary: str, *, asks_ptxas: bool = False
) -> Callable[[Callable[[Scene], Iterator[Draft]]], Rule]:
    """Makes a rule of what finds something in a kernel."""
    return lambda find: Rule(name, summary, find, asks_ptxas)


def plural(count: int, noun: str) -> str:
    """ "1 load", "6 loads", "2 passes"."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"


def counted(sites: Iterable[Site]) -> str:
    """ "6 loads and 3 stores"."""
    kinds: dict[str, int] = {}
    for site in sites:
        kind = "access" if site.shown.kind == "other" else site.shown.kind
        kinds[kind] = kinds.get(kind, 0) + 1
    return " and ".join(plural(number, kind) for kind, number in kinds.items())


def each(sites: Iterable[Site]) -> str:
    """ "this load", "6 loads and 3 stores"."""
    text = counted(sites)
    return f"this {text[2:]}" if text.startswith("1 ") and " and " not in text else text


def these(sites: Iterable[Site]) -> str:
    """ "this load", "these 6 loads and 3 stores"."""
    text = counted(sites)
    return f"this {text[2:]}" if text.startswith("1 ") and " and " not in text else f"these {text}"
