"""Tests that an index does not leave the range of its type, where it becomes an address."""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.codegen.lines import Lines
from ptxsw.codegen.names import Names
from ptxsw.ir import Reg
from ptxsw.shuffle.plan import WrapGuard

Key = tuple[int, Reg, int, bool]


class Wraps:
    """Predicates that are true where an index would wrap. Guards on one value at one place
    share one test, of the widest step each way."""

    def __init__(self, names: Names, lines: Lines, guards: Iterable[WrapGuard]) -> None:
        self._names: dict[Key, str] = {}
        merged: dict[Key, tuple[WrapGuard, int, int]] = {}
        for guard in guards:
            _, low, high = merged.get(_key(guard), (guard, 0, 0))
            merged[_key(guard)] = (guard, min(low, guard.step), max(high, guard.step))
        for guard, low, high in merged.values():
            self._names[_key(guard)] = _test(names, lines, guard, low, high)

    def of(self, guards: Iterable[WrapGuard]) -> tuple[str, ...]:
        """The predicates of some guards, each once."""
        return tuple(dict.fromkeys(self._names[_key(guard)] for guard in guards))


def _test(names: Names, lines: Lines, guard: WrapGuard, low: int, high: int) -> str:
    """A predicate that is true where `reg + addend`, moved by up to `low` or `high`, would leave
    its type: shifted so that the allowed values are those from 0 to `span`."""
    width = guard.width
    first = -(1 << (width - 1)) - low if guard.signed else -low
    span = (1 << width) - 1 - high + low
    name = names.new("wrap", "pred")
    moved = names.new("idx", f"b{width}")
    addend = _signed(guard.addend - first, width)
    lines.put_before(
        guard.index,
        f"add.s{width} {moved}, {guard.reg.name}, {addend};",
        f"setp.gt.u{width} {name}, {moved}, {span};",
    )
    return name


def _key(guard: WrapGuard) -> Key:
    return guard.index, guard.reg, guard.addend, guard.signed


def _signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value
