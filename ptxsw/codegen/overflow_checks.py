"""Tests that an index does not leave the range of its type, where it becomes an address."""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.changes.plan import WrapGuard
from ptxsw.codegen.insertions import Insertions
from ptxsw.codegen.names import Names
from ptxsw.codegen.rematerialize import Rematerializer
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Reg

Key = tuple[int, Reg, int, bool]


class OverflowChecks:
    """Predicates that are true where an index would wrap. Guards on one value at one place
    share one test, of the widest step each way."""

    def __init__(
        self,
        names: Names,
        lines: Insertions,
        guards: Iterable[WrapGuard],
        ahead: Rematerializer | None = None,
    ) -> None:
        """The tests stand where their indices are extended, or all of them `ahead`."""
        self._names: dict[Key, str] = {}
        merged: dict[Key, tuple[WrapGuard, int, int]] = {}
        for guard in guards:
            _, low, high = merged.get(_key(guard), (guard, 0, 0))
            merged[_key(guard)] = (guard, min(low, guard.step), max(high, guard.step))
        for guard, low, high in merged.values():
            at, register = guard.index, guard.reg.name
            if ahead is not None and at > ahead.at:
                at, register = ahead.at, ahead.register(guard.reg, guard.index)
            test, name = _test(names, register, guard, low, high)
            lines.put_before(at, *test)
            self._names[_key(guard)] = name

    def of(self, guards: Iterable[WrapGuard]) -> tuple[str, ...]:
        """The predicates of some guards, each once."""
        return tuple(dict.fromkeys(self._names[_key(guard)] for guard in guards))


def _test(
    names: Names, register: str, guard: WrapGuard, low: int, high: int
) -> tuple[list[str], str]:
    """The lines that set a predicate, and its name: true where `register + addend`, moved by up to
    `low` or `high`, would leave its type. The sum is shifted so that the allowed values are those
    from 0 to `span`."""
    width = guard.width
    # Allowed is MIN - low <= sum <= MAX - high. Both bounds in one unsigned comparison: the sum
    # less its lower bound is at most the distance between the bounds.
    first = -(1 << (width - 1)) - low if guard.signed else -low
    span = (1 << width) - 1 - high + low
    name = names.new("wrap", "pred")
    moved = names.new("idx", f"b{width}")
    addend = wrapped(guard.addend - first, width)
    lines = [
        f"add.s{width} {moved}, {register}, {addend};",
        f"setp.gt.u{width} {name}, {moved}, {span};",
    ]
    return lines, name


def _key(guard: WrapGuard) -> Key:
    return guard.index, guard.reg, guard.addend, guard.signed
