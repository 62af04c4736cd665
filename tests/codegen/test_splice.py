"""Edits on top of edits, as one list over the original."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptxsw.codegen.splice import Edit, Origins, apply, compose, insert
from ptxsw.ptx.source import Span


@st.composite
def edits_of(draw: st.DrawFn, length: int) -> list[Edit]:
    """Edits of a text that do not overlap."""
    marks = sorted(draw(st.lists(st.integers(0, length), max_size=8)))
    starts, ends = marks[::2], marks[1::2]
    return [
        Edit(Span(start, end), draw(st.text("xyz", max_size=4)))
        for start, end in zip(starts, ends, strict=False)
    ]


@given(st.data(), st.text("abc", max_size=20))
def test_two_lists_of_edits_become_one(data: st.DataObject, text: str) -> None:
    first = data.draw(edits_of(len(text)))
    between = apply(text, first)
    second = data.draw(edits_of(len(between)))
    assert apply(text, compose(len(text), first, second)) == apply(between, second)


def test_what_was_kept_is_found_where_it_was() -> None:
    edits = [Edit(Span(2, 4), "XYZ"), insert(5, "!")]
    between = apply("abcdef", edits)
    assert between == "abXYZe!f"
    origins = Origins(6, edits)
    assert [origins(at) for at in range(len(between) + 1)] == [0, 1, 2, 2, 2, 4, 5, 5, 6]


def test_an_edit_may_take_back_what_another_inserted() -> None:
    assert compose(3, [insert(1, "new")], [Edit(Span(1, 4), "")]) == ()
