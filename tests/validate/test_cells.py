"""Cells are found by their bytes, in whatever order they came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptxsw.terms.node import Variance
from ptxsw.terms.terms import Terms
from ptxsw.validate.cells import Cell, Cells


@given(st.lists(st.tuples(st.integers(-40, 40), st.integers(1, 9)), max_size=20))
def test_cells(ranges: list[tuple[int, int]]) -> None:
    value = Terms().atom("value", 8, Variance.LANE)
    cells, owner = Cells(), dict[int, Cell]()
    for begin, size in ranges:
        if owner.keys().isdisjoint(range(begin, begin + size)):
            cell = Cell(begin, size, value)
            cells.add(cell)
            owner.update(dict.fromkeys(range(begin, begin + size), cell))
    begins = {cell.begin for cell in owner.values()}
    for at in range(-50, 60):
        assert cells.over(at) == owner.get(at)
        assert cells.next_one(at, at + 7) == min({at + 7, *(b for b in begins if b > at)})
