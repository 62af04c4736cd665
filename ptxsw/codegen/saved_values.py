"""What a load gave, kept for later: as it is for copies, in 32-bit words for shuffles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, field

from ptxsw.changes.plan import Plan
from ptxsw.codegen.insertions import Insertions
from ptxsw.codegen.names import Names
from ptxsw.ptx.ir import Reg, Vec


class SavedValues(Struct):
    """The values of loads that other loads take. A value is saved only in the copy of the code that
    uses it: if source and users are in one duplicated stretch, only in its fast copy."""

    names: Names
    plan: Plan
    outlives: Callable[[int], str | None]  # the predicate under which a load's value is kept
    kept: dict[tuple[int, int, int], str] = field(default_factory=dict)
    sent: dict[tuple[int, int, int], tuple[str, ...]] = field(default_factory=dict)
    moved: dict[int, str] = field(default_factory=dict)  # what a hoisted load gave

    def registers(self, index: int) -> tuple[tuple[str, int], ...]:
        """The registers that a load fills, with their widths in bits."""
        dest = self.plan.instructions[index].operands[0]
        regs = dest.elements if isinstance(dest, Vec) else (dest,)
        body = self.plan.function.body
        return tuple(
            (reg.name, body.width(reg)) if isinstance(reg, Reg) else ("_", 0) for reg in regs
        )

    def copy(self, lines: Insertions, index: int, element: int) -> str:
        """A register that keeps what a load gave, set right behind it."""
        key = (id(lines), index, element)
        if key not in self.kept:
            register, width = self.registers(index)[element]
            name = self.kept[key] = self.moved.get(index) or self.names.new("keep", f"b{width}")
            if index not in self.moved:
                lines.put_after(index, *self._kept(index, [f"mov.b{width} {name}, {register};"]))
            self._start(lines, index, (name,), width)
        return self.kept[key]

    def words(self, lines: Insertions, index: int, element: int) -> tuple[str, ...]:
        """What a load gave, in 32-bit registers, low word first."""
        key = (id(lines), index, element)
        if key not in self.sent:
            register, width = self.registers(index)[element]
            register = self.moved.get(index, register)
            words, split = self.split(register, width)
            split = self._kept(index, split)
            self.sent[key] = words
            self._start(lines, index, words, 32)
            if index in self.moved:
                lines.put_before(self.plan.hoisted[index].at, *split)
            else:
                lines.put_after(index, *split)
        return self.sent[key]

    def _start(self, lines: Insertions, index: int, names: Iterable[str], width: int) -> None:
        """Where a path leads around a load, the register that keeps its value is set to 0 before
        the paths part. Nobody uses that 0, but without it the register would be undefined there."""
        for start in self.plan.starts.get(index, ()):
            lines.put_before(start, *(f"mov.b{width} {name}, 0;" for name in names))

    def _kept(self, index: int, lines: list[str]) -> list[str]:
        """The lines that keep a value: lanes that have left a uniform loop keep what they have."""
        inside = self.outlives(index)
        return lines if inside is None else [f"@{inside} {line}" for line in lines]

    def split(self, register: str, width: int) -> tuple[tuple[str, ...], list[str]]:
        """Words that hold a register's value, and the lines that set them. 16 bits travel twice
        in one word."""
        words = tuple(self.names.new("src", "b32") for _ in range(max(1, width // 32)))
        splits = {
            16: f"mov.b32 {words[0]}, {{{register}, {register}}};",
            32: f"mov.b32 {words[0]}, {register};",
            64: f"mov.b64 {{{', '.join(words)}}}, {register};",
        }
        return words, [splits[width]]

    def received(
        self, register: str, width: int, words: Iterable[str]
    ) -> tuple[list[str], list[str]]:
        """Registers into which the words of a value are to be shuffled, and the lines that put
        them together in `register`."""
        part = "." in register  # of a vector register: ptxas takes it in moves, not everywhere
        if width == 32 and not part:
            return [register], []
        into = [self.names.new("got", "b32") for _ in words]
        if width == 32:
            return into, [f"mov.b32 {register}, {into[0]};"]
        if width == 64:
            return into, [f"mov.b64 {register}, {{{', '.join(into)}}};"]
        return into, [f"mov.b32 {{{register}, {self.names.new('high', 'b16')}}}, {into[0]};"]


def shuffles(into: Iterable[str], words: Iterable[str], mode_and_lane: str) -> Iterator[str]:
    """One shuffle for each word; `way` holds its mode and, behind `$`, its other operands."""
    mode, _, rest = mode_and_lane.partition("$")
    for got, word in zip(into, words, strict=True):
        yield f"shfl.sync.{mode}.b32 {got}, {word}, {rest};"
