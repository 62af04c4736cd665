"""What a kernel's addresses are multiples of: proved, or under tests on its parameters.

`in + 16*t` is a multiple of 16 if `in` is. `in + 4*(row*pitch + 4*t)` is, if besides `pitch` is a
multiple of 4. Such tests are the same for all threads, and can be made where the kernel begins.
Sums and products wrap at powers of two, which changes nothing about the low bits.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ptxsw.ptx.ir import Function, Module, type_width
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, ones, split
from ptxsw.terms.origin import Origin

_MOST = 1 << 12  # bytes: no larger alignment is asked for, and products of divisors stay small
_DEEPEST = 40


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

    def __init__(self, module: Module, function: Function) -> None:
        self._module, self._function = module, function
        self._parameters = {parameter.name: parameter for parameter in function.params}
        self._divisors: dict[tuple[Term, int], int] = {}

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
        rest = [(t, f) for t, f in items if f * self.factor(t) % size]
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
        if self.factor(term) % size == 0:
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
        factors_known = [self.factor(factor) for factor in term.args]
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
        if term.kind is not op.ATOM or term.variance is not Variance.UNIFORM:
            return False
        name, _, offset = str(term.value).partition("+")
        parameter = self._parameters.get(name)
        if parameter is None or term.width not in (32, 64) or not (offset or "0").isdigit():
            return False
        return bool(offset) or bool(parameter.dims) or type_width(parameter.type) == term.width

    def _declared(self, name: str) -> int:
        """The alignment that `.ptr .align` declares for what a parameter points to, in bytes."""
        parameter = self._parameters.get(name)
        for attribute in parameter.attributes if parameter is not None else ():
            word, _, number = attribute.partition(" ")
            if word == "align" and number.isdigit():
                return int(number)
        return 1

    # ------------------------------------------------------------ proved

    def factor(self, term: Term, depth: int = 0) -> int:
        """A power of two that divides the value of a term."""
        divisor = self._divisors.get((term, depth))
        if divisor is None:
            divisor = 1 if depth > _DEEPEST else self._divisor(term, depth)
            self._divisors[term, depth] = divisor
        return divisor

    def _divisor(self, term: Term, depth: int) -> int:
        match term.kind:
            case op.CONST | op.SUM:
                constant, items = split(term)
                bits = [lowest(constant)] if constant else []
                bits += [lowest(f) * self.factor(t, depth + 1) for t, f in items]
                return min(bits, default=_MOST)
            case op.ZEXT | op.SEXT:
                return min(self.factor(term.args[0], depth + 1), 1 << term.args[0].width)
            case op.MUL:
                product = 1
                for factor in term.args:
                    product *= self.factor(factor, depth + 1)
                return min(product, _MOST)
            case op.ATOM if term.origin is Origin.SYMBOL:
                return self._variable(term.of[0])
            case _:
                return min(lowest(ones(term)), _MOST)

    def _variable(self, name: str) -> int:
        """The alignment of a variable, in bytes."""
        for variable in (*self._function.body.variables, *self._module.variables):
            if variable.name == name and variable.space != "reg":
                return variable.align or max(1, type_width(variable.type) // 8)
        return 1


def lowest(value: int) -> int:
    """The largest power of two that divides a number."""
    return value & -value if value else _MOST


def _rest(size: int, divisor: int) -> int:
    """What the other factor must be a multiple of, so that its product with a multiple of `divisor`
    is a multiple of `size`."""
    return max(1, size // divisor)


def _joined(one: Mapping[tuple[str, int], int], other: Mapping[tuple[str, int], int]) -> _Needs:
    return {key: max(one.get(key, 1), other.get(key, 1)) for key in {**one, **other}}
