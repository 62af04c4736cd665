"""What is to be rewritten in one kernel: data only, all that code generation sees."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function, Instruction, Reg


class WrapGuard(Struct, frozen=True):
    """`reg + addend` must not leave the range of its type when `step` is added to it.

    The test stands before instruction `index`, where `reg` is extended into an address. Where it
    fails the rewritten load is made as it was.
    """

    index: int
    reg: Reg
    width: int  # bits
    addend: int
    step: int
    signed: bool


class LaneStep(Struct, frozen=True):
    """In lane i + `delta` a register of 32 bits must hold what it holds in lane i, plus `step`: as
    quotients and remainders of a flat index do where both lanes are in one row.

    The register is set once, and keeps its value up to the rewritten load. The test stands there;
    where it fails the load is made as it was. A `pointer` has 64 bits, is the same in both lanes,
    and does not point to local memory, which is another in each lane.
    """

    reg: Reg
    delta: int
    step: int
    pointer: bool = False


class Bypass(Struct, frozen=True):
    """A path to the rewritten load leads around load `source`; but in the lane whose value is
    taken `source` was made, if both lanes are there. What keeps its value is set before
    instruction `start`, too, which is on every path to both."""

    source: int
    start: int


class Proof(Struct, frozen=True):
    """Why a rewrite is right: outright, under guards tested at run time, or assuming things."""

    guards: tuple[WrapGuard, ...] = ()
    block_shape: bool = False  # rows must not wrap inside a warp; tested at run time
    assumptions: tuple[str, ...] = ()
    bypasses: tuple[Bypass, ...] = ()
    tests: tuple[str, ...] = ()  # other guards tested at run time, in words
    steps: tuple[LaneStep, ...] = ()  # how registers must differ between the lanes

    @classmethod
    def joined(cls, proofs: Sequence[Proof]) -> Proof:
        """What is right where all of some proofs are."""
        return cls(
            tuple(dict.fromkeys(guard for proof in proofs for guard in proof.guards)),
            any(proof.block_shape for proof in proofs),
            tuple(dict.fromkeys(name for proof in proofs for name in proof.assumptions)),
            tuple(dict.fromkeys(around for proof in proofs for around in proof.bypasses)),
            tuple(dict.fromkeys(test for proof in proofs for test in proof.tests)),
            tuple(dict.fromkeys(step for proof in proofs for step in proof.steps)),
        )


class Refused(Struct, frozen=True):
    """Why a load is left alone, in words, where there is no `Proof`."""

    reason: str


class ElementSource(Struct, frozen=True):
    """Where one element of a load comes from: what load `source` put into its register number
    `element` in lane i + `delta`; where `mirror` is set, in lane `delta` - i."""

    source: int  # position in the body's instructions
    element: int
    delta: int
    mirror: bool = False


class ServedLoad(Struct, frozen=True):
    """Load `dest` takes its elements from loads of the lanes nearby: one part for each register
    it fills, in their order. Parts of this very lane (`delta` 0) are copies."""

    dest: int  # position in the body's instructions
    parts: tuple[ElementSource, ...]
    scheme: str
    form: str
    proof: Proof

    def facts(self, line: Callable[[int], int]) -> Mapping[str, Any]:
        """What a report says of it beside its lines and lanes."""
        return {} if self.is_copy else {"scheme": self.scheme, "form": self.form}

    @property
    def source(self) -> int:
        """The load that gives the first element."""
        return self.parts[0].source

    @property
    def delta(self) -> int:
        """N of the first element that comes from another lane; 0 where none does."""
        return next((p.delta for p in self.parts if p.delta or p.mirror), 0)

    @property
    def is_copy(self) -> bool:
        """Does every element come from this lane?"""
        return not any(p.delta or p.mirror for p in self.parts)


class HoistedLoad(Struct, frozen=True):
    """Load `load` is made before instruction `at` of the same stretch instead of at its own
    place, from address `base + offset` (bytes)."""

    load: int
    at: int
    base: Reg
    offset: int

    def facts(self, line: Callable[[int], int]) -> Mapping[str, Any]:
        """What a report says of it."""
        return {"moved_to": line(self.at)}


class Halo(Struct, frozen=True):
    """A row of loads made as one full load and one partial load.

    Load `lead` is made by every lane. Elements of neighbouring lanes lie `stride` bytes apart; the
    row's members are the lead's elements of the lanes i + `low` to i + `high`, with low <= 0 <=
    high and high - low <= 31. What lies beyond the last lane (or before the first) is loaded by
    the first `high` (or last `-low`) lanes, at the lead's address + (or -) 32 strides.
    `proof` is that of all members and of the partial load together.
    """

    lead: int
    low: int
    high: int
    stride: int
    proof: Proof

    def facts(self, line: Callable[[int], int]) -> Mapping[str, Any]:
        """What a report says of it."""
        return {"low": self.low, "high": self.high, "stride": self.stride}


class UniformLoop(Struct, frozen=True):
    """A loop that all lanes of a warp go round together, as long as one of them wants to.

    Numbers are positions in the body's instructions. A predicate `in` tells for each lane whether
    it still takes part. It starts at `start`: as what this branch decides, which takes lanes past
    the loop (`enters` tells whether its taken side leads into it); or, where `enters` is None, as
    true, `start` being the last instruction before the loop. It ends at the branch `leave` of the
    iteration that would be the lane's last; `stays` tells whether its taken side stays in the loop.

    Of the instructions `inside`, which lanes that do not take part run, too, those `under` the
    predicate are made only by lanes that do: accesses, and what sets a register that is read
    behind the loop (`lasting`). All lanes come together to the instructions `together`. What lies
    in a uniform loop inside this one belongs to that alone. The registers `cleared` are set to 0
    at the start, as lanes that never take part would branch on what nobody has set.
    """

    header: int  # the first instruction of the header
    start: int
    enters: bool | None
    leave: int
    stays: bool
    inside: frozenset[int]
    under: frozenset[int]
    lasting: frozenset[int]
    together: frozenset[int]
    outer: int | None = None  # the header of the uniform loop around it, whose `in` it narrows
    cleared: tuple[Reg, ...] = ()
    needs: frozenset[int] = frozenset()  # headers of loops in it that must be uniform, too

    def facts(self, line: Callable[[int], int]) -> Mapping[str, Any]:
        """What a report says of it."""
        return {"leaves_at": line(self.leave)}


class Plan(Struct, frozen=True, dict=True):
    """The rewrites of one function, in order of their destinations.

    `segments` numbers the straight-line stretches: within one, all lanes that an `activemask`
    names go on together, so one query serves all its shuffles. A rewrite of scheme `halo` takes
    its value from the row in `halos` whose lead is its source. Form `versioned` holds for all
    rewrites of a segment that lie in one stretch.
    """

    function: Function
    instructions: tuple[Instruction, ...]
    rewrites: tuple[ServedLoad, ...]
    segments: tuple[int, ...]
    hoists: tuple[HoistedLoad, ...] = ()
    halos: tuple[Halo, ...] = ()
    loops: tuple[UniformLoop, ...] = ()  # outer ones first

    @cached_property
    def written(self) -> tuple[tuple[Reg, ...], ...]:
        """The registers that each instruction writes."""
        return tuple(map(isa.defs, self.instructions))

    @cached_property
    def hoisted(self) -> Mapping[int, HoistedLoad]:
        """The hoists by their loads."""
        return {hoist.load: hoist for hoist in self.hoists}

    @cached_property
    def rows(self) -> Mapping[int, Halo]:
        """The halos by their leads."""
        return {halo.lead: halo for halo in self.halos}

    @cached_property
    def starts(self) -> Mapping[int, tuple[int, ...]]:
        """Of loads that paths to their takers lead around: before which instructions what keeps
        their values is set."""
        by_start: dict[int, dict[int, None]] = {}
        for rewrite in self.rewrites:
            for around in rewrite.proof.bypasses:
                by_start.setdefault(around.source, {})[around.start] = None
        return {source: tuple(starts) for source, starts in by_start.items()}

    @cached_property
    def loop_around(self) -> Mapping[int, UniformLoop]:
        """The innermost uniform loop of each instruction that lies in one."""
        return {index: loop for loop in self.loops for index in loop.inside}

    @cached_property
    def nests(self) -> Mapping[int, int]:
        """By the header of each uniform loop that of the outermost one around it."""
        outermost: dict[int, int] = {}
        for loop in self.loops:
            outermost[loop.header] = loop.header if loop.outer is None else outermost[loop.outer]
        return outermost

    def only(self, loads: Collection[int]) -> Plan:
        """The plan for these loads alone, with the hoists, halos and loops that they need."""
        rewrites = [rewrite for rewrite in self.rewrites if rewrite.dest in loads]
        sources = {part.source for rewrite in rewrites for part in rewrite.parts}
        leads = {r.source for r in rewrites if r.scheme == "halo" and not r.is_copy}
        nests = {
            self.nests[self.loop_around[r.dest].header] for r in rewrites if r.form == "uniform"
        }
        # A copy of a halo row needs no halo. Where the row's shuffles are gone it is one of scheme
        # paper, which does the same for a copy.
        return replace(
            self,
            rewrites=tuple(
                r if r.scheme != "halo" or r.source in leads else replace(r, scheme="paper")
                for r in rewrites
            ),
            hoists=tuple(hoist for hoist in self.hoists if hoist.load in sources),
            halos=tuple(halo for halo in self.halos if halo.lead in leads),
            loops=tuple(loop for loop in self.loops if self.nests[loop.header] in nests),
        )
