"""Values that go from one iteration of a loop to the next in registers;
`rewrites/scalar_replacement.py` has the lines before and after. What is needed before the first
iteration is loaded in front of the loop's label, where only control comes that goes into the loop.
Where a test at entry decides, all changes of the kernel share it; where one before a loop does,
those of the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ptxsw.changes.change import Change
from ptxsw.codegen.builder import Builder, Insertions, elements, place, written
from ptxsw.codegen.entry_guard import EntryGuard, write_guarded
from ptxsw.codegen.loop_guard import GuardedLoop, write_test
from ptxsw.codegen.loop_registers import Carried, DeferredStores, Repeated
from ptxsw.codegen.overflow_checks import computed_again, renamed
from ptxsw.codegen.splice import insert_lines
from ptxsw.codegen.versioning import before_loop, loop_twice
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import defs
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function, Instruction, Mem, Operand, Reg, Symbol, type_width


class Lowering:
    """Writes the changes of one kernel."""

    def __init__(self, builder: Builder, text: str, function: Function, cfg: Cfg) -> None:
        self.builder, self.text, self.function, self.cfg = builder, text, function, cfg
        self.carried: dict[int, tuple[str, ...]] = {}  # registers by the load they stand for
        self.sources: dict[int, int] = {}
        self.saved: dict[int, tuple[str, ...]] = {}
        self.first: dict[int, list[str]] = {}  # lines in front of these, and of tests of loops
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
        lines: list[str] = []
        for position in computed:
            instruction = self.cfg.instructions[position]
            if position in self.carried or position in self.sources:
                (dest,), (held,) = isa.defs(instruction), self._held(position)
                names[dest.name] = held
            else:
                lines.append(computed_again(self.text, self.function, instruction, names, new))
        return lines, renamed(place(at), names)

    def _held(self, at: int) -> tuple[str, ...]:
        """The registers that hold what a load reads in every iteration."""
        return self.carried[at] if at in self.carried else self._held(self.sources[at])

    def hold(self, details: Iterable[Any]) -> None:
        """Name the registers of what is loaded before tests, and where loads take values from.
        Comes before what is said of any detail."""
        for detail in details:
            if isinstance(detail, Repeated):
                self.sources[detail.at] = detail.source
            elif isinstance(detail, Carried) and detail.register:
                (value,) = elements(self.cfg.instructions[detail.at])
                kind = f"b{element_width(self, detail.at, value)}"
                self.carried[detail.at] = (self.builder.names.declare(detail.register, kind),)

    def _lines(self, header: int) -> Insertions:
        """The lines of a loop, where they are written."""
        return self.twice.get(header, self.builder.lines)

    def lower(self, changes: Sequence[Change]) -> None:
        """Write them all."""
        details: list[Any] = [change.detail for change in changes]
        predicates = self.predicates(details)
        self.twice = {header: Insertions() for header in predicates}
        self.hold(details)
        # All registers are named before any load is replaced: a load may take its value from one
        # that comes later in the list.
        for detail in details:
            if isinstance(detail, Carried):
                self._carry(detail)
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
        for header in dict.fromkeys((*self.first, *self.front)):
            if header not in tested:
                lines = (*self.first.get(header, ()), *self.front.get(header, ()))
                self._in_front(header, lines)
        write_guarded(self.builder, [shared_test(details)])

    def _in_two_ways(self, header: int, test: GuardedLoop, predicate: str) -> None:
        """A loop with its own lines where a test holds, and as it was."""
        lines = self.first.get(header, [])
        lines += write_test(test.conditions, self.builder.register, predicate)
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

    def names_of(self, detail: Carried) -> tuple[str, ...]:
        """The registers that hold a value from iteration to iteration."""
        return self.carried[detail.at] if detail.register else self.names(detail.at)

    def _carry(self, detail: Carried) -> None:
        held = self.carried[detail.at] = self.names_of(detail)
        instruction = self.cfg.instructions[detail.at]
        in_front = self.first if detail.register else self.front
        lines = in_front.setdefault(detail.header, [])
        lines += self._load_in_front(instruction, detail.computed, held)

    def _load_in_front(
        self, instruction: Instruction, computed: Iterable[int], held: Sequence[str]
    ) -> list[str]:
        lines, where = self.address_again(
            computed, isa.address(instruction), lambda kind: self.builder.register("ahead", kind)
        )
        dest = held[0] if len(held) == 1 else f"{{{', '.join(held)}}}"
        space, kind = isa.space(instruction), isa.access_type(instruction)
        load = instruction.name if instruction.opcode == "ld" else f"ld.{space}.{kind}"
        return [*lines, f"{load} {dest}, {where};"]

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
            in_front = self.front.setdefault(detail.header, [])
            in_front += self._load_in_front(instructions[detail.first], detail.computed, held)
        # Without loads nobody sees the earlier stores, and only the last value is kept.
        seen = detail.loads or detail.compared
        for at in detail.stores[:-1] if not seen else ():
            lines.replace(at)
        for at in detail.stores if seen else detail.stores[-1:]:
            values = elements(instructions[at])
            lines.replace(
                at,
                *(f"mov.{self.builder.names.kind(name)} {name}, {written(value)};"
                  for name, value in zip(held, values, strict=True)),
            )  # fmt: skip
        for at in detail.loads:
            lines.replace(at, *self._moves(elements(instructions[at]), held))
        if detail.compared:
            self._compare(detail, held[0])
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

    def _compare(self, detail: DeferredStores, held: str) -> None:
        """Have loads that may be of the stored bytes ask whether they are. All of them are as wide
        and aligned, so that they have all bytes in common or none."""
        lines = self._lines(detail.header)
        target = self.place_of(detail)
        in_front = self.front.setdefault(detail.header, [])
        in_front += self.place_again(
            detail, target, lambda kind: self.builder.register("ahead", kind)
        )
        for at in detail.compared:
            load = self.cfg.instructions[at]
            (dest,), source = elements(load), isa.address(load)
            kind = self.builder.names.kind(held)
            loaded, same = (
                self.builder.register("loaded", kind),
                self.builder.register("same", "pred"),
            )
            new, address = list[str](), source.base.name if isinstance(source.base, Reg) else ""
            if source.offset:
                base, address = address, self.builder.register("read", "b64")
                new.append(f"add.s64 {address}, {base}, {source.offset};")
            lines.replace(
                at, f"{load.name} {loaded}, {place(source)};", *new,
                f"setp.eq.s64 {same}, {address}, {target};",
                f"selp.{kind} {written(dest)}, {held}, {loaded}, {same};",
            )  # fmt: skip

    def place_of(self, detail: DeferredStores) -> str:
        """A register that holds the address of stores that are put off."""
        return self.builder.register("place", "b64")

    def place_again(
        self, detail: DeferredStores, target: str, new: Callable[[str], str]
    ) -> list[str]:
        """Lines that leave the address of stores that are put off in a register."""
        address = isa.address(self.cfg.instructions[detail.first])
        lines, base = self.address_again(detail.computed, address._replace(offset=0), new)
        return [*lines, f"add.s64 {target}, {base.strip('[]')}, {address.offset};"]

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
