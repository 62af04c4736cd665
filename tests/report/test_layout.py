"""Tables in a given width: what folds, and what gives way."""

from __future__ import annotations

import pytest

from ptxsw.report.layout import draw_text
from ptxsw.report.tables import Table

ROWS = Table(
    ("row", "address"),
    (("A", "param_1[ctaid.y*ntid.y*param_0 + iter(BB0_2) + param_0*tid.y]"), ("B", "w[tid.x]")),
)
ACCESSES = Table(
    ("line", "access", "bytes", "sectors", "weight", "address"),
    (("69", "ld.global.f32", "4", "32", "512", "A"), ("7", "st.global.f32", "4", "4", "4", "B+8")),
    frozenset({"line", "bytes", "sectors", "weight"}),
)


def test_long_addresses_fold_under_their_column() -> None:
    assert draw_text(ROWS, width=36) == [
        "row  address",
        "A    param_1[ctaid.y*ntid.y*param_0",
        "     + iter(BB0_2) + param_0*tid.y]",
        "B    w[tid.x]",
    ]


def test_a_word_that_is_longer_than_a_line_is_cut() -> None:
    table = Table(("row", "address"), (("A", "x" * 60),))
    assert draw_text(table, width=29) == ["row  address", *(
        f"{'A' if part == 0 else ' '}    {'x' * (24 if part < 2 else 12)}" for part in range(3)
    )]  # fmt: skip


def test_what_matters_least_gives_way_first() -> None:
    whole = draw_text(ACCESSES)
    assert draw_text(ACCESSES, width=len(whole[0])) == whole
    assert draw_text(ACCESSES, width=len(whole[0]) - 1) == [
        "line  access         sectors  weight  address",
        "  69  ld.global.f32       32     512  A",
        "   7  st.global.f32        4       4  B+8",
        "(no room for: bytes)",
    ]
    assert draw_text(ACCESSES, width=38)[-1] == "(no room for: bytes, weight)"
    assert draw_text(ACCESSES, width=1)[0] == "line  access         sectors  address"


@pytest.mark.parametrize("width", range(30, 90, 7))
def test_no_line_is_wider(width: int) -> None:
    for table in (ROWS, ACCESSES):
        lines = draw_text(table, width=width)
        least = 37 if table is ACCESSES else 29
        assert max(map(len, lines)) <= max(width, least)


def test_nothing_is_lost_by_folding() -> None:
    for width in (29, 40, 64):
        folded = " ".join(line[5:].strip() for line in draw_text(ROWS, width=width)[1:-1])
        assert folded.replace(" ", "") == ROWS.rows[0][1].replace(" ", "")
