"""Vectorize (NVCUDA, 3.3): accesses of one thread to adjacent addresses become one vector access.

    ld.global.f32 %f1, [%rd4];             ld.global.v2.f32 {%sw_element1, %sw_element2}, [%rd4];
    add.f32 %f3, %f1, %f9;          =>     mov.b32 %f1, %sw_element1;
    ld.global.f32 %f2, [%rd4+4];           add.f32 %f3, %f1, %f9;
                                           mov.b32 %f2, %sw_element2;

A vector has to be aligned to its size. That is proved from what is declared (`.align`,
`.ptr .align`), constants and strides; or, where all but pointers among the parameters is known to
be a multiple, tested once where the kernel begins, on the parameters. The whole grid takes the
same way, and where the test fails, the accesses as they were:

    @%sw_misaligned1 bra $sw_narrow1;
    ld.global.v2.f32 {%sw_element1, %sw_element2}, [%rd4];
    $sw_wide1:

A vector covers exactly the bytes of its elements: no byte is read or written that was not before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ptxsw import isa
from ptxsw.analysis.coalescing import LANES, lane_stride, touched
from ptxsw.bits import wrapped
from ptxsw.change import Change, Refusal, Worth
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_vectorize import WideAccess, lower
from ptxsw.codegen.splice import Edit
from ptxsw.emulator.affine import Affine
from ptxsw.emulator.node import Term, ones, split
from ptxsw.emulator.trace import Access
from ptxsw.flow.segments import segments
from ptxsw.ir import Float, Int, Mem, Reg, Symbol, type_width
from ptxsw.isa import Effect
from ptxsw.plan import Proof
from ptxsw.rewrites.base import Found, Kernel, Requires

_SPACES = frozenset({"global", "shared", "local"})
_LONGEST = 16  # bytes of a vector
_ORDERS = Effect.FENCE | Effect.BARRIER | Effect.ASYNC | Effect.ATOMIC | Effect.CALL
_STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "mmio", "unified"})
_TRIPS = 16  # taken for every loop
_LINE = 128  # bytes

_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Member:
    """A scalar access, and its bytes from the common part of its group's addresses."""

    access: Access
    offset: int

    @property
    def index(self) -> int:
        return self.access.index


class Vectorize:
    """See above."""

    name: ClassVar[str] = "vectorize"
    summary: ClassVar[str] = "Accesses of one thread to adjacent addresses become one of a vector."
    requires: ClassVar[Requires] = Requires(words=tuple(
        f"{opcode}.{space}" for opcode in ("ld", "st") for space in sorted(_SPACES)
    ))  # fmt: skip
    opt_in: ClassVar[bool] = False
    follows: ClassVar[frozenset[str]] = frozenset()

    def find(self, kernel: Kernel) -> Iterator[Found]:
        """Vectors that are aligned, or may be tested to be."""
        for group in _groups(kernel):
            taken: set[int] = set()
            for members in _runs(group):
                if taken.isdisjoint(m.index for m in members):
                    found = _vector(kernel, members)
                    if isinstance(found, Change):
                        taken.update(found.replaces)
                    if found is not None:
                        yield found

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        builder = Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)
        lower(builder, changes)
        return builder.edits()


# ---------------------------------------------------------------- which accesses


def _groups(kernel: Kernel) -> Iterator[list[_Member]]:
    """Accesses of one segment that differ in a constant of their addresses alone."""
    number = segments(kernel.trace.cfg)
    found: dict[_Key, list[_Member]] = {}
    for access in kernel.trace.accesses:
        if not _is_plain(access):
            continue
        constant, items = split(access.variants[0].address)
        ins = access.instruction
        key = (number[access.index], ins.opcode, ins.modifiers, _held(kernel, access), items)
        offset = wrapped(constant, access.variants[0].address.width)
        found.setdefault(key, []).append(_Member(access, offset))
    yield from (group for group in found.values() if len(group) > 1)


def _is_plain(access: Access) -> bool:
    """Is it a weak scalar access under no guard, of one known address and with a named space?"""
    ins = access.instruction
    return (
        ins.opcode in ("ld", "st")
        and ins.guard is None
        and isa.space(ins) in _SPACES
        and not isa.effects(ins.opcode, ins.modifiers) & _ORDERS
        and _STRONG.isdisjoint(ins.modifiers)
        and access.elements == 1
        and access.bits in (8, 16, 32, 64)
        and len(access.variants) == 1
        and not any(m in ("v2", "v4", "v8") for m in ins.modifiers)
        and all(isinstance(o, Reg | Int | Float | Mem) for o in ins.operands)
        and isinstance(_address(access).base, Reg | Symbol)
    )


def _address(access: Access) -> Mem:
    return next(o for o in access.instruction.operands if isinstance(o, Mem))


def _held(kernel: Kernel, access: Access) -> int:
    """The width of the register that holds what is moved, in bits."""
    value = access.instruction.operands[0 if access.kind == "load" else 1]
    if isinstance(value, Reg):
        return kernel.function.body.width(value)
    return max(16, type_width(access.instruction.modifiers[-1]))


def _runs(group: Sequence[_Member]) -> Iterator[list[_Member]]:
    """Members at adjacent addresses, as many as a vector may have, long ones first. Of loads at
    one address the first is taken, of stores none."""
    at: dict[int, list[_Member]] = {}
    for member in group:
        at.setdefault(member.offset, []).append(member)
    stores = group[0].access.kind == "store"
    places = sorted(offset for offset, same in at.items() if len(same) == 1 or not stores)
    size = group[0].access.bytes
    for count in (4, 2):
        if count * size > _LONGEST:
            continue
        for start in places:
            offsets = [start + size * n for n in range(count)]
            if all(offset in at and offset in places for offset in offsets):
                yield [at[offset][0] for offset in offsets]


# ---------------------------------------------------------------- may they be joined?


def _vector(kernel: Kernel, members: Sequence[_Member]) -> Change | Refusal | None:
    """The members as one vector; None where it would not be aligned."""
    lowest = members[0].access
    size = lowest.bytes * len(members)
    parameters = _tested(kernel, lowest.variants[0].address, size)
    if parameters is None or (not parameters and isa.space(lowest.instruction) == "shared"):
        return None  # ptxas joins shared accesses that it knows to be aligned
    loads = lowest.kind == "load"
    order = sorted(member.index for member in members)
    at = order[0] if loads else order[-1]
    if parameters and not _visible(members, at):
        return None
    reason = _obstacle(kernel, members, at)
    if reason is not None:
        return Refusal("vectorize", at, reason)
    lead = next(member for member in members if member.index == at)
    detail = WideAccess(
        tuple(m.index for m in members), at, members[0].offset - lead.offset, size, parameters
    )
    worth = _worth(kernel, members, size, tested=bool(parameters))
    if kernel.options.mode == "auto" and (worth.instructions > 0 or worth.wavefronts > 0):
        return Refusal("vectorize", at, "a vector would take no fewer instructions or wavefronts")
    tests = (f"{' + '.join(parameters)} is a multiple of {size}",) if parameters else ()
    return Change("vectorize", at, frozenset(order), Proof(tests=tests), detail, worth=worth)


def _visible(members: Sequence[_Member], at: int) -> bool:
    """Can the registers of the address be named where the body ends?"""
    base = next(_address(m.access).base for m in members if m.index == at)
    return getattr(base, "scope", 0) == 0


def _obstacle(kernel: Kernel, members: Sequence[_Member], at: int) -> str | None:
    """Why an access cannot be made together with the others."""
    indices = {member.index for member in members}
    first, last = min(indices), max(indices)
    accesses = {access.index: access for access in kernel.trace.accesses}
    for index in range(first + 1, last):
        instruction = kernel.trace.cfg.instructions[index]
        effects = isa.effects(instruction.opcode, instruction.modifiers)
        named = f"{instruction.name} (line {kernel.line(index)})"
        if effects & _ORDERS:
            return f"{named} orders memory in between"
        moved = [
            m for m in members if m.index != at and min(m.index, at) < index < max(m.index, at)
        ]
        reads = bool(effects & Effect.READ) and members[0].access.kind == "store"
        if not moved or index in indices or not (effects & Effect.WRITE or reads):
            continue
        other = accesses.get(index)
        if other is None or not all(_apart(kernel, m.access, other) for m in moved):
            return f"{named} may {'write' if effects & Effect.WRITE else 'read'} these bytes"
    return None


def _apart(kernel: Kernel, one: Access, other: Access) -> bool:
    """Do two accesses of one thread certainly touch different bytes?"""
    spaces = isa.space(one.instruction), isa.space(other.instruction)
    if spaces[0] != spaces[1]:
        return "generic" not in spaces
    if isa.space(one.instruction) == "global" and "nc" in one.instruction.modifiers:
        return True
    terms = kernel.trace.terms
    for variant in other.variants:
        distance = terms.sub(variant.address, one.variants[0].address)
        if distance.kind != "const":
            return False
        if -other.bytes < wrapped(distance.value, distance.width) < one.bytes:
            return False
    return True


# ---------------------------------------------------------------- alignment


def _tested(kernel: Kernel, address: Term, size: int) -> tuple[str, ...] | None:
    """The parameters whose sum has to be a multiple of the vector's size; none where alignment
    is proved, None where it cannot be tested on parameters alone."""
    constant, items = split(address)
    if constant % size:
        return None
    tested = []
    for term, factor in items:
        name = _pointer(kernel, term) if factor == 1 else None
        if name is not None and _declared(kernel, name) < size:
            tested.append(name)
        elif name is None and (factor * _multiple(kernel, term)) % size:
            return None
    return tuple(sorted(tested))


def _pointer(kernel: Kernel, term: Term) -> str | None:
    """The parameter of the kernel that a term is, if it has the size of a pointer."""
    if term.kind == "atom" and term.width == 64:
        for parameter in kernel.function.params:
            wide = parameter.type in ("u64", "b64", "s64") and not parameter.dims
            if wide and parameter.name == term.value:
                return parameter.name
    return None


def _declared(kernel: Kernel, name: str) -> int:
    """The alignment that `.ptr .align` declares for what a parameter points to, in bytes."""
    parameter = next(p for p in kernel.function.params if p.name == name)
    for attribute in parameter.attributes:
        word, _, number = attribute.partition(" ")
        if word == "align" and number.isdigit():
            return int(number)
    return 1


def _multiple(kernel: Kernel, term: Term, depth: int = 0) -> int:
    """A power of two that divides the value of a term."""
    if depth > _DEEPEST:
        return 1
    match term.kind:
        case "const" | "sum":
            constant, items = split(term)
            found = [_lowest(constant)] if constant else []
            found += [_lowest(f) * _multiple(kernel, t, depth + 1) for t, f in items]
            return min(found, default=_MOST)
        case "zext" | "sext":
            inner = _multiple(kernel, term.args[0], depth + 1)
            return min(inner, 1 << term.args[0].width)
        case "mul":
            product = 1
            for factor in term.args:
                product *= _multiple(kernel, factor, depth + 1)
            return min(product, _MOST)
        case "atom" if str(term.value).startswith("&"):
            return _variable(kernel, str(term.value)[1:])
        case _:
            return min(_lowest(ones(term)), _MOST)


_MOST = 1 << 12
_DEEPEST = 40


def _lowest(value: int) -> int:
    """The largest power of two that divides a number."""
    return value & -value if value else _MOST


def _variable(kernel: Kernel, name: str) -> int:
    """The alignment of a variable, in bytes."""
    for variable in (*kernel.function.body.variables, *kernel.module.variables):
        if variable.name == name and variable.space != "reg":
            return variable.align or max(1, type_width(variable.type) // 8)
    return 1


# ---------------------------------------------------------------- worth


def _worth(kernel: Kernel, members: Sequence[_Member], size: int, *, tested: bool) -> Worth:
    """What joining adds for a warp: loops around it are taken 16 times."""
    cfg = kernel.trace.cfg
    depth = len(cfg.loops_around(cfg.block_of[members[0].index]))
    times = float(_TRIPS ** min(depth, 3))
    single = sum(_wavefronts(m.access, m.access.bytes) for m in members)
    joined = _wavefronts(members[0].access, size)
    return Worth((1 + tested - len(members)) * times, (joined - single) * times)


def _wavefronts(access: Access, size: int) -> int:
    """The lines of 128 bytes that a warp touches, and no fewer than its bytes fill."""
    stride = lane_stride(Affine(), access)
    if stride is None:
        return LANES
    lines = touched((lane * stride for lane in range(LANES)), size, _LINE)
    return max(len(lines), LANES * size // _LINE if stride else 1)
