"""Random warps with roles: what is proved of them, no run contradicts."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import numpy as np
import pytest

from ptxsw.correctness import data_race, divergent_barrier
from ptxsw.correctness.subject import Subject
from ptxsw.emulator.budget import Budget
from ptxsw.parser import parse
from ptxsw.simt import Races, launch
from ptxsw.simt.state import PartialBarrier, RunError

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n)
{
	.reg .pred %p<99>; .reg .b32 %r<299>; .reg .b64 %rd<9>;
	.shared .align 16 .b8 slot[1024];
	mov.u32 %r1, %tid.x;
	ld.param.u32 %r2, [n];
	and.b32 %r3, %r1, 31;
	shl.b32 %r4, %r3, 2;
	mov.u32 %r5, slot;
	add.s32 %r6, %r5, %r4;
	sub.s32 %r7, 124, %r4;
	add.s32 %r7, %r5, %r7;
	shr.u32 %r8, %r1, 5;
	mov.u32 %r9, 0;
"""


class Roles:
    """Writes one kernel of 96 threads: one or two roles, of one warp or two."""

    def __init__(self, dice: Random) -> None:
        self.dice, self.lines, self.names = dice, list[str](), 0

    def text(self) -> str:
        dice = self.dice
        first = dice.choice([32, 64])
        start = dice.choice([[], ["bar.sync 0;"], self.access(), [*self.access(), "bar.sync 0;"]])
        lines = [*start, f"setp.lt.u32 %p1, %r1, {first};", "@!%p1 bra OTHER;"]
        plan = dice.choice([self.exchange, self.exchange, self.ahead, self.anything])()
        lines += [
            *self.loop("A", plan[0]),
            "bra DONE;",
            "OTHER:",
            *self.loop("B", plan[1]),
            "DONE:",
        ]
        lines += dice.choice([[], [], self.access(), ["bar.sync 0;", *self.access()]])
        return HEAD + "\n".join([*lines, "ret;", "}"])

    def access(self) -> list[str]:
        place = self.dice.choice(["%r6", "%r7"])
        slot = self.dice.choice(["", "", "+128"])
        if self.dice.random() < 0.5:
            return [f"st.shared.u32 [{place}{slot}], %r1;"]
        return [f"ld.shared.u32 %r20, [{place}{slot}];"]

    def loop(self, name: str, body: list[str]) -> list[str]:
        if self.dice.random() < 0.2:
            return body
        return [
            "setp.lt.s32 %p3, %r2, 1;", "@%p3 bra DONE;", f"{name}:", *body,
            "add.s32 %r9, %r9, 1;", "setp.lt.s32 %p2, %r9, %r2;", f"@%p2 bra {name};",
        ]  # fmt: skip

    def count(self) -> int:
        return self.dice.choice([96] * 9 + [64])

    def exchange(self) -> tuple[list[str], list[str]]:
        """Full and empty, with something left out or moved at times."""
        count = self.count()
        one = [f"st.shared.u32 [{self.dice.choice(['%r6', '%r7'])}], %r1;",
               f"bar.arrive 1, {count};", f"bar.sync 2, {count};"]  # fmt: skip
        two = [f"bar.sync 1, {count};", "ld.shared.u32 %r20, [%r7];", f"bar.arrive 2, {count};"]
        return self.changed(one), self.changed(two)

    def ahead(self) -> tuple[list[str], list[str]]:
        """Two slots, in each iteration but the first behind a wait."""
        count, one, two = self.count(), list[str](), list[str]()
        for slot in range(2):
            self.names += 1
            skip = self.dice.choice(["eq", "eq", "lt"])
            one += [f"setp.{skip}.u32 %p4, %r9, {1 if skip == 'lt' else 0};",
                    f"@%p4 bra S{self.names};", f"bar.sync {3 + slot}, {count};", f"S{self.names}:",
                    f"st.shared.u32 [%r6+{128 * slot}], %r1;",
                    f"bar.arrive {1 + slot}, {count};"]  # fmt: skip
            two += [f"bar.sync {1 + slot}, {count};", f"ld.shared.u32 %r20, [%r7+{128 * slot}];"]
            self.names += 1
            two += ["add.s32 %r10, %r9, 1;", "setp.ge.s32 %p5, %r10, %r2;",
                    f"@%p5 bra S{self.names};", f"bar.arrive {3 + slot}, {count};",
                    f"S{self.names}:"]  # fmt: skip
        return self.changed(one), self.changed(two)

    def anything(self) -> tuple[list[str], list[str]]:
        return self.few(), self.few()

    def few(self) -> list[str]:
        lines: list[str] = []
        for _ in range(self.dice.randint(1, 5)):
            kind = self.dice.choice(["access", "access", "sync", "arrive"])
            number = self.dice.randint(1, 2)
            lines += (
                self.access() if kind == "access" else [f"bar.{kind} {number}, {self.count()};"]
            )
        return lines

    def changed(self, lines: list[str]) -> list[str]:
        plain = [n for n, line in enumerate(lines) if line.startswith(("bar", "st", "ld"))]
        at = self.dice.choice(plain)
        match self.dice.randrange(8):
            case 0:
                return lines[:at] + lines[at + 1 :]
            case 1:
                return [*lines[:at], *self.access(), *lines[at:]]
            case 2:
                return [*lines[:at], lines[at].replace("arrive", "sync"), *lines[at + 1 :]]
        return lines


def _check(seed: int) -> str:
    """What is said of a kernel, which no run contradicts."""
    text = Roles(Random(seed)).text()
    module = parse(text)
    subject = Subject(module, module.kernels[0], Budget(10.0), (96, 1, 1))
    with subject.budget:
        races, parts = data_race.prove(subject), divergent_barrier.prove(subject)
    absent = not (races.open or races.unknown or races.condition)
    together = not (parts.open or parts.unknown)
    for turns in (0, 1, 2, 3, 5) if absent or together else ():
        for schedule in (None, 1, 2):
            seen = Races()
            arguments = [np.zeros(96, np.uint32), turns]
            with suppress(RunError):
                try:
                    launch(module, "k", 1, 96, arguments, seed=schedule, races=seen, limit=4000)
                except PartialBarrier as error:
                    assert not together, (seed, text, str(error))
            told = [str(c.error) for c in seen.conflicts if c.kind == "race"]
            assert not (absent and told), (seed, text, turns, told[0])
    return "absent" if absent else "open" if races.open else "unknown"


def test_random_roles() -> None:
    verdicts = [_check(seed) for seed in range(30)]
    assert verdicts.count("absent") >= 4


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 5000, 200))
def test_many_random_roles(start: int) -> None:
    for seed in range(start, start + 200):
        _check(seed)
