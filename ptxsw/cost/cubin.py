"""A cubin as ptxas writes it: an ELF file of 64 bits with a section of code for each function.

What is read, none of which NVIDIA describes (checked against `ptxas -v` and nvdisasm in the tests):

`.text.NAME`            the code; symbols of type FUNC inside it are the routines that it calls
`.nv.info`              for each function its registers (attribute 0x2f) and stack frame (0x11)
`.nv.info.NAME`         barriers (0x4c), the most threads of a block (0x10, 0x05), and the targets
                        of each indirect branch (0x34)
`.nv.shared.NAME`       as large as its static shared memory; from sm_90 on plus the 1 KiB that
                        the system takes for each block
`.nv_debug_line_sass`   with `-lineinfo`: lines of the PTX, as a line program of DWARF 2 to 4

Attribute numbers are those that CuAssembler (D. Yan, github.com/cloudcores/CuAssembler) gives.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field

_RESERVED: Final = 1024  # bytes of shared memory, part of `.nv.shared.NAME` from sm_90 on
_FUNCTION: Final = 2  # st_info of a function symbol
_ENTRY: Final = 0x10  # st_other of a kernel
_LINES: Final = ".nv_debug_line_sass"


class BadCubin(ValueError):
    """These bytes are no cubin that can be read; the message says why."""


class Section(NamedTuple):
    """A section: `size` in bytes, `data` empty where the file holds none; `link` and `info` are
    numbers of other sections or symbols, by its type."""

    name: str
    type: int
    data: bytes
    size: int
    link: int
    info: int


class CubinSymbol(NamedTuple):
    """A symbol: `value` is an offset in bytes into section number `section`."""

    name: str
    type: int
    other: int
    section: int
    value: int
    size: int


class FunctionCode(Struct, frozen=True, kw_only=True):
    """One function of a cubin. Sizes and offsets are in bytes; `stack` is a thread's frame and
    `shared` a block's static shared memory. `routines` are the functions inside this code, by
    offset: what ptxas did not inline, and its own for divisions and roots. `lines` has the PTX
    line from an offset on, as far as the next one; None where that is not known."""

    name: str
    entry: bool  # a kernel, not a device function
    code: bytes
    registers: int
    stack: int
    shared: int
    barriers: int
    routines: tuple[tuple[int, str], ...]
    branches: Mapping[int, tuple[int, ...]]  # targets of each indirect branch
    lines: tuple[tuple[int, int | None], ...]
    block: tuple[int, ...] = ()  # the most threads along each axis, where the kernel bounds them


class Cubin(Struct, frozen=True):
    """`arch` is the number of the architecture: 80 for sm_80."""

    arch: int
    functions: tuple[FunctionCode, ...]


class _Elf(Struct):
    sections: list[Section]
    symbols: list[CubinSymbol] = field(default_factory=list)

    def named(self, name: str) -> Section | None:
        return next((s for s in self.sections if s.name == name), None)


def read(cubin: bytes) -> Cubin:
    """The functions of a cubin. Raises BadCubin."""
    try:
        elf = _elf(cubin)
        return Cubin(_architecture(cubin), tuple(_functions(elf, _architecture(cubin))))
    except BadCubin:
        raise
    except (struct.error, IndexError, ValueError, ZeroDivisionError) as error:
        raise BadCubin(f"the cubin is cut off or damaged: {error}") from error


def _functions(elf: _Elf, arch: int) -> Iterator[FunctionCode]:
    general = list(_attributes(elf.named(".nv.info")))
    lines = _line_rows(elf)
    for number, symbol in enumerate(elf.symbols):
        section = elf.sections[symbol.section] if symbol.section < len(elf.sections) else None
        if section is None or symbol.type != _FUNCTION or section.name != f".text.{symbol.name}":
            continue
        own = list(_attributes(elf.named(f".nv.info.{symbol.name}")))
        shared = elf.named(f".nv.shared.{symbol.name}")
        reserved = _RESERVED if arch >= 90 else 0
        inside = {
            s.value: s.name
            for s in elf.symbols
            if s.section == symbol.section and s.type == _FUNCTION and s.value
        }
        yield FunctionCode(
            name=symbol.name,
            entry=bool(symbol.other & _ENTRY),
            code=section.data,
            registers=_of_symbol(general, 0x2F, number),
            stack=_of_symbol(general, 0x11, number),
            shared=max(shared.size - reserved, 0) if shared is not None else 0,
            barriers=max((data[0] for kind, data in own if kind == 0x4C), default=0),
            routines=tuple(sorted(inside.items())),
            branches=dict(_branches(own)),
            lines=tuple(lines.get(symbol.section, ())),
            block=_block(own),
        )


# ---------------------------------------------------------------- ELF


def _architecture(cubin: bytes) -> int:
    """From the flags: in their lowest byte, from layout 8 on in the second one."""
    flags = int(struct.unpack_from("<I", cubin, 48)[0])
    return flags >> 8 & 0xFF if cubin[8] >= 8 else flags & 0xFF


def _elf(cubin: bytes) -> _Elf:
    if cubin[:5] != b"\x7fELF\x02":
        raise BadCubin("this is not a 64-bit ELF file")
    start = struct.unpack_from("<Q", cubin, 40)[0]
    count, names = struct.unpack_from("<HH", cubin, 60)
    if not count:
        raise BadCubin("this ELF file has no sections")
    heads = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + 64 * i) for i in range(count)]
    sections = []
    for name, kind, _, _, offset, size, link, info, _, _ in heads:
        data = b"" if kind == 8 else cubin[offset : offset + size]  # SHT_NOBITS
        sections.append(Section(_text(cubin, heads[names][4] + name), kind, data, size, link, info))
    elf = _Elf(sections)
    table = elf.named(".symtab")
    if table is not None:
        strings = sections[table.link].data
        for name, info, other, index, value, size in struct.iter_unpack("<IBBHQQ", table.data):
            symbol = CubinSymbol(_text(strings, name), info & 15, other, index, value, size)
            elf.symbols.append(symbol)
    return elf


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


# ---------------------------------------------------------------- attributes


def _attributes(section: Section | None) -> Iterator[tuple[int, bytes]]:
    """Kind and payload of each: format 4 has a length, the others carry two bytes in its place."""
    data = section.data if section is not None else b""
    at = 0
    while at + 4 <= len(data):
        form, kind, size = struct.unpack_from("<BBH", data, at)
        payload = data[at + 4 : at + 4 + size] if form == 4 else data[at + 2 : at + 4]
        yield kind, payload
        at += 4 + (size if form == 4 else 0)


def _of_symbol(attributes: list[tuple[int, bytes]], kind: int, symbol: int) -> int:
    for its_kind, data in attributes:
        if its_kind == kind:
            number, value = struct.unpack("<II", data)
            if number == symbol:
                return int(value)
    return 0


def _block(attributes: list[tuple[int, bytes]]) -> tuple[int, ...]:
    for wanted in (0x10, 0x05):  # as .reqntid says, or as .maxntid does
        for kind, data in attributes:
            if kind == wanted:
                return struct.unpack("<3I", data[:12])
    return ()


def _branches(attributes: list[tuple[int, bytes]]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Offset and targets of each indirect branch: its offset, a word of no known meaning, their
    number, and they."""
    for kind, data in attributes:
        words = struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])
        at = 0
        while kind == 0x34 and at + 3 <= len(words):
            count = words[at + 2]
            yield words[at], words[at + 3 : at + 3 + count]
            at += 3 + count


# ---------------------------------------------------------------- lines of the PTX


class _Reader:
    """Numbers from a line program, in order."""

    def __init__(self, data: bytes) -> None:
        self.data: Final = data
        self.at = 0

    def fixed(self, form: str) -> int:
        value = int(struct.unpack_from("<" + form, self.data, self.at)[0])
        self.at += struct.calcsize("<" + form)
        return value

    def byte(self) -> int:
        value = self.data[self.at]
        self.at += 1
        return value

    def variable(self, *, signed: bool = False) -> int:
        """A LEB128 number."""
        byte = self.byte()
        value, shift = byte & 0x7F, 7
        while byte & 0x80:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
        return value - (1 << shift) if signed and byte & 0x40 else value


class _Program(NamedTuple):
    """The head of a line program."""

    end: int
    unit: int
    base: int
    spread: int
    lengths: tuple[int, ...]  # operands of the standard opcodes


def _line_rows(elf: _Elf) -> dict[int, list[tuple[int, int | None]]]:
    """Offset and line by the number of the section of code."""
    section = elf.named(_LINES)
    if section is None:
        return {}
    places = _relocated(elf)
    reader = _Reader(section.data)
    rows: dict[int, list[tuple[int, int | None]]] = {}
    while reader.at + 4 < len(section.data):
        program = _program(reader)
        for owner, offset, line in _run(reader, program, places):
            rows.setdefault(owner, []).append((offset, line))
        reader.at = max(reader.at, program.end)
    for lines in rows.values():
        lines.sort(key=lambda row: row[0])
    return rows


def _relocated(elf: _Elf) -> dict[int, tuple[int, int]]:
    """Section and offset that belong at each place of the line program where an address stands."""
    places = {}
    for name, form in ((f".rel{_LINES}", "<QQ"), (f".rela{_LINES}", "<QQq")):
        section = elf.named(name)
        for entry in struct.iter_unpack(form, section.data) if section is not None else ():
            symbol = elf.symbols[entry[1] >> 32]
            places[entry[0]] = (symbol.section, symbol.value + (entry[2] if len(entry) > 2 else 0))
    return places


def _program(reader: _Reader) -> _Program:
    """Reads a head, and leaves the reader at the first opcode."""
    length = reader.fixed("I")
    end = reader.at + length
    version = reader.fixed("H")
    if not 2 <= version <= 4:
        raise BadCubin(f"its lines are in version {version} of DWARF, which is not read")
    header = reader.fixed("I")
    opcodes = reader.at + header
    unit = reader.byte()
    if version == 4:
        reader.byte()  # operations of one instruction
    reader.byte()  # is each row a statement
    base, spread, count = reader.fixed("b"), reader.byte(), reader.byte()
    lengths = tuple(reader.byte() for _ in range(count - 1))
    reader.at = opcodes
    return _Program(end, unit, base, spread, lengths)


def _run(
    reader: _Reader, program: _Program, places: Mapping[int, tuple[int, int]]
) -> Iterator[tuple[int, int, int | None]]:
    """Section, offset and line of each row that the program makes; no line at its ends."""
    owner, offset, line = 0, 0, 1
    first = len(program.lengths) + 1
    while reader.at < program.end:
        code = reader.byte()
        if code >= first:  # one of its own: both advance, and a row
            step = code - first
            offset += step // program.spread * program.unit
            line += program.base + step % program.spread
            yield owner, offset, line
        elif code == 0:
            size = reader.variable()
            after = reader.at + size
            kind = reader.byte()
            if kind == 1:  # the end of a sequence
                yield owner, offset, None
                owner, offset, line = 0, 0, 1
            elif kind == 2:  # an address
                owner, offset = places.get(reader.at, (0, 0))
            reader.at = after
        elif code == 1:
            yield owner, offset, line
        elif code == 2:
            offset += reader.variable() * program.unit
        elif code == 3:
            line += reader.variable(signed=True)
        elif code == 8:  # as the opcode 255, without a row
            offset += (255 - first) // program.spread * program.unit
        elif code == 9:
            offset += reader.fixed("H")
        else:
            for _ in range(program.lengths[code - 1]):
                reader.variable()
