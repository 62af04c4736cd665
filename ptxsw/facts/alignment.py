"""What values are multiples of, and a kernel's addresses: proved, or under tests on parameters.

`in + 16*t` is a multiple of 16 if `in` is. `in + 4*(row*pitch + 4*t)` is, if besides `pitch` is a
multiple of 4. Such tests are the same for all threads, and can be made where the kernel begins.
Sums and products wrap at powers of two, which changes nothing about the low bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from msgspec import Struct

from ptxsw.emulator.recurrences import LoopFacts
from ptxsw.emulator.state import named
from ptxsw.emulator.trace import Trace
from ptxsw.ptx.ir import Function, Module, type_width
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, bottom_up, ones, split
from ptxsw.terms.origin import Origin

_MOST = 1 << 64  # a larger divisor counts as this one, as that of 0 does
_DEEPEST = 40
_OF_LOOPS = frozenset({Origin.LOOP_VALUE, Origin.LAST_LOOP_VALUE})


class Test(Struct, frozen=True, order=True):
    """The sum of some parameters is a multiple of `size`. They are named as `ld.param` does, and
    have `width` bits."""

    parameters: tuple[str, ...]
    width: int
    size: int

    def __str__(self) -> str:
        return f"{' + '.join(self.parameters)} is a multiple of {self.size}"


_Needs = dict[tuple[str, int], int]
"""What parameters, each with its width, have to be multiples of."""


class Alignment:
    """The alignment of addresses in one kernel."""

    def __init__(self, module: Module, function: Function, trace: Trace | None = None) -> None:
        """With a trace, it is known what registers of loops are multiples of, too."""
        self._module, self._function, self._trace = module, function, trace
        self._parameters = {parameter.name: parameter for parameter in function.params}
        self._in_loops: dict[str, Mapping[str, int]] = {}
        self.divisor = Divisors(self._known).of

    def tests(self, address: Term, size: int) -> tuple[Test, ...] | None:
        """The tests under which an address is a multiple of a power of two; none where that is
        proved, None where no tests on parameters tell."""
        constant, items = split(address)
        if constant % size:
            return None
        pointers: list[str] = []
        needs: _Needs = {}
        for term, factor in items:
            # Of pointers the sum is tested: `in + offset` may be aligned though neither is.
            if factor == 1 and term.width == 64 and self._is_parameter(term):
                if self._declared(str(term.value)) < size:
                    pointers.append(str(term.value))
                continue
            more = self._needs(term, _rest(size, lowest(factor)))
            if more is None:
                return None
            needs = _joined(needs, more)
        masks = [Test((name,), width, least) for (name, width), least in sorted(needs.items())]
        return (*([Test(tuple(sorted(pointers)), 64, size)] if pointers else ()), *masks)

    def unknown_pointer(self, address: Term, size: int) -> bool:
        """Is an address a multiple of a power of two exactly if one of its summands is: a pointer
        about which nothing is known? Then each thread can test the address itself."""
        constant, items = split(address)
        rest = [(t, f) for t, f in items if f * self.divisor(t) % size]
        return (
            constant % size == 0
            and len(rest) == 1
            and rest[0][1] == 1
            and rest[0][0].width == 64
            and rest[0][0].kind in (op.ATOM, op.APPLY)
        )

    # ------------------------------------------------------------ tested

    def _needs(self, term: Term, size: int, depth: int = 0) -> _Needs | None:
        """What parameters have to be multiples of, so that a term is one of `size`."""
        if self.divisor(term) % size == 0:
            return {}
        if depth > _DEEPEST:
            return None
        match term.kind:
            case op.SUM:
                return self._needs_of_sum(term, size, depth)
            case op.ZEXT | op.SEXT | op.EXTRACT if term.kind is not op.EXTRACT or term.value == 0:
                # The low bits survive an extension or truncation, but no more than there are.
                inner = term.args[0]
                fits = size <= 1 << min(inner.width, term.width)
                return self._needs(inner, size, depth + 1) if fits else None
            case op.MUL:
                return self._needs_of_product(term, size, depth)
            case op.ATOM if self._is_parameter(term):
                return {(str(term.value), term.width): size}
            case _:
                return None

    def _needs_of_sum(self, term: Term, size: int, depth: int) -> _Needs | None:
        constant, items = split(term)
        if constant % size:
            return None
        needs: _Needs = {}
        for part, factor in items:
            more = self._needs(part, _rest(size, lowest(factor)), depth + 1)
            if more is None:
                return None
            needs = _joined(needs, more)
        return needs

    def _needs_of_product(self, term: Term, size: int, depth: int) -> _Needs | None:
        """One factor has to make up for what the others lack."""
        factors_known = [self.divisor(factor) for factor in term.args]
        # The first factor that can be tested is taken; it may be asked for more than necessary.
        for at, factor in enumerate(term.args):
            others = 1
            for number in factors_known[:at] + factors_known[at + 1 :]:
                others = min(others * number, _MOST)
            needs = self._needs(factor, _rest(size, others), depth + 1)
            if needs is not None:
                return needs
        return None

    def _is_parameter(self, term: Term) -> bool:
        """Is a term a parameter of the kernel, or a part of one, as wide as `ld.param` had it?"""
        if term.origin is not Origin.PARAMETER or term.variance is not Variance.UNIFORM:
            return False
        name, offset = term.of[0], int(term.of[1])
        parameter = self._parameters.get(name)
        if parameter is None or term.width not in (32, 64) or offset < 0:
            return False
        return offset > 0 or bool(parameter.dims) or type_width(parameter.type) == term.width

    def _declared(self, name: str) -> int:
        """The alignment that `.ptr .align` declares for what a parameter points to, in bytes."""
        parameter = self._parameters.get(name)
        for attribute in parameter.attributes if parameter is not None else ():
            word, _, number = attribute.partition(" ")
            if word == "align" and number.isdigit():
                return int(number)
        return 1

    def _known(self, term: Term) -> int | None:
        """The alignment of a variable, in bytes, if a term is its address; what a register of a
        loop is a multiple of."""
        if self._trace is not None and term.origin in _OF_LOOPS:
            label, register = term.of
            if label not in self._in_loops:
                self._in_loops[label] = {}  # of loops that lie around themselves nothing is known
                self._in_loops[label] = self._in_loop(self._trace, label)
            return self._in_loops[label].get(register, 1)
        if term.kind is not op.ATOM or term.origin is not Origin.SYMBOL:
            return None
        (name,) = term.of
        for variable in (*self._function.body.variables, *self._module.variables):
            if variable.name == name and variable.space != "reg":
                return variable.align or max(1, type_width(variable.type) // 8)
        return 1

    def _in_loop(self, trace: Trace, label: str) -> Mapping[str, int]:
        """What the registers of a loop are multiples of, where they begin as that and stay so."""
        header = next((h for h, f in trace.loop_facts.items() if f.label == label), None)
        begins = trace.begins.get(-1 if header is None else header, {})
        if header is None:
            return {}
        facts = trace.loop_facts[header]
        held = {a: self.divisor(begins[a]) if a in begins else 1 for a in facts.entry.values()}
        while (new := self._behind_iteration(facts, held)) != held:
            held = new
        return {named(reg): held[atom] for reg, atom in facts.entry.items()}

    def _behind_iteration(self, facts: LoopFacts, held: Mapping[Term, int]) -> dict[Term, int]:
        """What registers are multiples of before an iteration and behind it."""
        divisors = Divisors(lambda term: held.get(term) or self._known(term))
        found: dict[Term, int] = {}
        for reg, atom in facts.entry.items():
            change = facts.after.get(reg) or facts.steps.get(reg)
            left = divisors.of(change) if change is not None else 1
            found[atom] = min(held[atom], left) if reg in facts.modified else held[atom]
        return found


class Divisors:
    """Powers of two that divide the values of terms. `known` tells those of terms of which more is
    known than the bits that may be set."""

    def __init__(self, known: Callable[[Term], int | None]) -> None:
        self._known = known
        self._divisors: dict[Term, int] = {}

    def of(self, term: Term) -> int:
        """A power of two that divides the value of a term."""
        for node in bottom_up(self._divisors, _divided, term):
            self._divisors[node] = min(self._known(node) or self._divisor(node), _MOST)
        return self._divisors[term]

    def _divisor(self, term: Term) -> int:
        divisors = self._divisors
        match term.kind:
            case op.CONST | op.SUM:
                constant, items = split(term)
                return min([lowest(constant), *(lowest(f) * divisors[t] for t, f in items)])
            case op.ZEXT | op.SEXT:
                return min(divisors[term.args[0]], 1 << term.args[0].width)
            case op.EXTRACT:
                return min(max(1, divisors[term.args[0]] >> int(term.value)), 1 << term.width)
            case op.MUL:
                return prod(divisors[factor] for factor in term.args)
        return lowest(ones(term))


def _divided(term: Term) -> tuple[Term, ...]:
    """The parts of a term whose divisors tell its own."""
    return term.args if term.kind in _FOLLOWED else ()


_FOLLOWED = frozenset({op.SUM, op.ZEXT, op.SEXT, op.EXTRACT, op.MUL})


def lowest(value: int) -> int:
    """The largest power of two that divides a number."""
    return value & -value if value else _MOST


def _rest(size: int, divisor: int) -> int:
    """What the other factor must be a multiple of, so that its product with a multiple of `divisor`
    is a multiple of `size`."""
    return max(1, size // divisor)


def _joined(one: Mapping[tuple[str, int], int], other: Mapping[tuple[str, int], int]) -> _Needs:
    return {key: max(one.get(key, 1), other.get(key, 1)) for key in {**one, **other}}
