"""Sums that ptxas may fuse with products, and the text in which it is written what became of them.

    mul.f32 %f4, %f1, %f2;      ptxas made FFMA of it:  fma.rn.f32 %f5, %f1, %f2, %f3;
    add.f32 %f5, %f4, %f3;      ptxas made FADD of it:  add.rn.f32 %f5, %f4, %f3;

Where all is written out, nothing is open: a proof of such texts needs no `same-contraction`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Final, Literal, NamedTuple, TypeAlias

from ptxsw.changes.assumptions import CONTRACTION, DEFAULT_ASSUME
from ptxsw.changes.steps import Replaced, without_steps
from ptxsw.flow.cfg import build
from ptxsw.parser import parse
from ptxsw.ptx.documented import Documented
from ptxsw.ptx.ir import Function, Instruction, Module, Operand, Reg, Symbol, leaves, type_width
from ptxsw.ptx.isa import defs
from ptxsw.ptx.patterns import pattern
from ptxsw.validate.contraction import is_open_product, is_open_sum, may_fuse, pairs, products
from ptxsw.verify.blocks import in_blocks_of
from ptxsw.verify.composing import edited
from ptxsw.verify.proving import Proof, Unproved, prove

Role: TypeAlias = Literal["fused", "sum", "product"]
"""What a machine instruction computes: a product and a sum, rounded once, or one of the two."""

Arithmetic: TypeAlias = Mapping[int, frozenset[Role]]
"""What the machine instructions made of each PTX instruction compute, by the offset in the text at
which that begins."""

MachineCode: TypeAlias = Mapping[str, Arithmetic | str]
"""The arithmetic of each kernel of a text, by its name; or why it is not known."""


class Summand(NamedTuple):
    """What an operand of a sum holds: a product, unless it is None, whose factors still are what
    they were. `maybe`: it may hold one that is not found."""

    product: Instruction | None = None
    negated: bool = False
    maybe: bool = False


class OpenSum(NamedTuple):
    """A sum that ptxas may fuse with a product."""

    instruction: Instruction
    summands: tuple[Summand, Summand]


_NONE: Final = Summand()
_UNCLEAR: Final = Summand(maybe=True)


def open_sums(function: Function) -> Iterator[OpenSum]:
    """Those of a kernel, in order."""
    instructions = function.body.instructions
    held = products(instructions) if any(map(is_open_sum, instructions)) else frozenset()
    named = (leaf for i in instructions for leaf in leaves(i.operands)) if held else ()
    inner = frozenset(leaf.name for leaf in named if isinstance(leaf, Reg) and leaf.scope)
    for block in build(function.body).blocks if held else ():
        for at in range(block.start, block.end):
            instruction = instructions[at]
            if not is_open_sum(instruction):
                continue
            before = instructions[block.start : at]
            one, two = (
                _summand(before, o, instruction, inner) if o in held else _NONE
                for o in instruction.operands[1:3]
            )
            if (one, two) != (_NONE, _NONE):
                yield OpenSum(instruction, (one, two))


def _summand(
    before: Sequence[Instruction], reg: Operand, sum_: Instruction, inner: frozenset[str]
) -> Summand:
    """What a register holds behind some instructions of a block. Names of registers of `inner`
    scopes may mean others at the sum."""
    negated, written = False, set[Operand]()
    for instruction in reversed(before):
        targets = defs(instruction)
        written.update(targets)
        if reg not in targets:
            continue
        if instruction.guard is not None:
            return _UNCLEAR
        if is_open_product(instruction):
            # A sum that saturates may be fused; with a product that does it may not.
            fits = instruction.modifiers == tuple(m for m in sum_.modifiers if m != "sat")
            named = {o.name for o in instruction.operands if isinstance(o, Reg)}
            kept = written.isdisjoint(instruction.operands[1:]) and inner.isdisjoint(named)
            return Summand(instruction, negated) if fits and kept else _UNCLEAR
        if instruction.opcode not in ("mov", "neg"):
            return _NONE
        source = instruction.operands[1]
        if not isinstance(source, Reg) or "ftz" in instruction.modifiers:
            return _UNCLEAR
        negated ^= instruction.opcode == "neg"
        reg = source
    return _UNCLEAR


# ---------------------------------------------------------------- choices

SEPARATE: Final = -1
Choice: TypeAlias = int | str
"""Which operand of a sum is the product that it is fused with, 0 or 1; `SEPARATE` for none; or why
that is not known."""


def fused(each: OpenSum) -> Choice:
    """What ptxas does if it fuses whatever it may."""
    found = [at for at, summand in enumerate(each.summands) if summand.product is not None]
    return found[0] if found else SEPARATE


def chosen(arithmetic: Arithmetic | str) -> Callable[[OpenSum], Choice]:
    """What ptxas has done, by the machine code of a kernel."""
    return lambda each: arithmetic if isinstance(arithmetic, str) else _chosen(each, arithmetic)


def _chosen(each: OpenSum, arithmetic: Arithmetic) -> Choice:
    made = arithmetic.get(each.instruction.start, frozenset()) - {"product"}
    if made == {"sum"}:
        return SEPARATE
    if made != {"fused"}:
        return "ptxas has fused it in some places only" if made else "ptxas made nothing of it"
    if any(summand.maybe for summand in each.summands):
        return "the product is computed elsewhere"
    found = [
        at
        for at, summand in enumerate(each.summands)
        if summand.product is not None
        and "product" not in arithmetic.get(summand.product.start, frozenset())
    ]
    return found[0] if len(found) == 1 else "it is unclear with which product it is fused"


# ---------------------------------------------------------------- the text with choices


class Written(NamedTuple):
    """A text with what became of the sums of a kernel: how many are `fused`, of how many. `open`
    says why some are left as they were, or is empty."""

    text: str
    fused: int
    sums: int
    open: str = ""


_OPERANDS = pattern(r"(?:@\S+\s+)?[\w.:]+\s+([^\s,]+)\s*,\s*([^\s,]+)\s*,\s*([^\s,;]+)\s*;")


def written(module: Module, kernel: str, choose: Callable[[OpenSum], Choice]) -> Written:
    """A text with the choices that are made for the sums of a kernel and what it calls. If all are,
    all other products and sums round by themselves."""
    functions = _with_called(module, kernel)
    edits: dict[int, Replaced] = {}
    count = sums = 0
    reason = ""
    for function in functions:
        declared = ""
        for each in open_sums(function):
            sums += 1
            choice = choose(each)
            new = choice if isinstance(choice, str) else _written(module, each, choice, sums)
            start, end = each.instruction.span
            if isinstance(new, str):
                line = module.source.line(start)
                reason = reason or f"line {line}: {each.instruction.name}: {new}"
                continue
            edits[start] = start, end, new.text
            declared += new.declared
            count += choice != SEPARATE
        begin = function.body.span.start + 1
        edits[begin] = begin, begin, declared
    for instruction in (i for f in functions for i in f.body.instructions if not reason):
        if is_open_sum(instruction) or is_open_product(instruction):
            start, end = instruction.span
            edits.setdefault(start, (start, end, _rounded(module, instruction)))
    return Written(edited(module.source.text, sorted(edits.values())), count, sums, reason)


def _rounded(module: Module, instruction: Instruction) -> str:
    """An instruction that rounds by itself."""
    name = instruction.name
    text = module.source.text[instruction.start : instruction.end]
    return text.replace(name, name.replace(".", ".rn.", 1), 1)


def _with_called(module: Module, kernel: str) -> Sequence[Function]:
    """A kernel and the functions that are named in it, and in them."""
    bodies = {f.name: f for f in module.functions if f.body_span is not None}
    reached = [bodies[kernel]]
    for function in reached:
        named = (leaf for i in function.body.instructions for leaf in leaves(i.operands))
        for name in dict.fromkeys(leaf.name for leaf in named if isinstance(leaf, Symbol)):
            if name in bodies and bodies[name] not in reached:
                reached.append(bodies[name])
    return reached


class _New(NamedTuple):
    """What stands for a sum, and the registers that it needs."""

    text: str
    declared: str = ""


def _written(module: Module, each: OpenSum, choice: int, number: int) -> _New | str:
    """What stands for sum `number` of a text, or why nothing does."""
    sum_ = each.instruction
    if choice == SEPARATE:
        return _New(_rounded(module, sum_))
    mul = each.summands[choice].product
    assert mul is not None
    operands, factors = _operands(module, sum_), _operands(module, mul)
    if operands is None or factors is None:
        return "its operands are not plain registers"
    guard = "" if sum_.guard is None else module.source.text[sum_.start :].split()[0] + " "
    flags = ".".join(("rn", *sum_.modifiers))
    target, *both = operands
    # Of a difference, the second operand is negated.
    signs = [each.summands[choice].negated, False]
    signs[sum_.opcode == "sub" and choice == 0] ^= sum_.opcode == "sub"
    values, before, declared = [factors[1], both[1 - choice]], "", ""
    for at, negated in enumerate(signs):
        if negated:
            name = f"%ptxsw{number}_{at}"
            declared += f" .reg .b{type_width(sum_.modifiers[-1])} {name};"
            before += f"neg.{sum_.modifiers[-1]} {name}, {values[at]}; "
            values[at] = name
    return _New(
        f"{before}{guard}fma.{flags} {target}, {values[0]}, {factors[2]}, {values[1]};", declared
    )


def _operands(module: Module, instruction: Instruction) -> Sequence[str] | None:
    match = _OPERANDS.fullmatch(module.source.text, instruction.start, instruction.end)
    return None if match is None else match.groups()


# ---------------------------------------------------------------- two texts


class Contraction(Documented, frozen=True):
    """How ptxas treated the sums of two versions that it may fuse with products."""

    alike: bool | None
    """True: it is proved that both texts, as ptxas has fused them, do the same. False: it is not,
    and ptxas has fused another share of the sums in one than in the other. None: not known."""
    fused: tuple[int, int]
    """How many sums it has fused in each text."""
    sums: tuple[int, int]
    """Of how many."""
    reason: str = ""
    """Why it is not known, or what differs."""

    def __str__(self) -> str:
        (one, other), (all_, others) = self.fused, self.sums
        said = (
            f"it fused {one} of {all_} products with sums in the first kernel, {other} of {others}"
        )
        said += " in the second"
        if self.alike:
            return f"ptxas chose alike: {said}"
        if self.alike is False:
            return f"ptxas chose differently: {said}"
        return f"it is not shown that ptxas chose alike: {said}; {self.reason}"


def totalled(several: Sequence[Contraction]) -> Contraction | None:
    """That of all kernels; None of none."""
    if not several:
        return None
    alikes = [each.alike for each in several]
    alike = False if False in alikes else None if None in alikes else True
    worst = next((each for each in several if each.alike is alike), several[0])
    one, other = (
        (sum(c.fused[which] for c in several), sum(c.sums[which] for c in several))
        for which in (0, 1)
    )
    return Contraction(alike, (one[0], other[0]), (one[1], other[1]), worst.reason)


def fused_otherwise(a: Module, b: Module, kernel: str) -> list[tuple[Module, Module]]:
    """Two texts as they are if ptxas fuses whatever it may in one of them, and in both."""
    choices = [
        [module, parse(written(module, kernel, fused).text)] if fuses(module) else [module]
        for module in (a, b)
    ]
    return [(one, other) for one, other in product(*choices) if (one, other) != (a, b)]


def fuses(module: Module) -> bool:
    """May ptxas fuse sums with products in any kernel of a text?"""
    return any(may_fuse(module, function.body.instructions) for function in module.kernels)


def is_open(first: Module, second: Module, kernel: str, proof: Proof | Unproved) -> bool:
    """Does it hang on what ptxas does whether two kernels are equal?"""
    if isinstance(proof, Proof):
        return CONTRACTION in proof.assumptions
    kernels = (f for module in (first, second) for f in module.kernels if f.name == kernel)
    return any(pairs(f.body.instructions) for f in kernels)


def settled(
    first: Module, second: Module, kernel: str, codes: tuple[MachineCode, MachineCode],
    assume: frozenset[str] = DEFAULT_ASSUME,
) -> tuple[Proof | None, Contraction]:  # fmt: skip
    """A proof of two texts as ptxas has fused them, or None, and what it did."""
    missing = "the machine code has no such kernel"
    one, other = (
        written(module, kernel, chosen(code.get(kernel, missing)))
        for module, code in zip((first, second), codes, strict=True)
    )
    numbers = (one.fused, other.fused), (one.sums, other.sums)
    for which, each in (("first", one), ("second", other)):
        if each.open:
            return None, Contraction(None, *numbers, f"{each.open} ({which} text)")
    # Steps that the comments of a text tell of are of the text as it was.
    shaped = partial(in_blocks_of, next(f for f in first.kernels if f.name == kernel))
    texts = shaped(parse(one.text)), shaped(parse(without_steps(other.text)))
    proof = prove(*texts, kernel, assume)
    if isinstance(proof, Unproved):
        alike = None if one.fused * other.sums == other.fused * one.sums else False
        return None, Contraction(
            alike, *numbers, f"fused in this way, there is no proof: {proof.reason}"
        )
    if CONTRACTION in proof.assumptions:
        return None, Contraction(None, *numbers, "functions that are called have such sums, too")
    return proof, Contraction(True, *numbers)
