"""Vector loads, an element at a time: what may serve what."""

from __future__ import annotations

import pytest

from tests.shuffle.judged import hold, judged

FOUR = """	mad.lo.s32 %r7, %r5, %r6, %r3;
	mul.wide.s32 %rd3, %r7, 16;
	add.s64 %rd4, %rd1, %rd3;
"""


def served(body: str) -> dict[tuple[int, int], set[tuple[int, int, int]]]:
    """For each element of each load: the load, its element and the lane that it may come from."""
    one = judged(body)
    numbers = {load.index: number for number, load in enumerate(one.loads)}
    found: dict[tuple[int, int], set[tuple[int, int, int]]] = {}
    for c in one.legal():
        key = (numbers[c.dest.index], c.dest_element)
        found.setdefault(key, set()).add((numbers[c.source.index], c.element, c.delta))
    assert hold(one) or not found
    return found


def _many(kind: str, first: int) -> str:
    return "{" + ",".join(f"%{kind}{first + at}" for at in range(8)) + "}"


def test_a_vector_of_the_next_lane() -> None:
    body = FOUR + (
        "ld.global.nc.v4.f32 {%f1,%f2,%f3,%f4}, [%rd4];\n"
        "ld.global.nc.v4.f32 {%f5,%f6,%f7,%f8}, [%rd4+16];\n"
    )
    assert served(body) == {(1, e): {(0, e, 1)} for e in range(4)}


def test_a_vector_from_two_vectors_half_a_step_apart() -> None:
    body = FOUR + (
        "ld.global.nc.v2.f32 {%f1,%f2}, [%rd4];\n"
        "ld.global.nc.v2.f32 {%f3,%f4}, [%rd4+8];\n"
        "ld.global.nc.v4.f32 {%f5,%f6,%f7,%f8}, [%rd4+-16];\n"
    )
    assert served(body) == {
        (2, 0): {(0, 0, -1)}, (2, 1): {(0, 1, -1)}, (2, 2): {(1, 0, -1)}, (2, 3): {(1, 1, -1)},
    }  # fmt: skip


def test_a_scalar_from_an_element_and_a_vector_from_scalars() -> None:
    body = FOUR + (
        "ld.global.nc.v4.f32 {%f1,%f2,%f3,%f4}, [%rd4];\n"
        "ld.global.nc.f32 %f5, [%rd4+24];\n"
        "ld.global.nc.f32 %f6, [%rd4+12];\n"
    )
    assert served(body) == {(1, 0): {(0, 2, 1)}, (2, 0): {(0, 3, 0)}}
    body = FOUR + (
        "ld.global.nc.f32 %f5, [%rd4+-8];\n"
        "ld.global.nc.f32 %f6, [%rd4+-4];\n"
        "ld.global.nc.v2.f32 {%f1,%f2}, [%rd4+8];\n"
    )
    assert served(body) == {(2, 0): {(0, 0, 1)}, (2, 1): {(1, 0, 1)}}


@pytest.mark.parametrize(
    ("width", "load", "first", "second"),
    [
        (8, "v2.f64", "{%fd1,%fd2}", "{%fd3,%fd4}"),
        (8, "v2.u64", "{%rd5,%rd6}", "{%rd7,%rd8}"),
        (2, "v4.b16", "{%h1,%h2,%h3,%h4}", "{%h5,%h6,%h7,%h8}"),
        (1, "v4.u8", "{%h1,%h2,%h3,%h4}", "{%h5,%h6,%h7,%h8}"),
        (1, "v2.s8", "{%r11,%r12}", "{%r13,%r14}"),
        (4, "v8.b32", _many("f", 1), _many("r", 11)),
    ],
)  # fmt: skip
def test_every_width(width: int, load: str, first: str, second: str) -> None:
    elements = first.count(",") + 1
    step = width * elements
    body = (
        f"	mul.wide.u32 %rd3, %r3, {step};\n	add.s64 %rd4, %rd1, %rd3;\n"
        f"ld.global.nc.{load} {first}, [%rd4];\nld.global.nc.{load} {second}, [%rd4+{-3 * step}];\n"
    )
    assert served(body) == {(1, e): {(0, e, -3)} for e in range(elements)}


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ("v2.u8 {%h1,%h2}", "v2.s8 {%h3,%h4}", "one load extends the sign, the other does not"),
        ("v2.u8 {%h1,%h2}", "v2.u8 {%r8,%r9}", "the loads fill registers of different widths"),
        ("v2.b16 {%h1,%h2}", "u8 %h3", "the loads have different types"),
        ("v2.u8 {%h1,_}", "v2.u8 {%h3,%h4}", "an element of the vector is discarded"),
        ("v2.u8 {%h1,%h2}", "v2.u8 {_,%h4}", "an element of the vector is discarded"),
    ],
)
def test_elements_of_another_kind(first: str, second: str, reason: str) -> None:
    body = (
        "	mul.wide.u32 %rd3, %r3, 2;\n	add.s64 %rd4, %rd1, %rd3;\n"
        f"ld.global.nc.{first}, [%rd4];\nld.global.nc.{second}, [%rd4+2];\n"
    )
    assert reason in judged(body).reasons()


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        ("v2.f32 {%f1,%f1}", "the load does not fill registers of 16, 32 or 64 bits"),
        ("b128 %q1", "the load does not fill registers of 16, 32 or 64 bits"),
        ("v2.u64 {%rd4,%rd5}", "the load overwrites its own address"),
    ],
)
def test_what_no_vector_load_may_do(load: str, reason: str) -> None:
    body = (
        "	.reg .b128 %q<3>;\n	mul.wide.u32 %rd3, %r3, 16;\n	add.s64 %rd4, %rd1, %rd3;\n"
        f"ld.global.{load}, [%rd4];\n"
    )
    one = judged(body)
    refused = one.judge.loadable(one.loads[0])
    assert refused is not None and refused.reason == reason


def test_the_same_vector_again_is_a_copy() -> None:
    body = FOUR + (
        "ld.global.v2.u32 {%r11,%r12}, [%rd4];\n"
        "ld.global.v2.u32 {%r13,%r14}, [%rd4];\n"
        "ld.global.v2.u32 {%r15,%r16}, [%rd4+4];\n"
    )
    found = served(body)
    assert found[1, 0] == {(0, 0, 0)} and found[1, 1] == {(0, 1, 0)}
    assert {s for s in found[2, 0] if s[0] == 0} == {(0, 1, 0)} and (2, 1) not in found
