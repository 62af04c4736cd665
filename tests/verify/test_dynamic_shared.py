"""Invented launches give a kernel the dynamic shared memory that it uses, and no byte more."""

from __future__ import annotations

import pytest

from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.verify import Different, Undecided, verify
from ptxsw.verify.differential import MOST_SHARED, cleaned
from ptxsw.verify.invented import invent
from ptxsw.verify.launches import Launch
from tests.heads import head

PLAIN = """
.visible .entry twice(.param .u64 a, .param .u64 b) {
	.reg .b32 %r<10>; .reg .b64 %rd<6>;
	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [b];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 4;
	add.u64 %rd4, %rd1, %rd3;
	add.u64 %rd5, %rd2, %rd3;
	ld.global.u32 %r2, [%rd4];
	THROUGH
	add.u32 %r3, %r2, %r2;
	st.global.u32 [%rd5], %r3;
	ret;
}
"""
STORED = """
	mov.u32 %r4, pool;
	shl.b32 %r5, %r1, 2;
	add.u32 %r6, %r4, %r5;
	st.shared.u32 [%r6], %r2;
	bar.sync 0;
"""
POOL = ".extern .shared .align 16 .b8 pool[];"
COPY = head("8.0", "sm_80") + PLAIN.replace("THROUGH", "")


def through_shared(between: str, pool: str = POOL) -> str:
    return head("8.0", "sm_80") + pool + PLAIN.replace("THROUGH", STORED + between)


SHARED = through_shared("ld.shared.u32 %r2, [%r6];")
FLIPPED = through_shared(
    "mov.u32 %r7, %ntid.x;\nnot.b32 %r8, %r1;\nadd.u32 %r7, %r7, %r8;\n"
    "shl.b32 %r7, %r7, 2;\nadd.u32 %r7, %r4, %r7;\nld.shared.u32 %r2, [%r7];"
)


@pytest.mark.parametrize(("first", "second"), [(COPY, SHARED), (SHARED, COPY)])
def test_the_same_through_shared_memory_is_not_different(first: str, second: str) -> None:
    verdict = verify(first, second, seeds=(1,))
    assert isinstance(verdict, Undecided), str(verdict)
    assert verdict.launches >= 15 and verdict.runs_tell


def test_reading_one_element_too_far_is_a_difference() -> None:
    """The first kernel uses a word for each thread; the second reads the word behind them."""
    verdict = verify(FLIPPED, FLIPPED.replace("not.b32", "neg.s32"), seeds=())
    assert isinstance(verdict, Different) and verdict.difference is not None
    assert verdict.difference.launch.shared == 4 * verdict.difference.launch.threads


def test_storing_too_far_is_a_difference() -> None:
    """As much shared memory is there as the first kernel needs: its caller gives no more."""
    far = SHARED.replace("bar.sync", "st.shared.u32 [%r6+4096], %r2;\n\tbar.sync")
    verdict = verify(SHARED, far, seeds=())
    assert isinstance(verdict, Different)
    assert "bytes of shared memory" in verdict.reason


def fitted(text: str) -> tuple[list[Launch], list[str]]:
    """Launches in which the kernel stays in bounds, and what is wrong with the others."""
    module = parse(text)
    function = next(f for f in module.kernels if f.name == "twice")
    every = [cleaned(module, function.name, at) for at in invent(emulate(module, function))]
    good = [launch for launch, outcome in every if outcome.error is None]
    return good, [outcome.error.message for _, outcome in every if outcome.error is not None]


def test_what_another_kernel_has_does_not_grow() -> None:
    """Threads that leave an array of a fixed size find no dynamic memory that they do not use."""
    own = through_shared("ld.shared.u32 %r2, [%r6];", ".shared .align 16 .b8 own[32];")
    own = own.replace("%r4, pool;", "%r4, own;")
    other = POOL + "\n.visible .entry other() { .reg .b32 %r<2>; mov.u32 %r1, pool; ret; }\n"
    both = own.replace(".visible .entry twice", other + ".visible .entry twice")
    launches, wrong = fitted(both)
    assert {launch.block[0] for launch in launches} == {7, 8}
    assert all(launch.shared == 0 for launch in launches)
    assert all("bytes of shared memory" in message for message in wrong)


def test_it_grows_with_the_block() -> None:
    launches, _ = fitted(SHARED)
    assert len(launches) == 15
    for launch in launches:
        assert launch.shared == 4 * launch.block[0], launch  # indexed by %tid.x alone


def test_no_block_has_more_than_there_is() -> None:
    assert fitted(SHARED.replace("%r1, 2;", "%r1, 24;"))[0] == []
    wide = through_shared(
        f"ld.shared.u32 %r2, [%r4+{MOST_SHARED - 4}];", POOL.replace("pool", "other") + POOL
    )
    launches, _ = fitted(wide.replace("%r2, %r2", "%r1, %r1"))
    assert {launch.shared for launch in launches} == {MOST_SHARED}


def test_an_array_of_a_fixed_size_does_not_grow() -> None:
    launches, wrong = fitted(SHARED.replace(POOL, ".shared .align 16 .b8 pool[32];"))
    assert {launch.block[0] for launch in launches} == {7, 8}
    assert all("bytes of shared memory" in message for message in wrong)
