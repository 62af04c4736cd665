"""Is an access misaligned for some lane, whatever the alignment of the array it is in?

    ld.global.v2.f32 {%f1, %f2}, [in + 4·tid]      every other lane, wherever `in` points to

A pointer is taken to be aligned as its accesses need it; a variable is aligned as it is declared.
So what counts is what is added to it: a power of two that divides the sum, conditions of the path,
or a parameter that has to be a multiple of something, which is a condition of the verdict.
"""

from __future__ import annotations

from ptxsw.correctness.arrays import NO_ACCESS, addresses
from ptxsw.correctness.kernel_values import KernelValues
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.unfollowed import through_calls, why_unbounded
from ptxsw.correctness.verdict import Proof, Suspect
from ptxsw.emulator.trace import Access
from ptxsw.facts.alignment import Alignment
from ptxsw.facts.memory_objects import is_variable, touched_bytes
from ptxsw.ptx import isa
from ptxsw.terms import op
from ptxsw.terms.node import Term, split
from ptxsw.terms.origin import OF_LOOPS, Origin

RULE = "misaligned-access"
_ASKED = 8
_OTHERWISE = frozenset({"param", "tex", "surf"})
"""Spaces whose accesses are aligned by what declares them."""
_BULK = 16
"""Bytes of which the addresses of bulk copies are multiples (manual 9.7.9.25.4)."""


def occurs(subject: Subject) -> bool:
    """Does the kernel touch words of several bytes?"""
    return any(isa.space(i) not in (None, *_OTHERWISE) for i in subject.cfg.instructions)


def prove(subject: Subject) -> Proof:
    return through_calls(subject, lambda one: _Proving(one).proof(), descriptors=False)


class _Proving:
    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._values = KernelValues(subject)
        self._alignment = Alignment(subject.module, subject.whole, subject.trace)
        self._conditions: dict[str, None] = {}
        self._bases: dict[Term, tuple[int, int]] = {}
        self._open: list[Suspect] = []
        self._asked = 0

    def proof(self) -> Proof:
        for access in self._subject.trace.accesses:
            self._subject.budget.check()
            if access.instruction.opcode not in NO_ACCESS and access.space not in _OTHERWISE:
                self._access(access)
        condition = " and ".join(self._conditions)
        return Proof(tuple(self._open), "", "proved", condition)

    def _access(self, access: Access) -> None:
        size = _needed(access)
        if size == 1:
            return
        for address, given in addresses(access):
            why = self._address(access, address, size, given)
            if why:
                model = None
                if len(self._open) < _ASKED:
                    model = self._values.refuted(self._claim(address, size), given)
                self._open.append(Suspect(RULE, access.index, values=model, why=why))
                return

    def _claim(self, address: Term, size: int) -> Term:
        """That what is added to a pointer is a multiple of the size."""
        terms, base = self._values.terms, _base(address)
        added = address if base is None or base.width != address.width else terms.sub(address, base)
        low = terms.extract(added, 0, size.bit_length() - 1)
        return terms.eq(low, terms.const(0, low.width))

    def _address(self, access: Access, address: Term, size: int, given: tuple[Term, ...]) -> str:
        """Show that an address is a multiple of a size; what stands in the way, if anything."""
        constant, items = split(address)
        base = _base(address)
        others = [(t, f) for t, f in items if t is not base]
        rest = constant % size
        if all(f * self._alignment.divisor(t) % size == 0 for t, f in others):
            return self._on_base(access, base, rest, size, given)
        if self._asked < _ASKED:
            self._asked += 1
            if self._values.holds(self._claim(address, size), given):
                return ""
        terms = self._values.terms
        whole = terms.sub(address, terms.const(rest, address.width))
        tests = self._alignment.tests(whole, size)
        numbers = [t for t in tests or () if base is None or t.parameters != (str(base.value),)]
        if tests is None or (numbers and self._values.is_launched):
            return why_unbounded(self._subject, access.index, terms.sum(address.width, 0, others))
        self._conditions.update(dict.fromkeys(map(str, numbers)))
        return self._on_base(access, base, rest, size, given)

    def _on_base(
        self, access: Access, base: Term | None, rest: int, size: int, given: tuple[Term, ...]
    ) -> str:
        """Show the same where a multiple of the size and a constant are added to a pointer."""
        line = self._subject.line(access.index)
        if base is None or base.origin is Origin.SYMBOL or base.kind is op.EXTRACT:
            aligned = size if base is None else self._alignment.divisor(base)
            if rest % min(aligned, size):
                return f"the address at line {line} is {rest} bytes off a multiple of {size}"
            if aligned < size:
                self._conditions[f"{_symbol(base)} is aligned to {size} bytes"] = None
            return ""
        other = self._bases.get(base)
        if other is not None and (other[1] - rest) % min(other[0], size):
            claim = self._aligned(base, size, rest)
            if not self._values.holds(claim, given):
                return f"the accesses by {_shown(base)} at line {line} need two alignments of it"
            return ""
        if rest and not self._values.holds(self._aligned(base, size, rest), given):
            self._conditions[f"{_shown(base)} + {rest} is a multiple of {size}"] = None
        if other is None or size > other[0]:
            self._bases[base] = size, rest
        return ""

    def _aligned(self, base: Term, size: int, rest: int) -> Term:
        terms = self._values.terms
        low = terms.extract(
            terms.add(base, terms.const(rest, base.width)), 0, size.bit_length() - 1
        )
        return terms.eq(low, terms.const(0, low.width))


def _needed(access: Access) -> int:
    """Of how many bytes the address of a lane has to be a multiple."""
    if "bulk" in access.instruction.modifiers:
        return _BULK
    size = touched_bytes(access) or 1
    return size & -size


def _base(address: Term) -> Term | None:
    """The pointer in a sum: a variable's address, a parameter, or any other value as wide as an
    address: one that was loaded, that another lane handed over, or that a call returned."""
    items = [t for t, factor in split(address)[1] if factor == 1]
    for is_base in (is_variable, _is_parameter, _is_opaque):
        found = list(filter(is_base, items))
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _is_parameter(term: Term) -> bool:
    return term.origin is Origin.PARAMETER and term.width == 64


def _is_opaque(term: Term) -> bool:
    return all(t.kind in op.OPAQUE and t.origin not in _NO_POINTER for t in _parts(term))


_NO_POINTER = OF_LOOPS | {Origin.SPECIAL, Origin.GRID_INDEX, Origin.UNDEFINED}


def _parts(term: Term) -> tuple[Term, ...]:
    """Shuffles hand a pointer over in two halves."""
    return term.args if term.kind is op.CONCAT else (term,)


def _whole(term: Term) -> Term:
    return term.args[0] if term.kind is op.EXTRACT and term.value == 0 else term


def _symbol(base: Term | None) -> str:
    return "" if base is None else _whole(base).of[0].partition("@")[0]


def _shown(base: Term) -> str:
    return str(base.value) if base.kind is op.ATOM else "a pointer"
