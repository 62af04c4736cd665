"""Does an index of 32 bits wrap before it reaches an address, for sizes that the kernel admits?

    i = ctaid·ntid + tid, if (i < n) out[4·i as 32 bits]      valid up to n = 536,870,912

An index that is extended into an address is compared with the same sum over whole numbers, signed
where its sign is extended. That it never differs is shown by bounds over sizes and parameters. A
limit that is left is reported only with values that go beyond it, all conditions of the path kept:
as a note where the array would have 2^31 elements or more, as a warning where it is smaller.
Offsets that fall below zero, as in `i - 1`, are a matter of bounds, not of this rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from ptxsw.correctness.arrays import NO_ACCESS
from ptxsw.correctness.first_iterations import first_rounds
from ptxsw.correctness.kernel_values import KernelValues
from ptxsw.correctness.large_sizes import SIZES, tried
from ptxsw.correctness.narrow_indices import SUMS, WIDE, NarrowIndex, as_whole, indices
from ptxsw.correctness.no_wrap_bounds import MOST_IN_GRID, WholeNumbers
from ptxsw.correctness.preconditions import Preconditions
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.unfollowed import through_calls, why_unbounded
from ptxsw.correctness.verdict import Assumption, Fault, Proof, Suspect
from ptxsw.emulator.recurrences import LoopEntry
from ptxsw.emulator.state import named
from ptxsw.emulator.trace import Access, Trace
from ptxsw.facts.grid import AXES
from ptxsw.facts.number_range import Interval
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, split, unknowns, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.specials import BLOCK, BLOCKS, THREAD
from ptxsw.terms.substitution import substitute

RULE = "index-overflow"
_SPACES = frozenset({"global", "generic"})
_ITERATIONS = 100
"""A wrap is looked for in the first iterations of loops: strides may be as large as they like."""
_USUAL = 1000
"""Up to this size of each dimension a condition has to hold to be worth telling."""
_SEARCHED = 6
"""Searches for values in one kernel."""


def occurs(subject: Subject) -> bool:
    """Does the kernel reach into global memory?"""
    return any(isa.space(i) in _SPACES for i in subject.cfg.instructions)


def prove(subject: Subject) -> Proof:
    return through_calls(subject, lambda one: _Proving(one).proof(), descriptors=False)


class _Proving:
    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._values = KernelValues(subject)
        self._conditions = Preconditions(self._values)
        self._seen: set[tuple[Term, frozenset[Term]]] = set()
        self._faults: dict[str, Fault] = {}  # the first of each level
        self._limits = Preconditions(self._values)
        self._open: list[Suspect] = []
        self._searched = 0
        self._without_limit = False
        self._whole = WholeNumbers(self._values)

    def proof(self) -> Proof:
        for access in self._subject.trace.accesses:
            self._subject.budget.check()
            if access.space in _SPACES and access.instruction.opcode not in NO_ACCESS:
                self._followed(access)
                for index in indices(access):
                    self._index(access, index)
        return Proof(
            tuple(self._open),
            "",
            "proved for all sizes",
            str(self._conditions),
            frozenset({Assumption.GRID_FITS, Assumption.NO_ADDRESS_WRAP}),
            faults=tuple(replace(f, measure=self._measure()) for f in self._faults.values()),
        )

    def _followed(self, access: Access) -> None:
        """Note an access whose index a loop or a join of paths may have wrapped unseen."""
        for view in access.variants:
            for atom in unknowns(view.address):
                if atom.width == 32 and _hides_a_sum(self._subject.trace, self._values, atom):
                    why = why_unbounded(self._subject, access.index, atom)
                    self._open.append(Suspect(RULE, access.index, why=why))
                    return

    def _index(self, access: Access, index: NarrowIndex) -> None:
        key = index.value, frozenset(index.given)
        if key in self._seen:
            return
        self._seen.add(key)
        if self._fits_as_number(index) or self._fits_if_positive(index):
            return
        needs = self._needs(index)
        if needs is not None and not needs:
            return
        if needs and not self._is_guarded(index, needs) and self._conditions.suppose(needs):
            return
        model = self._beyond(index, needs or ()) or self._in_first_rounds(index)
        if model is not None:
            self._found(access, index, needs or (), model)
        elif not needs or not self._is_wide(needs) or not self._conditions.suppose(needs):
            why = why_unbounded(self._subject, access.index, index.value)
            if needs:
                why = f"the index at line {self._subject.line(access.index)} was not shown to fit"
            self._open.append(Suspect(RULE, access.index, why=why))

    # ------------------------------------------------------------ proofs

    def _fits_as_number(self, index: NarrowIndex) -> bool:
        """Does the sum stay in its type, whatever its parts are in their bounds?"""
        low, high = self._whole.ends(index.value, self._given(index), signed=index.signed)
        return index.most - (1 << index.value.width) < low and high <= index.most

    def _fits_if_positive(self, index: NarrowIndex) -> bool:
        """Is it so where parameters are not negative? Then that is a condition."""
        terms = self._values.terms
        sizes = [t for t in unknowns(index.value) if _is_number(t)]
        given = [terms.sle(terms.const(0, 32), size) for size in sizes]
        if not given or not self._fits_as_number(replace(index, given=(*index.given, *given))):
            return False
        return self._conditions.suppose(Polynomial.atom(t) - ((1 << 31) - 1) for t in sizes)

    def _given(self, index: NarrowIndex) -> tuple[Term, ...]:
        return (*index.given, *self._whole.grid_fits)

    def _needs(self, index: NarrowIndex) -> Sequence[Polynomial] | None:
        """What has to be at most 0 for the index not to wrap; None where that is not known."""
        extremes = self._values.extremes(index.value, index.given)
        if extremes is None:
            return None
        above = (extremes.high - index.most) * extremes.high.denominator
        needs = [above, *extremes.needs]
        if index.signed:
            least = -index.most - 1
            needs.append((extremes.low * -1 + least) * extremes.low.denominator)
        bounds = self._values.bounds(self._given(index))
        limits = self._values.grid.limits

        def known(atom: Term) -> tuple[int, int]:
            (low, high), (least, most) = limits(atom), bounds.unsigned(atom)
            return max(low, least), min(high, most)

        def positive(atom: Term) -> tuple[int, int]:
            low, high = known(atom)
            return low, min(high, (1 << 31) - 1) if atom.width == 32 else high

        left = [n for n in dict.fromkeys(needs) if self._without_grid(n).span(known)[1] > 0]
        kept = [n for n in left if self._without_grid(n).span(positive)[1] > 0]
        if not kept:
            atoms = {a for n in left for a in n.atoms if known(a) != positive(a)}
            self._conditions.suppose(Polynomial.atom(a) - ((1 << 31) - 1) for a in atoms)
        return kept

    def _without_grid(self, need: Polynomial) -> Polynomial:
        """A polynomial that is at most 0 only if the given one is, where the threads along an axis
        are at most 2^31."""
        atom = self._values.terms.special
        for axis in AXES:
            both = (atom(f"%ntid.{axis}"), atom(f"%nctaid.{axis}"))
            monomial = tuple(sorted(both, key=lambda t: t.id))
            factor = need.coefficients.get(monomial, 0)
            if factor > 0:
                threads = Polynomial.of([(monomial, 1)])
                need -= (threads - MOST_IN_GRID) * factor
        return need

    def _is_guarded(self, index: NarrowIndex, needs: Iterable[Polynomial]) -> bool:
        """May a size that the kernel's guards admit break one of them? The grid is no such size
        where nothing compares the place of a thread with a parameter."""
        if self._subject.launch is not None:
            return True
        guarded = any(_compares_place(condition) for condition in index.given)

        def usual(atom: Term) -> Interval:
            low, high = self._values.grid.limits(atom)
            return low, min(high, MOST_IN_GRID) if _is_number(atom) else high

        return any(
            _is_of_sizes(n) and (guarded or not _speaks_of_grid(n)) and n.span(usual)[1] > 0
            for n in needs
        )

    def _is_wide(self, needs: Iterable[Polynomial]) -> bool:
        """Do they leave sizes as kernels have them? Bounds that are too coarse do not."""

        def usual(atom: Term) -> Interval:
            low, high = self._values.grid.limits(atom)
            return low, min(high, _USUAL)

        return all(need.span(usual)[1] <= 0 for need in needs if _is_of_sizes(need))

    # ------------------------------------------------------------ values that wrap

    def _beyond(self, index: NarrowIndex, needs: Iterable[Polynomial]) -> Mapping[Term, int] | None:
        """Values for which the index wraps, and a thread comes to use it."""
        if self._searched == _SEARCHED:
            return None
        self._searched += 1
        if not all(a.origin in SIZES for a in unknowns(index.value)):
            return None
        return self._met(self._wraps(index), needs)

    def _in_first_rounds(self, index: NarrowIndex) -> Mapping[Term, int] | None:
        """Values for which it wraps soon in a loop that changes several registers together."""
        terms = self._values.terms
        changing = [a for a in unknowns(index.value) if a.origin not in SIZES]
        for values, given in first_rounds(self._subject, changing) if changing else ():
            value, address = (
                substitute(terms, t, values.get) for t in (index.value, index.address)
            )
            told = (*given, *(substitute(terms, c, values.get) for c in index.given))
            if all(a.origin in SIZES for a in unknowns(value, *told)):
                model = self._beyond(replace(index, value=value, address=address, given=told), ())
                if model is not None:
                    return model
        return None

    def _met(
        self, wanted: Sequence[tuple[Term, bool]], needs: Iterable[Polynomial]
    ) -> Mapping[Term, int] | None:
        """Values by which conditions have the truth that is wanted, and that a thread comes to."""
        model = tried(self._values, needs, wanted, self._is_reached)
        if model is not None:
            return model
        model = self._values.met(wanted)
        return model if model is not None and self._is_reached(model) else None

    def _is_reached(self, model: Mapping[Term, int]) -> bool:
        """Does a thread come to the iterations that values speak of?"""
        counts = [a for a, number in model.items() if a.origin is Origin.ITERATION and number]
        for count in counts:
            _, entries = self._values.grid.loops.get(count.of[0], (None, ()))
            if not any(self._goes_round(model, count, entry) for entry in entries):
                return False
        return True

    def _goes_round(self, model: Mapping[Term, int], count: Term, entry: LoopEntry) -> bool:
        """Does the condition of a loop hold in all iterations up to the one of a model?"""
        if model[count] > _ITERATIONS or entry.again.kind is op.CONST:
            return False
        if not set(unknowns(entry.again)) <= model.keys():
            return False
        given = [c for c in entry.given if set(unknowns(c)) <= model.keys()]
        return all(evaluate(c, model) for c in given) and all(
            evaluate(entry.again, {**model, count: number}) for number in range(1, model[count] + 1)
        )

    def _wraps(self, index: NarrowIndex) -> list[tuple[Term, bool]]:
        """That the index wraps and the address differs by that, as conditions and their truth."""
        terms = self._values.terms
        whole = as_whole(terms, index.value, index.signed)
        fits = terms.sle(whole, terms.const(index.most, WIDE))
        offset, added = self._offset(index)
        same = terms.eq(terms.extract(offset, 0, added.width), added)
        if index.is_divided:  # a quotient of another number is another one
            same = terms.const(0, 1)
        given = (*index.given, *self._sizes(index), *self._values.facts(index.value, *index.given))
        return [(fits, False), (same, False), *((c, True) for c in given)]

    def _sizes(self, index: NarrowIndex) -> Iterator[Term]:
        """What a launch keeps to, of the axes that are spoken of; numbers count something."""
        terms = self._values.terms
        met = unknowns(index.address, *index.given)
        threads = terms.const(1, 64)
        for axis in AXES:
            place = [terms.special(f"%{of}.{axis}") for of in ("tid", "ctaid", "ntid")]
            thread, block, size = (terms.zext(t, 64) for t in place)
            if place[1] in met:
                number = terms.add(terms.mul(block, size), thread)
                yield terms.ult(number, terms.const(MOST_IN_GRID, 64))
            if place[0] in met or place[2] in met:
                threads = terms.mul(threads, size)
        yield terms.ule(threads, terms.const(self._values.most_threads, 64))
        for atom in met:
            if atom.origin is Origin.ITERATION:
                yield terms.ule(atom, terms.const(_ITERATIONS, atom.width))
            if _is_number(atom):  # the last million before 2^31 is nobody's size
                yield terms.ult(atom, terms.const(MOST_IN_GRID, 32))

    def _found(
        self,
        access: Access,
        index: NarrowIndex,
        needs: Sequence[Polynomial],
        model: Mapping[Term, int],
    ) -> None:
        self._conditions.suppose(n for n in needs if not _is_of_sizes(n))
        if not self._limits.suppose(filter(_is_of_sizes, needs)) or not needs:
            self._without_limit = True
        level = self._level(access, index, model)
        if level not in self._faults:
            self._faults[level] = Fault(
                RULE,
                level,
                access.index,
                f"the index is computed in 32 bits and wraps {_with(model)}",
                "compute it in 64 bits, or check the sizes on the host",
                witness=self._subject.launch if level == "error" else None,
            )

    def _measure(self) -> str:
        """Up to which sizes the kernel is right."""
        return "" if self._without_limit else self._limits.as_limit()

    def _level(self, access: Access, index: NarrowIndex, model: Mapping[Term, int]) -> str:
        """A warning where the array may have fewer elements than 32 bits count: where a product on
        the way wraps, or a number of bytes."""
        if self._subject.launch is not None and all(map(_is_of_launch, model)):
            return "error"  # the thread of the model is one of the launch
        bytes_ = index.scale == 1 and access.bits > 8  # two halves in a word are two elements
        return "warning" if bytes_ or index.is_divided else "note"

    def _offset(self, index: NarrowIndex) -> tuple[Term, Term]:
        """What is added to the pointer of an access, over whole numbers and as it is."""
        terms, address = self._values.terms, index.address
        constant, items = split(address)
        kept = [(t, f) for t, f in items if f != 1 or t.origin not in _POINTERS]
        added = terms.sum(address.width, constant, kept)
        return as_whole(terms, added, True), added


_POINTERS = frozenset({Origin.PARAMETER, Origin.LOAD, Origin.SYMBOL})


def _is_number(atom: Term) -> bool:
    return atom.origin is Origin.PARAMETER and atom.width == 32


def _is_of_sizes(need: Polynomial) -> bool:
    """Does it say that parameters must not be too large? Else it speaks of the grid alone, or of
    sizes that are too small for the code."""
    large = [atom for monomial, factor in need if factor > 0 for atom in monomial]
    return any(atom.origin is Origin.PARAMETER for atom in large)


def _hides_a_sum(trace: Trace, values: KernelValues, atom: Term) -> bool:
    """May an unknown have wrapped before, as a register in a loop that grows in no known steps?"""
    if atom.origin is Origin.MERGED:
        return True
    if atom.origin not in (Origin.LOOP_VALUE, Origin.LAST_LOOP_VALUE) or values.limits(atom):
        return False
    facts = [f for f in trace.loop_facts.values() if f.label == atom.of[0]]
    after = [t for f in facts for reg, t in f.after.items() if named(reg) == atom.of[1]]
    return len(after) != 1 or any(n.kind in SUMS and n.width == 32 for n in walk(after[0]))


def _compares_place(condition: Term) -> bool:
    atoms = unknowns(condition)
    place = any(a.value in THREAD | BLOCK for a in atoms)
    return place and any(a.origin is Origin.PARAMETER for a in atoms)


def _speaks_of_grid(need: Polynomial) -> bool:
    return any(atom.value in BLOCKS for atom in need.atoms)


def _is_of_launch(atom: Term) -> bool:
    return atom.origin in (Origin.SPECIAL, Origin.PARAMETER)


def _with(model: Mapping[Term, int]) -> str:
    """The parameters and the thread of a model, in words."""
    parts = [
        f"{atom.value} = {wrapped(number, 32):,}"
        for atom, number in sorted(model.items(), key=lambda item: item[0].id)
        if _is_number(atom)
    ]
    return f"with {', '.join(parts)}" if parts else "in a large grid"
