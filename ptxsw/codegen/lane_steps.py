"""Tests that a register differs between two lanes as it does inside a row of a flat index.

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

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from msgspec import Struct, field

from ptxsw.changes.plan import LaneStep
from ptxsw.codegen.insertions import Insertions
from ptxsw.codegen.names import Names
from ptxsw.codegen.saved_values import shuffles

_LAST = 31  # lane


class LaneSteps(Struct):
    """Predicates that are true where a register is not what it should be. Each test stands once
    in a stretch, before the first load that needs it."""

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
