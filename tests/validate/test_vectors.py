"""Accesses joined and split, proved equal from the texts alone."""

from __future__ import annotations

import pytest

from ptxsw.changes.assumptions import DEFAULT_ASSUME as DEFAULT
from ptxsw.parser import parse
from ptxsw.validate import Proved, validate
from tests.validate.stories import HEAD, START


def proved(before: str, after: str, *assume: str) -> bool:
    texts = [
        parse(HEAD.format(pointer=".ptr .global .align 16") + START + body + "ret;\n}\n")
        for body in (before, after)
    ]
    (old, new) = ((module, module.kernels[0]) for module in texts)
    outcome = validate(old, new, assume=DEFAULT | set(assume))
    if isinstance(outcome, Proved):
        assert set(assume) <= set(outcome.assumptions)
    return isinstance(outcome, Proved)


LOADS = """
ld.global.f32 %f1, [%rd6];
ld.global.f32 %f2, [%rd6+4];
ld.global.f32 %f3, [%rd6+8];
"""
SUM = """
add.f32 %f4, %f1, %f2;
add.f32 %f4, %f4, %f3;
st.global.f32 [%rd7], %f4;
"""
FOUR = "ld.global.v4.f32 {%f1, %f2, %f3, %f9}, [%rd6];\n"


@pytest.mark.parametrize("nc", ["", ".nc"])
def test_bytes_beside_those_that_are_read(nc: str) -> None:
    before = (LOADS + SUM).replace("ld.global", f"ld.global{nc}")
    four = FOUR.replace("ld.global", f"ld.global{nc}")
    assumed = "no-fault-in-struct"
    assert not proved(before, four + SUM)
    assert proved(before, four + SUM, assumed)
    for wrong in (
        four.replace("[%rd6]", "[%rd6+16]") + SUM,  # none of its bytes is read
        four.replace("[%rd6]", "[%rd6+4]") + SUM,  # misaligned
        four + SUM.replace("%f3", "%f9"),  # what nobody read is used
        four + SUM + "st.global.v2.f32 [%rd7], {%f4, %f9};\n",  # stores have no such bytes
    ):
        assert not proved(before, wrong, assumed)


def test_nc_covers_what_is_read_so() -> None:
    before = (LOADS + SUM).replace("ld.global", "ld.global.nc")
    pair = "ld.global.nc.v2.f32 {%f1, %f2}, [%rd6];\nld.global.nc.f32 %f3, [%rd6+8];\n"
    assert proved(before, pair + SUM)
    mixed = before.replace("ld.global.nc.f32 %f2", "ld.global.f32 %f2")
    assert not proved(mixed, pair + SUM)


TWO = """
st.global.u32 [%rd6], %r1;
st.global.u32 [%rd6+4], %r2;
st.global.u32 [%rd7], %r2;
st.global.u32 [%rd7+4], 0;
"""
JOINED = """
mov.u32 %r9, 0;
st.global.v2.u32 [%rd6], {%r1, %r2};
st.global.v2.u32 [%rd7], {%r2, %r9};
"""


def test_stores_before_others_that_may_hit_the_same_bytes() -> None:
    assert proved(TWO, JOINED)
    assert proved(JOINED, TWO)
    lines = JOINED.strip().splitlines()
    for wrong in (
        "\n".join([lines[0], lines[2], lines[1]]) + "\n",  # the other one last
        JOINED.replace("{%r1, %r2}", "{%r2, %r1}"),
        JOINED.replace("{%r2, %r9}", "{%r2, %r2}"),
        JOINED.replace("[%rd7]", "[%rd7+8]"),
        JOINED.replace("v2.u32 [%rd7], {%r2, %r9}", "u32 [%rd7], %r2"),
    ):
        assert not proved(TWO, wrong)


def test_a_store_that_would_move_over_another() -> None:
    """Where both lead to the same bytes, the first pair's store is the last one."""
    first, second, third, fourth = TWO.strip().splitlines()
    assert not proved("\n".join([third, first, second, fourth]) + "\n", JOINED)


def test_loads_behind_stores_of_other_sizes() -> None:
    load = "ld.global.u64 %rd9, [%rd6];\nst.global.u64 [%rd7+8], %rd9;\n"
    assert proved(TWO + load, JOINED + load)
    assert not proved(TWO + load, JOINED.replace("{%r1, %r2}", "{%r2, %r2}") + load)


def test_pairs_with_numbers_in_them() -> None:
    """Where the last store goes is not known: what others left is compared as a whole."""
    values = ("%r1", "0", "%r2", "0")
    singles = "".join(f"st.global.u32 [%rd6+{4 * n}], {v};\n" for n, v in enumerate(values))
    pairs = "mov.u32 %r9, 0;\n" + "".join(
        f"st.global.v2.u32 [%rd6+{8 * n}], {{%r{n + 1}, %r9}};\n" for n in range(2)
    )
    last = "st.global.u32 [%rd1+64], %r2;\nld.global.u8 %r8, [%rd7+64];\n"
    last += "st.global.u8 [%rd7+66], %r8;\n"
    assert proved(singles + last, pairs + last)
    assert not proved(singles + last, pairs.replace("%r2, %r9", "%r9, %r2") + last)
