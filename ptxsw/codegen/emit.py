"""From a plan to edits of the text: the `paper` scheme of CC'23, section 5.2, with guards.

    ld.global.nc.f32 %f4, [%rd6];              ld.global.nc.f32 %f4, [%rd6];
                                               mov.b32 %sw_src1, %f4;
                                               activemask.b32 %sw_mask1;
                                               setp.ne.or.b32 %sw_part1, %sw_mask1, -1, %sw_rows;
                                        =>     setp.lt.or.u32 %sw_own1, %sw_lane, 1, %sw_part1;
                                               shfl.sync.up.b32 %f6, %sw_src1, 1, 0, %sw_mask1;
    ld.global.nc.f32 %f6, [%rd6+-4];           @%sw_own1 ld.global.nc.f32 %f6, [%rd6+-4];

`%sw_own1` is true in lanes that must load for themselves: no such neighbour in the warp, a warp
that is not whole, a block whose rows wrap inside a warp, an index that would wrap. Values of 64
bits take two shuffles, values of 16 bits travel twice in one word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ptxsw.codegen.edit import Edit, indentation, insert, insert_lines, line_end
from ptxsw.ir import Instruction, Reg, Variable
from ptxsw.shuffle.plan import Plan, Rewrite, WrapGuard

_PREFIX = "%sw_"


def emit(text: str, plan: Plan) -> tuple[Edit, ...]:
    """The edits that carry a plan out. Names are new to the whole text."""
    if not plan.rewrites:
        return ()
    return _Emitter(text, plan).edits()


def fresh_prefix(text: str) -> str:
    """A prefix with which no name in the text begins."""
    prefix, number = _PREFIX, 0
    while prefix in text:
        number += 1
        prefix = f"{_PREFIX[:-1]}{number}_"
    return prefix


@dataclass
class _Emitter:
    text: str
    plan: Plan
    registers: dict[str, list[str]] = field(default_factory=dict)  # type -> names
    before: dict[int, list[str]] = field(default_factory=dict)  # instruction -> lines
    after: dict[int, list[str]] = field(default_factory=dict)
    replaced: dict[int, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.prefix = fresh_prefix(self.text)
        self.sources: dict[int, tuple[str, ...]] = {}
        self.copies: dict[int, str] = {}
        self.wraps: dict[tuple[int, Reg, int, bool], str] = {}
        self.own: dict[tuple[int, int, tuple[str, ...]], str] = {}
        self.parts: dict[tuple[int, bool], str] = {}
        self.masks: dict[int, str] = {}
        self.entry: list[str] = []

    def edits(self) -> tuple[Edit, ...]:
        for guard in self._merged_guards():
            self._test(*guard)
        for rewrite in self.plan.rewrites:
            self._rewrite(rewrite)
        return (*self._head(), *self._body())

    # ------------------------------------------------------------ names

    def _new(self, stem: str, kind: str) -> str:
        names = self.registers.setdefault(kind, [])
        count = sum(n.startswith(self.prefix + stem) for n in names) + 1
        names.append(f"{self.prefix}{stem}{count}")
        return names[-1]

    def _once(self, stem: str, kind: str, lines: Iterable[str]) -> str:
        """A register set at the entry of the kernel."""
        name = self.prefix + stem
        if name not in self.registers.setdefault(kind, []):
            self.registers[kind].append(name)
            self.entry.extend(line.replace("$", name) for line in lines)
        return name

    def _lane(self) -> str:
        return self._once("lane", "b32", ["mov.u32 $, %laneid;"])

    def _rows(self) -> str:
        """True where a row of the block may wrap inside a warp: the block has more than one
        row, and its width is no multiple of 32."""
        x, y, z = (self.prefix + name for name in ("x", "y", "z"))
        for name in (x, y, z):
            if name not in self.registers.setdefault("b32", []):
                self.registers["b32"].append(name)
        return self._once(
            "rows",
            "pred",
            [
                f"mov.u32 {x}, %ntid.x;",
                f"mov.u32 {y}, %ntid.y;",
                f"mov.u32 {z}, %ntid.z;",
                f"and.b32 {x}, {x}, 31;",
                f"or.b32 {y}, {y}, {z};",
                f"setp.ne.u32 $, {x}, 0;",
                f"setp.ne.and.u32 $, {y}, 1, $;",
            ],
        )

    # ------------------------------------------------------------ pieces

    def _merged_guards(self) -> list[tuple[WrapGuard, int, int]]:
        """Guards on one value at one place become one test of the widest step each way."""
        merged: dict[tuple[int, Reg, int, bool], tuple[WrapGuard, int, int]] = {}
        for rewrite in self.plan.rewrites:
            for guard in rewrite.proof.guards:
                key = _key(guard)
                _, low, high = merged.get(key, (guard, 0, 0))
                merged[key] = (guard, min(low, guard.step), max(high, guard.step))
        return list(merged.values())

    def _test(self, guard: WrapGuard, low: int, high: int) -> None:
        """A predicate that is true where `reg + addend`, moved by up to `low` or `high`, would
        leave its type: shifted so that the allowed values are those from 0 to `span`."""
        width = guard.width
        first = -(1 << (width - 1)) - low if guard.signed else -low
        span = (1 << width) - 1 - high + low
        name = self._new("wrap", "pred")
        moved = self._new("idx", f"b{width}")
        addend = _signed(guard.addend - first, width)
        self.before.setdefault(guard.index, []).extend(
            [
                f"add.s{width} {moved}, {guard.reg.name}, {addend};",
                f"setp.gt.u{width} {name}, {moved}, {span};",
            ]
        )
        self.wraps[_key(guard)] = name

    def _kept(self, index: int) -> str:
        """A copy of what load `index` gave, made right behind it."""
        if index not in self.copies:
            register, width = self._destination(index)
            name = self.copies[index] = self._new("keep", f"b{width}")
            self.after.setdefault(index, []).append(f"mov.b{width} {name}, {register};")
        return self.copies[index]

    def _words(self, index: int) -> tuple[str, ...]:
        """What load `index` gave, in 32-bit registers, low word first."""
        if index not in self.sources:
            register, width = self._destination(index)
            words = tuple(self._new("src", "b32") for _ in range(max(1, width // 32)))
            self.sources[index] = words
            made = {
                16: f"mov.b32 {words[0]}, {{{register}, {register}}};",
                32: f"mov.b32 {words[0]}, {register};",
                64: f"mov.b64 {{{', '.join(words)}}}, {register};",
            }
            self.after.setdefault(index, []).append(made[width])
        return self.sources[index]

    def _destination(self, index: int) -> tuple[str, int]:
        """The register a load writes and its width in bits."""
        reg = self.plan.instructions[index].operands[0]
        assert isinstance(reg, Reg), reg
        return reg.name, self.plan.function.body.width(reg)

    def _partial(self, rewrite: Rewrite) -> str:
        """True where the warp is not whole here, or its lanes are no row; set before the first
        shuffle of the segment."""
        segment = self.plan.segments[rewrite.dest]
        lines = self.before.setdefault(rewrite.dest, [])
        if segment not in self.masks:
            self.masks[segment] = self._new("mask", "b32")
            lines.append(f"activemask.b32 {self.masks[segment]};")
        mask = self.masks[segment]
        key = (segment, rewrite.proof.block_shape)
        if key not in self.parts:
            name = self.parts[key] = self._new("part", "pred")
            if rewrite.proof.block_shape:
                lines.append(f"setp.ne.or.b32 {name}, {mask}, -1, {self._rows()};")
            else:
                lines.append(f"setp.ne.b32 {name}, {mask}, -1;")
        return self.parts[key]

    def _own(self, rewrite: Rewrite) -> str:
        """True in lanes that must make the load themselves."""
        part = self._partial(rewrite)
        wraps = tuple(self.wraps[_key(g)] for g in rewrite.proof.guards)
        lines = self.before.setdefault(rewrite.dest, [])
        segment = self.plan.segments[rewrite.dest]
        name = self._edge(segment, rewrite.delta, part, lines)
        used: tuple[str, ...] = ()
        for wrap in wraps:
            used = (*used, wrap)
            key = (segment, rewrite.delta, used)
            if key not in self.own:
                self.own[key] = self._new("own", "pred")
                lines.append(f"or.pred {self.own[key]}, {name}, {wrap};")
            name = self.own[key]
        return name

    def _edge(self, segment: int, delta: int, part: str, lines: list[str]) -> str:
        key = (segment, delta, ())
        if key not in self.own:
            name = self.own[key] = self._new("own", "pred")
            test = f"setp.lt.or.u32 {name}, {self._lane()}, {-delta}, {part};"
            if delta > 0:
                test = f"setp.gt.or.u32 {name}, {self._lane()}, {31 - delta}, {part};"
            lines.append(test)
        return self.own[key]

    def _rewrite(self, rewrite: Rewrite) -> None:
        dest, width = self._destination(rewrite.dest)
        if rewrite.delta == 0:
            self.replaced[rewrite.dest] = [f"mov.b{width} {dest}, {self._kept(rewrite.source)};"]
            return
        own = self._own(rewrite)
        span = self.plan.instructions[rewrite.dest].span
        self.replaced[rewrite.dest] = [
            *self._shuffles(rewrite, dest, width),
            f"@{own} {self.text[span.start : span.end]}",
        ]

    def _shuffles(self, rewrite: Rewrite, dest: str, width: int) -> Iterator[str]:
        """Bring the neighbour's value into `dest`, a word at a time."""
        words = self._words(rewrite.source)
        mask = self.masks[self.plan.segments[rewrite.dest]]
        way, clamp = ("up", 0) if rewrite.delta < 0 else ("down", 31)
        into = (dest,) if width == 32 else tuple(self._new("got", "b32") for _ in words)
        for got, word in zip(into, words, strict=True):
            yield f"shfl.sync.{way}.b32 {got}, {word}, {abs(rewrite.delta)}, {clamp}, {mask};"
        if width == 64:
            yield f"mov.b64 {dest}, {{{', '.join(into)}}};"
        elif width == 16:
            yield f"mov.b32 {{{dest}, {self._new('high', 'b16')}}}, {into[0]};"

    # ------------------------------------------------------------ edits

    def _head(self) -> Iterable[Edit]:
        """Declarations and what is computed once, behind the body's own declarations."""
        body = self.plan.function.body
        at, indent = body.span.start + 1, "\t"
        for statement in body.statements:
            if not isinstance(statement, Variable):
                break
            at, indent = statement.span.end, indentation(self.text, statement.span.start)
        end = line_end(self.text)
        declared = [f".reg .{kind} {', '.join(names)};" for kind, names in self.registers.items()]
        lines = [*declared, *self.entry]
        yield insert(at, "".join(f"{end}{indent}{line}" for line in lines))

    def _body(self) -> Iterable[Edit]:
        for index in sorted(self.before.keys() | self.after.keys() | self.replaced.keys()):
            instruction = self.plan.instructions[index]
            if self.before.get(index):
                yield insert_lines(self.text, instruction.span.start, self.before[index])
            if index in self.replaced:
                yield Edit(instruction.span, self._joined(instruction, self.replaced[index]))
            if self.after.get(index):
                lines = ["", *self.after[index]]
                yield insert(instruction.span.end, self._joined(instruction, lines))

    def _joined(self, instruction: Instruction, lines: list[str]) -> str:
        start = self.text.rfind("\n", 0, instruction.span.start) + 1
        lead = self.text[start : instruction.span.start]
        indent = lead if not lead.strip(" \t") else " "
        end = line_end(self.text) if not lead.strip(" \t") else ""
        return f"{end}{indent}".join(lines)


def _key(guard: WrapGuard) -> tuple[int, Reg, int, bool]:
    """Guards that one test serves have one key."""
    return guard.index, guard.reg, guard.addend, guard.signed


def _signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value
