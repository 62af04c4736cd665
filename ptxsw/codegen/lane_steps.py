"""Tests that a register differs between two lanes as it does inside a row of a flat index.

shfl.sync.down.b32 %sw_there1, %r8, 1, 31, %sw_mask1;      what lane i + 1 has
setp.ne.b32 %sw_jump1, %sw_there1, %r8;                    true where a row ends between
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from msgspec import Struct, field

from ptxsw.codegen.insertions import Insertions
from ptxsw.codegen.names import Names
from ptxsw.codegen.saved_values import shuffles
from ptxsw.plan import LaneStep

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
        there, here = self.names.new("there", "b32"), step.reg.name
        yield from shuffles([there], [here], f"{way(step.delta)}, {mask}")
        if step.step:
            here = self.names.new("next", "b32")
            yield f"add.s32 {here}, {step.reg.name}, {step.step};"
        yield f"setp.ne.b32 {name}, {there}, {here};"


def way(delta: int) -> str:
    """The mode and distance of a shuffle from lane i + `delta`, and its clamp."""
    return f"up${-delta}, 0" if delta < 0 else f"down${delta}, {_LAST}"
