"""Products and sums that ptxas may fuse.

    mul.f32 %f4, %f1, %f2;      without `.rn` in both, ptxas may round once,
    add.f32 %f5, %f4, %f3;      as fma.rn.f32 %f5, %f1, %f2, %f3 does (manual 9.7.3)

What it chooses shows in the bits. So a sum of such a product is another function than the same sum
of a value that comes from anywhere else: two texts are equal only if their pairs correspond, and if
ptxas chooses alike for those that do (`same-contraction`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ptxsw.ptx.ir import Instruction, Module, Reg, leaves
from ptxsw.semantics.floating import ROUNDING
from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms

PRODUCT = ("product",)
"""The name of a product as a sum reads it that ptxas may fuse with it."""
CHOICE = "ptxas may fuse products and sums of one text that it has to round apart in the other"
_MOST_NESTED = 16  # products in sums in products
_SUMS = frozenset({"add", "sub"})
_MOVES = frozenset({"mov", "neg"})
_FLOATS = ("f", "bf")


def is_open_sum(instruction: Instruction) -> bool:
    """Is it a floating-point sum or difference that may be fused with a product?"""
    return instruction.opcode in _SUMS and _is_open(instruction)


def is_open_product(instruction: Instruction) -> bool:
    """Is it a floating-point product that may be fused with a sum?"""
    return instruction.opcode == "mul" and _is_open(instruction)


def _is_open(instruction: Instruction) -> bool:
    modifiers = instruction.modifiers
    return (
        bool(modifiers)
        and modifiers[-1].startswith(_FLOATS)
        and not any(m in ROUNDING for m in modifiers)
    )


def products(instructions: Sequence[Instruction]) -> frozenset[Reg]:
    """The registers in which such a product may be: those that one sets, and copies of them."""
    held: set[Reg] = set()
    moves: list[tuple[set[Reg], set[Reg]]] = []
    for i in instructions:
        if is_open_product(i):
            held.update(_registers(i.operands[:1]))
        elif i.opcode in _MOVES:
            moves.append((_registers(i.operands[:1]), _registers(i.operands[1:])))
    size = -1
    while held and size < len(held):
        size = len(held)
        for written, read in moves:
            if not held.isdisjoint(read):
                held |= written
    return frozenset(held)


def _registers(operands: Iterable[object]) -> set[Reg]:
    return {leaf for leaf in leaves(operands) if type(leaf) is Reg}  # type: ignore[arg-type]


def pairs(instructions: Sequence[Instruction]) -> Counter[str]:
    """How many sums may be fused with a product, by their names."""
    sums = [i for i in instructions if is_open_sum(i)]
    held = products(instructions) if sums else frozenset()
    return Counter(i.name for i in sums if not held.isdisjoint(_registers(i.operands[1:])))


def may_fuse(module: Module, instructions: Sequence[Instruction]) -> bool:
    """May ptxas fuse any of a kernel's products and sums, or of those in functions that it may
    call?"""
    if pairs(instructions):
        return True
    calls = any(i.opcode == "call" for i in instructions)
    functions = (f for f in module.functions if f.kind == "func" and f.body_span is not None)
    return calls and any(pairs(f.body.instructions) for f in functions)


def rounded_apart(terms: Terms, value: Term) -> Term:
    """A value as if ptxas fused no product with a sum, where few are nested in it."""

    def leaf(node: Term) -> Term | None:
        return node.args[0] if node.kind is op.APPLY and node.value[0] == PRODUCT else None

    for _ in range(_MOST_NESTED):
        before, value = value, substitute(terms, value, leaf)
        if value is before:
            break
    return value
