"""Bank conflicts: the addresses of shared memory are permuted inside rows of 128 bytes, so that
what a warp asks for lies in different banks.

    .shared .align 4 .b8 tile[4096];       .shared .align 128 .b8 tile[4096];
    ld.shared.f32 %f2, [%r21];      =>     shr.u32 %sw_row1, %r21, 5;
                                           and.b32 %sw_swap1, %sw_row1, 124;
                                           xor.b32 %sw_bank1, %r21, %sw_swap1;
                                           ld.shared.f32 %f2, [%sw_bank1];

The same permutation at every access of the kernel moves the whole memory one to one. So it only has
to be sure that every access is seen: nothing has to be known of indices, aliasing or races.
Arrays get whole rows. Dynamic memory, whose size only the launch gives, is permuted where it
consists of whole rows, which is asked once where the kernel begins.

Which permutation is best is counted on the addresses of some warps, `analysis/shared_banks.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ptxsw import isa
from ptxsw.analysis.joined_accesses import joined
from ptxsw.analysis.shared_banks import BankTraffic, Block, bank_traffic, wavefronts
from ptxsw.change import Change, Refusal, Worth
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_bank_conflicts import (
    PermutedBanks,
    SharedAccess,
    Writer,
    added,
    has_whole_rows,
    lower,
)
from ptxsw.codegen.splice import Edit
from ptxsw.emulator.node import Term, ones, split, walk
from ptxsw.emulator.trace import Access
from ptxsw.flow.dataflow import defs
from ptxsw.ir import Instruction, Mem, Reg, Special, Symbol, Variable, leaves, type_width
from ptxsw.isa import Effect
from ptxsw.permutation import ROW, Permutation
from ptxsw.plan import Proof
from ptxsw.rewrites.base import Found, Kernel, Requires

_SIMPLE = frozenset({"ld", "st", "atom", "red"})
_COMPARES = frozenset({"setp", "set", "isspacep", "slct", "min", "max"})
_TOUCHES = Effect.READ | Effect.WRITE | Effect.CALL
_GRANULES = (16, 8, 4)  # bytes
_SHIFTS = 6  # of each granule, from the first that reads above the row
_MOST_ADDED = 2.0  # instructions for each access
# An SM serves one wavefront of shared memory a cycle and issues four instructions. Whether a
# permutation is worth it is asked for half of that, since other warps may hide a conflict.
_ISSUED = 4.0
_WAVEFRONT = 2.0
_NONE_HELPS = "no permutation of this kind takes fewer wavefronts"
_STATIC = 48 * 1024  # bytes of arrays that a kernel may declare
_ASKS_SIZE = (4, 1)  # the version of PTX that has %dynamic_smem_size
_MOST_ITEMS = 4  # of a sum behind whose permutation something is added
_MILD = 2  # ways: what is left where rows are padded, for a block of another shape


class BankConflicts:
    """See above."""

    name: ClassVar[str] = "bank-conflicts"
    summary: ClassVar[str] = (
        "Addresses of shared memory are permuted so that banks do not conflict."
    )
    requires: ClassVar[Requires] = Requires(words=(".shared",))
    opt_in: ClassVar[bool] = True
    follows: ClassVar[frozenset[str]] = frozenset()

    def find(self, kernel: Kernel) -> Iterator[Found]:
        """One change of all shared accesses, or the reason why a kernel keeps its conflicts."""
        arrays = _arrays(kernel)
        places, end = _places(arrays)
        traffic = bank_traffic(kernel.trace, _blocks(kernel), places, end)
        in_row = _in_rows(kernel, arrays)
        scene = _Scene(kernel, arrays, in_row, {
            granule: joined(kernel.trace.cfg, traffic, in_row, granule) for granule in _GRANULES
        })  # fmt: skip
        conflicts = [t for t in scene.before if _conflicts(t)]
        if not conflicts:
            return
        hottest = max(conflicts, key=lambda t: t.weight * t.wavefronts(_stays))
        reason = _obstacle(kernel, arrays, scene.before)
        if reason is None:
            found = _best(scene)
            if isinstance(found, _Choice):
                yield _change(hottest.access.index, found)
                return
            reason = found
            if reason == _NONE_HELPS and not any(_conflicts(t, _MILD) for t in conflicts):
                return
        yield Refusal(self.name, hottest.access.index, reason)

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        builder = Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)
        declared = lower(builder, kernel.trace.cfg, kernel.text, changes)
        return (*builder.edits(), *declared)


def _stays(address: int) -> int:
    return address


def _conflicts(traffic: BankTraffic, ways: int = 1) -> bool:
    """Does some warp ask the banks more than `ways` times as often as for consecutive words?"""
    return any(
        wavefronts(one, traffic.size) > ways * -(-len(one) * max(4, traffic.size) // ROW)
        for one in traffic.requests
    )


# ---------------------------------------------------------------- what is known of a kernel


def _arrays(kernel: Kernel) -> tuple[Variable, ...]:
    """The variables in shared memory that the kernel names."""
    named = {
        (leaf.name, leaf.scope)
        for instruction in kernel.trace.cfg.instructions
        for leaf in leaves(instruction.operands)
        if isinstance(leaf, Symbol)
    }
    declared = (*kernel.module.variables, *kernel.function.body.variables)
    return tuple(v for v in declared if v.space == "shared" and (v.name, v.scope) in named)


def _is_dynamic(array: Variable) -> bool:
    return "extern" in array.linkage and None in array.dims


def _atom(array: Variable) -> str:
    """The name of an array's address among terms."""
    return f"&{array.name}@{array.scope}" if array.scope else f"&{array.name}"


def _places(arrays: Sequence[Variable]) -> tuple[dict[str, int], int | None]:
    """Addresses for arrays: whole rows one behind the other, what is dynamic at the end; and where
    shared memory ends, if that is known."""
    places: dict[str, int] = {}
    at = 0
    for array in sorted(arrays, key=_is_dynamic):
        places[_atom(array)] = at
        if not _is_dynamic(array):
            at += -(-_size(array) // ROW) * ROW
    return places, None if any(map(_is_dynamic, arrays)) else at


def _blocks(kernel: Kernel) -> tuple[Block, ...]:
    """Shapes of the block: the one that is declared or was given, or usual ones."""
    shape = kernel.function.block_shape or kernel.options.block or kernel.block
    if shape is not None:
        return (shape,)
    plane = any(
        term.value in ("%tid.y", "%tid.z")
        for access in kernel.trace.accesses
        if access.space == "shared"
        for variant in access.variants
        for term in walk(variant.address)
        if term.kind == "atom"
    )
    for name, text in kernel.function.directives:
        if name == "maxntid":
            sizes = [int(part) for part in text.replace(",", " ").split() if part.isdigit()]
            x, y, z = (*sizes, 1, 1, 1)[:3]
            if min(x, y, z) > 0 and (y > 1 or not plane):
                return ((x, y, z),)
    return ((32, 8, 1), (16, 16, 1)) if plane else ((256, 1, 1),)


# ---------------------------------------------------------------- what forbids it


def _obstacle(
    kernel: Kernel, arrays: Sequence[Variable], traffic: Sequence[BankTraffic]
) -> str | None:
    """Why the shared memory of a kernel cannot be permuted."""
    tainted = _addresses(kernel, arrays)
    for index, instruction in enumerate(kernel.trace.cfg.instructions):
        reason = _unseen(instruction, tainted)
        reason = reason or _escape(instruction, tainted, arrays)
        if reason is not None:
            return f"{instruction.name} (line {kernel.line(index)}) {reason}"
        if Special("%total_smem_size") in isa.uses(instruction):
            return "the kernel asks how much shared memory it has"
    for array in arrays:
        reason = _kept(kernel, array)
        if reason is not None:
            return reason
    return _grows_too_much(arrays) or _too_little_known(traffic)


def _unseen(instruction: Instruction, tainted: frozenset[Reg]) -> str | None:
    """Why an access may reach shared memory at an address that is not permuted."""
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    named = isa.space(instruction)
    shared = any(m.startswith("shared") for m in instruction.modifiers)
    if not effects & _TOUCHES or not (shared or named in ("shared", "generic", None)):
        return None
    if effects & Effect.CALL or not isa.known(instruction):
        return "may be handed an address of shared memory"
    if any(m.startswith("shared::cluster") for m in instruction.modifiers):
        return "reaches the shared memory of other blocks"
    if instruction.opcode not in _SIMPLE:
        return "reaches shared memory in a layout of its own"
    if named == "generic":  # memory-spaces, which comes first, has named what is known
        return "may reach shared memory through a generic address"
    address = next((o for o in instruction.operands if isinstance(o, Mem)), None)
    if address is None or address.extra:
        return "has an address of another form"
    if isinstance(address.base, Reg) and address.base not in tainted:
        return "has an address that is not built on an array of the kernel"
    if not isinstance(address.base, Reg | Symbol):
        return "has an address that is a number"
    if _bytes(instruction) not in (1, 2, 4, 8, 16):
        return "moves too many bytes at once"
    return None


def _bytes(instruction: Instruction) -> int:
    count = next((int(m[1:]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1)
    return type_width(isa.access_type(instruction) or "") * count // 8


def _addresses(kernel: Kernel, arrays: Sequence[Variable]) -> frozenset[Reg]:
    """The registers that may hold an address of shared memory, or part of one."""
    names = {(a.name, a.scope) for a in arrays}
    found: set[Reg] = set()
    grows = True
    while grows:
        grows = False
        for instruction in kernel.trace.cfg.instructions:
            new = set(defs(instruction)) - found
            if new and instruction.opcode not in _SIMPLE and _holds(instruction, found, names):
                found |= new
                grows = True
    return frozenset(found)


def _holds(instruction: Instruction, tainted: set[Reg], names: set[tuple[str, int]]) -> bool:
    sources = instruction.operands[isa.destinations(instruction) if isa.known(instruction) else 0 :]
    return any(
        leaf in tainted if isinstance(leaf, Reg)
        else isinstance(leaf, Symbol) and (leaf.name, leaf.scope) in names
        for leaf in leaves(sources)
    )  # fmt: skip


def _escape(
    instruction: Instruction, tainted: frozenset[Reg], arrays: Sequence[Variable]
) -> str | None:
    """What an instruction does with an address of shared memory, other than compute or access."""
    names = {(a.name, a.scope) for a in arrays}
    if instruction.opcode in _SIMPLE:
        values = [o for o in instruction.operands if not isinstance(o, Mem)]
        stored = values if instruction.opcode in ("st", "red") else values[1:]
        plain = instruction._replace(opcode="mov", modifiers=("b32",), operands=(None, *stored))  # type: ignore[arg-type]
        return "stores a shared address" if _holds(plain, set(tainted), names) else None
    if not _holds(instruction, set(tainted), names):
        return None
    if instruction.opcode == "cvta":
        return None if "to" in instruction.modifiers else "makes a shared address generic"
    if instruction.opcode in _COMPARES:
        return "compares a shared address"
    computes = not isa.effects(instruction.opcode, instruction.modifiers)
    if computes and instruction.opcode not in ("shfl", "vote", "match", "redux", "mapa"):
        return None
    return "passes a shared address on"


def _kept(kernel: Kernel, array: Variable) -> str | None:
    """Why the declaration of an array cannot be changed as it would have to be."""
    if _is_dynamic(array) and array in kernel.module.variables:
        old = kernel.module.version < _ASKS_SIZE
        return "PTX before 4.1 does not tell the size of dynamic memory" if old else None
    if not set(array.linkage) <= {"visible"}:
        return f"{array.name} is shared with another module"
    if array in kernel.module.variables and _named_elsewhere(kernel, array):
        return f"{array.name} is also named outside the kernel"
    return None


def _grows_too_much(arrays: Sequence[Variable]) -> str | None:
    """Why arrays of whole rows might not fit where the arrays did."""
    before = after = 0
    for array in arrays:
        if not _is_dynamic(array):
            size = _size(array)
            align = array.align or max(1, type_width(array.type) * array.vector // 8)
            before = -(-before // align) * align + size
            after = -(-after // max(align, ROW)) * max(align, ROW) + -(-size // ROW) * ROW
    if after > before and any(map(_is_dynamic, arrays)):
        return "its arrays would take more bytes, which the launch may have given away"
    return "its arrays would take more than 48 KiB" if after > max(before, _STATIC) else None


def _size(array: Variable) -> int:
    """The bytes of an array, 0 for one of dynamic size."""
    size = type_width(array.type) * array.vector // 8
    for count in array.dims:
        size *= count or 0
    return size


def _named_elsewhere(kernel: Kernel, array: Variable) -> bool:
    """Does the module name one of its arrays outside the kernel and the declaration?"""
    text, span = kernel.text, kernel.function.span
    spans = sorted((span, array.span), key=lambda s: s.start)
    rest = text[: spans[0].start], text[spans[0].end : spans[1].start], text[spans[1].end :]
    word = re.compile(rf"(?<![\w$%]){re.escape(array.name)}(?![\w$])")
    return any(word.search(_COMMENT.sub("", part)) for part in rest)


_COMMENT = re.compile(r"//[^\n]*")


def _too_little_known(traffic: Sequence[BankTraffic]) -> str | None:
    """Accesses of unknown addresses count as neutral, so they must not be what counts most."""
    known = max((t.weight for t in traffic if _conflicts(t)), default=0.0)
    unknown = max((t.weight for t in traffic if not t.requests), default=0.0)
    if unknown > known:
        return "the addresses of the accesses that are made most often are not known"
    return None


# ---------------------------------------------------------------- which permutation


@dataclass(frozen=True)
class _Scene:
    """What all permutations are judged by. `traffic` is what ptxas makes of the accesses where
    granules of so many bytes stay together."""

    kernel: Kernel
    arrays: Sequence[Variable]
    in_row: frozenset[int]
    traffic: Mapping[int, Sequence[BankTraffic]]

    @property
    def before(self) -> Sequence[BankTraffic]:
        return self.traffic[max(self.traffic)]

    def after(self, permutation: Permutation) -> Sequence[BankTraffic]:
        return self.traffic[permutation.granule]


@dataclass(frozen=True, slots=True)
class _Choice:
    detail: PermutedBanks
    saved: float  # wavefronts
    added: float  # instructions
    each: float  # instructions for one access


def _best(scene: _Scene) -> _Choice | str:
    """The permutation that gains most by count, or why none does."""
    before = _total(scene.before, _stays)
    shortlist: dict[tuple[int, int], tuple[float, Permutation]] = {}
    dynamic = tuple(a.name for a in scene.arrays if _is_dynamic(a))
    for permutation in _family(max(t.access.bytes for t in scene.before), dynamic):
        after = _total(scene.after(permutation), permutation.of)
        kind = (permutation.granule, len(permutation.shifts))
        if after < shortlist.get(kind, (before, None))[0] and _no_worse(
            scene, permutation, before - after
        ):
            shortlist[kind] = (after, permutation)
    if not shortlist:
        return _NONE_HELPS
    choices = [
        _choice(scene, permutation, before - after) for after, permutation in shortlist.values()
    ]
    if scene.kernel.options.mode == "auto":
        choices = [c for c in choices if c.each <= _MOST_ADDED and c.saved * _WAVEFRONT > c.added]
        if not choices:
            return "the instructions that it would add outweigh the wavefronts"
    return max(
        choices,
        key=lambda c: (c.saved * _ISSUED - c.added, c.detail.permutation.granule),
    )


def _family(granule: int, dynamic: tuple[str, ...]) -> Iterator[Permutation]:
    """All permutations that are considered for accesses of up to `granule` bytes, the coarsest
    first."""
    for size in _GRANULES:
        if size < granule:
            continue
        first = ROW.bit_length() - size.bit_length()
        shifts = range(first, first + _SHIFTS)
        pairs = ((a, b) for a in shifts for b in shifts if a < b)
        for chosen in (*((s,) for s in shifts), *pairs):
            yield Permutation(chosen, ROW - size, dynamic)


def _total(traffic: Sequence[BankTraffic], move: Callable[[int], int]) -> float:
    counted: dict[object, float] = {}
    total = 0.0
    for one in traffic:
        key = (one.requests, one.size)
        if key not in counted:
            counted[key] = one.wavefronts(move)
        total += one.weight * counted[key]
    return total


def _shares(traffic: Sequence[BankTraffic], move: Callable[[int], int]) -> dict[int, float]:
    """The wavefronts of each access; of those that have become one a part each."""
    shares: dict[int, float] = {}
    for one in traffic:
        shares |= dict.fromkeys(one.members, one.wavefronts(move) / len(one.members))
    return shares


def _no_worse(scene: _Scene, permutation: Permutation, gain: float) -> bool:
    """Does no access get dearer by more than the kernel gains?"""
    before = _shares(scene.before, _stays)
    after = _shares(scene.after(permutation), permutation.of)
    weights = _weights(scene)
    return all(weights[at] * (after[at] - before[at]) <= gain for at in before)


def _weights(scene: _Scene) -> dict[int, float]:
    return {at: one.weight for one in scene.before for at in one.members}


def _choice(scene: _Scene, permutation: Permutation, saved: float) -> _Choice:
    before = _shares(scene.before, _stays)
    after = _shares(scene.after(permutation), permutation.of)
    accesses = [
        SharedAccess(at, at in scene.in_row, before.get(at, 0.0), after.get(at, 0.0))
        for at, instruction in enumerate(scene.kernel.trace.cfg.instructions)
        if instruction.opcode in _SIMPLE and isa.space(instruction) == "shared"
    ]
    narrow = tuple(a for a in scene.arrays if not _is_dynamic(a) and not has_whole_rows(a))
    detail = PermutedBanks(permutation, tuple(accesses), narrow)
    weights = _weights(scene)
    more = _added(scene.kernel, detail, weights)
    made = sum(weights.get(a.at, 1.0) for a in accesses)
    return _Choice(detail, saved, more, more / made)


def _added(kernel: Kernel, detail: PermutedBanks, weights: Mapping[int, float]) -> float:
    """The instructions that a warp executes more."""
    cfg = kernel.trace.cfg
    builder = Builder(kernel.text, kernel.function, cfg.instructions)
    writer = Writer(builder, cfg, kernel.text, detail.permutation)
    return sum(
        added(writer.permuted(access)[0]) * weights.get(access.at, 1.0)
        for access in detail.accesses
    )


def _in_rows(kernel: Kernel, arrays: Sequence[Variable]) -> frozenset[int]:
    """The accesses whose offset may be added behind the permutation: what it holds of a row
    certainly carries nothing. An address has to be made by one instruction and of nothing that a
    loop carries, so that whoever looks at the text alone sees the same."""
    written = Counter(reg for i in kernel.trace.cfg.instructions for reg in defs(i))
    rows = frozenset(_atom(a) for a in arrays if not _is_dynamic(a))
    shared = (a for a in kernel.trace.accesses if isa.space(a.instruction) == "shared")
    return frozenset(a.index for a in shared if _in_row(kernel, a, written, rows))


def _in_row(
    kernel: Kernel, access: Access, written: Mapping[Reg, int], rows: frozenset[str]
) -> bool:
    address = next(o for o in access.instruction.operands if isinstance(o, Mem))
    if not address.offset:
        return True
    wholes = {variant.address for variant in access.variants}
    if not isinstance(address.base, Reg) or len(wholes) != 1:
        return False
    if written[address.base] != 1:
        return False
    terms = kernel.trace.terms
    (whole,) = wholes
    if any(str(t.value).startswith(("iter(", "loop(")) for t in walk(whole) if t.kind == "atom"):
        return False
    base = terms.sub(whole, terms.const(address.offset, whole.width))
    return _is_simple(base) and not _may_be_set(base, rows) & (address.offset % ROW)


def _is_simple(term: Term) -> bool:
    """A sum of a few shifted values. Of others the proof that a permutation and an addition can be
    exchanged takes more work than a question may cost."""
    _, items = split(term)
    powers = all(0 < factor == factor & -factor for _, factor in items)
    return powers and len(items) <= _MOST_ITEMS


def _may_be_set(term: Term, rows: frozenset[str]) -> int:
    """The bits below a row that may be set in an address, where arrays begin with a row."""
    constant, items = split(term)
    total = constant % ROW
    for item, factor in items:
        whole = item.args[0] if item.kind in ("extract", "zext") and not item.value else item
        if whole.kind == "atom" and whole.value in rows:
            continue
        low = factor & -factor
        bits = ones(item) * low
        if factor != low:  # no power of two
            bits = -(bits & -bits)
        total = _sum_bits(total, bits % ROW)
    return total


def _sum_bits(a: int, b: int) -> int:
    """The bits that may be set in a sum of numbers whose bits may be set as in `a` and `b`."""
    both = a & b
    if not both:
        return a | b
    return (a | b | -(both & -both)) % ROW


def _change(at: int, choice: _Choice) -> Change:
    worth = Worth(choice.added, -choice.saved)
    indices = frozenset(access.at for access in choice.detail.accesses)
    return Change(BankConflicts.name, at, indices, Proof(), choice.detail, worth=worth)
