"""Random rings of asynchronous copies: what is proved of them, no run contradicts."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import numpy as np
import pytest

from ptxsw.correctness.deciding import checked
from ptxsw.correctness.fault_rules import RULES
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import VerdictKind
from ptxsw.emulator.budget import Budget
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.simt import Races, launch
from ptxsw.simt.state import RunError

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)
{
	.reg .pred %p<99>; .reg .b32 %r<299>; .reg .b64 %rd<99>;
	.shared .align 16 .b8 ring[4096];
	mov.u32 %r1, %tid.x;
	ld.param.u64 %rd1, [in];
	ld.param.u64 %rd2, [out];
	ld.param.u32 %r2, [n];
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	shl.b32 %r3, %r1, 2;
	mov.u32 %r4, ring;
	add.s32 %r5, %r4, %r3;
	sub.s32 %r6, 252, %r3;
	add.s32 %r6, %r4, %r6;
	mov.u32 %r20, 0;
	mov.u32 %r7, 0;
"""
ROOM = 256  # bytes of a slot


class Ring:
    """Writes one kernel of 64 threads: `slots`, of which so many are copied `ahead`."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.slots = dice.choice([1, 2, 2, 3, 3, 4, 5])
        self.ahead = dice.choice([max(self.slots - 1, 0)] * 3 + [1, 2])
        self.left = max(dice.choice([self.ahead - 1] * 4 + [0, 1, 2]), 0)
        self.way = dice.choice(["unsigned", "signed", "rem", "mask", "circle"])
        if self.way == "mask":
            self.slots = 1 << (self.slots // 2)
        self.reads = dice.choice(["%r6", "%r6", "%r5"])
        self.used = 20

    def text(self) -> str:
        dice, lines = self.dice, list[str]()
        for slot in range(self.ahead):
            lines += [f"setp.le.u32 %p1, %r2, {slot};"]
            if dice.random() < 0.8:
                lines += [f"@!%p1 cp.async.ca.shared.global [%r5+{slot % self.slots * ROOM}], "
                          f"[%rd4+{slot * 256}], 4;"]  # fmt: skip
            lines += ["cp.async.commit_group;"]
        behind = self.ahead % self.slots
        lines += ["setp.eq.s32 %p2, %r2, 0;", "@%p2 bra DONE;", f"mov.u32 %r8, {behind};",
                  "mov.u32 %r9, 0;", "LOOP:"]  # fmt: skip
        wait = f"cp.async.wait_group {self.left};"
        copy = [f"add.s32 %r10, %r7, {self.ahead};", "setp.ge.u32 %p3, %r10, %r2;",
                *self.slot("%r10", "%r8", "%r11"), "add.s32 %r12, %r5, %r11;",
                "mul.wide.u32 %rd6, %r10, 256;", "add.s64 %rd7, %rd4, %rd6;",
                "@!%p3 cp.async.ca.shared.global [%r12], [%rd7], 4;"]  # fmt: skip
        read = [*self.slot("%r7", "%r9", "%r13"), f"add.s32 %r14, {self.reads}, %r13;",
                "ld.shared.u32 %r15, [%r14];", "add.s32 %r20, %r20, %r15;"]  # fmt: skip
        parts = [[wait], ["bar.sync 0;"], copy, ["cp.async.commit_group;"], read]
        change = dice.randrange(10)
        if change == 0:
            parts.pop(dice.randrange(2))
        elif change == 1:
            parts.insert(dice.randrange(5), ["bar.sync 0;"])
        elif change == 2:
            parts = [parts[2], parts[3], [wait], ["bar.sync 0;"], parts[4], ["bar.sync 0;"]]
        elif change == 3:
            dice.shuffle(parts)
        lines += [line for part in parts for line in part]
        if self.way == "circle":
            for register in ("%r8", "%r9"):
                lines += [f"add.s32 {register}, {register}, 1;",
                          f"setp.eq.s32 %p4, {register}, {self.slots};",
                          f"selp.b32 {register}, 0, {register}, %p4;"]  # fmt: skip
        lines += ["add.s32 %r7, %r7, 1;", "setp.lt.s32 %p5, %r7, %r2;", "@%p5 bra LOOP;", "DONE:",
                  "st.global.u32 [%rd5], %r20;", "ret;", "}"]  # fmt: skip
        return HEAD + "\n".join(lines)

    def slot(self, count: str, circle: str, into: str) -> list[str]:
        """Instructions that leave where the slot of a count begins."""
        self.used += 4
        a, b, c = (f"%r{self.used + n}" for n in range(3))
        wide = f"%rd{self.used}"
        found = [f"mul.lo.s32 {into}, {a}, {ROOM};"]
        if self.way == "circle" or self.slots == 1:
            return [f"mul.lo.s32 {into}, {circle}, {ROOM};"]
        if self.way == "mask":
            return [f"and.b32 {a}, {count}, {self.slots - 1};", *found]
        if self.way == "rem":
            return [f"rem.u32 {a}, {count}, {self.slots};", *found]
        high = {2: 33, 3: 33, 4: 34, 5: 34}[self.slots]
        if self.way == "unsigned":
            factor = -(-(1 << high) // self.slots)
            quotient = [f"mul.wide.u32 {wide}, {count}, {factor};",
                        f"shr.u64 {wide}, {wide}, {high};",
                        f"cvt.u32.u64 {b}, {wide};"]  # fmt: skip
        else:
            shift = {2: 0, 3: 0, 4: 0, 5: 1}[self.slots]
            factor = (1 << (32 + shift)) // self.slots + 1
            quotient = [f"mul.hi.s32 {b}, {count}, {factor};", f"shr.u32 {c}, {b}, 31;",
                        f"shr.s32 {b}, {b}, {shift};", f"add.s32 {b}, {b}, {c};"]  # fmt: skip
        return [
            *quotient,
            f"mul.lo.s32 {b}, {b}, {self.slots};",
            f"sub.s32 {a}, {count}, {b};",
            *found,
        ]


ASKED = tuple(rule for rule in RULES if rule.name in ("data-race", "async-wait"))


def _check(seed: int) -> str:
    """What is said of a ring, which no launch contradicts."""
    text = Ring(Random(seed)).text()
    module = parse(text)
    subject = Subject(module, module.kernels[0], Budget(10.0), (64, 1, 1))
    found = checked(subject, ASKED)
    races = {kind: seen for kind in ("data-race", "async-wait") if (seen := _seen(module, kind))}
    for rule, verdict in found.verdicts.items():
        assert not (verdict.kind is VerdictKind.ABSENT and races), (seed, rule, text, races)
        assert not (verdict.kind is VerdictKind.FOUND and not races), (seed, rule, text)
    kinds = {str(verdict.kind) for verdict in found.verdicts.values()}
    return "found" if "found" in kinds else "unknown" if "unknown" in kinds else "absent"


def _seen(module: Module, rule: str) -> list[str]:
    told: list[str] = []
    for turns in (0, 1, 2, 3, 4, 5, 7, 11):
        races = Races()
        arguments = [np.zeros(64 * 64, np.uint32), np.zeros(64, np.uint32), turns]
        with suppress(RunError):
            launch(module, "k", 1, 64, arguments, races=races, limit=1 << 14)
        told += [
            str(c.error) for c in races.conflicts
            if c.kind == "race" and c.lasting == (rule == "async-wait")
        ]  # fmt: skip
    return told


def test_random_rings() -> None:
    verdicts = [_check(seed) for seed in range(12)]
    assert verdicts.count("absent") >= 3 and verdicts.count("found") >= 3


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 3000, 100))
def test_many_random_rings(start: int) -> None:
    for seed in range(start, start + 100):
        _check(seed)
