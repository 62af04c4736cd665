"""Adjacent accesses of one thread as one vector access; `rewrites/vectorize.py` has the lines
before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from ptxsw.changes.change import Change, Line
from ptxsw.codegen.builder import Builder, Insertions, written
from ptxsw.codegen.splice import Edit
from ptxsw.codegen.versioning import LoopPlace, before_loop, loop_twice, stretch_twice
from ptxsw.flow.dataflow import defs, uses
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Float, Instruction, Mem, Reg, Symbol, Variable, type_width
from ptxsw.ptx.patterns import pattern

Tests = tuple[tuple[tuple[str, ...], int, int], ...]
"""Sums of parameters, their width in bits, and what each sum has to be a multiple of."""

_FAR = 64
"""Instructions between vectors that are not worth writing twice."""


class WideAccess(Struct, frozen=True):
    """The accesses `members`, in the order of their addresses, become one vector at the place of
    member `at`: the first load, or the last store. None is an element that nobody reads. `offset`
    is added to the address of member `at` (bytes).

    The vector's alignment is known, or tested: where the kernel begins, on parameters, and then
    all instructions of a `stretch` around such vectors stand twice, or the whole `loop` around
    them; or, where there is a `group`, by each thread on the address itself, once for all vectors
    of a group and size. A variable that is to be `raised` is declared with this alignment.
    """

    members: tuple[int | None, ...]
    at: int
    offset: int
    size: int  # bytes of the vector
    tests: Tests = ()
    stretch: int = 0
    group: int | None = None
    loop: LoopPlace | None = None
    raised: Variable | None = None

    @property
    def start(self) -> int:
        """The first of its members."""
        return min(member for member in self.members if member is not None)

    @property
    def end(self) -> int:
        """The last of its members."""
        return max(member for member in self.members if member is not None)

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        lines = sorted(line(member) for member in self.members if member is not None)
        more = {} if self.raised is None else {"aligned": self.raised.name}
        return {"lines": lines, "bytes": self.size, **more}


class _Writer(Struct):
    builder: Builder
    text: str  # of the whole module
    tested: dict[tuple[int, int], str] = field(default_factory=dict)  # of groups and sizes
    asked: dict[Tests, str] = field(default_factory=dict)  # where the body begins

    def write(self, wide: WideAccess, lines: Insertions) -> None:
        """One vector, as lines around the instructions that it stands for."""
        builder = self.builder
        first = builder.instructions[wide.at]
        loads = first.opcode == "ld"
        width = moved_width(builder.width, first)
        names = [self._element(wide, member, width) for member in wide.members]
        vector, singles = self._accesses(wide, names)
        accesses = [vector]
        if wide.group is not None:
            misaligned = self._test_address(wide, lines)
            accesses = [f"@!{misaligned} {vector}", *(f"@{misaligned} {one}" for one in singles)]
        for name, member in zip(names, wide.members, strict=True):
            if member is None:
                continue
            access = builder.instructions[member]
            direct = loads and name == written(access.operands[0])
            copy = () if direct else (_copy(builder, member, name, width),)
            if member != wide.at:
                lines.replace(member, *copy)
            else:
                lines.replace(member, *([*accesses, *copy] if loads else [*copy, *accesses]))

    def write_twice(self, wides: Sequence[WideAccess]) -> None:
        """Vectors that stand close together, and the code around them as it was where one might be
        misaligned."""
        fast, misaligned = self._fast(wides)
        span = min(wide.start for wide in wides), max(wide.end for wide in wides)
        stretch_twice(self.builder, span, fast, misaligned)

    def write_loop_twice(self, place: LoopPlace, wides: Sequence[WideAccess]) -> None:
        """All vectors of a loop under a test, and the loop as it was where one might be
        misaligned: no iteration has to branch."""
        fast, misaligned = self._fast(wides)
        lines = loop_twice(self.builder, self.text, place, fast, (), misaligned)
        edit = before_loop(self.builder, self.text, place, lines)
        if edit is not None:
            self.builder.also(edit)

    def _fast(self, wides: Sequence[WideAccess]) -> tuple[Insertions, str]:
        """The lines of some vectors, and the predicate that one might be misaligned."""
        fast = Insertions()
        for wide in wides:
            self.write(wide, fast)
        tests = tuple(dict.fromkeys(test for wide in wides for test in wide.tests))
        return fast, self._test_parameters(_strictest(tests))

    def _element(self, wide: WideAccess, member: int | None, width: int) -> str:
        """The register of an element: the one that the load fills, where that may be done early."""
        if member is not None and self._may_be_filled(wide, member):
            return written(self.builder.instructions[member].operands[0])
        return self.builder.register("element", f"b{width}")

    def _may_be_filled(self, wide: WideAccess, member: int) -> bool:
        """May a load's register be written where the vector is made? It is not, where something
        between reads or writes it, or the vector's own address or guard is in it."""
        instructions = self.builder.instructions
        register = instructions[member].operands[0]
        if instructions[member].opcode != "ld" or not isinstance(register, Reg) or register.scope:
            return False
        # The single loads, which replace a misaligned vector, read the address one by one.
        if register in uses(instructions[wide.at]):
            return False
        others = [m for m in wide.members if m not in (None, member)]
        if any(register in defs(instructions[m]) for m in others if m is not None):
            return False
        return not self.builder.is_named(register, wide.at + 1, member)

    def _accesses(self, wide: WideAccess, names: list[str]) -> tuple[str, list[str]]:
        """The vector access, and one for each element."""
        first = self.builder.instructions[wide.at]
        *before, kind = (first.opcode, *first.modifiers)
        guard = self.builder.guard(wide.at)
        vector = f"{guard}{'.'.join((*before, f'v{len(names)}', kind))}"
        policy = "".join(f", {written(operand)}" for operand in first.operands[2:])
        step = wide.size // len(names)
        values = f"{{{', '.join(names)}}}"
        begin = _address(first, wide.offset)
        singles = [
            (name, _address(first, wide.offset + step * at))
            for at, (name, member) in enumerate(zip(names, wide.members, strict=True))
            if member is not None
        ]
        single = f"{guard}{first.name}"
        if first.opcode == "ld":
            return f"{vector} {values}, {begin}{policy};", [
                f"{single} {name}, {address}{policy};" for name, address in singles
            ]
        return f"{vector} {begin}, {values}{policy};", [
            f"{single} {address}, {name}{policy};" for name, address in singles
        ]

    # ------------------------------------------------------------ tests

    def _test_parameters(self, tests: Tests) -> str:
        """Compute the predicate, the same for all threads, that one of some tests fails. That is
        done where the body begins."""
        if tests in self.asked:
            return self.asked[tests]
        builder = self.builder
        whole = ""
        for parameters, width, size in tests:
            rest = self._rest(parameters, width, size)
            # All rests are 0 exactly if their `or` is: one comparison for all tests.
            if whole:
                both = builder.register("rest", "b32")
                builder.at_entry(f"or.b32 {both}, {whole}, {rest};")
            whole = both if whole else rest
        name = self.asked[tests] = builder.register("misaligned", "pred")
        builder.at_entry(f"setp.ne.s32 {name}, {whole}, 0;")
        return name

    def _rest(self, parameters: Sequence[str], width: int, size: int) -> str:
        """What a sum of parameters leaves, divided by a size."""
        builder = self.builder
        total = builder.register("base", f"b{width}")
        builder.at_entry(f"ld.param.u{width} {total}, [{parameters[0]}];")
        for parameter in parameters[1:]:
            other = builder.register("base", f"b{width}")
            builder.at_entry(f"ld.param.u{width} {other}, [{parameter}];")
            more = builder.register("base", f"b{width}")
            builder.at_entry(f"add.s{width} {more}, {total}, {other};")
            total = more
        if width == 64:
            whole, total = total, builder.register("base", "b32")
            builder.at_entry(f"cvt.u32.u64 {total}, {whole};")
        rest = builder.register("rest", "b32")
        builder.at_entry(f"and.b32 {rest}, {total}, {size - 1};")
        return rest

    def _test_address(self, wide: WideAccess, lines: Insertions) -> str:
        """The predicate of each thread that a vector would be misaligned; it is computed before
        the first one of a group."""
        assert wide.group is not None
        key = (wide.group, wide.size)
        if key in self.tested:
            return self.tested[key]
        builder = self.builder
        address = isa.address(builder.instructions[wide.at])
        width = builder.width(address.base) if isinstance(address.base, Reg) else 64
        total, rest = builder.register("place", f"b{width}"), builder.register("rest", f"b{width}")
        name = self.tested[key] = builder.register("misaligned", "pred")
        base, offset = _place(address, wide.offset)
        # A variable's name is an operand of `mov` alone.
        begin = f"add.s{width} {total}, {base}, {offset};"
        if isinstance(address.base, Symbol):
            begin = f"mov.b{width} {total}, {base}{f'+{offset}' if offset else ''};"
        lines.put_before(
            wide.at,
            begin,
            f"and.b{width} {rest}, {total}, {wide.size - 1};",
            f"setp.ne.s{width} {name}, {rest}, 0;",
        )
        return name


def lower(builder: Builder, text: str, changes: Iterable[Change]) -> None:
    """Write all changes; `text` is that of the whole module."""
    writer = _Writer(builder, text)
    details = [c.detail for c in changes if isinstance(c.detail, WideAccess)]
    twice: dict[int, list[WideAccess]] = {}
    loops: dict[LoopPlace, list[WideAccess]] = {}
    for wide in sorted(details, key=lambda each: each.at):
        if not wide.tests:
            writer.write(wide, builder.lines)
        elif wide.loop is not None:
            loops.setdefault(wide.loop, []).append(wide)
        else:
            twice.setdefault(wide.stretch, []).append(wide)
    for edit in _raised(text, details):
        builder.also(edit)
    for place, wides in loops.items():
        writer.write_loop_twice(place, wides)
    for wides in twice.values():
        for near in _near(wides):
            writer.write_twice(near)


def _raised(text: str, wides: Iterable[WideAccess]) -> Iterator[Edit]:
    """The declarations of variables that are to be aligned to the largest vector in them."""
    sizes: dict[Variable, int] = {}
    for wide in wides:
        if wide.raised is not None:
            sizes[wide.raised] = max(sizes.get(wide.raised, 1), wide.size)
    for variable, size in sizes.items():
        start, end = variable.span
        head, space, rest = text[start:end].partition(f".{variable.space}")
        rest = _ALIGN.sub("", rest, count=1)
        yield Edit(variable.span, f"{head}{space} .align {size}{rest}")


_ALIGN = pattern(r"\s*\.align\s+\w+")


def _near(wides: Iterable[WideAccess]) -> list[list[WideAccess]]:
    """Vectors of one stretch, parted where much code lies between."""
    clusters: list[list[WideAccess]] = []
    end = 0
    for wide in sorted(wides, key=lambda each: each.start):
        if not clusters or wide.start > end + _FAR:
            clusters.append([])
        clusters[-1].append(wide)
        end = max(end, wide.end)
    return clusters


def _strictest(tests: Tests) -> Tests:
    """Of several tests of one sum that of the largest size: it implies the others."""
    sizes: dict[tuple[tuple[str, ...], int], int] = {}
    for parameters, width, size in tests:
        sizes[parameters, width] = max(size, sizes.get((parameters, width), 1))
    return tuple((*key, size) for key, size in sizes.items())


def moved_width(width: Callable[[Reg], int], access: Instruction) -> int:
    """The width in bits of the register that holds an element, which may be wider than the element
    (manual 9.7.9.8); of a literal the narrowest that holds it."""
    operand = access.operands[0 if access.opcode == "ld" else 1]
    if isinstance(operand, Reg):
        return width(operand)
    return max(16, type_width(access.modifiers[-1]))


def _copy(builder: Builder, member: int, name: str, width: int) -> str:
    """Between an element's register and the operand of the access that it replaces."""
    access = builder.instructions[member]
    if access.opcode == "ld":
        return f"{builder.guard(member)}mov.b{width} {written(access.operands[0])}, {name};"
    value = access.operands[1]
    if isinstance(value, Reg):
        return f"mov.b{width} {name}, {written(value)};"
    kind = access.modifiers[-1]
    letter = "f" if isinstance(value, Float) and kind[0] == "f" else "b"
    return f"mov.{letter}{width} {name}, {written(value)};"


def _place(address: Mem, more: int) -> tuple[str, int]:
    """The name of what an address begins with, and the bytes from there."""
    base = address.base
    offset = address.offset + more
    if isinstance(base, Symbol):
        return base.name, base.offset + offset
    return written(base), offset


def _address(instruction: Instruction, more: int) -> str:
    base, offset = _place(isa.address(instruction), more)
    return f"[{base}{f'+{offset}' if offset else ''}]"
