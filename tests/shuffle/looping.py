"""Small kernels with loops that lanes leave in different iterations.

All take `out`, `a` (floats), `rows` (integers) and `n`. Registers at the begin of the body: %r1 is
the thread's number in the block, %r5 how many there are (%rd7 in bytes), %r2 n, %rd1 to %rd3 the
arrays, %rd4 `out` and %rd5 `a` at the thread's element.
"""

from __future__ import annotations

import re

import numpy as np

from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.shuffle.uniform_loops import LoopChoices, uniform_loops
from ptxsw.simt import launch
from tests.parsed import parsed

HEAD = """\
.version {version}
.target {target}
.address_size 64
{before}
.visible .entry k(.param .u64 out, .param .u64 a, .param .u64 rows, .param .u32 n)
{{
	.reg .pred %p<20>;
	.reg .b32 %r<40>;
	.reg .b64 %rd<40>;
	.reg .f32 %f<20>;
	ld.param.u64 %rd1, [out];
	ld.param.u64 %rd2, [a];
	ld.param.u64 %rd3, [rows];
	ld.param.u32 %r2, [n];
	mov.u32 %r3, %tid.y;
	mov.u32 %r4, %ntid.x;
	mov.u32 %r1, %tid.x;
	mad.lo.u32 %r1, %r3, %r4, %r1;
	mov.u32 %r5, %ntid.y;
	mul.lo.u32 %r5, %r4, %r5;
	mul.wide.u32 %rd7, %r5, 4;
	mul.wide.u32 %rd6, %r1, 4;
	add.s64 %rd4, %rd1, %rd6;
	add.s64 %rd5, %rd2, %rd6;
	mov.f32 %f1, 0f00000000;
{body}
DONE:
	ret;
}}
"""

PLAIN = """
	// for (i = tid; i < n; i += threads) out[i] = a[i] + a[i];
	mov.u32 %r10, %r1;
	setp.ge.u32 %p1, %r1, %r2;
	{guard}
	mov.u64 %rd10, %rd5;
	mov.u64 %rd11, %rd4;
	{lead}
LOOP:
	{first}
	ld.global.f32 %f2, [%rd10];
	add.f32 %f3, %f2, %f2;
	{middle}
	st.global.f32 [%rd11], %f3;
	add.s64 %rd10, %rd10, %rd7;
	add.s64 %rd11, %rd11, %rd7;
	add.u32 %r10, %r10, %r5;
	{last}
	setp.lt.u32 %p2, %r10, %r2;
	@%p2 bra LOOP;
AFTER:
	st.global.u32 [%rd4+8192], %r1;
	{after}
"""


def kernel(
    body: str, *, version: str = "7.0", target: str = "sm_70", before: str = "", **more: str
) -> str:
    """A module of one kernel with this body. `{name}` in the body is replaced by what is given
    for it, or by nothing."""
    names = ("guard", "lead", "first", "middle", "last", "after", "ahead")
    parts = {name: more.get(name, "") for name in names}
    parts["guard"] = parts["guard"] or "@%p1 bra AFTER;"
    for name in names:
        body = body.replace("{" + name + "}", parts[name])
    return HEAD.format(version=version, target=target, before=before, body=parts["ahead"] + body)


def plain(**parts: str) -> str:
    """The plain loop with lines put into it."""
    return kernel(PLAIN, **parts)


def found(text: str) -> LoopChoices:
    """Which loops of the one kernel may become uniform."""
    module = parse(text)
    (function,) = [f for f in module.functions if f.name == "k"]
    return uniform_loops(emulate(module, function))


def reasons(text: str) -> list[str]:
    """Why the loops that vary stay as they are, without numbers of lines."""
    loops = found(text)
    assert not loops.uniform and loops.kept, loops
    return [re.sub(r" \(line \d+\)", "", kept.reason) for kept in loops.kept]


SHAPES = ((33, 1, 1), (48, 1, 1), (7, 1, 1), (16, 16, 1), (1024, 1, 1))
_SIZE = 4096


def lengths(block: tuple[int, int, int]) -> tuple[int, ...]:
    """Numbers of elements: none, few, and such that lanes take different numbers of iterations."""
    threads = block[0] * block[1]
    return 0, 1, threads + 5, min(5 * threads // 2, 2048)


def outputs(text: str, block: tuple[int, int, int], n: int, **how: object) -> bytes:
    """What the kernel leaves in `out`. The interpreter raises for accesses outside of the arrays
    and for whatever no machine defines."""
    rng = np.random.default_rng(7)
    out = np.zeros(_SIZE, np.float32)
    a = rng.integers(-9, 9, _SIZE).astype(np.float32)
    rows = np.concatenate([[0], np.cumsum(rng.integers(0, 4, _SIZE - 1))]).astype(np.int32) % 99
    result = launch(parsed(text), "k", 1, block, [out, a, rows, n], **how)  # type: ignore[arg-type]
    return result.buffers[0].tobytes()
