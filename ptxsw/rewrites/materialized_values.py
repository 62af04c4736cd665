"""Materialized values: strides, sums of them, and arithmetic that is made earlier, for addresses.

What a register of the text, or an earlier one of these, holds already is not made again. Prices are
instructions of SASS.
"""

from __future__ import annotations

from ptxsw.analysis.straight_sums import StraightSums
from ptxsw.codegen.lower_straight_line import MaterializedValue, Summand, Value
from ptxsw.flow.ssa_versions import Version
from ptxsw.ptx.ir import Reg
from ptxsw.terms import op
from ptxsw.terms.polynomial import Monomial, Polynomial

_PRODUCT = 4.0  # of 64 bits: IMAD.WIDE, two IMAD, and a sum
WIDE = 2.0  # a sum or shift of 64 bits
_SHIFTED = 1.5

Priced = tuple[float, Value]
"""What a value costs, and the value."""


class MaterializedValues:
    """The values of one region that are made for addresses."""

    def __init__(self, sums: StraightSums) -> None:
        self._sums = sums
        self.made: list[MaterializedValue] = []
        self.needed: set[str] = set()  # registers of the text, besides
        self._known: dict[tuple[int, Polynomial], list[int]] = {}

    def value(self, width: int, wanted: Polynomial, at: int, *, dry: bool = False) -> Priced | None:
        """A register for a value where an instruction stands, and what it costs; None where there
        is none and it cannot be made. With `dry` nothing is made."""
        found = self.find(width, wanted, at)
        if found is not None:
            return 0.0, found
        if len(wanted.items) == 1 and wanted.items[0][1] == 1 and len(wanted.items[0][0]) > 1:
            return self._product(width, wanted, at, dry)
        if len(wanted.items) == 1 and wanted.items[0][1] == 1 and wanted.items[0][0]:
            (monomial, _), *_ = wanted.items
            return self._extended(width, monomial, 1, at, dry) if _is_index(monomial) else None
        return self.sum(width, wanted, at, None, dry=dry)

    def sum(
        self, width: int, wanted: Polynomial, at: int, first: Value | None, *, dry: bool = False
    ) -> Priced | None:
        """The same for a sum, behind `first` where that is given."""
        parts = [] if first is None else [Summand(1, first)]
        total = 0.0
        for monomial, factor in wanted:
            part = self._summand(width, monomial, factor, at, dry) if monomial else None
            if part is None:
                return None
            cost, summand = part
            total += cost
            parts.append(summand)
        if dry:
            return total, -1
        made = MaterializedValue(at, width, tuple(parts))
        return total, self._add(width, wanted, made) if first is None else self._append(made)

    def find(self, width: int, wanted: Polynomial, at: int) -> Value | None:
        """A register that holds a value already."""
        for number in self._known.get((width, wanted), ()):
            if before(self._sums, self.made[number].at, at):
                return number
        holder = self._sums.holder(width, wanted, at)
        return None if holder is None else holder.name

    def lasting(self, register: Reg, at: int) -> Value:
        """What a register holds where an instruction stands, in one that nothing else sets."""
        if register in self._sums.cfg.sole_writers:
            return register.name
        width = self._sums.value(register, at).width
        return self._append(MaterializedValue(at, width, (Summand(1, register.name),)))

    def early(self, register: Reg, index: int, at: int) -> Value | None:
        """What an instruction finds in a register, where an earlier one of the same block stands:
        the instructions that compute it in between are made there. None where that cannot be."""
        cfg, versions = self._sums.cfg, self._sums.versions
        moved: dict[Version, None] = {}
        work = [(register, versions.at(register, index))]
        while work:
            reg, version = work.pop()
            if version in moved or versions.at(reg, at) == version:
                continue
            within = version >= at and cfg.block_of[version] == cfg.block_of[at]
            if not within or not self._may_be_early(version):
                return None
            moved[version] = None
            work += [(read, versions.at(read, version)) for read in cfg.read[version]]
        early = {version: self._early(version, at) for version in sorted(moved)}
        made = early.get(versions.at(register, index))
        return self.lasting(register, at) if made is None else made

    def _may_be_early(self, version: Version) -> bool:
        """Does an instruction only compute a register of 32 or 64 bits, from such that it names?"""
        cfg = self._sums.cfg
        if not self._sums.computes(version) or len(cfg.written[version]) != 1:
            return False
        if self._sums.left(version).width not in (32, 64):
            return False
        return set(cfg.read[version]) <= set(cfg.instructions[version].operands[1:])

    def _early(self, version: Version, at: int) -> int:
        """The number of an instruction that is made earlier, behind those that it reads."""
        cfg, versions = self._sums.cfg, self._sums.versions
        done = {made.hoisted: number for number, made in enumerate(self.made)}
        operands = [
            (number, done[versions.at(operand, version)])
            for number, operand in enumerate(cfg.instructions[version].operands)
            if number and isinstance(operand, Reg) and versions.at(operand, version) in done
        ]
        value = self._sums.left(version)
        made = MaterializedValue(at, value.width, hoisted=version, operands=tuple(operands))
        return self._add(value.width, self._sums.polynomial(value), made)

    def _product(self, width: int, wanted: Polynomial, at: int, dry: bool) -> Priced | None:
        total, names = -self._price_of_product(width), list[Value]()
        for factor in wanted.items[0][0]:
            part = self.value(width, Polynomial.atom(factor), at, dry=dry)
            if part is None:
                return None
            total += part[0] + self._price_of_product(width)
            names.append(part[1])
        made = MaterializedValue(at, width, factors=tuple(names))
        return total, -1 if dry else self._add(width, wanted, made)

    def _price_of_product(self, width: int) -> float:
        return _PRODUCT if width == 64 else 1.0

    def _summand(
        self, width: int, monomial: Monomial, factor: int, at: int, dry: bool
    ) -> tuple[float, Summand] | None:
        """A part of a sum, and what it adds to the cost of that."""
        step, size = WIDE if width == 64 else 1.0, abs(factor)
        for sign in (1, -1):
            found = self.find(width, Polynomial.of([(monomial, sign * factor)]), at)
            if found is not None:
                return step, Summand(sign, found)
        one = self._scaled(width, monomial, size, at, dry)
        if one is None:
            return None
        # ptxas shifts and adds in one (LEA), or multiplies and adds (IMAD.WIDE), where nothing else
        # needs the first. What is there already is better all the same.
        merges = width == 64 and ((size > 1 and size & (size - 1) == 0) or _is_index(monomial))
        price = max(one[0] - _SHIFTED, 0.0) if merges else one[0]
        return price + step, Summand(1 if factor > 0 else -1, one[1])

    def _scaled(
        self, width: int, monomial: Monomial, size: int, at: int, dry: bool
    ) -> Priced | None:
        """A product, several times."""
        wanted = Polynomial.of([(monomial, size)])
        for number, factor in enumerate(monomial if size > 1 else ()):
            others = monomial[:number] + monomial[number + 1 :]
            known = self.find(width, Polynomial.of([(others, size)]), at) if others else None
            other = self.find(width, Polynomial.atom(factor), at)
            if known is not None and other is not None:
                made = MaterializedValue(at, width, factors=(known, other))
                price = self._price_of_product(width)
                return price, -1 if dry else self._add(width, wanted, made)
        if width == 64 and _is_index(monomial):
            return self._extended(width, monomial, size, at, dry)
        one = self.value(width, Polynomial.of([(monomial, 1)]), at, dry=dry)
        if one is None or size == 1:
            return one
        step = WIDE if width == 64 else 1.0
        made = MaterializedValue(at, width, (Summand(size, one[1]),))
        return one[0] + step, -1 if dry else self._add(width, wanted, made)

    def _extended(
        self, width: int, monomial: Monomial, size: int, at: int, dry: bool
    ) -> Priced | None:
        """An extended index, several times."""
        (atom,) = monomial
        narrow = self.value(32, self._sums.polynomial(atom.args[0]), at, dry=dry)
        if narrow is None or size >= 1 << 31:
            return None
        sign = "s" if atom.kind is op.SEXT else "u"
        made = MaterializedValue(at, width, (Summand(size, narrow[1], sign),))
        wanted = Polynomial.of([(monomial, size)])
        return narrow[0] + WIDE, -1 if dry else self._add(width, wanted, made)

    def _add(self, width: int, value: Polynomial, made: MaterializedValue) -> int:
        number = self._append(made)
        self._known.setdefault((width, value), []).append(number)
        return number

    def _append(self, made: MaterializedValue) -> int:
        self.made.append(made)
        return len(self.made) - 1


def _is_index(monomial: Monomial) -> bool:
    """Is it an index of 32 bits that is extended?"""
    return (
        len(monomial) == 1
        and monomial[0].kind in op.EXTENSIONS
        and (monomial[0].args[0].width == 32)
    )


def before(sums: StraightSums, a: int, b: int) -> bool:
    """Does every way to one instruction pass another one first, or is it the same?"""
    above, below = sums.cfg.block_of[a], sums.cfg.block_of[b]
    return a <= b if above == below else sums.cfg.dominates(above, below)
