"""Which unknown stands for which bytes of memory, at addresses that differ by known numbers."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from ptxsw.terms.node import Term


class Cell(NamedTuple):
    """The unknown of some bytes: where they begin, and how many they are."""

    begin: int
    size: int
    value: Term


class Cells:
    """Cells that have no bytes in common."""

    def __init__(self) -> None:
        self._begins: list[int] = []  # in order, and so the cells
        self._cells: list[Cell] = []

    def over(self, at: int) -> Cell | None:
        """The cell that has a byte."""
        number = bisect_right(self._begins, at) - 1
        if number < 0:
            return None
        cell = self._cells[number]
        return cell if at < cell.begin + cell.size else None

    def next_one(self, at: int, end: int) -> int:
        """Where the next cell behind a byte begins, or an end before that."""
        number = bisect_right(self._begins, at)
        return min(end, self._begins[number]) if number < len(self._begins) else end

    def add(self, cell: Cell) -> None:
        """Another cell, which has no bytes in common with any."""
        number = bisect_right(self._begins, cell.begin)
        self._begins.insert(number, cell.begin)
        self._cells.insert(number, cell)
