"""Accesses found by the sums in their addresses are those whose distance is a number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptxsw.terms.node import Variance
from ptxsw.terms.terms import Terms
from ptxsw.validate.memory_ssa import Bytes, byte_distance
from ptxsw.validate.path import Touch, TouchesBySum

PLACES = st.tuples(
    st.sampled_from(("global", "shared")),
    st.integers(0, 2),  # times a pointer
    st.integers(-1, 1),  # times an index
    st.sampled_from((0, 4, 8, 2**63, 2**64 - 4)),
    st.integers(0, 2),  # events before it
    st.sampled_from((1, 4, 8, 16)),  # bytes
)


@given(st.lists(PLACES, max_size=12), PLACES)
def test_groups_are_what_lies_at_a_known_distance(
    others: list[tuple[str, int, int, int, int, int]], one: tuple[str, int, int, int, int, int]
) -> None:
    terms = Terms()
    pointer = terms.atom("pointer", 64, Variance.UNIFORM)
    index = terms.atom("index", 64, Variance.LANE)

    def touch(given: tuple[str, int, int, int, int, int], number: int) -> Touch:
        space, first, second, constant, before, size = given
        items = [(pointer, first), (index, second)]
        place = terms.sum(64, constant, items)
        return Touch(Bytes(space, place, size), terms.const(1, 1), number, before, True)

    touches = [touch(other, number) for number, other in enumerate(others)]
    asked = touch(one, -1)
    expected = [
        (distance, t)
        for t in touches
        if t.before <= asked.before and t.target.space == asked.target.space
        and (distance := byte_distance(t.target.place, asked.target.place)) is not None
    ]  # fmt: skip
    found = TouchesBySum(touches)
    size = asked.target.size
    aligning = [t for distance, t in expected if distance % size == 0 == t.target.size % size]
    assert sorted(found.aligning(asked), key=lambda t: t.index) == aligning
    assert found.meeting(asked) == [
        t for distance, t in expected if -t.target.size < distance < size
    ]
    assert found.beginning_with(asked) == [t for distance, t in expected if distance == 0]
