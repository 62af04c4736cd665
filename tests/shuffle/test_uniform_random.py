"""Random kernels: with all loops uniform that may be, they do what they did, and most are proved.

Each thread has its own part of the memory, so that no result depends on the schedule.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from ptxsw.changes.plan import Plan
from ptxsw.codegen.emit import emit
from ptxsw.codegen.splice import apply
from ptxsw.driver.checked_texts import UNCHECKED
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.emulator.run import emulate
from ptxsw.flow.convergence import segments
from ptxsw.parser import parse
from ptxsw.shuffle.uniform_loops import uniform_loops
from ptxsw.simt import launch
from ptxsw.validate import Proved, validate
from tests.emulator.programs import Writer
from tests.heads import head
from tests.parsed import parsed

BATCHES, PER_BATCH = 4, 16
# Some come to a vote only because a branch always goes one way, for reasons of arithmetic.
UNSEEN = "not all lanes come to a vote or shuffle that waits for all of them"
WORDS = 64  # of memory that a thread has in each array

HEAD = (
    head()
    + """.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n, .param .u32 m)
{
.reg .pred %p<6>;
.reg .b32 %r<12>, %c<4>;
.reg .b64 %rd<12>;
.reg .b32 %thread, %cta;
mov.u32 %thread, %tid.x;
mov.u32 %cta, %ctaid.x;
ld.param.u64 %rd1, [p];
ld.param.u64 %rd2, [q];
ld.param.u32 %r7, [n];
ld.param.u32 %r8, [m];
mov.u32 %r9, %tid.x;
mul.wide.u32 %rd9, %r9, 256;
add.s64 %rd10, %rd1, %rd9;
add.s64 %rd11, %rd2, %rd9;
"""
)


class Own(Writer):
    """Accesses stay in the thread's own memory, and loops have one way out."""

    def access(self) -> None:
        index, offset = self.reg(), 4 * self.source.randrange(0, 3)
        nc = self.source.random() < 0.4
        base = self.source.choice(["%rd11", "%rd2"]) if nc else "%rd10"
        self.lines += [
            f"and.b32 %r10, {index}, 31;",
            "mul.wide.u32 %rd3, %r10, 4;",
            f"add.s64 %rd5, {base}, %rd3;",
        ]
        at = f"[%rd5+{offset}]"
        kind = "nc" if nc else self.source.choice(["ld", "st"])
        text = {
            "ld": f"ld.global.u32 {self.reg()}, {at};",
            "nc": f"ld.global.nc.u32 {self.reg()}, {at};",
            "st": f"st.global.u32 {at}, {self.reg()};",
        }[kind]
        self.emit(text)

    def run(self) -> None:
        for _ in range(self.source.randrange(1, 5)):
            steps: list[Callable[[], object]] = [
                self.compute, self.compute, self.compare, self.access,
            ]  # fmt: skip
            self.source.choice(steps)()

    def loop(self, depth: int, leave: list[str]) -> None:
        """As many iterations as a register of the lane says, or as all lanes agree on; its counter
        is its own, so that it ends."""
        count, head, done = f"%c{depth}", self.label(), self.label()
        iterations = self.source.choice(
            [f"and.b32 {count}, {self.reg()}, 7;", f"mov.u32 {count}, %r7;", f"mov.u32 {count}, 3;"]
        )
        kind = self.source.choice(["rotated", "rotated", "header", "do"])
        test = f"setp.gt.s32 %p5, {count}, 0;"
        self.lines.append(iterations)
        if kind == "rotated":
            self.lines += [f"setp.le.s32 %p4, {count}, 0;", f"@%p4 bra {done};"]
        self.lines.append(f"{head}:")
        if kind == "header":
            self.lines += [test, f"@!%p5 bra {done};"]
        self.block(depth - 1, [])
        self.lines.append(f"sub.s32 {count}, {count}, 1;")
        self.lines += [f"bra {head};"] if kind == "header" else [test, f"@%p5 bra {head};"]
        self.lines.append(f"{done}:")


def program(seed: int) -> str:
    source = random.Random(seed)
    writer = Own(source)
    for number in range(6):
        value = source.choice(["0", "1", "%tid.x", "%r7", "%r8", "%ctaid.x"])
        writer.lines.append(f"mov.u32 %r{number}, {value};")
    writer.lines.append("add.cc.u32 %r0, %r0, 0;")  # the carry is defined from here on
    writer.lines += [f"setp.lt.s32 %p{i}, %r{source.randrange(6)}, 2;" for i in range(6)]
    writer.block(3, [])
    ends = [f"st.global.u32 [%rd10+{4 * (40 + i)}], %r{i};" for i in range(6)]
    body = "\n".join([*writer.lines, *ends]).replace("bra.uni", "bra")  # they vary
    return HEAD + body + "\n$END:\nret;\n}\n"


def run(text: str, number: int, **how: object) -> bytes:
    rng = np.random.default_rng(number)
    p = rng.integers(-3, 12, 48 * WORDS).astype(np.int32)
    q = rng.integers(-3, 12, 48 * WORDS).astype(np.int32)
    args = [p, q, int(rng.integers(0, 6)), int(rng.integers(0, 4))]
    result = launch(parsed(text), "k", 1, (48, 1, 1), args, **how)  # type: ignore[arg-type]
    return result.buffers[0].tobytes()


def uniform(text: str) -> tuple[str, int, bool]:
    """The text with uniform loops, how many there are, and if there is a proof for it."""
    module = parse(text)
    trace = emulate(module, module.functions[0])
    loops = uniform_loops(trace).uniform
    plan = Plan(trace.function, trace.cfg.instructions, (), segments(trace.cfg), loops=loops)
    rewritten = apply(text, emit(text, plan))
    second = parse(rewritten)
    found = validate((module, trace.function), (second, second.kernel("k")))
    proved = isinstance(found, Proved)
    assert proved or str(found) == UNSEEN
    return rewritten, len(loops), proved


def assert_same(seed: int, seen: Counter[str]) -> None:
    text = program(seed)
    rewritten, loops, proved = uniform(text)
    if not loops:
        return
    want = run(text, seed)
    seen["loops"] += loops
    seen["kernels"] += 1
    seen["proved"] += proved
    assert run(rewritten, seed) == want, seed
    for schedule in (1, 2):
        assert run(rewritten, seed, seed=schedule) == want, (seed, schedule)
    assert run(rewritten, seed, seed=3, merge_iterations=True) == want, seed


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_kernels(batch: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(batch * PER_BATCH, (batch + 1) * PER_BATCH):
        assert_same(seed, seen)
    assert seen["proved"] >= 3, seen
    assert seen["proved"] >= seen["kernels"] / 2, seen


def test_what_is_not_proved_stays() -> None:
    text = program(10)
    result = optimize(text, Options(mode="force", scheme="keep", form="uniform"))
    assert result.text == text
    (loop,) = result.report.kernels[0].loops or ()
    assert UNCHECKED in (loop.reason or "") and UNSEEN in (loop.reason or "")


def test_a_loop_that_has_to_follow_the_one_inside_it() -> None:
    """Only the second look finds that the middle one of three loops has to be uniform, too."""
    text = program(2221)
    module = parse(text)
    loops = uniform_loops(emulate(module, module.functions[0])).uniform
    for number, loop in enumerate(loops):
        assert loop.outer is None or loop.outer in {other.header for other in loops[:number]}
    assert_same(2221, Counter())
