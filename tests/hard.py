"""Kernels that are hard in one way each, of any size.

Each function gives the body of a kernel `k(a, o, n)`: `%rd1` and `%rd2` point to global memory,
`%r1` holds n, `%r2` the thread's and `%r3` the block's index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random

from tests.heads import head

_HEAD = (
    head()
    + """\
.visible .entry k(.param .u64 a, .param .u64 o, .param .u32 n)
{{
 .reg .pred %p<{size}>;
 .reg .b32 %r<{size}>;
 .reg .b64 %rd<{size}>;
 .reg .f32 %f<{size}>;
 ld.param.u64 %rd1, [a];
 cvta.to.global.u64 %rd1, %rd1;
 ld.param.u64 %rd2, [o];
 cvta.to.global.u64 %rd2, %rd2;
 ld.param.u32 %r1, [n];
 mov.u32 %r2, %tid.x;
 mov.u32 %r3, %ctaid.x;
"""
)

Body = Callable[[int], Iterator[str]]


def kernel(body: Iterator[str]) -> str:
    """A whole text around the lines of a body."""
    lines = list(body)
    size = 10 + max(100, 8 * len(lines))
    return _HEAD.format(size=size) + "\n".join(lines) + "\n ret;\n}\n"


def text(name: str, size: int) -> str:
    return kernel(BODIES[name](size))


def _loads() -> Iterator[str]:
    """Two neighbours at the index in %r9, and a store, so that they matter."""
    yield " mul.wide.s32 %rd3, %r9, 4;\n add.s64 %rd4, %rd1, %rd3;"
    yield " ld.global.f32 %f1, [%rd4];\n ld.global.f32 %f2, [%rd4+4];"
    yield " add.f32 %f3, %f1, %f2;\n st.global.f32 [%rd2], %f3;"


def squares(size: int) -> Iterator[str]:
    yield " add.u32 %r9, %r2, %r3;"
    for _ in range(size):
        yield " mul.lo.u32 %r9, %r9, %r9;\n add.u32 %r9, %r9, %r2;"
    yield from _loads()


def hashed(size: int) -> Iterator[str]:
    yield " xor.b32 %r9, %r2, %r3;"
    for _ in range(size):
        yield " shl.b32 %r10, %r9, 5;\n shr.u32 %r11, %r9, 3;"
        yield " xor.b32 %r10, %r10, %r11;\n add.u32 %r9, %r10, %r9;"
    yield from _loads()


def nested_loops(size: int) -> Iterator[str]:
    for n in range(size):
        yield f" mov.u32 %r{100 + n}, 0;\nL{n}:"
    yield " mov.u32 %r9, %r2;\n and.b32 %r8, %r1, 3;"
    for n in range(size):
        yield f" add.u32 %r9, %r9, %r{100 + n};"
    yield from _loads()
    for n in reversed(range(size)):
        yield f" add.u32 %r{100 + n}, %r{100 + n}, 1;\n setp.lt.u32 %p{n}, %r{100 + n}, %r8;"
        yield f" @%p{n} bra L{n};"


def branches(size: int) -> Iterator[str]:
    yield " mov.u32 %r9, %r2;"
    for n in range(size):
        yield f" and.b32 %r10, %r1, {1 << n % 31};\n setp.ne.u32 %p1, %r10, {n};"
        yield f" @%p1 bra M{n};\n add.u32 %r9, %r9, {n + 1};\nM{n}:"
    yield from _loads()


def products(size: int) -> Iterator[str]:
    yield " mov.u32 %r9, 1;"
    for n in range(size):
        yield f" add.u32 %r10, %r{2 + n % 2}, %r1;\n mul.lo.u32 %r9, %r9, %r10;"
    yield from _loads()


def divisions(size: int) -> Iterator[str]:
    yield " mov.u32 %r9, %r2;"
    for n in range(size):
        yield f" add.u32 %r10, %r1, {n + 1};\n div.u32 %r11, %r9, %r10;"
        yield " rem.u32 %r9, %r9, %r10;\n add.u32 %r9, %r9, %r11;"
    yield from _loads()


def copies(size: int) -> Iterator[str]:
    """Loads and stores by turns: every store may change what the next load reads."""
    for n in range(size):
        yield f" add.u32 %r9, %r2, {n};\n mul.wide.s32 %rd3, %r9, 4;"
        yield " add.s64 %rd4, %rd1, %rd3;\n add.s64 %rd5, %rd2, %rd3;"
        yield f" ld.global.f32 %f{n}, [%rd4];\n st.global.f32 [%rd5], %f{n};"


def neighbours(size: int) -> Iterator[str]:
    """Loads side by side, nearly all of which may be shuffles."""
    yield " mul.wide.u32 %rd3, %r2, 4;\n add.s64 %rd4, %rd1, %rd3;\n mov.f32 %f0, 0f00000000;"
    for n in range(1, size + 1):
        yield f" ld.global.nc.f32 %f{n}, [%rd4+{4 * n}];"
    for n in range(1, size + 1):
        yield f" add.f32 %f0, %f0, %f{n};"
    yield " st.global.f32 [%rd2], %f0;"


def table(size: int) -> Iterator[str]:
    yield f"T: .branchtargets {', '.join(f'C{n}' for n in range(size))};\n brx.idx %r2, T;"
    for n in range(size):
        yield f"C{n}:\n add.u32 %r9, %r2, {n};\n bra E;"
    yield "E:"
    yield from _loads()


def irreducible(size: int) -> Iterator[str]:
    random = Random(size)
    yield " mov.u32 %r9, %r2;"
    for n in range(size):
        yield f"B{n}:\n add.u32 %r9, %r9, {n + 1};\n setp.lt.u32 %p1, %r9, %r1;"
        yield f" @%p1 bra B{random.randrange(size)};"
    yield from _loads()


def clamps(size: int) -> Iterator[str]:
    yield " mov.u32 %r9, %r2;"
    for n in range(size):
        yield f" add.u32 %r10, %r9, {n};\n min.s32 %r10, %r10, %r1;\n max.s32 %r9, %r10, {n};"
    yield from _loads()


def scopes(size: int) -> Iterator[str]:
    yield "{" * size + " mov.u32 %r9, %r2; " + "}" * size
    yield from _loads()


BODIES: Mapping[str, Body] = {
    "squares": squares, "hash": hashed, "nest": nested_loops, "ifs": branches,
    "products": products, "divs": divisions, "ldst": copies, "neighbours": neighbours,
    "brx": table, "irreducible": irreducible, "clamp": clamps, "scopes": scopes,
}  # fmt: skip


def initialised(size: int) -> str:
    """A module with a long initialiser."""
    values = ",".join("1" for _ in range(size))
    whole = kernel(scopes(1))
    return whole.replace(
        ".visible", f".global .align 4 .b32 t[{size}] = {{{values}}};\n.visible", 1
    )
