"""Random programs of the test suite, made ready for a GPU.

Integer programs of any control flow (`tests/emulator/programs.py`), of which each thread has memory
of its own here, and all registers a value; loads that lanes share (`tests/shuffle`); and arithmetic
(`arithmetic.py`). Only those are taken which the interpreter runs without a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random

from msgspec import Struct

from benchmarks.gpu import arithmetic
from ptxsw.verify.arguments import Data
from ptxsw.verify.launches import Launch

THREADS = 37  # a warp, and a part of one
_SLICE = 1 << 12  # bytes of each thread
_MARGIN = 1 << 11  # elements on each side


class RandomProgram(Struct, frozen=True):
    """A text whose kernel is `k`, with a launch in words."""

    name: str
    text: str
    words: str


def flow(seed: int) -> RandomProgram:
    """Integers, branches and loops of any shape."""
    from tests.emulator.programs import program

    pick = Random(f"launch {seed}")
    own = Data("random", THREADS * _SLICE // 4 + 2 * _MARGIN, "u32", 1, _MARGIN)
    shared = Data("random", 4 * _MARGIN, "u32", 2, 2 * _MARGIN)
    numbers = (pick.choice([0, 1, 2, 3, 5, 40]), pick.choice([0, 1, 2, 4]))
    launch = Launch((1, 1, 1), (THREADS, 1, 1), (own, shared, *numbers))
    marker = "ld.param.u32 %r7, [n];\n"
    aligned = program(seed).replace(", 255;", ", 252;")  # of bytes in shared memory
    head, _, body = aligned.partition(marker)
    return RandomProgram(
        f"flow-{seed}", head + marker + "\n".join(_first(pick)) + body, str(launch)
    )


def _first(pick: Random) -> Iterator[str]:
    """Lines that give a value to all registers, and to each thread memory of its own."""
    yield "mov.u32 %r8, %tid.x;"
    yield f"mul.wide.u32 %rd8, %r8, {_SLICE};"
    yield "add.s64 %rd1, %rd1, %rd8;"
    yield from (f"mov.u32 %r{n}, {pick.randrange(5)};" for n in (*range(7), 8))
    yield from (f"setp.eq.u32 %p{n}, %r7, {pick.randrange(3)};" for n in range(6))
    yield from (f"mov.u64 %rd{n}, %rd1;" for n in range(3, 9))
    yield "add.cc.u32 %r0, %r0, 0;\n"  # the carry, too


def lanes(seed: int) -> RandomProgram:
    """Loads of few places, again and again, in lanes that leave and come back."""
    from tests.shuffle.random_kernels import Writer

    pick = Random(f"launch {seed}")
    block = pick.choice([(64, 1, 1), (40, 2, 1), (33, 1, 2), (16, 4, 1), (7, 1, 1)])
    args = (Data("random", 1 << 16), Data("zeros", 1 << 13), pick.randrange(6), pick.randrange(4))
    launch = Launch((2, 1, 1), block, args)
    return RandomProgram(f"lanes-{seed}", Writer(seed).pair().text("right"), str(launch))


def arithmetic_of(seed: int) -> RandomProgram:
    """Instructions on odd values: exact ones, or those whose last bits PTX leaves open."""
    blocks, threads = 2, 96
    out = Data("zeros", blocks * threads * arithmetic.RESULTS, "u64")
    launch = Launch((blocks, 1, 1), (threads, 1, 1), (out,))
    return RandomProgram(f"arithmetic-{seed}", arithmetic.program(seed), str(launch))


KINDS: Mapping[str, tuple[Callable[[int], RandomProgram], int]] = {
    "flow": (flow, 4), "lanes": (lanes, 3), "arithmetic": (arithmetic_of, 3),
}  # fmt: skip
"""How to make each kind, and how many in ten programs."""


def wanted(count: int) -> dict[str, int]:
    """Programs of each kind."""
    shares = {kind: count * tenths // 10 for kind, (_, tenths) in KINDS.items()}
    shares["flow"] += count - sum(shares.values())
    return shares
