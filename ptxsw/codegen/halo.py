"""The scheme `halo`: a row of loads as one full load and one partial load.

Lane i wants the lead's element of lane i + d. Up to the end of the warp that is what lane i + d
has loaded; what lies beyond is loaded by the first lanes of the warp, each at its own address
plus 32 strides, so that a rotation by d brings either:

    @%sw_halo1 ld.global.f32 %sw_beyond1, [%rd4+128];     made by the first `high` lanes
    ld.global.f32 %f1, [%rd4];                            the lead
    selp.b32 %sw_sent1, %sw_beyond1, %f1, %sw_first1;     d = 1: lane 0 sends its halo value
    shfl.sync.idx.b32 %f2, %sw_sent1, %sw_from1, 31, %sw_mask1;
    @%sw_slow1 ld.global.f32 %f2, [%rd4+4];               for a warp that is not whole
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from ptxsw.changes.plan import Halo, ServedLoad
from ptxsw.codegen.builder import Insertions, Names
from ptxsw.codegen.shuffled import SavedValues
from ptxsw.codegen.warp_state import Lane, WarpState, shuffles
from ptxsw.ptx.ir import Mem, Reg


class HaloWriter(Struct):
    """Writes rewrites of this scheme."""

    names: Names
    lane: Lane
    values: SavedValues
    text: str
    beyond: dict[int, str] = field(default_factory=dict)  # halo values by lead
    slow: dict[tuple[str, str], str] = field(default_factory=dict)  # of those that take part

    def partial_load(self, lines: Insertions, row: Halo, whole: WarpState) -> None:
        """The load of what lies beyond the warp, before the lead."""
        at, register, offset = self._address(row.lead)
        base = register.name
        _, width = self.values.registers(row.lead)[0]
        name = self.beyond[row.lead] = self.names.new("beyond", f"b{width}")
        far = 32 * row.stride
        guard = self._made_by(lines, at, row, whole.unfit)
        # Beyond the end of the warp lies what lane i of the next one would load: the own address
        # plus 32 strides. Before its begin it is 32 strides less.
        if not (row.low and row.high):
            offset += far if row.high else -far
        else:
            base = self._either_side(lines, at, row, register, far)
        load = self._opcode(row)
        lines.put_before(at, f"@{guard} {load} {name}, [{base}{_added(offset)}];")

    def _opcode(self, row: Halo) -> str:
        """The lead's opcode, without `.nc` unless all members have it: otherwise the original text
        does not promise that the bytes beyond the warp are unwritten."""
        plan = self.values.plan
        lead = plan.instructions[row.lead]
        members = (r.dest for r in plan.rewrites if any(p.source == row.lead for p in r.parts))
        if all("nc" in plan.instructions[member].modifiers for member in members):
            return lead.name
        return ".".join((lead.opcode, *(m for m in lead.modifiers if m != "nc")))

    def _address(self, lead: int) -> tuple[int, Reg, int]:
        """The position at which the lead is loaded, and its base register and offset."""
        hoist = self.values.plan.hoisted.get(lead)
        if hoist is not None:
            return hoist.at, hoist.base, hoist.offset
        memory = self.values.plan.instructions[lead].operands[1]
        assert isinstance(memory, Mem) and isinstance(memory.base, Reg), memory
        return lead, memory.base, memory.offset

    def _made_by(self, lines: Insertions, at: int, row: Halo, unfit: str | None) -> str:
        """True in the lanes that make the partial load."""
        sides = []
        if row.high:
            sides.append(self.lane.below(row.high))
        if row.low:
            sides.append(self.lane.above(31 + row.low))
        guard = sides[0]
        if len(sides) == 2:
            stem = f"sides{row.high}_{-row.low}"
            guard = self.names.once(stem, "pred", [f"or.pred $, {sides[0]}, {sides[1]};"])
        if unfit is None:
            return guard
        # In a warp that is not whole, nobody takes what is loaded, and the members that would
        # have made the access valid may not be there: it could fault.
        name, fit = self.names.new("halo", "pred"), self.names.new("fit", "pred")
        lines.put_before(at, f"not.pred {fit}, {unfit};", f"and.pred {name}, {guard}, {fit};")
        return name

    def _either_side(self, lines: Insertions, at: int, row: Halo, base: Reg, far: int) -> str:
        """The lead's base moved up in the first lanes and down in the last ones."""
        width = self.values.plan.function.body.width(base)
        stem = f"far{'m' if far < 0 else ''}{abs(far)}_{row.high}"
        choice = f"selp.b{width} $, {far}, {-far}, {self.lane.below(row.high)};"
        distance = self.names.once(stem, f"b{width}", [choice])
        moved = self.names.new("at", f"b{width}")
        lines.put_before(at, f"add.s{width} {moved}, {base.name}, {distance};")
        return moved

    def write(
        self, lines: Insertions, home: Insertions, rewrite: ServedLoad, whole: WarpState
    ) -> None:
        """One member of a row."""
        ((register, width),) = self.values.registers(rewrite.dest)
        (part,) = rewrite.parts
        # With a rotation by d, lanes 0 to d - 1 are asked by the last d lanes, which want what lies
        # beyond the warp: so these lanes send their halo values.
        full = self.values.copy(home, part.source, 0)
        holder = self.lane.below(part.delta) if part.delta > 0 else self.lane.above(31 + part.delta)
        lines.replace(
            rewrite.dest,
            *self._rotated(
                register, width, full, self.beyond[part.source], holder, part.delta, whole
            ),
            *self._fallback(lines, rewrite, whole),
        )

    def _rotated(
        self,
        register: str,
        width: int,
        full: str,
        halo: str,
        holder: str,
        delta: int,
        whole: WarpState,
    ) -> Iterator[str]:
        sent = self.names.new("sent", f"b{width}")
        yield f"selp.b{width} {sent}, {halo}, {full}, {holder};"
        words, lines = ((sent,), []) if width == 32 else self.values.split(sent, width)
        yield from lines
        into, last = self.values.received(register, width, words)
        yield from shuffles(into, words, f"idx${self.lane.shifted(delta)}, 31, {whole.mask}")
        yield from last

    def _fallback(self, lines: Insertions, rewrite: ServedLoad, whole: WarpState) -> Iterator[str]:
        # `unfit` is the same in all lanes, so it also holds in those that have left a uniform
        # loop; the load itself is made only by lanes that take part.
        slow = whole.unfit
        if slow is None:
            return
        if whole.inside is not None:
            if (slow, whole.inside) not in self.slow:
                self.slow[slow, whole.inside] = name = self.names.new("slow", "pred")
                lines.put_before(rewrite.dest, f"and.pred {name}, {slow}, {whole.inside};")
            slow = self.slow[slow, whole.inside]
        span = self.values.plan.instructions[rewrite.dest].span
        yield f"@{slow} {self.text[span.start : span.end]}"


def _added(offset: int) -> str:
    return f"+{offset}" if offset else ""
