"""The code of a test where a kernel begins, on values that all threads share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct, field

from ptxsw.codegen.builder import Builder
from ptxsw.codegen.versioning import body_twice


class Shared(NamedTuple):
    """A parameter (`p`, `p+8`) or special register that is the same for all threads; as a number
    it is not negative."""

    name: str
    width: int  # bits: 32 or 64


Product = tuple[Shared, ...]
Sum = tuple[tuple[Product, int], ...]
"""Products with their factors; the empty product is 1."""


class EntryGuard(Struct, frozen=True):
    """What is tested once where the kernel begins, the same for all threads of the grid: values
    are below `limits`, `needs` are at most 0, and of each pair in `either` one is at most the
    other: the end of one range and the start of another, both ways round."""

    limits: tuple[tuple[Shared, int], ...]
    needs: tuple[Sum, ...]
    either: tuple[tuple[tuple[Sum, Sum], tuple[Sum, Sum]], ...]


def write_guarded(builder: Builder, guards: Iterable[EntryGuard | None]) -> None:
    """Write the test that all changes of a kernel share, where they need one, and the body as it
    was behind its end."""
    every = set(guards) - {None}
    assert len(every) <= 1, "all changes of a kernel share one test"
    for guard in every:
        assert guard is not None
        body_twice(builder, f"!{write_guard(builder, guard)}")


def write_guard(builder: Builder, guard: EntryGuard) -> str:
    """Write the test alone. Returns the predicate that is true if it holds."""
    return _Writer(builder).write(guard)


class _Writer(Struct):
    """Writes a test of values that all threads share."""

    builder: Builder
    registers: dict[Product, str] = field(default_factory=dict)
    loaded: dict[Shared, str] = field(default_factory=dict)
    result: str = ""  # the predicate that all so far holds

    def write(self, guard: EntryGuard) -> str:
        """The predicate that all of a test holds."""
        for value, limit in guard.limits:
            self._also(f"lt.u{value.width}", f"{self._read(value)}, {limit}")
        for need in guard.needs:
            self._also("le.s64", f"{self._sum(need)}, 0")
        for orders in guard.either:
            self._either(*orders)
        return self.result

    def _also(self, comparison: str, operands: str) -> None:
        """One more condition. Each result has a register of its own, so that it still says later
        what was tested here."""
        kind, _, width = comparison.partition(".")
        so_far, self.result = self.result, self.builder.register("apart", "pred")
        if so_far:
            line = f"setp.{kind}.and.{width} {self.result}, {operands}, {so_far};"
        else:
            line = f"setp.{kind}.{width} {self.result}, {operands};"
        self.builder.at_entry(line)

    def _either(self, first: tuple[Sum, Sum], second: tuple[Sum, Sum]) -> None:
        """One of two conditions."""
        # Signed: a range may end before its pointer, as at `a - 8`. Limits keep the sums in range.
        a, b = (", ".join(map(self._sum, order)) for order in (first, second))
        before, order = (self.builder.register("order", "pred") for _ in range(2))
        self.builder.at_entry(f"setp.le.s64 {before}, {a};")
        self.builder.at_entry(f"setp.le.or.s64 {order}, {b}, {before};")
        so_far, self.result = self.result, self.builder.register("apart", "pred")
        assert so_far, "pointers have limits"
        self.builder.at_entry(f"and.pred {self.result}, {so_far}, {order};")

    # ------------------------------------------------------------ values

    def _sum(self, value: Sum) -> str:
        """A register with the value of a sum, 64 bits."""
        total = ""
        for product, factor in value:
            if not product:
                continue
            part, so_far = self._product(product), total
            if factor == 1 and not so_far:
                total = part
                continue
            total = self.builder.register("bound", "b64")
            if factor == 1:
                self.builder.at_entry(f"add.s64 {total}, {so_far}, {part};")
            else:
                self.builder.at_entry(f"mad.lo.s64 {total}, {part}, {factor}, {so_far or 0};")
        constant = dict(value).get((), 0)
        if total and not constant:
            return total
        so_far, total = total, self.builder.register("bound", "b64")
        added = f"add.s64 {total}, {so_far}, {constant};"
        self.builder.at_entry(added if so_far else f"mov.b64 {total}, {constant};")
        return total

    def _product(self, product: Product) -> str:
        register = self.registers.get(product)
        if register is None:
            *rest, last = product
            register = self._wide(last)
            if rest:
                result = self.builder.register("product", "b64")
                first = self._product(tuple(rest))
                self.builder.at_entry(f"mul.lo.s64 {result}, {first}, {register};")
                register = result
            self.registers[product] = register
        return register

    def _wide(self, value: Shared) -> str:
        """A register of 64 bits with a value."""
        narrow = self._read(value)
        if value.width == 64:
            return narrow
        wide = self.registers.get((value,))
        if wide is None:
            wide = self.registers[(value,)] = self.builder.register("wide", "b64")
            self.builder.at_entry(f"cvt.u64.u32 {wide}, {narrow};")
        return wide

    def _read(self, value: Shared) -> str:
        """A register of its own width with a value."""
        register = self.loaded.get(value)
        if register is None:
            name, bits = value
            register = self.loaded[value] = self.builder.register("shared", f"b{bits}")
            parameter = f"ld.param.u{bits} {register}, [{name}];"
            special = f"mov.u{bits} {register}, {name};"
            self.builder.at_entry(special if name.startswith("%") else parameter)
        return register
