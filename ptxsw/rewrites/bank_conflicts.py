"""Bank conflicts: the addresses of shared memory are permuted inside rows of 128 bytes, so that
what a warp asks for lies in different banks.

    .shared .align 4 .b8 tile[4096];       .shared .align 128 .b8 tile[4096];
    ld.shared.f32 %f2, [%r21];      =>     shr.u32 %sw_row1, %r21, 5;
                                           and.b32 %sw_swap1, %sw_row1, 124;
                                           xor.b32 %sw_bank1, %r21, %sw_swap1;
                                           ld.shared.f32 %f2, [%sw_bank1];

The same permutation at every access of the kernel moves the whole memory one to one. So it only has
to be sure that every access is seen: nothing has to be known of indices, aliasing or races.
If one may not be, because an array's address gets away, others are permuted alone, each from its
own start (`analysis/array_accesses.py`): no access may leave its array then.
Or a granule of nothing is put behind each row of an array, if that takes fewer instructions: what
an address adds in whole rows stays a number then.
Arrays get whole rows. Dynamic memory, whose size only the launch gives, is permuted where it
consists of whole rows, which is asked once where the kernel begins.

Which permutation is best is counted on the addresses of some warps: `bank_choice.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import cache
from typing import ClassVar

from ptxsw.analysis.array_accesses import (
    GENERIC,
    OWN_LAYOUT,
    SIMPLE,
    ArrayAccesses,
    escape,
    holding,
    sources,
)
from ptxsw.analysis.row_offsets import Joinable, in_rows
from ptxsw.analysis.shared_banks import (
    BankTraffic,
    atom,
    bank_traffic,
    block_shapes,
    places,
    shared_arrays,
)
from ptxsw.changes.assumptions import IN_ARRAYS
from ptxsw.changes.change import Change, Refusal, Worth
from ptxsw.changes.permutation import ROW, Permutation
from ptxsw.changes.plan import Proof
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_bank_conflicts import has_whole_rows, lower
from ptxsw.codegen.splice import Edit
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Mem, Reg, Special, Symbol, Variable, type_width
from ptxsw.ptx.isa import Effect
from ptxsw.rewrites.bank_choice import (
    GRANULES,
    NONE_HELPS,
    PermutationChoice,
    PermutationCosts,
    best,
    permuted_banks,
    ways,
)
from ptxsw.rewrites.base import Kernel, Outcome
from ptxsw.rewrites.own_variables import STATIC, named_elsewhere

_TOUCHES = Effect.READ | Effect.WRITE | Effect.CALL
_ALL_SIZE = "%total_smem_size"
_ASKS_SIZE = (4, 1)  # the version of PTX that has %dynamic_smem_size
# A padded tile, such as `tile[32][33]`, may still have 2-way conflicts if the block has another
# shape than the one it was padded for. That is not worth a line in the report.
_MILD = 2
_FOLDED_BELOW = 90  # sm_90 has no `[R7.X4]`
_NOT_KNOWN = "its bank conflicts depend on run-time values"


class BankConflicts:
    """See above."""

    name: ClassVar[str] = "bank-conflicts"
    summary: ClassVar[str] = "Addresses of shared memory are permuted to avoid bank conflicts."

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """One change of all shared accesses, or the reason why a kernel keeps its conflicts."""
        whole = scene_of(kernel)
        if not any(ways(t) > 1 for t in whole.before):
            unknown = (t for t in whole.before if not t.requests) if kernel.explains else ()
            yield from (Refusal(self.name, t.access.index, _NOT_KNOWN) for t in unknown)
            return
        scene, choice = _decided(kernel, whole)
        if isinstance(choice, PermutationChoice):
            yield _change(scene, _hottest(scene), choice)
        elif choice != NONE_HELPS or kernel.explains or any(ways(t) > _MILD for t in whole.before):
            yield Refusal(self.name, _hottest(scene), choice)

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
    traffic = bank_traffic(kernel.trace, shapes, at, end, likely=_likely(kernel))
    fixed = tuple(a for a in arrays if not a.is_dynamic)
    in_row = in_rows(kernel.trace, frozenset(map(atom, fixed)))
    return PermutationCosts(
        kernel,
        tuple(a.name for a in arrays if a.is_dynamic),
        tuple(a for a in fixed if not has_whole_rows(a)),
        in_row,
        cache(Joinable(kernel.trace.cfg, traffic, in_row).joined),
    )


def _decided(
    kernel: Kernel, whole: PermutationCosts
) -> tuple[PermutationCosts, PermutationChoice | str]:
    """What is permuted and how, or why nothing is: all memory, or arrays of it one by one."""
    arrays = shared_arrays(kernel.trace)
    reason = _obstacle(kernel, arrays)
    own = _own_scene(kernel, arrays, alone=reason is None)
    scene, choice = whole, reason or _choice(whole)
    other = None if own is None else _choice(own)
    # From the start of the only array it may be the same for fewer instructions.
    if own is not None and other is not None and (reason is not None or _fewer(other, choice)):
        scene, choice = own, other
    padded = _own_scene(kernel, arrays, alone=False, padded=True)
    other = None if padded is None else _choice(padded)
    if padded is None or not isinstance(other, PermutationChoice):
        return scene, choice
    beats = isinstance(choice, str) or other.ends.sum < choice.ends.sum
    return (padded, other) if beats else (scene, choice)


def _fewer(one: PermutationChoice | str, other: PermutationChoice | str) -> bool:
    """Do both the same, one for fewer instructions?"""
    if isinstance(one, str) or isinstance(other, str):
        return False
    return one < other


def _choice(scene: PermutationCosts) -> PermutationChoice | str:
    """What pays best, or why nothing is made."""
    return _too_little_known(scene) or best(scene)


def _likely(kernel: Kernel) -> bool:
    """May what only the run knows be guessed? Mode auto makes what certainly pays."""
    return kernel.options.mode == "force"


def scene_behind(kernel: Kernel, permutation: Permutation) -> PermutationCosts:
    """What a permutation that was chosen was judged by."""
    arrays = shared_arrays(kernel.trace)
    alone = _obstacle(kernel, arrays) is None
    own = _own_scene(kernel, arrays, alone=alone) if permutation.arrays else None
    return own or scene_of(kernel)


def _hottest(scene: PermutationCosts) -> int:
    """The access whose conflicts cost most."""
    conflicts = (t for t in scene.before if ways(t) > 1)
    return max(conflicts, key=lambda t: t.weight * t.wavefronts(scene.stays)).access.index


def _own_scene(
    kernel: Kernel, arrays: Sequence[Variable], *, alone: bool, padded: bool = False
) -> PermutationCosts | None:
    """The same of those arrays that can be permuted one by one, each from its own start; None where
    there are none, or no conflicts. `alone`: only if that is all shared memory, from one place."""
    cfg = kernel.trace.cfg
    own = _padded_arrays(kernel, arrays) if padded else _own_arrays(kernel, arrays)
    one_place = len(own) == len(arrays) and len({a.is_dynamic or a.name for a in own}) == 1
    if alone and not (one_place and (own[0].is_dynamic or _folds(kernel))):
        return None
    if not alone and IN_ARRAYS not in kernel.options.assume:
        return None
    names = {(array.name, array.scope) for array in arrays}
    accesses = ArrayAccesses(cfg, sorted(names))
    built_on: dict[int, str] = {}
    shapes = block_shapes(kernel.trace, kernel.block_shape)
    traffic: list[BankTraffic] = []
    shared = [at for at, i in enumerate(cfg.instructions) if isa.space(i) == "shared"]
    for array in own:
        mine = {at for at in shared if (array.name, array.scope) in accesses.of(at)}
        built_on |= dict.fromkeys(mine, array.name)
        end = None if array.is_dynamic else array.size
        traffic += bank_traffic(
            kernel.trace, shapes, {atom(array): 0}, end, mine, likely=_likely(kernel)
        )
    if not any(ways(t) > 1 for t in traffic):
        return None
    in_row = in_rows(kernel.trace, frozenset(map(atom, own)))
    return PermutationCosts(
        kernel,
        tuple(a.name for a in own if a.is_dynamic),
        tuple(a for a in own if padded or not (a.is_dynamic or has_whole_rows(a, GRANULES[0]))),
        in_row,
        cache(Joinable(cfg, traffic, in_row).joined),
        built_on,
        alone,
        padded,
    )


def _padded_arrays(kernel: Kernel, arrays: Sequence[Variable]) -> Sequence[Variable]:
    """Those that can be padded and have room for it: a launch sizes dynamic memory for what is
    beside it."""
    own = _own_arrays(kernel, arrays)
    most = Permutation((3,), ROW - GRANULES[0], (), ("",), padded=True)
    grown = sum(most.of(-(-array.size // ROW) * ROW) - array.size for array in own)
    size = sum(-(-array.size // GRANULES[0]) * GRANULES[0] for array in arrays)
    fits = not any(array.is_dynamic for array in arrays) and size + grown <= STATIC
    return own if fits else ()


def _folds(kernel: Kernel) -> bool:
    """Does ptxas fold the product of an element's number and its size into an access?"""
    digits = "".join(filter(str.isdigit, kernel.arch or ""))
    return int(digits or kernel.module.sm) < _FOLDED_BELOW


def _own_arrays(kernel: Kernel, arrays: Sequence[Variable]) -> Sequence[Variable]:
    """The arrays of which every access is seen, and whose declaration may be changed."""
    accesses = ArrayAccesses(kernel.trace.cfg, sorted((a.name, a.scope) for a in arrays))
    if _ALL_SIZE in kernel.text:
        return ()
    own = [
        array
        for array in arrays
        if (array.name, array.scope) not in accesses.obstacles
        and not array.scope
        and _kept(kernel, array) is None
        and not (accesses.calls and array in kernel.module.variables)
    ]
    # Arrays of dynamic size begin at one place.
    dynamic = [array for array in arrays if array.is_dynamic]
    if any(array not in own for array in dynamic):
        own = [array for array in own if not array.is_dynamic]
    grown = [a for a in own if not a.is_dynamic and not has_whole_rows(a, GRANULES[0])]
    if grown and (dynamic or _grows_too_much(arrays) is not None):
        own = [array for array in own if array not in grown]
    return own


# ---------------------------------------------------------------- what forbids it


def _obstacle(kernel: Kernel, arrays: Sequence[Variable]) -> str | None:
    """Why the shared memory of a kernel cannot be permuted."""
    cfg = kernel.trace.cfg
    names = {(array.name, array.scope) for array in arrays}
    read = [sources(instruction, names) for instruction in cfg.instructions]
    tainted = holding(cfg, read)
    asks_size = _ALL_SIZE in kernel.text
    for index, instruction in enumerate(cfg.instructions):
        reason = _unseen(instruction, tainted)
        reason = reason or escape(instruction, read[index], tainted)
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
        return "has an address that does not derive from an array of the kernel"
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
        return OWN_LAYOUT
    if named == "generic":  # memory-spaces, which comes first, has named what is known
        return GENERIC
    return ""


def _bytes(instruction: Instruction) -> int:
    count = next((int(m[1:]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1)
    return type_width(isa.access_type(instruction) or "") * count // 8


def _kept(kernel: Kernel, array: Variable) -> str | None:
    """Why the declaration of an array cannot be changed as it would have to be."""
    if array.is_dynamic and array in kernel.module.variables:
        old = kernel.module.version < _ASKS_SIZE
        return "PTX before 4.1 cannot query the size of dynamic shared memory" if old else None
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


def _too_little_known(scene: PermutationCosts) -> str | None:
    """Accesses of unknown addresses count as neutral, so they must not be what counts most."""
    known = max((t.weight for t in scene.before if ways(t) > 1), default=0.0)
    unknown = max((t.weight for t in scene.before if not t.requests), default=0.0)
    if unknown > known:
        return "the addresses of the most frequent accesses are not known"
    return None


def _change(scene: PermutationCosts, at: int, choice: PermutationChoice) -> Change:
    detail = permuted_banks(scene, choice.permutation)
    proof = Proof(assumptions=(IN_ARRAYS,) if not scene.whole else ())
    return Change(
        BankConflicts.name, at, frozenset(access.at for access in detail.accesses), proof, detail,
        worth=Worth(choice.added, -choice.saved), shared_layout=choice.permutation,
    )  # fmt: skip
