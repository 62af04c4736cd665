"""Registers that the second text still needs where the first does not, and that both set alike.

    ld.u64 %rd1, [%rd9];         the last use of %rd1 in the first text is the sum below
    add.s64 %rd2, %rd1, %rd3;
    LOOP:
    ld.f32 %f1, [%rd2];
    mov.b64 {%lo, %hi}, %rd1;    but the second compares it between lanes

What %rd1 was loaded from may have changed since. But the first text's %rd1 holds what it held, used
or not: so it tells what the second's holds, if control always comes with the same in both.
"""

from __future__ import annotations

from ptxsw.ptx.ir import Reg
from ptxsw.validate.edit_map import Pair

_MOST_CHANGES = 4  # so often what is told of a register at a pair changes, until nothing is told


class Kept:
    """From which pairs of places control comes to others with equal registers in both texts."""

    def __init__(self) -> None:
        self._same: dict[tuple[Pair, Reg], dict[Pair, bool]] = {}
        self._used: dict[tuple[Pair, Reg], bool] = {}
        self._changes: dict[tuple[Pair, Reg], int] = {}

    def begin(self, source: Pair) -> None:
        """The comparison from a pair of places begins, or begins anew."""
        for by_source in self._same.values():
            by_source.pop(source, None)

    def use(self, pair: Pair, reg: Reg) -> bool:
        """May a comparison that begins at a pair take the register to be the same in both?"""
        holds = self._holds(pair, reg) and self._changes.get((pair, reg), 0) < _MOST_CHANGES
        self._used[pair, reg] = holds
        return holds

    def arrive(self, pair: Pair, source: Pair, reg: Reg, same: bool) -> bool:
        """Record that control comes to a pair from `source`, with the `same` value in both texts or
        not. Returns whether the proof of the pair has to be repeated."""
        by_source = self._same.setdefault((pair, reg), {})
        by_source[source] = by_source.get(source, True) and same
        # Either nothing was proved with the register, or what the proof used still holds.
        used, holds = self._used.get((pair, reg)), self._holds(pair, reg)
        if used is None or used is holds:
            return False
        changes = self._changes[pair, reg] = self._changes.get((pair, reg), 0) + 1
        return used or changes < _MOST_CHANGES

    def _holds(self, pair: Pair, reg: Reg) -> bool:
        by_source = self._same.get((pair, reg), {})
        return bool(by_source) and all(by_source.values())
