"""Which array an access is in: a variable with a size, or a buffer of a launch, and the offset.

mov.u32 %r1, tile;  ld.shared.f32 %f1, [%r1+%r2];         `tile`, at %r2
selp.b32 %r3, a, b, %p1;  ld.shared.f32 %f1, [%r3];       `a` where %p1 holds, or `b`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ptxsw.correctness.subject import Subject
from ptxsw.emulator.trace import Access
from ptxsw.facts.structure import lifted_sum
from ptxsw.ptx.ir import Variable
from ptxsw.terms import op
from ptxsw.terms.node import Term, split
from ptxsw.terms.origin import Origin
from ptxsw.terms.terms import Terms
from ptxsw.verify.arguments import Data

_CHOICES = 4
"""Between which arrays an address may choose."""
NO_ACCESS = frozenset({
    "applypriority", "createpolicy", "cvta", "discard", "fence", "isspacep", "mapa", "prefetch",
    "prefetchu",
})  # fmt: skip
"""What names an address and touches nothing there, as far as a thread can tell."""


class InArray(Struct, frozen=True):
    """Where an access may be: `size` bytes of an array, from `start` before its address on, at an
    offset from that address, where the conditions `given` hold. An array of no size is one whose
    size nobody tells."""

    name: str
    size: int | None
    offset: Term
    given: tuple[Term, ...]
    start: int = 0


class Arrays:
    """The arrays of one kernel."""

    def __init__(self, subject: Subject) -> None:
        self._terms: Terms = subject.trace.terms
        self._launch = subject.launch
        self._function = subject.function
        self._variables = _variables(subject)

    @property
    def sized(self) -> frozenset[str]:
        """State spaces in which some array has a size, other than by the launch."""
        return frozenset(v.space for v in self._variables.values() if v.size)

    def places(self, address: Term, given: Sequence[Term]) -> Iterator[InArray | None]:
        """The arrays that an address may be in; None for one that is not known."""
        ways = [(address, tuple(given))]
        for _ in range(_CHOICES * 2):
            if not ways:
                return
            value, conditions = ways.pop()
            base = self._base(value)
            if base is not None:
                yield self._place(base, value, conditions)
                continue
            lifted = lifted_sum(self._terms, value, self._terms.const(0, value.width))
            if lifted.kind is not op.ITE:
                yield None
                continue
            condition, yes, no = lifted.args
            ways.append((yes, (*conditions, condition)))
            ways.append((no, (*conditions, self._terms.not_(condition))))
        yield None

    def _base(self, address: Term) -> Term | None:
        """What the address of an array is: a variable, or a pointer among the parameters."""
        items = [_address(t) for t, factor in split(address)[1] if factor == 1]
        symbols = [t for t in items if t is not None]
        return symbols[0] if len(symbols) == 1 else None

    def _place(self, base: Term, address: Term, given: tuple[Term, ...]) -> InArray:
        symbol = base if base.kind is op.ATOM else base.args[0]
        offset = self._terms.sub(address, base)
        if symbol.origin is Origin.SYMBOL:
            variable = self._variables.get(symbol.of[0])
            name = symbol.of[0].partition("@")[0]
            return InArray(name, self._size(variable), offset, given)
        return self._buffer(symbol, offset, given)

    def _size(self, variable: Variable | None) -> int | None:
        if variable is None:
            return None
        if variable.is_dynamic:
            return None if self._launch is None else self._launch.shared
        return variable.size or None

    def _buffer(self, pointer: Term, offset: Term, given: tuple[Term, ...]) -> InArray:
        """The buffer to which a launch lets a parameter point."""
        name, at = pointer.of
        if self._launch is not None and at == "0":
            pairs = zip(self._function.params, self._launch.args, strict=False)
            for parameter, argument in pairs:
                if parameter.name == name and isinstance(argument, Data):
                    return InArray(name, argument.bytes, offset, given, argument.before)
        return InArray(name, None, offset, given)


def _address(term: Term) -> Term | None:
    """Is a summand the address of something?"""
    atom = term.args[0] if term.kind is op.EXTRACT and term.value == 0 else term
    if atom.origin is Origin.SYMBOL:
        return term
    pointer = term.origin is Origin.PARAMETER and term.width == 64
    return term if pointer else None


def _variables(subject: Subject) -> dict[str, Variable]:
    """Variables by the names that the trace has for them."""
    named = {v.name: v for v in subject.module.variables if v.space != "reg"}
    for parameter in subject.function.params:
        named[parameter.name] = parameter
    for variable in subject.whole.body.variables:
        if variable.space != "reg":
            scope = f"@{variable.scope}" if variable.scope else ""
            named[f"{variable.name}{scope}"] = variable
    return named


def addresses(access: Access) -> Iterator[tuple[Term, tuple[Term, ...]]]:
    """The addresses that an access may have, with what holds there; of a copy both."""
    for view in access.variants:
        given = (*view.conditions, view.guard)
        yield view.address, given
        if view.copied is not None:
            yield view.copied, given
