"""What `benchmarks.searches` makes of its measurements."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.searches import Search, fastest, row, searches, share, worst_quarter
from ptxsw.rewrites import every
from ptxsw.rewrites.base import Rewrite

# A load that is stored again: no two accesses are adjacent, and there is no loop.
COPY = """.version 8.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u64 a, .param .u64 b)
{
.reg .b32 %r<3>;
.reg .b64 %rd<9>;
.reg .f32 %f<3>;
ld.param.u64 %rd1, [a];
ld.param.u64 %rd2, [b];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd4, %rd1, %rd3;
add.s64 %rd5, %rd2, %rd3;
ld.global.f32 %f1, [%rd4];
st.global.f32 [%rd5], %f1;
ret;
}
"""
# Aligned, and one next to the other.
PAIR = (
    COPY.replace(".param .u64 a", ".param .u64 .ptr .global .align 16 a")
    .replace("%r1, 4;", "%r1, 8;")
    .replace("st.global.f32", "ld.global.f32 %f2, [%rd4+4];\nst.global.f32")
)


def _named(name: str) -> Rewrite:
    return next(one for one in every() if one.name == name)


def test_share_is_of_the_sums_not_the_mean_of_shares() -> None:
    assert share([Search("a", 1.0, 10.0), Search("b", 3.0, 90.0)]) == pytest.approx(0.04)
    assert share([]) == 0.0


def test_worst_quarter_is_rounded_up_and_has_the_largest_shares() -> None:
    several = [Search(str(n), float(n), 10.0) for n in range(5)]
    assert [each.kernel for each in worst_quarter(several)] == ["4", "3"]
    assert worst_quarter(several[:1]) == several[:1]
    assert worst_quarter([]) == []


def test_of_rounds_the_least_of_each_time_counts() -> None:
    rounds = [Search("k", 3.0, 5.0), Search("k", 2.0, 6.0)]
    assert fastest(rounds) == Search("k", 2.0, 5.0)


def test_row_says_what_is_over_the_budget() -> None:
    assert "OVER" in row("shuffle", [Search("k", 0.31, 10.0)])
    assert "OVER" not in row("shuffle", [Search("k", 0.30, 10.0)])
    assert row("shuffle", [])


@pytest.mark.parametrize("alone", [False, True])
def test_only_kernels_without_changes_are_counted(tmp_path: Path, alone: bool) -> None:
    copy, pair = tmp_path / "copy.ptx", tmp_path / "pair.ptx"
    copy.write_text(COPY)
    pair.write_text(PAIR)
    vectorize, reduction = _named("vectorize"), _named("strength-reduction")
    by_rewrite = searches([vectorize, reduction], [copy, pair], 2, alone)
    (silent,) = by_rewrite["vectorize"]
    assert silent.kernel == "copy" and silent.read and silent.seconds > 0
    unread = by_rewrite["strength-reduction"]
    assert [each.read for each in unread] == [alone, alone]  # it says why where it is named
