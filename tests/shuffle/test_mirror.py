"""Lanes in reverse: the value that lane K - i loaded."""

from __future__ import annotations

import pytest

from ptxsw.changes.plan import Proof
from tests.shuffle.judged import Judged, hold, judged

BY_LANE = """	mul.wide.u32 %rd3, %r4, 4;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.nc.f32 %f1, [%rd4];
	sub.s32 %r7, {total}, %r4;
	mul.wide.s32 %rd5, %r7, 4;
	add.s64 %rd6, %rd1, %rd5;
	ld.global.nc.f32 %f2, [%rd6];
"""


def mirrored(one: Judged) -> dict[int, Proof]:
    assert hold(one)
    return {c.delta: proof for c, proof in one.legal().items() if c.mirror}


@pytest.mark.parametrize("total", [31, 30, 7, 60, 1])
def test_by_lane_number(total: int) -> None:
    """No block shape matters to `%laneid`."""
    assert mirrored(judged(BY_LANE.format(total=total))) == {total: Proof()}


@pytest.mark.parametrize("total", [0, 62, 63, 400, -1, "%r1"])
def test_no_lane_within_the_warp(total: object) -> None:
    assert not judged(BY_LANE.format(total=total)).legal()


REVERSED = {
    # How a warp finds its base and its lane, and how the base and the lane are written.
    "mask": ("and.b32 %r8, %r3, -32;", "and.b32 %r9, %r3, 31;"),
    "shift": ("shr.u32 %r8, %r3, 5;\nshl.b32 %r8, %r8, 5;", "and.b32 %r9, %r3, 31;"),
    "rest": ("and.b32 %r8, %r3, 992;", "rem.u32 %r9, %r3, 32;"),
}


@pytest.mark.parametrize("way", REVERSED)
@pytest.mark.parametrize("turned", ["source", "dest"])
def test_by_parts_of_the_thread_index(way: str, turned: str) -> None:
    """Reversed within each warp, against the plain index."""
    plain = "mul.wide.u32 %rd3, %r3, 4;\nadd.s64 %rd4, %rd1, %rd3;\nld.global.nc.f32 %f1, [%rd4];\n"
    base, lane = REVERSED[way]
    other = (
        f"{base}\n{lane}\nadd.s32 %r10, %r8, 31;\nsub.s32 %r10, %r10, %r9;\n"
        "mul.wide.u32 %rd5, %r10, 4;\nadd.s64 %rd6, %rd1, %rd5;\nld.global.nc.f32 %f2, [%rd6];\n"
    )
    body = plain + other if turned == "dest" else other + plain
    one = judged(body)
    assert mirrored(one) == {31: Proof(block_shape=True)}
    assert mirrored(judged(body, ".reqntid 64, 2, 1")) == {31: Proof()}


def test_an_index_that_may_wrap_is_tested() -> None:
    body = (
        "and.b32 %r8, %r3, -32;\nand.b32 %r9, %r3, 31;\nmad.lo.s32 %r10, %r5, %r6, %r1;\n"
        "add.s32 %r11, %r10, %r8;\nadd.s32 %r12, %r11, %r9;\n"
        "mul.wide.s32 %rd3, %r12, 4;\nadd.s64 %rd4, %rd1, %rd3;\nld.global.nc.f32 %f1, [%rd4];\n"
        "sub.s32 %r13, %r11, %r9;\nmul.wide.s32 %rd5, %r13, 4;\nadd.s64 %rd6, %rd1, %rd5;\n"
        "ld.global.nc.f32 %f2, [%rd6+124];\nld.global.nc.f32 %f3, [%rd6+40];\n"
    )
    found = mirrored(judged(body))
    assert set(found) == {31, 10}
    assert all(len(proof.guards) == 1 for proof in found.values())


def test_the_whole_thread_index_has_no_mirror() -> None:
    """n - tid.x: where the block ends is not known."""
    body = (
        "mul.wide.u32 %rd3, %r3, 4;\nadd.s64 %rd4, %rd1, %rd3;\nld.global.nc.f32 %f1, [%rd4];\n"
        "sub.s32 %r7, 127, %r3;\nmul.wide.s32 %rd5, %r7, 4;\nadd.s64 %rd6, %rd1, %rd5;\n"
        "ld.global.nc.f32 %f2, [%rd6];\n"
    )
    assert not judged(body).legal()


def test_both_in_reverse_are_no_mirror_of_one_another() -> None:
    body = (
        "sub.s32 %r7, 31, %r4;\nmul.wide.s32 %rd5, %r7, 4;\nadd.s64 %rd6, %rd1, %rd5;\n"
        "ld.global.nc.f32 %f1, [%rd6];\nld.global.nc.f32 %f2, [%rd6+8];\n"
    )
    one = judged(body)
    assert {(c.delta, c.mirror) for c in one.legal()} == {(-2, False)}
    assert hold(one)


def test_parts_of_the_index_move_together() -> None:
    """32 * (tid.x >> 5) + (tid.x & 31) is tid.x, and its neighbour is known."""
    body = (
        "mul.wide.u32 %rd3, %r3, 4;\nadd.s64 %rd4, %rd1, %rd3;\nld.global.nc.f32 %f1, [%rd4];\n"
        "shr.u32 %r8, %r3, 5;\nand.b32 %r9, %r3, 31;\nmad.lo.s32 %r10, %r8, 32, %r9;\n"
        "mul.wide.u32 %rd5, %r10, 4;\nadd.s64 %rd6, %rd1, %rd5;\n"
        "ld.global.nc.f32 %f2, [%rd6+12];\nld.global.nc.f32 %f3, [%rd6];\n"
    )
    one = judged(body)
    assert hold(one)
    deltas = {c.delta: p.block_shape for c, p in one.legal().items() if not c.mirror}
    assert deltas == {3: True, -3: True, 0: False}
