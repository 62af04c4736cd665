"""What a kernel touches of the memory that threads share, and what of it is not followed.

ld.shared.f32 %f1, [%r1];                   4 bytes, read
cp.async.ca.shared.global [%r1], [%rd1], 16;    16 bytes written, and 16 read elsewhere
atom.global.add.u32 %r2, [%rd2], 1;         4 bytes, written, strong, over the whole device
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, structs

from ptxsw.analysis.traffic import read_by_copy
from ptxsw.correctness import callees
from ptxsw.correctness.subject import Subject
from ptxsw.emulator.trace import Access
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction
from ptxsw.ptx.isa import Effect
from ptxsw.terms.terms import Terms

_READ_APART = frozenset({"tex", "suld", "txq", "suq", "tld4"})
"""Reads of textures and surfaces: what these lie in is taken to be no array of the kernel."""

_SHARED = 32  # bits of an address
_SUMS = frozenset({"add", "min", "max", "and", "or", "xor"})
_ROUNDED = frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"})
_NARROW = frozenset({"cta", "cluster"})
_FOLLOWED = frozenset({"ld", "ldu", "st", "atom", "red", "ldmatrix", "stmatrix", "discard"})


class Touch(Struct, frozen=True):
    """An access, or one of the two that a copy makes. `wide`: its scope goes beyond the block.
    `constant`: nobody may write there while the kernel runs. `lasting`: it goes on until its thread
    waits for it."""

    access: Access
    write: bool
    strong: bool = False
    wide: bool = False
    constant: bool = False
    lasting: bool = False
    commutes: bool = False  # an update that nobody reads the result of, with others of its name

    @property
    def index(self) -> int:
        return self.access.index

    @property
    def is_shared(self) -> bool:
        return self.access.space == "shared"


def conflict(a: Touch, b: Touch, same_block: bool) -> bool:
    """Would two accesses of one byte by different threads race, unordered?"""
    if not (a.write or b.write):
        return False
    if a.strong and b.strong and a.access.bits == b.access.bits:
        return not (same_block or (a.wide and b.wide))
    return True


def touches(subject: Subject) -> tuple[Touch, ...]:
    """The accesses to memory that other threads see, in the order of the text."""
    cfg = subject.cfg
    read = {reg for at in cfg.indices(cfg.order) for reg in cfg.read[at]}
    commuting = frozenset(
        access.index
        for access in subject.trace.accesses
        if access.kind == "atomic"
        and read.isdisjoint(cfg.written[access.index])
        and _commutes(access.instruction)
    )
    return tuple(
        touch
        for access in subject.trace.accesses
        if access.space not in callees.OWN and access.space not in ("tex", "surf")
        for touch in _of(_narrowed(access, subject.trace.terms), commuting)
    )


def _commutes(update: Instruction) -> bool:
    """Is it all one in which order updates of its name are made, as far as memory goes?"""
    return bool(_SUMS & {*update.modifiers}) and isa.access_type(update) not in _ROUNDED


def _narrowed(access: Access, terms: Terms) -> Access:
    """Addresses in shared memory in the 32 bits that they have, so that `[tile]` and what
    `mov.u32 %r1, tile` leaves are alike."""
    if access.space != "shared":
        return access
    views = tuple(
        structs.replace(view, address=terms.extract(view.address, 0, _SHARED))
        if view.address.width > _SHARED
        else view
        for view in access.variants
    )
    return structs.replace(access, variants=views)


def _of(access: Access, commuting: frozenset[int]) -> Iterator[Touch]:
    instruction = access.instruction
    names = {modifier.partition("::")[0] for modifier in instruction.modifiers}
    match instruction.opcode:
        case "ldmatrix" | "stmatrix":
            yield Touch(access, instruction.opcode == "stmatrix")
        case "cp":
            yield from _copy(access)
        case "prefetch" | "prefetchu":
            return
        case opcode:
            strong = opcode in ("atom", "red") or bool(names & isa.STRONG)
            wide = strong and not names & _NARROW
            yield Touch(
                access, access.kind != "load", strong, wide, "nc" in names,
                commutes=access.index in commuting,
            )  # fmt: skip


def _copy(access: Access) -> Iterator[Touch]:
    """What `cp.async` writes, and what it reads."""
    yield Touch(structs.replace(access, kind="store"), True, lasting=True)
    read = read_by_copy(access)
    if read is not None:
        yield Touch(read, False, lasting=True)


def beyond_touches(subject: Subject) -> Iterator[tuple[int, str]]:
    """What may touch memory that threads share and is not among the touches: the instruction, and
    why not."""
    cfg, line = subject.cfg, subject.line
    for index, name in callees.outside(subject.module, cfg):
        yield index, f"line {line(index)} calls {name}, which is not followed"
    for index in cfg.indices(cfg.order):
        instruction = cfg.instructions[index]
        if instruction.opcode != "call" and not _is_followed(instruction):
            yield index, f"{instruction.name} at line {line(index)} is not followed"


def _is_followed(instruction: Instruction) -> bool:
    """Is it among the accesses of the trace, if any thread may come to it?"""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if not isa.known(instruction):
        return False
    touched = isa.effects(opcode, modifiers) & (
        Effect.READ | Effect.WRITE | Effect.ATOMIC | Effect.ASYNC
    )
    if opcode in ("membar", "fence", "bar", "barrier") or not touched:
        return opcode != "mapa"
    if isa.space(instruction) in callees.OWN or opcode in _READ_APART:
        return True
    if any(m.startswith("shared::cluster") for m in modifiers):
        return False
    if opcode == "cp":
        return "bulk" not in modifiers and "mbarrier" not in modifiers
    return opcode in _FOLLOWED and "async" not in modifiers


def constant_stored(subject: Subject, touch: Touch) -> int | None:
    """The value that a plain store always writes, if it is one constant."""
    instruction = touch.access.instruction
    if instruction.opcode != "st" or touch.strong or touch.access.elements != 1:
        return None
    return subject.cfg.literal(instruction.operands[-1])
