"""Addresses of a loop, read as what stays plus an index that the loop carries.

Accesses whose addresses differ by a number share a base. An address with a product of 64 bits,
such as `a + 4·(zext(k)·n + x)`, is a pointer that grows by `4·n·2` in an iteration, where `k` grows
by 2. That takes a test that `k` does not wrap. With an index `k` of 64 bits it takes none: sums and
products are modulo 2^64, as addresses are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ptxsw.analysis.loop_sums import LoopAccess, LoopSums
from ptxsw.analysis.straight_sums import ACCESSES
from ptxsw.codegen.loop_guard import AddressPart, Extended
from ptxsw.codegen.lower_straight_line import FARTHEST
from ptxsw.codegen.lower_strength_reduction import Base, Pointer
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import writers
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Instruction, Reg
from ptxsw.rewrites.iteration_cost import IterationCost
from ptxsw.rewrites.loop_counter import MORE, Counting, Index, LoopCounter, UncountedLoop
from ptxsw.terms import op
from ptxsw.terms.node import Term, factors, split

_MOST_BASES = 12  # two registers each
_INCREMENT = 2.0  # instructions of a sum of 64 bits
_MOST_BLOCKS = 24  # of a loop: `validate` follows every path through it
TOO_LARGE = "the loop has too many blocks, or several entries"
_NO_INDEX = "no index is extended or multiplied in the loop: its addresses are pointers already"


class _Address(Struct, frozen=True):
    """`base + scale · index + offset`, the index extended; `base` is 64 bits wide and without a
    number."""

    place: LoopAccess
    base: Term
    scale: int
    index: Index
    offset: int


class _Product(Struct, frozen=True):
    """An address with products: what it is as an iteration begins, and what it grows by in one."""

    start: tuple[AddressPart, ...]
    step: tuple[AddressPart, ...]
    indices: tuple[Index, ...]


class LoopBases(Struct, frozen=True):
    """The planned bases and pointers of a loop, the indices that must not wrap for them, and how
    many instructions of an iteration they save."""

    bases: tuple[Base, ...]
    pointers: tuple[Pointer, ...]
    indices: tuple[Index, ...]
    gain: float

    @property
    def needs_test(self) -> bool:
        """Is it right only where no index wraps?"""
        return bool(self.bases or self.indices)

    @property
    def moved(self) -> frozenset[int]:
        """The accesses that get other addresses."""
        return frozenset(at for base in self.bases for at, _ in base.members)


NO_BASES = LoopBases((), (), (), 0.0)


class Addresses:
    """Finds the bases and pointers for the addresses of one loop."""

    def __init__(self, sums: LoopSums, counting: Counting, cfg: Cfg, cost: IterationCost) -> None:
        self.sums, self._counting, self._cfg, self._cost = sums, counting, cfg, cost
        self._terms = sums.terms

    def bases(self) -> LoopBases:
        """The bases that accesses share."""
        every = list(self._indexed())
        groups: dict[tuple[Term, int, Term, Term], list[_Address]] = {}
        for one in every:
            far = one.scale * one.index.constant + one.offset
            # The new code multiplies by `mul.wide.u32`, and the test before the loop bounds what
            # is added to an index by MORE.
            if 0 < one.scale < 1 << 31 and abs(far) < FARTHEST and abs(one.index.constant) < MORE:
                # Sign- and zero-extended indices share a base: behind the test every index lies
                # from 0 to 2^31 - 1, where both extensions agree.
                key = (one.base, one.scale, one.index.carried, one.index.stays)
                groups.setdefault(key, []).append(one)
        if not groups:
            return NO_BASES
        largest = sorted(groups, key=lambda key: -len(groups[key]))[:_MOST_BASES]
        chosen = [groups[key] for key in groups if key in largest]
        bases = tuple(map(self._base, chosen))
        moved = frozenset(one.place.index for group in chosen for one in group)
        kept = frozenset(base.index for base in bases)
        gain = self._cost.of() - self._cost.of(moved, kept=kept) - len(bases)
        return LoopBases(bases, (), tuple(one.index for group in chosen for one in group), gain)

    def with_pointers(self, bases: LoopBases, counter: LoopCounter | None) -> LoopBases:
        """The same with pointers for products, where these save more. Without a counter only those
        that need no test."""
        read = {
            at: (register, product)
            for at, register in self._products(bases.moved)
            if (product := self._read_product(self.sums.values[at], counter)) is not None
        }
        if not read:
            return bases
        kept = frozenset(base.index for base in bases.bases)
        before = self._cost.of(bases.moved, kept=kept)
        given = frozenset(read)
        left = self._cost.of(bases.moved, given, kept)
        # Start with a pointer for each, then drop those that save no more than their own increment.
        # Adding them one by one would miss two addresses that share a product: the product is
        # saved only if both become pointers.
        for at in sorted(read, reverse=True):
            more = self._cost.of(bases.moved, given - {at}, kept)
            if more - left <= _INCREMENT:
                given, left = given - {at}, more
        chosen = [(at, *read[at]) for at in sorted(given)]
        pointers = tuple(Pointer(at, reg.name, one.start, one.step) for at, reg, one in chosen)
        indices = tuple(index for _, _, one in chosen for index in one.indices)
        gain = bases.gain + before - left - _INCREMENT * len(pointers)
        return LoopBases(bases.bases, pointers, (*bases.indices, *indices), gain)

    # ------------------------------------------------------------ sums with an index

    def _indexed(self) -> Iterator[_Address]:
        """The addresses that are a sum with one extended index that the loop carries."""
        read: dict[object, tuple[Term, int, Index] | None] = {}
        for place in self.sums.places:
            instruction, width = self._cfg.instructions[place.index], place.address.width
            if instruction.opcode not in ACCESSES or isa.space(instruction) == "param":
                continue
            constant, items = split(place.address)
            if items not in read:  # most addresses differ from others by a number
                read[items] = self._read_sum(items) if width == 64 else None
            parts = read[items]
            if parts is not None:
                yield _Address(place, *parts, wrapped(constant, width))

    def _read_sum(self, items: tuple[tuple[Term, int], ...]) -> tuple[Term, int, Index] | None:
        """The base, the scale and the index of a sum of 64 bits."""
        varying = [(part, factor) for part, factor in items if not self.sums.stays(part)]
        if len(varying) != 1 or len(factors(varying[0][0])) > 1:
            return None
        (extended, scale) = varying[0]
        index = self._index(extended)
        if index is None:
            return None
        base = self._terms.sum(64, 0, [(p, f) for p, f in items if p is not extended])
        return base, wrapped(scale, 64), index

    def _index(self, extended: Term) -> Index | None:
        """An extended sum of one register that the loop carries and others that stay."""
        if extended.kind not in op.EXTENSIONS:
            return None
        terms, inner = self._terms, extended.args[0]
        shift, summands = split(inner)
        carried = [(t, f) for t, f in summands if self.sums.changes(t)]
        if len(carried) != 1 or carried[0][1] != 1 or carried[0][0] not in self.sums.registers:
            return None
        atom = carried[0][0]
        stays = terms.sub(terms.sub(inner, atom), terms.const(shift, 32))
        return Index(atom, stays, wrapped(shift, 32), extended.kind is op.SEXT)

    def _base(self, members: Sequence[_Address]) -> Base:
        first = members[0]
        parts = self._counting.parts(first.base)
        if split(first.index.stays)[1]:
            # Sign-extended even in an unsigned index: the test allows this part to be negative, as
            # long as the whole index is not.
            more = Extended(self._counting.sum(first.index.stays), "s")
            parts.append(AddressPart(first.scale, (more,)))
        return Base(
            plain_first(parts),
            self._counting.register(first.index.carried),
            first.scale,
            tuple((m.place.index, m.scale * m.index.constant + m.offset) for m in members),
        )

    # ------------------------------------------------------------ sums with products

    def _products(self, moved: frozenset[int]) -> list[tuple[int, Reg]]:
        """The instructions that leave addresses with a product in a register, and these."""
        written_at = writers(self._cfg.written, self.sums.values)
        products = {}
        for place in self.sums.places:
            base = place.operand.base
            if isinstance(base, Reg) and place.index not in moved:
                ats = written_at.get(base, [])
                # The instruction becomes a move from the pointer. With a second writer, or under
                # a guard, the register could hold something else at the access.
                if len(ats) == 1 and self._cfg.instructions[ats[0]].guard is None:
                    products[ats[0]] = base
        return sorted(products.items())

    def has_products(self) -> bool:
        """Has a loop addresses that may become pointers?"""
        products = self._products(frozenset())
        return any(self._has_product(self.sums.values[at]) for at, _ in products)

    def _has_product(self, value: Term) -> bool:
        """Is there a product in a sum that is not the same in each iteration?"""
        parts = (part for part, _ in split(value)[1] if part.kind is op.MUL)
        return any(not self.sums.stays(part) for part in parts)

    def _read_product(self, value: Term, counter: LoopCounter | None) -> _Product | None:
        """A value that is to be carried; None where it does not grow by the same in each iteration,
        or has no product."""
        if value.width != 64:
            return None
        items = split(value)[1]
        # Without a product it is a 64-bit sum of two instructions, as the pointer's own step is.
        if not self._has_product(value):
            return None
        step: list[AddressPart] = []
        indices: list[Index] = []
        for part, factor in items:
            varying = [one for one in factors(part) if not self.sums.stays(one)]
            if not varying:
                continue
            if len(varying) > 1:
                return None
            index = self._index(varying[0])
            grown = self._grown_wide(varying[0]) if index is None else self._grown(index, counter)
            if grown is None:
                return None
            others = tuple(
                map(self._counting.value, [f for f in factors(part) if f is not varying[0]])
            )
            times = wrapped(factor, 64)
            step += (AddressPart(times * by.factor, (*others, *by.values)) for by in grown)
            indices += () if index is None else (index,)
        start = self._counting.parts(value)
        return _Product(plain_first(start), plain_first(step), tuple(indices))

    def _grown(self, index: Index, counter: LoopCounter | None) -> list[AddressPart] | None:
        """What an extended index grows by in an iteration, if it does not wrap."""
        if counter is None:
            return None
        try:
            growth = self._counting.growth(index.carried, counter)
        except UncountedLoop:
            return None
        if growth.of.items:
            return [AddressPart(growth.times, (Extended(growth.of, "u"),))]
        return [AddressPart(growth.times * growth.of.constant, ())]

    def _grown_wide(self, carried: Term) -> list[AddressPart] | None:
        """What a register of 64 bits grows by in an iteration, modulo 2^64."""
        register = self.sums.registers.get(carried)
        if register is None or carried.width != 64:
            return None
        grown = self.sums.step(carried)
        return None if grown is None else self._counting.parts(grown)


def plain_first(parts: Sequence[AddressPart]) -> tuple[AddressPart, ...]:
    """The summands, those first that are a register as it is: a sum can start from it without an
    instruction."""
    return tuple(sorted(parts, key=lambda p: not (p.factor == 1 and isinstance(p.only, str))))


def is_too_large(cfg: Cfg, loop: Loop) -> bool:
    """Has a loop more blocks than are followed, or several entries?"""
    return bool(cfg.irreducible & loop.blocks) or len(loop.blocks) > _MOST_BLOCKS


def why_left_alone(cfg: Cfg, loop: Loop, body: Sequence[int]) -> str | None:
    """Why a loop surely stays as it is: there are no accesses, or no indices that are extended or
    multiplied."""
    if is_too_large(cfg, loop):
        return TOO_LARGE
    code = [cfg.instructions[at] for at in body]
    accesses = sum(i.opcode in ACCESSES for i in code)
    if any(_is_wide_product(instruction, "mul") for instruction in code):
        return None if accesses else "the loop accesses no memory"
    if not any("wide" in i.modifiers or _extends(i) for i in code):
        return _NO_INDEX
    return None if accesses > 1 else "the loop has only one access"


def _is_wide_product(instruction: Instruction, *opcodes: str) -> bool:
    """Is it one of these, the product of which has 64 bits?"""
    wide = instruction.modifiers[-1:] in (("s64",), ("u64",))
    return wide and instruction.opcode in opcodes and "lo" in instruction.modifiers


def _extends(instruction: Instruction) -> bool:
    return instruction.opcode == "cvt" and instruction.modifiers[-2:] in (
        ("s64", "s32"), ("u64", "u32"),
    )  # fmt: skip
