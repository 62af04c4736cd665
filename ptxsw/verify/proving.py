"""Is there a proof that two kernels are equal? By `ptxsw.validate`, from the two texts, and from
what they tell of shared memory that was permuted: nothing is judged here, and a layout that is read
wrongly proves nothing.

Where there is no proof: the interpreter gives all accesses one order, and nothing else runs beside
the kernel. Two kernels that differ in this may do the same in all launches and yet not be equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations, islice, product

from msgspec import Struct

from ptxsw.changes.assumptions import DEFAULT_ASSUME
from ptxsw.changes.permutation import ROW, Permutation
from ptxsw.changes.steps import RewriteStep, read_steps
from ptxsw.emulator.budget import Budget, OutOfTime
from ptxsw.flow.cfg import build
from ptxsw.ptx.ir import Function, Instruction, Int, Module, Special, Symbol, leaves
from ptxsw.ptx.isa import Effect, Trait, effects, row, space
from ptxsw.ptx.opcodes import ATOMIC, FENCE
from ptxsw.validate import Outcome, Proved, infer, validate
from ptxsw.validate.contraction import pairs
from ptxsw.validate.copies import with_copies
from ptxsw.validate.functions import functions_alike
from ptxsw.validate.operand_types import ill_typed
from ptxsw.validate.signature_check import difference
from ptxsw.validate.spelling import respelled
from ptxsw.verify.array_moves import array_moves
from ptxsw.verify.composing import composed

_MOST = 24
_MOST_SHIFTS = 3


def layouts(module: Module, first: Function, second: Function) -> Iterator[Permutation]:
    """The permutations of which the shifts and masks stand in lines that only the second text
    has, the likeliest first. `module` is that of the second text."""
    if not any(v.space == "shared" for v in (*module.variables, *second.body.variables)):
        return
    added = tuple(_added(first, second))
    shifts = sorted(set(_numbers(added, "shr")))
    masks = sorted({m for op in ("and", "selp") for m in _numbers(added, op) if 0 < m < ROW - 1})
    dynamic = _dynamic(module, second) if _asks_size(added) else ()
    counts = range(min(len(shifts), _MOST_SHIFTS), 0, -1)
    chosen = [some for count in counts for some in combinations(shifts, count)]
    yield from islice(_permutations(chosen, masks, dynamic), _MOST)
    own = _named(module, second, added)
    padding = {n for n in _numbers(added, "mad") if n in (4, 8, 16)} if own else ()
    for size in sorted(padding) if 7 in shifts else ():
        shift = ROW.bit_length() - size.bit_length()
        yield Permutation((shift,), ROW - size, (), own, padded=True)
    # Where numbers of elements are permuted, the mask has as many bits less.
    scaled = dict.fromkeys(m << scale for scale in range(5) for m in masks if m << scale < ROW)
    sized = tuple(name for name in dynamic if name in own)
    yield from islice(_permutations(chosen, [*scaled], sized, own), _MOST if own else 0)


def _permutations(
    chosen: Iterable[tuple[int, ...]], masks: list[int], dynamic: tuple[str, ...],
    arrays: tuple[str, ...] = (),
) -> Iterator[Permutation]:  # fmt: skip
    for some, mask in product(chosen, masks):
        try:
            yield Permutation(some, mask, dynamic, arrays)
        except ValueError:
            continue  # these numbers make none


def usual_swizzles(first: Function, text: tuple[Module, Function]) -> Iterator[Permutation]:
    """The usual permutations inside rows of 128 bytes, where only the second text has an exclusive
    or: words of 4, 8 or 16 bytes by the number of the row."""
    module, second = text
    if any(i.opcode == "xor" for i in _added(first, second)):
        declared = (*module.variables, *second.body.variables)
        arrays = tuple(v.name for v in declared if v.space == "shared" and not v.is_dynamic)
        for shift in (5, 4, 3) if arrays else ():
            yield Permutation((shift,), ROW - (1 << 7 - shift), (), arrays)


def _named(module: Module, function: Function, added: Iterable[Instruction]) -> tuple[str, ...]:
    """The shared arrays whose addresses were taken once more."""
    declared = (*module.variables, *function.body.variables)
    shared = {v.name for v in declared if v.space == "shared"}
    moved = (i.operands[1] for i in added if i.opcode == "mov")
    return tuple(dict.fromkeys(o.name for o in moved if isinstance(o, Symbol) and o.name in shared))


def _added(first: Function, second: Function) -> Iterator[Instruction]:
    """The instructions of the second text that the first does not have, or not as often."""
    left = Counter(instruction[:4] for instruction in first.body.instructions)
    for instruction in second.body.instructions:
        said = instruction[:4]  # all but where it stands
        if left[said]:
            left[said] -= 1
        else:
            yield instruction


def _numbers(added: Iterable[Instruction], opcode: str) -> Iterator[int]:
    for instruction in added:
        if instruction.opcode == opcode:
            yield from (o.value for o in instruction.operands if isinstance(o, Int))


def _asks_size(added: Iterable[Instruction]) -> bool:
    size = Special("%dynamic_smem_size")
    return any(leaf == size for i in added for leaf in leaves(i.operands))


def _dynamic(module: Module, function: Function) -> tuple[str, ...]:
    declared = (*module.variables, *function.body.variables)
    return tuple(v.name for v in declared if v.space == "shared" and v.is_dynamic)


_ORDER = frozenset({
    "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio", "cta", "cluster", "gpu",
    "sys",
})  # fmt: skip


def beyond_runs(first: tuple[Module, Function], second: tuple[Module, Function]) -> str | None:
    """How two kernels differ in what no run shows; None where they do not."""
    wrong = ill_typed(first[1], second[1])
    if wrong is not None:
        return f"ptxas rejects the second kernel: {wrong[1]}"
    one, other = [*_instructions(*first)], [*_instructions(*second)]
    if _read_only(other) - _read_only(one):
        return "no run can show what other kernels write to memory that is newly read by .nc"
    if any(map(_orders, (*one, *other))) and _accesses(one) != _accesses(other):
        return "no run can show whether fences and ordered accesses still order the others"
    return None


def _instructions(module: Module, kernel: Function) -> Iterator[Instruction]:
    """Those of a kernel, and of all functions it might call."""
    for function in module.functions:
        if function is kernel or (function.kind == "func" and function.body_span is not None):
            yield from function.body.instructions


def _read_only(instructions: list[Instruction]) -> Counter[str]:
    return Counter(i.opcode for i in instructions if "nc" in i.modifiers)


def _orders(instruction: Instruction) -> bool:
    """Is it there for the order of memory? Barriers of blocks order it too, and runs show that."""
    effect = effects(instruction.opcode, instruction.modifiers)
    if effect & ATOMIC and not _ORDER.isdisjoint(instruction.modifiers):
        return True
    op = row(instruction.opcode, instruction.modifiers)
    if effect & Effect.CALL or (op is not None and Trait.BARRIER in op.traits):
        return False
    return bool(effect & FENCE)


def _accesses(instructions: list[Instruction]) -> list[tuple[str, tuple[str, ...]]]:
    """All that touches memory which other threads see, or orders it, as it stands in the text."""
    touching = Effect.READ | Effect.WRITE | FENCE | ATOMIC
    return [
        (i.opcode, i.modifiers)
        for i in instructions
        if effects(i.opcode, i.modifiers) & touching and space(i) not in ("param", "const")
    ]


SECONDS = 60.0
"""CPU time of a proof: real kernels take a few seconds, and past a minute few proofs succeed."""


class Proof(Struct, frozen=True):
    """The kernels are equal on some assumptions. `unchanged`: they are the same instructions;
    `loops` were found to be gone round by all lanes together."""

    assumptions: tuple[str, ...] = ()
    unchanged: bool = False
    loops: int = 0


class Unproved(Struct, frozen=True):
    """Nothing is proved."""

    reason: str
    in_time: bool = True
    """Was there time for all that could be tried?"""


def prove(
    first: Module, second: Module, name: str, assume: frozenset[str] = DEFAULT_ASSUME
) -> Proof | Unproved:
    """Is a kernel of `second` equal to that of `first`, on some assumptions? Raises ParseError;
    ValueError for an assumption that nobody knows."""
    old, new = _kernel(first, name), _kernel(second, name)
    reasons: list[str] = []
    try:
        for outcome in _outcomes((first, old), (second, new), assume):
            if isinstance(outcome, Proved):
                same = [[i[:4] for i in text.body.instructions] for text in (old, new)]
                return Proof(outcome.assumptions, unchanged=same[0] == same[1], loops=outcome.loops)
            reasons.append(str(outcome))
    except OutOfTime:
        return Unproved(f"a proof would take more than {SECONDS:.0f} s", in_time=False)
    return Unproved(_most_telling(reasons, old) + _loops(old, new) + open_bits(old, new))


def _loops(old: Function, new: Function) -> str:
    """What two texts are compared in vain for, as a rule, where they have other loops."""
    one, other = (len(build(function.body).loops) for function in (old, new))
    if one == other:
        return ""
    return f"; the first has {one} loop{'s'[: one != 1]} and the second {other}: " + (
        "an iteration is compared with one, not with several that were unrolled"
    )


def _most_telling(reasons: Sequence[str], kernel: Function) -> str:
    """Why there is no proof: of arrays that are declared otherwise, how far one came with the
    likeliest way in which they correspond."""
    told = next((r for r in reasons if r.startswith("a shared address ")), "")
    declared = reasons[0].startswith("the variables of the ")
    said = f"{reasons[0]}, and {told}" if told and declared else reasons[0]
    hint = told and kernel.block_shape is None
    return f"{said}; --block, if all blocks are of one shape, may decide it" if hint else said


def open_bits(old: Function, new: Function) -> str:
    """Whether bits are open that ptxas decides: products that it may fuse with sums in one text
    only."""
    one, other = (sum(pairs(f.body.instructions).values()) for f in (old, new))
    if one == other:
        return ""
    return (
        "; of sums that ptxas may fuse with products (mul and add without .rn), the first kernel "
        "has "
        f"{one} and the second {other}: the bits are open until it has chosen"
    )


def _outcomes(
    old: tuple[Module, Function], new: tuple[Module, Function], assume: frozenset[str]
) -> Iterator[Outcome]:
    """What the steps tell that the second text's comments name; what the two texts tell as they are
    named, unless their names alone keep them apart; under the first one's names; and what they
    tell of shared memory that was permuted."""
    steps = _steps(new[0], new[1].name)
    functions = functions_alike(old[0], new[0]) or {}
    named = new[0], respelled(old[1], new[1], new[0], functions)
    with Budget(SECONDS) as budget:
        ask = partial(validate, old, budget=budget, assume=assume)
        if steps:
            yield composed(old, new, steps, budget, assume)
        texts = [(named, functions)]
        if difference(old[0], new[0], old[1], new[1]) is None:
            texts.insert(0, (new, {}))
        for text, renamed in texts:
            yield ask(text, renamed=renamed)
        rough = new[0], respelled(old[1], new[1], new[0], functions, roughly=True)
        if _differ(rough[1], named[1]):
            texts.append((rough, functions))
            yield ask(rough, renamed=functions)
        for text, renamed in texts:
            bodies = old[1].body, text[1].body
            places = infer(*bodies)
            copies = with_copies(*bodies, places)
            if copies != places:
                yield ask(text, copies, renamed=renamed)
        for layout in layouts(new[0], old[1], new[1]):
            yield ask(new, shared_layout=layout)
        for text, renamed in ((new, {}), (rough, functions)):
            for moves in array_moves(old, text):
                yield ask(text, shared_layout=moves, renamed=renamed)
            for permutation in usual_swizzles(old[1], text):
                yield ask(text, shared_layout=permutation, renamed=renamed)


def _differ(one: Function, other: Function) -> bool:
    """Are the instructions of two spellings of one text others?"""
    return [i[:4] for i in one.body.instructions] != [i[:4] for i in other.body.instructions]


def _steps(module: Module, kernel: str) -> tuple[RewriteStep, ...]:
    try:
        return tuple(read_steps(module.source.text, kernel))
    except ValueError:
        return ()


def _kernel(module: Module, name: str) -> Function:
    return next(f for f in module.functions if f.name == name and f.body_span is not None)
