"""Values that go from one iteration of a loop to the next in registers;
`rewrites/scalar_replacement.py` has the lines before and after. What is needed before the first
iteration is loaded in front of the loop's label, where only control comes that goes into the loop.
Where a test at entry decides, all changes of the kernel share it; where one before a loop does,
those of the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ptxsw.changes.change import Change, Line
from ptxsw.codegen.builder import Builder, Insertions, elements, place, written
from ptxsw.codegen.entry_guard import EntryGuard, write_guarded
from ptxsw.codegen.loop_guard import GuardedLoop, write_test
from ptxsw.codegen.overflow_checks import computed_again, renamed
from ptxsw.codegen.splice import insert_lines
from ptxsw.codegen.versioning import before_loop, loop_twice
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import defs
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function, Instruction, Mem, Operand, Reg, Symbol, type_width

Test = EntryGuard | GuardedLoop


class Carried(Struct, frozen=True):
    """Load `at` takes what a register holds since the iteration before, in which `source` read or
    wrote the same bytes (None: it reads the same in every iteration). `computed` are the
    instructions of an iteration that make its address. `test`, here and below: without it nothing
    of this is right."""

    header: int
    at: int
    computed: tuple[int, ...]
    source: int | None
    test: Test | None = None

    def facts(self, line: Line) -> Mapping[str, Any]:
        source = None if self.source is None else line(self.source)
        kind = "invariant" if source is None else "rotated"
        return {"kind": kind, "source_line": source, "tested": self.test is not None}


class Repeated(Struct, frozen=True):
    """Load `at` takes what `source` has read or written in this iteration."""

    header: int
    at: int
    source: int
    test: Test | None = None

    def facts(self, line: Line) -> Mapping[str, Any]:
        tested = self.test is not None
        return {"kind": "repeated", "source_line": line(self.source), "tested": tested}


class DeferredStores(Struct, frozen=True):
    """Stores to one address are made once, behind the loop; loads of it take the register. With
    `loaded`, the first of all is a load."""

    header: int
    stores: tuple[int, ...]
    loads: tuple[int, ...]
    computed: tuple[int, ...]
    loaded: bool
    test: Test | None = None

    def facts(self, line: Line) -> Mapping[str, Any]:
        return {
            "kind": "promoted",
            "store_lines": list(map(line, self.stores)),
            "load_lines": list(map(line, self.loads)),
            "tested": self.test is not None,
        }


def obstacle(function: Function, cfg: Cfg, loop: Loop) -> str | None:
    """Why nothing can stand in front of a loop; None where it can."""
    block = cfg.blocks[loop.header]
    if not block.labels:
        return "the loop has no label"
    if loop.header == 0:
        return "the kernel begins with the loop"
    # Lines before the header's label are executed by code that falls through into it, so that must
    # not be an iteration of the loop. Branches into the loop are redirected to a new label, which
    # is not possible for a table of targets.
    before = cfg.blocks[loop.header - 1]
    last = cfg.instructions[before.end - 1]
    falls = not (last.guard is None and last.opcode in ("bra", "brx", "ret", "exit", "trap"))
    if falls and before.number in loop.blocks:
        return "the last block of the loop falls through to its header"
    for number in cfg.predecessors[loop.header]:
        if (
            number not in loop.blocks
            and cfg.instructions[cfg.blocks[number].end - 1].opcode == "brx"
        ):
            return "an indirect branch enters the loop"
    return None


class Lowering:
    """Writes the changes of one kernel."""

    def __init__(self, builder: Builder, text: str, function: Function, cfg: Cfg) -> None:
        self.builder, self.text, self.function, self.cfg = builder, text, function, cfg
        self.carried: dict[int, tuple[str, ...]] = {}  # registers by the load they stand for
        self.sources: dict[int, int] = {}
        self.saved: dict[int, tuple[str, ...]] = {}
        self.front: dict[int, list[str]] = {}  # lines in front of loops
        self.twice: dict[int, Insertions] = {}  # lines of loops that stand twice

    def predicates(self, details: Iterable[Any]) -> Mapping[int, str]:
        """Of the loops that are tested, by header, the predicate that says that the test holds.
        Comes first."""
        tested = (d.header for d in details if isinstance(d.test, GuardedLoop))
        return {h: self.builder.register("clear", "pred") for h in dict.fromkeys(tested)}

    def address_again(
        self, computed: Iterable[int], at: Mem, new: Callable[[str], str]
    ) -> tuple[list[str], str]:
        """Lines that compute an address again, and that address. `new(type)` names registers."""
        names: dict[str, str] = {}
        lines = [
            computed_again(self.text, self.function, self.cfg.instructions[position], names, new)
            for position in computed
        ]
        return lines, renamed(place(at), names)

    def _lines(self, header: int) -> Insertions:
        """The lines of a loop, where they are written."""
        return self.twice.get(header, self.builder.lines)

    def lower(self, changes: Sequence[Change]) -> None:
        """Write them all."""
        details: list[Any] = [change.detail for change in changes]
        predicates = self.predicates(details)
        self.twice = {header: Insertions() for header in predicates}
        # All registers are named before any load is replaced: a load may take its value from one
        # that comes later in the list.
        for detail in details:
            if isinstance(detail, Carried):
                self._carry(detail)
            elif isinstance(detail, Repeated):
                self.sources[detail.at] = detail.source
            elif isinstance(detail, DeferredStores):
                self._put_off(detail)
        for detail in details:
            if isinstance(detail, (Carried, Repeated)):
                held = self.values(detail.at, detail.header)
                dests = elements(self.cfg.instructions[detail.at])
                self._lines(detail.header).replace(detail.at, *self._moves(dests, held))
        for header in dict.fromkeys(d.header for d in details if isinstance(d, Carried)):
            self._rotate([d for d in details if isinstance(d, Carried) and d.header == header])
        tested = {d.header: d.test for d in details if isinstance(d.test, GuardedLoop)}
        for header, test in tested.items():
            self._in_two_ways(header, test, predicates[header])
        for header, lines in self.front.items():
            if header not in tested:
                self._in_front(header, lines)
        write_guarded(self.builder, [shared_test(details)])

    def _in_two_ways(self, header: int, test: GuardedLoop, predicate: str) -> None:
        """A loop with its own lines where a test holds, and as it was."""
        lines = write_test(test.conditions, self.builder.register, predicate)
        lines += loop_twice(
            self.builder, self.text, test.place, self.twice[header], self.front.get(header, ()),
            f"!{predicate}",
        )  # fmt: skip
        edit = before_loop(self.builder, self.text, test.place, lines)
        if edit is not None:
            self.builder.also(edit)

    def names(self, at: int) -> tuple[str, ...]:
        """New registers as wide as those of an access."""
        registers = []
        for operand in elements(self.cfg.instructions[at]):
            registers.append(self.builder.register("held", f"b{element_width(self, at, operand)}"))
        return tuple(registers)

    def _carry(self, detail: Carried) -> None:
        held = self.carried[detail.at] = self.names(detail.at)
        instruction = self.cfg.instructions[detail.at]
        self._load_in_front(detail.header, instruction, detail.computed, held)

    def _load_in_front(
        self, header: int, instruction: Instruction, computed: Iterable[int], held: Sequence[str]
    ) -> None:
        lines, where = self.address_again(
            computed, isa.address(instruction), lambda kind: self.builder.register("ahead", kind)
        )
        dest = held[0] if len(held) == 1 else f"{{{', '.join(held)}}}"
        in_front = self.front.setdefault(header, [])
        in_front += [*lines, f"{instruction.name} {dest}, {where};"]

    def _moves(self, dests: Sequence[Operand], held: Sequence[str]) -> list[str]:
        return [
            f"mov.b{self.builder.width(dest)} {dest.name}, {value};"
            for dest, value in zip(dests, held, strict=True)
            if isinstance(dest, Reg) and dest.name != value
        ]

    def values(self, at: int, header: int) -> tuple[str, ...]:
        """The registers that hold what an access has read or written, until its iteration ends."""
        if at in self.carried:
            return self.carried[at]
        if at in self.sources:
            return self.values(self.sources[at], header)
        if at not in self.saved:
            dests = elements(self.cfg.instructions[at])
            if all(isinstance(d, Reg) and self._lasts(d, at, header) for d in dests):
                self.saved[at] = tuple(d.name for d in dests if isinstance(d, Reg))
            else:
                held = self.saved[at] = self.names(at)
                self._lines(header).put_after(
                    at,
                    *(f"mov.b{self.builder.width(d)} {name}, {d.name};"
                      for name, d in zip(held, dests, strict=True) if isinstance(d, Reg)),
                )  # fmt: skip
        return self.saved[at]

    def _lasts(self, reg: Reg, at: int, header: int) -> bool:
        """Does a register that a load writes, or a store reads, hold that until its iteration
        ends?"""
        inside = self.cfg.indices(self.cfg.loops[header].blocks)
        writers = [i for i in inside if reg in defs(self.cfg.instructions[i])]
        # The register that a store reads is set by another instruction. If that is the only one and
        # comes before the store, the register still holds the stored value at the iteration's end.
        if len(writers) != 1 or writers == [at]:
            return writers == [at]
        ours, other = self.cfg.block_of[at], self.cfg.block_of[writers[0]]
        return writers[0] < at if ours == other else self.cfg.dominates(other, ours)

    def _rotate(self, details: Sequence[Carried]) -> None:
        """At the end of an iteration each register takes the value that the next iteration wants
        in it. A register is written only once no other move has to read it."""
        header = details[0].header
        (latch,) = self.cfg.loops[header].latches
        end = self.cfg.blocks[latch].end - 1
        left = {
            self.carried[d.at]: self.values(d.source, header)
            for d in details
            if d.source is not None
        }
        # A parallel move in order. There is no cycle that would need a spare register: each value
        # comes from an access one step nearer to where the addresses go.
        while left:
            read = {name for held in left.values() for name in held}
            slot = next(slot for slot in left if read.isdisjoint(slot))
            widths = (self.builder.names.kind(name) for name in slot)
            self._lines(header).put_before(
                end,
                *(f"mov.{width} {a}, {b};"
                  for width, a, b in zip(widths, slot, left.pop(slot), strict=True)),
            )  # fmt: skip

    # ------------------------------------------------------------ stores

    def _put_off(self, detail: DeferredStores) -> None:
        held = self.names(detail.stores[-1])
        instructions, lines = self.cfg.instructions, self._lines(detail.header)
        if detail.loaded:
            load = instructions[detail.loads[0]]
            self._load_in_front(detail.header, load, detail.computed, held)
        # Without loads nobody sees the earlier stores, and only the last value is kept.
        for at in detail.stores[:-1] if not detail.loads else ():
            lines.replace(at)
        for at in detail.stores if detail.loads else detail.stores[-1:]:
            values = elements(instructions[at])
            lines.replace(
                at,
                *(f"mov.{self.builder.names.kind(name)} {name}, {written(value)};"
                  for name, value in zip(held, values, strict=True)),
            )  # fmt: skip
        for at in detail.loads:
            lines.replace(at, *self._moves(elements(instructions[at]), held))
        last = instructions[detail.stores[-1]]
        value = held[0] if len(held) == 1 else f"{{{', '.join(held)}}}"
        store = f"{last.name} {place(isa.address(last))}, {value};"
        loop = self.cfg.loops[detail.header]
        for source, target in loop.exits:
            end = self.cfg.blocks[source].end - 1
            # If the taken branch leaves the loop, the store goes before it, under its guard. If it
            # stays in the loop, only threads that leave get past it.
            taken = self.cfg.blocks[source].successors[0] == target
            if taken:
                lines.put_before(end, f"{self.builder.guard(end)}{store}")
            else:
                lines.put_after(end, store)

    # ------------------------------------------------------------ in front of the loop

    def _in_front(self, header: int, lines: Sequence[str]) -> None:
        """Put lines where control enters a loop."""
        labels = set(self.cfg.blocks[header].labels)
        loop = self.cfg.loops[header]
        entering = None
        for number in self.cfg.predecessors[header]:
            end = self.cfg.blocks[number].end - 1
            branch = self.cfg.instructions[end]
            symbols = [o for o in branch.operands if isinstance(o, Symbol)]
            if number in loop.blocks or branch.opcode != "bra" or symbols[0].name not in labels:
                continue
            entering = entering or self.builder.names.label("enter")
            line = self.text[branch.span.start : branch.span.end]
            self.builder.replace(end, renamed(line, {symbols[0].name: entering}))
        first = self.builder.labels_before(self.cfg.blocks[header].start)
        lines = [f"{entering}:", *lines] if entering else lines
        self.builder.also(insert_lines(self.text, first, lines))


def element_width(lowering: Lowering, at: int, operand: Operand) -> int:
    """The width in bits of the register that stands for one element of an access."""
    if isinstance(operand, Reg):
        return lowering.builder.width(operand)
    return max(16, type_width(isa.access_type(lowering.cfg.instructions[at]) or ""))  # no `mov.b8`


def lower(
    builder: Builder, text: str, function: Function, cfg: Cfg, changes: Sequence[Change]
) -> None:
    """Write all changes; `text` is that of the whole module."""
    Lowering(builder, text, function, cfg).lower(changes)


def shared_test(details: Iterable[Any]) -> EntryGuard | None:
    """The one test at entry of all changes of a kernel, if there is one."""
    tests = {d.test for d in details if not isinstance(d.test, GuardedLoop)}
    assert len(tests) <= 1, "all changes of a kernel share one test at entry"
    return next(iter(tests), None)
