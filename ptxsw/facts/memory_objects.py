"""Which object an address is in: an array of shared memory, or what a pointer leads to.

    out + 4 * (i + n)        the pointer `out`, since it stands there alone or in other accesses
    &tile + 4 * %tid.x       the variable `tile`

Objects are disjoint: variables while accesses stay in bounds, and what pointers lead to by the
assumption that there is no aliasing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from ptxsw.emulator.trace import Access, Trace
from ptxsw.facts.thread_views import ThreadViews, is_read_once
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Int
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, split, walk
from ptxsw.terms.origin import Origin

NO_ALIAS = "no-alias"
IN_BOUNDS = "out-of-bounds"
"""The rule that has to be absent for variables to be disjoint."""

_POINTER = 64  # bits
_MATRIX_ROW = 16
"""Bytes of the row of a matrix that a lane of `ldmatrix` names (manual 9.7.14.5.15)."""


class PlaceInObject(Struct, frozen=True):
    """An address as an object and what is added to it. `base` is None where no object is known:
    then `offset` is the whole address."""

    base: Term | None
    offset: Term


class Objects:
    """The objects of a kernel. `pointers` are parameters that some address is built on alone."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        alone = (_candidates(a) for access in trace.accesses for a in _addresses(access))
        self.pointers = frozenset(c[0] for c in alone if len(c) == 1 and _is_parameter(c[0]))
        self._written: frozenset[Term | None] | None = None

    def place(self, views: ThreadViews, address: Term) -> PlaceInObject:
        """Where an address of the trace lies, in thread t's view."""
        seen = views.own(address)
        base = self._base(seen)
        return PlaceInObject(base, seen if base is None else views.terms.sub(seen, base))

    def _base(self, address: Term) -> Term | None:
        candidates = _candidates(address)
        symbols = [c for c in candidates if is_variable(c)]
        if symbols:
            return symbols[0] if len(symbols) == 1 else None
        if len(candidates) > 1:
            candidates = [c for c in candidates if c in self.pointers]
        return candidates[0] if len(candidates) == 1 else None

    def is_read_only(self, load: Term) -> bool:
        """Does nobody write what a load of the trace reads?"""
        name, _ = load.value
        if len(name) == 2:
            return True  # constant memory, or what the text says to be so
        if name[1] != "global":
            return False
        if self._written is None:
            self._written = frozenset(self._writes())
        base = self._base(load.args[0])
        return base is not None and None not in self._written and base not in self._written

    def _writes(self) -> Iterable[Term | None]:
        """What the kernel may write in global memory; None: anything."""
        for access in self._trace.accesses:
            if access.kind != "load" and access.space in ("global", "generic"):
                yield from map(self._base, _addresses(access))
        for step in self._trace.steps:
            if step is not None and "global" in step.clobbers and step.elsewhere:
                ins = step.instruction
                effects = isa.effects(ins.opcode, ins.modifiers)
                if effects & (isa.Effect.CALL | isa.Effect.WRITE | isa.Effect.ASYNC):
                    yield None


def touched_bytes(access: Access) -> int:
    """How many bytes a thread touches from its address on; 0 where nothing says. Those of
    `cp.async` and `discard` stand among the operands."""
    ins = access.instruction
    if ins.opcode in ("ldmatrix", "stmatrix"):
        return _MATRIX_ROW
    if ins.opcode == "wmma" or "bulk" in ins.modifiers:
        return 0
    if ins.opcode in ("cp", "discard"):
        return next((int(o.value) for o in ins.operands if isinstance(o, Int)), 0)
    return access.bytes


def same_object(t: PlaceInObject, u: PlaceInObject, other: Callable[[Term], Term]) -> bool:
    """Do two threads go to one object, or both to places of which no object is known? `other`
    names what u has."""
    if t.base is None or u.base is None:
        return t.base is u.base
    return t.base is other(u.base)


def not_one_object(t: PlaceInObject, u: PlaceInObject, other: Callable[[Term], Term]) -> bool:
    """Do two threads go to different objects?"""
    return t.base is not None and u.base is not None and t.base is not other(u.base)


def _addresses(access: Access) -> Iterable[Term]:
    return (variant.address for variant in access.variants)


def _candidates(address: Term) -> list[Term]:
    """What may be the pointer in a sum: it stands there once, unscaled."""
    return [term for term, factor in split(address)[1] if factor == 1 and _may_be_base(term)]


def is_variable(term: Term | None) -> bool:
    """Is it where a variable begins, or the low half of that?"""
    if term is None:
        return False
    low = term.kind is op.EXTRACT and term.value == 0
    return (term.args[0] if low else term).origin is Origin.SYMBOL


def _may_be_base(term: Term) -> bool:
    if is_variable(term):
        return True
    return term.width == _POINTER and (_is_parameter(term) or term.origin is Origin.LOAD)


def _is_parameter(term: Term) -> bool:
    return term.origin is Origin.PARAMETER and term.variance is Variance.UNIFORM


class ThreadSide(Struct, frozen=True):
    """What one thread does: where it touches how many bytes, under which conditions."""

    place: PlaceInObject
    conditions: tuple[Term, ...]
    size: int
    writes: bool

    @property
    def remembers(self) -> bool:
        """Does anything depend on memory that nobody is taken to write?"""
        return any(is_read_once(node) for node in walk(self.place.offset, *self.conditions))
