"""What a kernel makes a warp do, and what a rewrite adds to it: figures to rank variants by.

Counted is the path of a whole warp through the text: every block once, each loop around it
16 times, of added code the path that a whole warp takes. Of the text's instructions those
that ptxas usually makes nothing of (moves, parameter loads) count nothing. Lane 0's address is
taken to be what the constant part of its sum says, everything else aligned to 128 bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

from msgspec import Struct

from ptxsw.analysis.coalescing import lane_stride
from ptxsw.analysis.divergence import divergent_blocks
from ptxsw.analysis.loop_weight import times_in_loops
from ptxsw.analysis.pointers import pointer_bases
from ptxsw.changes.plan import Halo, Plan, ServedLoad
from ptxsw.cost.ranking import WARP, CacheRequest, Figures, Wait
from ptxsw.emulator.trace import Access, Trace
from ptxsw.ptx.patterns import pattern

_SPLIT = pattern(r"[;{}\n]|//[^\n]*")
_STATEMENT = pattern(r"\s*(?:[\w$%]+:\s*)*(?:@!?\s*(?P<guard>[\w$%]+)\s+)?(?P<name>[a-z][\w.]*)")
_LABEL = pattern(r"\s*(?P<label>[\w$%]+)\s*:(?!:)")
_TARGET = pattern(r"bra(?:\.uni)?\s+(?P<label>[\w$%]+)")

_WORD, _LINE = 4, 128  # bytes that a shuffle moves for a lane, and of a wavefront
_FREE = ("mov", "cvta", "ld.param", "pragma", "loc")
_LONG = {"div": 12, "rem": 12, "sqrt": 6, "sin": 2, "cos": 2, "mul": 4, "mad": 4}  # of 64 bits
_SHORT = {"div": 8, "rem": 8, "sqrt": 4}


class Added(Struct, frozen=True):
    """Text that stands in the kernel in place of what was between two offsets."""

    start: int
    end: int
    text: str


class Counter:
    """The figures of one kernel."""

    def __init__(self, trace: Trace, segments: Sequence[int]) -> None:
        self._trace, self._segments = trace, segments
        self._affine = trace.affine
        self._apart = divergent_blocks(trace)
        self._accesses = {
            a.index: a for a in trace.accesses if a.space in ("global", "generic") and a.variants
        }
        self._requests: dict[int, CacheRequest] = {}

    @property
    def text(self) -> str:
        """The module's text."""
        return self._trace.module.source.text

    def times(self, index: int) -> float:
        """How often an instruction is run."""
        cfg = self._trace.cfg
        number = cfg.block_of[index]
        if number not in cfg.rank:
            return 0.0
        return times_in_loops(len(cfg.loops_around(number)))

    # ------------------------------------------------------------ the kernel as it is

    def original(self) -> Figures:
        """What the kernel does as it is."""
        issued = 0.0
        requests: dict[CacheRequest, float] = {}
        waits: dict[int, tuple[float, Wait]] = {}
        arrays: dict[object, float] = {}
        for index, instruction in enumerate(self._trace.cfg.instructions):
            times = self.times(index)
            issued += times * issue_slots(instruction.name)
            access = self._accesses.get(index)
            if access is None:
                continue
            request = self._request(access)
            requests[request] = requests.get(request, 0.0) + times
            if access.kind == "load":
                waits[self._segments[index]] = (times, Wait(loads=1))
            array = frozenset(pointer_bases(access.variants[0].address))
            moved = times * WARP * access.bytes
            arrays[array] = max(arrays.get(array, 0.0), moved)
        return Figures(issued, 0.0, 0.0, requests, waits, sum(arrays.values()))

    def exceeds_shuffles(self, access: Access) -> bool:
        """Does a load take more wavefronts than it would take shuffles?"""
        size = access.bytes
        stride = lane_stride(self._affine, access)
        if stride is None:
            return True
        lines = _spread(size, WARP, stride, 0).lines
        return max(lines, -(-WARP * size // _LINE)) > max(1, size // _WORD)

    def _request(self, access: Access) -> CacheRequest:
        """A full warp's request."""
        if access.index not in self._requests:
            self._requests[access.index] = self._asked(access)
        return self._requests[access.index]

    def _asked(self, access: Access) -> CacheRequest:
        stride = lane_stride(self._affine, access)
        if stride is None:
            return CacheRequest(access.bytes, WARP, WARP, WARP)
        constant = self._affine.polynomial(access.variants[0].address).get((), 0)
        return _spread(access.bytes, WARP, stride, constant % 128)

    # ------------------------------------------------------------ what a plan adds

    def added(
        self,
        plan: Plan,
        rewrites: Iterable[ServedLoad],
        issued: float = 0.0,
    ) -> Figures:
        """What some rewrites of a plan add: their shuffles and requests, and the instructions
        that were counted in their lines."""
        rewrites = tuple(rewrites)
        shuffles = unsure = 0.0
        requests: dict[CacheRequest, float] = {}
        waits: dict[int, tuple[float, Wait]] = {}
        for rewrite in rewrites:
            times = self.times(rewrite.dest)
            load = self._accesses[rewrite.dest]
            full = self._request(load)
            requests[full] = requests.get(full, 0.0) - times
            words = _words(rewrite, load)
            shuffles += times * words
            apart = self._trace.cfg.block_of[rewrite.dest] in self._apart
            unsure += times * words if apart and rewrite.form != "uniform" else 0.0
            if words:
                segment = self._segments[rewrite.dest]
                wait = Wait(2 if rewrite.scheme == "paper" else 1, 1)
                waits[segment] = (times, wait | waits.get(segment, (times, Wait()))[1])
                if rewrite.scheme != "halo":
                    edge = _edge(rewrite, load.bytes)
                    requests[edge] = requests.get(edge, 0.0) + times
        leads = {r.source for r in rewrites if r.scheme == "halo" and not r.is_copy}
        for lead in leads:
            part = self._partial(plan.rows[lead])
            requests[part] = requests.get(part, 0.0) + self.times(lead)
        return Figures(issued, shuffles, unsure, requests, waits, 0.0)

    def _partial(self, halo: Halo) -> CacheRequest:
        """The one load of what lies beyond a row's ends."""
        size = self._accesses[halo.lead].bytes
        sides = [_spread(size, n, halo.stride, 0) for n in (-halo.low, halo.high) if n]
        return CacheRequest(
            size,
            sum(s.lanes for s in sides),
            sum(s.sectors for s in sides),
            sum(s.lines for s in sides),
        )

    def lines(self, edits: Iterable[Added]) -> list[float]:
        """For each edit, in order of place, the instructions that it adds to the path of a whole
        warp, less those that it replaces or leads past."""
        counts: list[float] = []
        past: str | None = None  # the label that the path has branched to
        here = 0
        for edit in edits:
            skipped = slots(self.text[here : edit.start]) if past is not None else 0
            added, past = _path(edit.text, past)
            replaced = slots(self.text[edit.start : edit.end])
            counts.append(self.times(self.index(edit.start)) * (added - replaced - skipped))
            here = edit.end
        return counts

    def index(self, offset: int) -> int:
        """The instruction at an offset of the text, or the next one."""
        return bisect_right(self._ends, offset, 0, max(0, len(self._ends) - 1))

    @cached_property
    def _ends(self) -> list[int]:
        """Where each instruction ends in the text."""
        return [instruction.span.end for instruction in self._trace.cfg.instructions]


def _words(rewrite: ServedLoad, load: Access) -> int:
    """Shuffles of a rewrite: one for each word of each element that comes from another lane."""
    return sum(max(1, load.bits // 32) for p in rewrite.parts if p.delta or p.mirror)


def _edge(rewrite: ServedLoad, size: int) -> CacheRequest:
    """The request of the lanes that have no such neighbour."""
    lanes = min(WARP, max(abs(p.delta) if not p.mirror else WARP - 1 for p in rewrite.parts))
    return _spread(size, max(1, lanes), size, 0)


@lru_cache(maxsize=4096)
def _spread(size: int, lanes: int, stride: int, first: int) -> CacheRequest:
    """The request of neighbouring lanes, the first of which lies `first` bytes into a line. Of an
    access whose `size` is not known (0) nothing is counted."""
    lowest = first + min(0, stride * (lanes - 1))
    touched = {
        lowest + abs(stride) * lane + byte
        for lane in range(lanes)
        for byte in range(0, size, min(size, 4) or 1)
    }
    return CacheRequest(
        size, lanes, len({b // 32 for b in touched}), len({b // 128 for b in touched})
    )


# ---------------------------------------------------------------- instructions of a text


def issue_slots(name: str) -> int:
    """How many warp instructions become of one with this name, roughly."""
    if name.startswith(_FREE):
        return 0
    opcode, _, modifiers = name.partition(".")
    if opcode in ("ld", "st", "bra", "ret", "cvt"):
        return 1
    if modifiers.endswith("64") and "wide" not in modifiers:
        return _LONG.get(opcode, 2) if not modifiers.endswith("f64") else _LONG.get(opcode, 1)
    return _SHORT.get(opcode, 1)


@lru_cache(maxsize=4096)
def slots(text: str) -> int:
    """Warp instructions of a piece of text on the path that a whole warp takes: branches under a
    predicate are not taken, others are."""
    return _path(text, None)[0]


def _path(text: str, past: str | None) -> tuple[int, str | None]:
    """The same where the path comes from a branch to the label `past`, if that is not None; and the
    label that it has still to come to at the end."""
    count = 0
    for statement in _SPLIT.split(text):
        label = _LABEL.match(statement)
        if label is not None and label["label"] == past:
            past = None
        match = _STATEMENT.match(statement)
        if past is not None or match is None:
            continue
        count += issue_slots(match["name"])
        target = _TARGET.search(statement)
        if target is not None and match["guard"] is None:
            past = target["label"]
    return count, past
