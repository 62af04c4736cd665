"""The schemes `paper` (CC'23, section 5.2) and `early`: a shuffle for each load, and the load
itself, as it was, in the lanes that must make it.

    paper                                           early
    activemask.b32 %sw_mask1;                       activemask.b32 %sw_mask1;
    setp.ne.or.b32 %sw_part1, %sw_mask1, -1, ...;   setp.ne.or.b32 %sw_part1, %sw_mask1, -1, ...;
    setp.lt.or.u32 %sw_own1, %sw_lane, 1, ...;      setp.lt.or.u32 %sw_own1, %sw_lane, 1, ...;
    shfl.sync.up.b32 %f6, %sw_src1, 1, 0, ...;      @%sw_own1 ld.global.f32 %sw_edge1, [%rd6+-4];
    @%sw_own1 ld.global.f32 %f6, [%rd6+-4];         shfl.sync.up.b32 %sw_near1, %sw_src1, 1, 0, ...;
                                                    selp.b32 %f6, %sw_edge1, %sw_near1, %sw_own1;
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, field

from ptxsw.changes.plan import ElementSource, Plan, ServedLoad
from ptxsw.codegen.builder import Insertions, Names, with_operands
from ptxsw.codegen.warp_state import Lane, WarpState, edge_test, shuffle_mode, shuffles
from ptxsw.ptx.ir import Reg, Vec

Home = Callable[[int], Insertions]


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


class Shuffled(Struct):
    """Writes rewrites of these schemes."""

    names: Names
    lane: Lane
    values: SavedValues
    text: str
    _own: dict[tuple[str | None, tuple[object, ...]], str] = field(default_factory=dict)

    def write(
        self,
        lines: Insertions,
        home: Home,
        rewrite: ServedLoad,
        whole: WarpState,
        tests: tuple[str, ...],
    ) -> None:
        """One rewrite: `home` gives the lines in which a source is kept, `tests` predicates
        that are true where the source's lane has loaded something else."""
        own = self._makes_its_own(lines, rewrite, whole.unfit, tests)
        if own is not None and whole.inside is not None:
            own = self._also(lines, rewrite, own, whole.inside)
        if rewrite.scheme == "early":
            lines.replace(rewrite.dest, *self._early(home, rewrite, whole.mask, own))
        else:
            lines.replace(rewrite.dest, *self._paper(home, rewrite, whole.mask, own))

    # ------------------------------------------------------------ who loads

    def _makes_its_own(
        self, lines: Insertions, rewrite: ServedLoad, unfit: str | None, tests: tuple[str, ...]
    ) -> str | None:
        """True in lanes that must make the load themselves; None where none must."""
        # Parts with the same test share it. A mirror of the whole warp, 31 - i, needs no test.
        edges = {edge_test(p): p for p in rewrite.parts if p.delta or p.mirror}
        edges.pop(None, None)
        if unfit is None and not tests and len(edges) == 1:
            return self.lane.edge(next(iter(edges.values())))
        used: tuple[object, ...] = ()
        name = unfit
        # `unfit` or'ed with one test after the other, in a fixed order. Each prefix is kept: a
        # later load of the segment with the same first tests goes on from there.
        steps = [*sorted(e for e in edges if e is not None), *tests]
        for step in steps:
            used = (*used, step)
            if (unfit, used) not in self._own:
                self._own[unfit, used] = self.names.new("own", "pred")
                lines.put_before(rewrite.dest, self._joined(self._own[unfit, used], step, name))
            name = self._own[unfit, used]
        return name

    def _also(self, lines: Insertions, rewrite: ServedLoad, own: str, inside: str) -> str:
        """Those of the lanes that take part in the uniform loop."""
        if (own, (inside,)) not in self._own:
            self._own[own, (inside,)] = name = self.names.new("own", "pred")
            lines.put_before(rewrite.dest, f"and.pred {name}, {own}, {inside};")
        return self._own[own, (inside,)]

    def _joined(self, name: str, step: object, earlier: str | None) -> str:
        if isinstance(step, str):
            return f"or.pred {name}, {earlier}, {step};"
        assert isinstance(step, tuple)
        comparison, limit = step
        if earlier is None:
            return f"setp.{comparison}.u32 {name}, {self.lane.index()}, {limit};"
        return f"setp.{comparison}.or.u32 {name}, {self.lane.index()}, {limit}, {earlier};"

    # ------------------------------------------------------------ schemes

    def _paper(self, home: Home, rewrite: ServedLoad, mask: str, own: str | None) -> Iterator[str]:
        registers = self.values.registers(rewrite.dest)
        for part, (register, width) in zip(rewrite.parts, registers, strict=True):
            yield from self.element(home, part, register, width, mask)
        if own is not None:
            yield f"@{own} {self._original(rewrite)}"

    def _early(self, home: Home, rewrite: ServedLoad, mask: str, own: str | None) -> Iterator[str]:
        if own is None:
            yield from self._paper(home, rewrite, mask, own)
            return
        registers = self.values.registers(rewrite.dest)
        edges = [self.names.new("edge", f"b{width}") for _, width in registers]
        yield f"@{own} {self._into(rewrite, edges)}"
        for part, edge, (register, width) in zip(rewrite.parts, edges, registers, strict=True):
            near = self.names.new("near", f"b{width}")
            yield from self.element(home, part, near, width, mask)
            yield f"selp.b{width} {register}, {edge}, {near}, {own};"

    def element(
        self, home: Home, part: ElementSource, register: str, width: int, mask: str
    ) -> Iterator[str]:
        """Bring one element into a register."""
        if not part.delta and not part.mirror:
            kept = self.values.copy(home(part.source), part.source, part.element)
            yield f"mov.b{width} {register}, {kept};"
            return
        words = self.values.words(home(part.source), part.source, part.element)
        into, last = self.values.received(register, width, words)
        yield from shuffles(into, words, f"{self._mode_and_lane(part)}, {mask}")
        yield from last

    def _mode_and_lane(self, part: ElementSource) -> str:
        if part.mirror:
            return f"idx${self.lane.mirrored(part.delta)}, 31"
        return shuffle_mode(part.delta)

    # ------------------------------------------------------------ the load's text

    def _original(self, rewrite: ServedLoad) -> str:
        span = self.values.plan.instructions[rewrite.dest].span
        return self.text[span.start : span.end]

    def _into(self, rewrite: ServedLoad, registers: list[str]) -> str:
        """The load, as it is written, but into other registers."""
        load = self.values.plan.instructions[rewrite.dest]
        vector = isinstance(load.operands[0], Vec)
        into = f"{{{', '.join(registers)}}}" if vector else registers[0]
        return with_operands(self.text, load, {0: into})
