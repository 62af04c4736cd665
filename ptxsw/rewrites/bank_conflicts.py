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

Which permutation is best is counted on the addresses of some warps: `bank_choice.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from functools import cache
from typing import ClassVar, NamedTuple

from ptxsw.analysis.row_offsets import Joinable, in_rows
from ptxsw.analysis.shared_banks import (
    BankTraffic,
    atom,
    bank_traffic,
    block_shapes,
    places,
    shared_arrays,
)
from ptxsw.changes.change import Change, Refusal, Worth
from ptxsw.changes.permutation import ROW
from ptxsw.changes.plan import Proof
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_bank_conflicts import has_whole_rows, lower
from ptxsw.codegen.splice import Edit
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Mem, Reg, Special, Symbol, Variable, leaves, type_width
from ptxsw.ptx.isa import Effect
from ptxsw.rewrites.bank_choice import (
    NONE_HELPS,
    SIMPLE,
    PermutationChoice,
    PermutationCosts,
    best,
    permuted_banks,
    ways,
)
from ptxsw.rewrites.base import Kernel, Outcome
from ptxsw.rewrites.own_variables import STATIC, named_elsewhere

# Their results could depend on where an array lies, which changes when arrays get whole rows.
_COMPARES = frozenset({"setp", "set", "isspacep", "slct", "min", "max"})
_TOUCHES = Effect.READ | Effect.WRITE | Effect.CALL
_ALL_SIZE = "%total_smem_size"
_ASKS_SIZE = (4, 1)  # the version of PTX that has %dynamic_smem_size
# A padded tile, such as `tile[32][33]`, may still have 2-way conflicts if the block has another
# shape than the one it was padded for. That is not worth a line in the report.
_MILD = 2
_NOT_KNOWN = "its bank conflicts depend on what only the run knows"
_Names = Set[tuple[str, int]]  # of arrays, with their scopes


class BankConflicts:
    """See above."""

    name: ClassVar[str] = "bank-conflicts"
    summary: ClassVar[str] = (
        "Addresses of shared memory are permuted so that banks do not conflict."
    )

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """One change of all shared accesses, or the reason why a kernel keeps its conflicts."""
        scene = scene_of(kernel)
        conflicts = [(t, factor) for t in scene.before if (factor := ways(t)) > 1]
        if not conflicts:
            unknown = (t for t in scene.before if not t.requests) if kernel.explains else ()
            yield from (Refusal(self.name, t.access.index, _NOT_KNOWN) for t in unknown)
            return
        hottest = max((t for t, _ in conflicts), key=lambda t: t.weight * t.wavefronts(scene.stays))
        most = max(t.weight for t, _ in conflicts)
        reason = _obstacle(kernel, shared_arrays(kernel.trace))
        reason = reason or _too_little_known(scene.before, most)
        if reason is None:
            choice = best(scene)
            if isinstance(choice, PermutationChoice):
                yield _change(scene, hottest.access.index, choice)
                return
            reason = choice
            mild = reason == NONE_HELPS and all(factor <= _MILD for _, factor in conflicts)
            if mild and not kernel.explains:
                return
        yield Refusal(self.name, hottest.access.index, reason)

    def nothing(self, kernel: Kernel) -> str:
        """See `OwnSearch`."""
        shapes = block_shapes(kernel.trace, kernel.block_shape)
        blocks = " or ".join(
            "x".join(map(str, shape[:2] if shape[2] == 1 else shape)) for shape in shapes
        )
        return f"no access to shared memory has a bank conflict in blocks of {blocks}"

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        builder = Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)
        declared = lower(builder, kernel.trace.cfg, kernel.text, changes)
        return (*builder.edits(), *declared)


def scene_of(kernel: Kernel) -> PermutationCosts:
    """What the permutations of a kernel are judged by."""
    arrays = shared_arrays(kernel.trace)
    at, end = places(arrays)
    shapes = block_shapes(kernel.trace, kernel.block_shape)
    traffic = bank_traffic(kernel.trace, shapes, at, end)
    fixed = tuple(a for a in arrays if not a.is_dynamic)
    in_row = in_rows(kernel.trace, frozenset(map(atom, fixed)))
    return PermutationCosts(
        kernel,
        tuple(a.name for a in arrays if a.is_dynamic),
        tuple(a for a in fixed if not has_whole_rows(a)),
        in_row,
        cache(Joinable(kernel.trace.cfg, traffic, in_row).joined),
    )


# ---------------------------------------------------------------- what forbids it


def _obstacle(kernel: Kernel, arrays: Sequence[Variable]) -> str | None:
    """Why the shared memory of a kernel cannot be permuted."""
    cfg = kernel.trace.cfg
    names = {(array.name, array.scope) for array in arrays}
    sources = [_sources(instruction, names) for instruction in cfg.instructions]
    tainted = _addresses(cfg, sources)
    asks_size = _ALL_SIZE in kernel.text
    for index, instruction in enumerate(cfg.instructions):
        reason = _unseen(instruction, tainted)
        reason = reason or _escape(instruction, sources[index], tainted)
        if reason is not None:
            return f"{instruction.name} (line {kernel.line(index)}) {reason}"
        if asks_size and Special(_ALL_SIZE) in isa.uses(instruction):
            return "the kernel asks how much shared memory it has"
    for array in arrays:
        reason = _kept(kernel, array)
        if reason is not None:
            return reason
    return _grows_too_much(arrays)


def _unseen(instruction: Instruction, tainted: Set[Reg]) -> str | None:
    """Why an access may reach shared memory at an address that is not permuted."""
    reason = _unseen_by_name(instruction.opcode, instruction.modifiers)
    if reason is None or reason:
        return reason
    address = next((o for o in instruction.operands if isinstance(o, Mem)), None)
    if address is None or address.extra:
        return "has an address of another form"
    if isinstance(address.base, Reg) and address.base not in tainted:
        return "has an address that is not built on an array of the kernel"
    if not isinstance(address.base, Reg | Symbol):
        return "has a constant address"
    if _bytes(instruction) not in (1, 2, 4, 8, 16):
        return "moves too many bytes at once"
    return None


@isa.by_name
def _unseen_by_name(opcode: str, modifiers: tuple[str, ...]) -> str | None:
    """The same as far as names tell; nothing where the address decides."""
    effects, named = isa.effects(opcode, modifiers), isa.space_named(opcode, modifiers)
    shared = any(m.startswith("shared") for m in modifiers)
    if not effects & _TOUCHES or not (shared or named in ("shared", "generic", None)):
        return None
    if effects & Effect.CALL or isa.row(opcode, modifiers) is None:
        return "may receive an address of shared memory"
    if any(m.startswith("shared::cluster") for m in modifiers):
        return "reaches the shared memory of other blocks"
    if opcode not in SIMPLE:
        return "reaches shared memory in a layout of its own"
    if named == "generic":  # memory-spaces, which comes first, has named what is known
        return "may reach shared memory through a generic address"
    return ""


def _bytes(instruction: Instruction) -> int:
    count = next((int(m[1:]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1)
    return type_width(isa.access_type(instruction) or "") * count // 8


class _Sources(NamedTuple):
    """What an instruction computes with, or what an access stores: registers, and is an array of
    the kernel among them?"""

    registers: tuple[Reg, ...]
    array: bool

    def hold(self, tainted: Set[Reg]) -> bool:
        """Is there an address of shared memory among them?"""
        return self.array or not tainted.isdisjoint(self.registers)


def _sources(instruction: Instruction, names: _Names) -> _Sources:
    read = instruction.operands[isa.destinations(instruction) :]
    if instruction.opcode in SIMPLE:
        values = [operand for operand in instruction.operands if not isinstance(operand, Mem)]
        # The first operand of `ld` and `atom` is their destination.
        read = tuple(values if instruction.opcode in ("st", "red") else values[1:])
    registers, array = list[Reg](), False
    for leaf in leaves(read):
        if isinstance(leaf, Reg):
            registers.append(leaf)
        elif isinstance(leaf, Symbol):
            array = array or (leaf.name, leaf.scope) in names
    return _Sources(tuple(registers), array)


def _addresses(cfg: Cfg, sources: Sequence[_Sources]) -> Set[Reg]:
    """The registers that may hold an address of shared memory, or part of one."""
    computed = defaultdict[Reg, list[Reg]](list)
    work: list[Reg] = []
    for instruction, written, one in zip(cfg.instructions, cfg.written, sources, strict=True):
        # What an access returns is no shared address: storing one is refused (`_escape`).
        if written and instruction.opcode not in SIMPLE:
            for register in one.registers:
                computed[register] += written
            if one.array:
                work += written
    registers: set[Reg] = set()
    while work:
        register = work.pop()
        if register not in registers:
            registers.add(register)
            work += computed[register]
    return registers


def _escape(instruction: Instruction, sources: _Sources, tainted: Set[Reg]) -> str | None:
    """What an instruction does with an address of shared memory, other than compute or access."""
    if not sources.hold(tainted):
        return None
    if instruction.opcode in SIMPLE:
        return "stores a shared address"
    if instruction.opcode in _COMPARES:
        return "compares a shared address"
    computes = not isa.effects(instruction.opcode, instruction.modifiers)
    # Plain arithmetic only makes another tainted register; these hand the value to other threads.
    if computes and instruction.opcode not in ("shfl", "vote", "match", "redux", "mapa"):
        return None
    return "passes a shared address on"


def _kept(kernel: Kernel, array: Variable) -> str | None:
    """Why the declaration of an array cannot be changed as it would have to be."""
    if array.is_dynamic and array in kernel.module.variables:
        old = kernel.module.version < _ASKS_SIZE
        return "PTX before 4.1 cannot ask for the size of dynamic shared memory" if old else None
    if not set(array.linkage) <= {"visible"}:
        return f"{array.name} is shared with another module"
    if array in kernel.module.variables and named_elsewhere(kernel, array):
        return f"{array.name} is also named outside the kernel"
    return None


def _grows_too_much(arrays: Sequence[Variable]) -> str | None:
    """Why arrays of whole rows might not fit where the arrays did."""
    before = after = 0
    for array in arrays:
        if not array.is_dynamic:
            size = array.size
            align = array.align or max(1, type_width(array.type) * array.vector // 8)
            before = -(-before // align) * align + size
            after = -(-after // max(align, ROW)) * max(align, ROW) + -(-size // ROW) * ROW
    if after > before and any(array.is_dynamic for array in arrays):
        # The launch has sized dynamic memory for the arrays as they were, perhaps to the limit.
        return "its arrays would grow, and the launch may have no room left for them"
    return "its arrays would take more than 48 KiB" if after > max(before, STATIC) else None


def _too_little_known(traffic: Sequence[BankTraffic], known: float) -> str | None:
    """Accesses of unknown addresses count as neutral, so they must not be what counts most: those
    with conflicts have weights up to `known`."""
    unknown = max((t.weight for t in traffic if not t.requests), default=0.0)
    if unknown > known:
        return "the addresses of the most frequent accesses are not known"
    return None


def _change(scene: PermutationCosts, at: int, choice: PermutationChoice) -> Change:
    detail = permuted_banks(scene, choice.permutation)
    return Change(
        BankConflicts.name, at, frozenset(access.at for access in detail.accesses), Proof(), detail,
        worth=Worth(choice.added, -choice.saved), shared_layout=choice.permutation,
    )  # fmt: skip
