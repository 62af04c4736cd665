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

from collections.abc import Callable, Iterator

from msgspec import Struct, field

from ptxsw.changes.plan import ElementSource, ServedLoad
from ptxsw.codegen.insertions import Insertions
from ptxsw.codegen.names import Names
from ptxsw.codegen.saved_values import SavedValues, shuffles
from ptxsw.codegen.warp_state import Lane, WarpState, edge_test, shuffle_mode
from ptxsw.parser import operand_spans
from ptxsw.ptx.ir import Vec
from ptxsw.ptx.source import Source

Home = Callable[[int], Insertions]


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
        dest = operand_spans(Source(self.text), load)[0]
        vector = isinstance(load.operands[0], Vec)
        into = f"{{{', '.join(registers)}}}" if vector else registers[0]
        return f"{self.text[load.start : dest.start]}{into}{self.text[dest.end : load.end]}"
