"""Does a kernel stay within its arrays?

Asked of arrays whose size is known: static shared, local, constant and module arrays, and with a
launch dynamic shared memory and the buffers of its arguments. An offset is looked at as numbers
first, then as a polynomial over sizes and parameters, and last by Z3. What holds only for some
blocks or parameters, which nothing in the kernel binds, is a condition of the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxsw.correctness.arrays import NO_ACCESS, Arrays, InArray, addresses
from ptxsw.correctness.kernel_values import KernelValues
from ptxsw.correctness.loop_iterations import LoopRounds
from ptxsw.correctness.offset_enumeration import offsets
from ptxsw.correctness.preconditions import Preconditions
from ptxsw.correctness.reasons import proved_for
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.unfollowed import through_calls, why_unbounded
from ptxsw.correctness.verdict import Proof, Suspect
from ptxsw.emulator.trace import Access
from ptxsw.facts.memory_objects import touched_bytes
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Mem, Symbol
from ptxsw.terms.node import Term, unknowns
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Polynomial

RULE = "out-of-bounds"
_ASKED = 8
"""Questions to Z3 about one kernel; after that, what is open stays open."""


def occurs(subject: Subject) -> bool:
    """Does the kernel touch an array whose size is known?"""
    spaces = Arrays(subject).sized | (_LAUNCHED if subject.launch is not None else frozenset())
    named = {isa.space(i) for i in subject.cfg.instructions}
    if named & spaces - {"global", "param"}:
        return True
    # Through pointers to global memory anything may be reached; variables have to be named.
    if subject.launch is not None and named & {"global", "generic"}:
        return True
    return bool(spaces & {"global", "shared", "local", "const"}) and _names_a_variable(subject)


_LAUNCHED = frozenset({"shared"})


def _names_a_variable(subject: Subject) -> bool:
    names = {v.name for v in (*subject.module.variables, *subject.whole.body.variables) if v.size}
    symbols = (
        operand.base if isinstance(operand, Mem) else operand
        for instruction in subject.cfg.instructions
        for operand in instruction.operands
    )
    return any(isinstance(s, Symbol) and s.name in names for s in symbols)


def prove(subject: Subject) -> Proof:
    return through_calls(subject, lambda one: _Proving(one).proof())


class _Proving:
    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._values = KernelValues(subject)
        self._rounds = LoopRounds(self._values)
        self._arrays = Arrays(subject)
        self._conditions = Preconditions(self._values)
        self._open: list[Suspect] = []
        self._asked = 0

    def proof(self) -> Proof:
        unknown = ""
        for access in self._subject.trace.accesses:
            self._subject.budget.check()
            if access.instruction.opcode not in NO_ACCESS:
                unknown = self._access(access) or unknown
        return Proof(tuple(self._open), unknown, self._reason(), str(self._conditions))

    def _reason(self) -> str:
        launched = self._subject.launch is not None
        return "proved for the launch given" if launched else proved_for(self._subject)

    # ------------------------------------------------------------ one access

    def _access(self, access: Access) -> str:
        """Look at an access; what stands in the way, if anything does that no launch can show."""
        size = touched_bytes(access)
        for address, given in addresses(access):
            for place in self._arrays.places(address, given):
                problem = self._in_array(access, place, size)
                if problem:
                    return problem
        return ""

    def _in_array(self, access: Access, place: InArray | None, size: int) -> str:
        line = self._subject.line(access.index)
        unsized = access.space != "param" and (place is None or place.size is None)
        if unsized and self._subject.function.kind != "entry":
            return f"the pointer at line {line} comes from the caller"
        if place is None:
            if access.space in ("shared", "local", "const"):
                return f"the address at line {line} does not derive from one array"
            return self._elsewhere(access, line)
        if place.size is None:
            return ""  # not asked
        if not size:
            return f"how much {access.instruction.opcode} touches at line {line} is not followed"
        self._within(access, place, size)
        return ""

    def _elsewhere(self, access: Access, line: int) -> str:
        """An address in global memory, or in a space that is not known."""
        symbols = [
            term
            for view in access.variants
            for term in unknowns(view.address)
            if term.origin is Origin.SYMBOL
        ]
        if symbols:
            return f"the address at line {line} may be in several arrays"
        if self._subject.launch is None:
            return ""
        return f"the pointer at line {line} is not an argument of the launch"

    def _within(self, access: Access, place: InArray, size: int) -> None:
        """Show that an access is within its array, or note it as a suspect."""
        assert place.size is not None
        values, given = self._values, place.given
        last = place.size - place.start - size
        low, high = values.bounds(given).signed(place.offset)
        if -place.start <= low and high <= last:
            return
        found = offsets(values, self._rounds, place.offset, given)
        width = place.offset.width
        if found is not None and all(-place.start <= wrapped(x, width) <= last for x in found):
            return
        claim = self._claim(place, size)
        needs = self._bound_by_sizes(place, last)
        if needs is not None and not needs:
            return
        if self._asked < _ASKED:
            self._asked += 1
            if values.holds(claim, given):
                return
        # A launch has its numbers, and keeps to nothing else.
        callers = self._subject.launch is None
        if callers and needs is not None and self._conditions.suppose(needs):
            return
        model = values.refuted(claim, given) if len(self._open) < _ASKED else None
        why = why_unbounded(self._subject, access.index, place.offset)
        self._open.append(Suspect(RULE, access.index, values=model, why=why))

    def _claim(self, place: InArray, size: int) -> Term:
        terms, offset, width = self._values.terms, place.offset, place.offset.width
        assert place.size is not None
        if size > place.size:
            return terms.const(0, 1)
        shifted = terms.add(offset, terms.const(place.start, width))
        return terms.ule(shifted, terms.const(place.size - size, width))

    def _bound_by_sizes(self, place: InArray, last: int) -> Sequence[Polynomial] | None:
        """What has to be at most 0 for an offset to be in bounds, over sizes and parameters; None
        where that is not known."""
        extremes = self._values.extremes(place.offset, place.given)
        if extremes is None:
            return None
        below = (extremes.low * -1 - place.start) * extremes.low.denominator
        above = (extremes.high - last) * extremes.high.denominator
        return [
            need for need in (below, above, *extremes.needs) if self._values.grid.span(need)[1] > 0
        ]
