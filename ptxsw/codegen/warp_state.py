"""What a lane knows of its warp: its place in it, whether all of it is here, and what other lanes
have in their registers.

Lane predicates are computed once, at the entry of the kernel; whether the warp is whole, once for
each straight-line stretch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from ptxsw.changes.plan import ElementSource, LaneStep
from ptxsw.codegen.builder import Insertions, Names

_LAST = 31  # lane


class WarpState(Struct, frozen=True):
    """A stretch of code as a shuffle sees it: its member mask, and the predicate that is true
    where shuffled values must not be used, in the same way for the whole warp; None where the
    warp is known to be whole. In a uniform loop `inside` is true in the lanes that take part."""

    mask: str
    unfit: str | None
    inside: str | None = None


class Lane(Struct):
    """Registers of the kernel's entry that tell a lane where it stands."""

    names: Names

    def index(self) -> str:
        """The lane's number."""
        return self.names.once("lane", "b32", ["mov.u32 $, %laneid;"])

    def rows(self) -> str:
        """True where a row of the block may wrap inside a warp: the block has more than one
        row, and its width is no multiple of 32."""
        x, y, z = (self.names.prefix + name for name in ("x", "y", "z"))
        names = self.names.registers.setdefault("b32", [])
        names += [name for name in (x, y, z) if name not in names]
        return self.names.once(
            "rows",
            "pred",
            [
                f"mov.u32 {x}, %ntid.x;",
                f"mov.u32 {y}, %ntid.y;",
                f"mov.u32 {z}, %ntid.z;",
                f"and.b32 {x}, {x}, 31;",
                f"or.b32 {y}, {y}, {z};",  # neither is 0, so this is 1 only if both are
                f"setp.ne.u32 $, {x}, 0;",
                f"setp.ne.and.u32 $, {y}, 1, $;",
            ],
        )

    def edge(self, part: ElementSource) -> str | None:
        """True in lanes whose partner is no lane of the warp; None where every lane has one."""
        test = edge_test(part)
        if test is None:
            return None
        comparison, limit = test
        return self.below(limit) if comparison == "lt" else self.above(limit)

    def below(self, limit: int) -> str:
        """True in the lanes before lane `limit`."""
        lines = [f"setp.lt.u32 $, {self.index()}, {limit};"]
        return self.names.once(f"first{limit}", "pred", lines)

    def above(self, limit: int) -> str:
        """True in the lanes behind lane `limit`."""
        lines = [f"setp.gt.u32 $, {self.index()}, {limit};"]
        return self.names.once(f"last{limit}", "pred", lines)

    def shifted(self, delta: int) -> str:
        """The lane's number plus `delta`; a shuffle takes its low five bits."""
        stem = f"from{'m' if delta < 0 else ''}{abs(delta)}"
        return self.names.once(stem, "b32", [f"add.s32 $, {self.index()}, {delta};"])

    def mirrored(self, total: int) -> str:
        """`total` minus the lane's number."""
        return self.names.once(f"mirror{total}", "b32", [f"sub.s32 $, {total}, {self.index()};"])


def edge_test(part: ElementSource) -> tuple[str, int] | None:
    """The comparison of the lane's number that holds where a part's lane does not exist."""
    if part.mirror:
        if part.delta == 31:
            return None
        return ("gt", part.delta) if part.delta < 31 else ("lt", part.delta - 31)
    return ("lt", -part.delta) if part.delta < 0 else ("gt", 31 - part.delta)


class SegmentPredicates(Struct):
    """Whether the warp is whole, tested once for each stretch; known beforehand for some."""

    names: Names
    lane: Lane
    inside: Callable[[int], str | None]  # the predicate of the uniform loop around an instruction
    masks: dict[Hashable, str] = field(default_factory=dict)  # by stretch
    tests: dict[tuple[Hashable, bool], str] = field(default_factory=dict)
    votes: dict[tuple[Hashable, bool, tuple[str, ...]], str] = field(default_factory=dict)

    def mask(self, lines: Insertions, at: int, stretch: Hashable) -> str:
        """The member mask of a stretch: its active lanes, or all that have not exited."""
        return self._lanes(lines, at, stretch) if self.inside(at) is None else "-1"

    def _lanes(self, lines: Insertions, at: int, stretch: Hashable) -> str:
        """The active lanes of a stretch, those that take part if it lies in a uniform loop; asked
        before instruction `at` unless done already."""
        if stretch not in self.masks:
            self.masks[stretch] = name = self.names.new("mask", "b32")
            inside = self.inside(at)
            # In a uniform loop `activemask` would also report lanes that only go round with the
            # others: their values are stale, so the ballot counts those that take part.
            if inside is None:
                lines.put_before(at, f"activemask.b32 {name};")
            else:
                lines.put_before(at, f"vote.sync.ballot.b32 {name}, {inside}, -1;")
        return self.masks[stretch]

    def whole(self, lines: Insertions, at: int, stretch: Hashable, block_shape: bool) -> WarpState:
        """Where all lanes are here, and are a row if `block_shape` asks; tested before
        instruction `at` unless that has been done in this stretch."""
        lanes = self._lanes(lines, at, stretch)
        key = (stretch, block_shape)
        if key not in self.tests:
            name = self.tests[key] = self.names.new("part", "pred")
            if block_shape:
                lines.put_before(at, f"setp.ne.or.b32 {name}, {lanes}, -1, {self.lane.rows()};")
            else:
                lines.put_before(at, f"setp.ne.b32 {name}, {lanes}, -1;")
        inside = self.inside(at)
        return WarpState(lanes if inside is None else "-1", self.tests[key], inside)

    def voted(
        self,
        lines: Insertions,
        at: int,
        stretch: Hashable,
        block_shape: bool,
        wraps: tuple[str, ...],
    ) -> WarpState:
        """As `whole`, and where no lane's index wraps."""
        # `wraps` differ from lane to lane, but here all lanes must take the same side: any lane
        # may need what any other has loaded.
        whole = self.whole(lines, at, stretch, block_shape)
        if not wraps or whole.unfit is None:
            return whole
        key = (stretch, block_shape, wraps)
        if key not in self.votes:
            some = self._any(lines, at, wraps)
            voted, name = self.names.new("bad", "pred"), self.names.new("slow", "pred")
            lines.put_before(at, f"vote.sync.any.pred {voted}, {some}, {whole.mask};")
            lines.put_before(at, f"or.pred {name}, {voted}, {whole.unfit};")
            self.votes[key] = name
        return replace(whole, unfit=self.votes[key])

    def _any(self, lines: Insertions, at: int, wraps: tuple[str, ...]) -> str:
        some = wraps[0]
        for wrap in wraps[1:]:
            name = self.names.new("any", "pred")
            lines.put_before(at, f"or.pred {name}, {some}, {wrap};")
            some = name
        return some


class LaneSteps(Struct):
    """Predicates that are true where a register does not differ between two lanes as it does
    inside a row of a flat index. Each test stands once in a stretch, before the first load that
    needs it.

    shfl.sync.down.b32 %sw_there1, %r8, 1, 31, %sw_mask1;      what lane i + 1 has
    setp.ne.b32 %sw_jump1, %sw_there1, %r8;                    true where a row ends between

    A pointer is compared in two halves, and must not lead to local memory:

    mov.b64 {%sw_low1, %sw_high1}, %rd1;
    shfl.sync.down.b32 %sw_there2, %sw_low1, 1, 31, %sw_mask1;
    shfl.sync.down.b32 %sw_there3, %sw_high1, 1, 31, %sw_mask1;
    mov.b64 %sw_other1, {%sw_there2, %sw_there3};
    isspacep.local %sw_local1, %rd1;
    setp.ne.or.b64 %sw_jump2, %sw_other1, %rd1, %sw_local1;
    """

    names: Names
    tests: dict[tuple[Hashable, LaneStep], str] = field(default_factory=dict)

    def of(
        self, lines: Insertions, at: int, stretch: Hashable, steps: Sequence[LaneStep], mask: str
    ) -> tuple[str, ...]:
        """The predicates of some steps; those that are not known yet are set before instruction
        `at`."""
        for step in steps:
            if (stretch, step) not in self.tests:
                name = self.tests[stretch, step] = self.names.new("jump", "pred")
                lines.put_before(at, *self._test(step, name, mask))
        return tuple(self.tests[stretch, step] for step in steps)

    def _test(self, step: LaneStep, name: str, mask: str) -> Iterator[str]:
        if step.pointer:
            yield from self._test_pointer(step, name, mask)
            return
        there, here = self.names.new("there", "b32"), step.reg.name
        yield from shuffles([there], [here], f"{shuffle_mode(step.delta)}, {mask}")
        if step.step:
            here = self.names.new("next", "b32")
            yield f"add.s32 {here}, {step.reg.name}, {step.step};"
        yield f"setp.ne.b32 {name}, {there}, {here};"

    def _test_pointer(self, step: LaneStep, name: str, mask: str) -> Iterator[str]:
        here, other = step.reg.name, self.names.new("other", "b64")
        halves = [self.names.new(stem, "b32") for stem in ("low", "high")]
        there = [self.names.new("there", "b32") for _ in halves]
        local = self.names.new("local", "pred")
        yield f"mov.b64 {{{', '.join(halves)}}}, {here};"
        yield from shuffles(there, halves, f"{shuffle_mode(step.delta)}, {mask}")
        yield f"mov.b64 {other}, {{{', '.join(there)}}};"
        # In the local window equal addresses are different bytes, one for each thread.
        yield f"isspacep.local {local}, {here};"
        yield f"setp.ne.or.b64 {name}, {other}, {here}, {local};"


def shuffle_mode(delta: int) -> str:
    """The mode and distance of a shuffle from lane i + `delta`, and its clamp: the first lane that
    `up` may read, the last that `down` may read."""
    return f"up${-delta}, 0" if delta < 0 else f"down${delta}, {_LAST}"


def shuffles(into: Iterable[str], words: Iterable[str], mode_and_lane: str) -> Iterator[str]:
    """One shuffle for each word: `mode_and_lane` holds its mode and, behind `$`, its other
    operands."""
    mode, _, rest = mode_and_lane.partition("$")
    for got, word in zip(into, words, strict=True):
        yield f"shfl.sync.{mode}.b32 {got}, {word}, {rest};"
