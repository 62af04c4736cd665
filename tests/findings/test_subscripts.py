"""Subscripts of CUDA source are read as sums, whatever stands in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxsw.findings.subscripts import addends, cast_of, definitions, factors, subscripts, summed


def test_subscripts_have_their_field_and_place() -> None:
    line = "p[i].x += s[f(i, q[k])] * t[x][y] * r->a[3] + v[i].w[2];"
    every = [(one.array, one.index, one.field) for one in subscripts(line)]
    assert every == [
        ("p", "i", "x"), ("s", "f(i, q[k])", ""), ("q", "k", ""), ("v", "i", ""),
    ]  # fmt: skip
    assert next(line[one.start : one.end] for one in subscripts(line)) == "p[i].x"


def test_sums_are_taken_apart_where_they_are_some() -> None:
    assert addends("(size_t)i * n + k + (a + b)") == ["(size_t)i * n", "k", "(a + b)"]
    assert addends("i - k + 1") == ["i - k + 1"]
    assert factors("(size_t)i * n") == ["i", "n"]
    assert factors("i / 2 * n") == ["i / 2 * n"]
    assert cast_of("(unsigned long)i * n") == "(unsigned long)" and cast_of("(i) * n") == ""


def test_variables_that_change_are_not_followed() -> None:
    body = (
        "int i = t * 4, j = f(a, b); for (int k = 0; k < n; k++) s += p[i].x; p[i].y = 2; q == 3;"
    )
    assert definitions(body) == {"i": ("t * 4",), "j": ("f(a, b)",), "k": (), "s": ()}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("(i + 1) * n - 2", {("i", "n"): 1, ("n",): 1, (): -2}),
        ("(size_t)threadIdx.x * 4u + i", {("threadIdx.x",): 4, ("i",): 1}),
        ("i / 2 + i % 4", {("i / 2",): 1, ("i % 4",): 1}),
        ("i ? 1 : 2", None), ("i +", None), ("i[3]", None), ("i && k", None),
    ],
)  # fmt: skip
def test_sums(written: str, expected: object) -> None:
    assert summed(written, lambda name: None) == expected


@given(st.text(alphabet="ab[]()+*-.;=, 1", max_size=60))
def test_any_text_is_read(text: str) -> None:
    for one in subscripts(text):
        assert text[one.start : one.end].startswith(one.array)
        summed(one.index, {"a": "b + 1", "b": "a"}.get)
    definitions(text)


def test_definitions_of_definitions_end_somewhere() -> None:
    """A chain of a thousand, each with the next one twice, and one that leads back to itself."""
    chain = {f"x{n}": f"x{n + 1} + x{n + 1}" for n in range(1000)}
    assert summed("x0", chain.get) is not None
    assert summed("a", {"a": "b + 1", "b": "a"}.get) == {("a",): 1, (): 1}
