"""Rows of addresses that differ by constants, and earlier loads of the same bytes.

"Earlier" is either before in the code, or in an earlier iteration of a loop: if a load's address is
`R + S*iter`, then what it fetches in iteration k another load `R + n*S + S*iter` has fetched in
iteration k - n, or, some bytes aside, lane i + N of it. Addresses are read as if nothing wrapped;
nothing is rewritten on the word of this module.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from ptxsw.analysis.address_text import is_pointer
from ptxsw.analysis.coalescing import LANES
from ptxsw.emulator.trace import Access, Trace
from ptxsw.ptx import isa
from ptxsw.report import model
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, walk
from ptxsw.terms.origin import FIXED_IN_LOOPS, Origin
from ptxsw.terms.polynomial import Monomial, Polynomial
from ptxsw.terms.readings import UnwrappedReading

_MOST = 8  # named for one load
_ITERATIONS = 8  # looked back


class Along(Struct, frozen=True):
    """What an address grows by from lane to lane, in bytes (0: not known, or not at all), and how
    many lanes lie in a row of the block."""

    step: int
    width: int

    def nearest(self, wanted: int, places: Mapping[int, object]) -> int | None:
        """The nearest lane i + N that has at one of the places what lane i has at `wanted`."""
        if wanted in places:
            return 0
        return min(self.lanes(wanted, places), key=lambda n: (abs(n), n), default=None)

    def lanes(self, wanted: int, places: Mapping[int, object]) -> list[int]:
        """All such lanes but this one."""
        if not self.step:
            return []
        if len(places) > 2 * LANES:  # then there are fewer lanes than places to look at
            lanes = (*range(1 - self.width, 0), *range(1, self.width))
            return [lane for lane in lanes if wanted - lane * self.step in places]
        parted = (divmod(wanted - place, self.step) for place in places)
        return [lane for lane, rest in parted if not rest and 0 < abs(lane) < self.width]


class OpenRow(Struct):
    """A row while it is filled, in program order: loads and the last stores by their offset."""

    name: str
    start: Polynomial
    size: int
    lines: list[int] = field(default_factory=list)
    loads: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # index, line
    stores: dict[int, int] = field(default_factory=dict)  # index

    def load(
        self, index: int, along: Along, *, line: int, offset: int, since: int
    ) -> tuple[model.Reuse, ...]:
        """Puts a load into the row. Returns earlier loads of the same bytes, made at instruction
        `since` or later."""
        step = along.step
        for place, stored in self.stores.items():
            if (offset - place) % step == 0 if step else place == offset:
                since = max(since, stored)
        reuses = [
            model.Reuse(other, 0)
            for at, other in reversed(self.loads.get(offset, ()))
            if at >= since
        ]
        near = [
            model.Reuse(other, lane)
            for lane in along.lanes(offset, self.loads)
            for at, other in self.loads[offset - lane * step]
            if at >= since
        ]
        reuses.extend(sorted(near, key=lambda reuse: (abs(reuse.delta), -reuse.line)))
        self.loads.setdefault(offset, []).append((index, line))
        return tuple(reuses[:_MOST])


class Writes(Struct):
    """Where memory was last written, in program order, as far as rows do not tell."""

    calls: Sequence[int]  # instructions that may write anything
    anything: dict[str, int] = field(default_factory=dict)  # by state space
    through: dict[tuple[str, Monomial], int] = field(default_factory=dict)

    def note(self, access: Access, polynomials: Iterable[Polynomial]) -> None:
        """An access; those that write nothing leave no trace."""
        if not _writes(access):
            return
        bases = [_pointers(polynomial) for polynomial in polynomials]
        if access.kind == "other" or not all(bases):
            spaces = (access.space,) if access.space != "generic" else ("global", "shared", "local")
            for space in {*spaces, "generic"} | ({"global"} if access.kind == "other" else set()):
                self.anything[space] = access.index
        for pointer in frozenset[Monomial]().union(*bases):
            self.through[access.space, pointer] = access.index

    def since(self, access: Access, polynomial: Polynomial) -> int:
        """The first instruction after which nothing but stores of its own row may have written
        what a load reads; in shared memory, nothing at all. Different pointers are taken to lead
        to different memory."""
        if _read_only(access):
            return 0
        before = bisect_left(self.calls, access.index)
        clocks = [self.anything.get(access.space, -1), self.calls[before - 1] if before else -1]
        own = _pointers(polynomial)
        clocks += [
            at
            for (space, pointer), at in self.through.items()
            if (space == access.space == "shared" and (not own or pointer in own))
            or (space != access.space and "generic" in (space, access.space) and pointer in own)
        ]
        return max(clocks) + 1


def calls(trace: Trace) -> list[int]:
    """Instructions behind which other code may have run."""
    return [
        index
        for index, instruction in enumerate(trace.cfg.instructions)
        if isa.Effect.CALL in isa.effects(instruction.opcode, instruction.modifiers)
    ]


def _writes(access: Access) -> bool:
    instruction = access.instruction
    written = isa.Effect.WRITE | isa.Effect.ATOMIC | isa.Effect.ASYNC
    return bool(isa.effects(instruction.opcode, instruction.modifiers) & written)


def _read_only(access: Access) -> bool:
    """Is it memory that nobody writes while the kernel runs?"""
    return "nc" in access.instruction.modifiers or access.space == "const"


class Rows(Struct):
    """Rows by their key, in the order of their first access."""

    rows: dict[Hashable, OpenRow] = field(default_factory=dict)

    def row(self, space: str, polynomial: Polynomial, size: int) -> tuple[OpenRow, int]:
        """The row of an address, and the bytes from its start."""
        key = (space, size, polynomial.varying)
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = OpenRow(_letters(len(self.rows)), polynomial, size)
        return row, polynomial.offset - row.start.offset


def _letters(number: int) -> str:
    """A to Z, then AA, AB, …"""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


# ---------------------------------------------------------------- over the iterations of a loop


class _Load(Struct, frozen=True):
    """A load in a loop: its address without the loop's iterations, reduced by as many `step`s as
    fit."""

    index: int
    line: int
    iterations: int  # how many steps were taken off
    rest: int  # bytes that are left
    along: Along


def carried(
    trace: Trace, unwrapped: UnwrappedReading, width: int
) -> dict[int, tuple[model.Carried, ...]]:
    """For loads, by instruction: which load fetched the same bytes in an earlier iteration; one
    answer for each loop around them, the innermost first. `width`: lanes in a row of the block."""
    by_access: dict[int, list[model.Carried]] = {}
    headers = sorted(trace.cfg.loops, key=lambda h: -trace.cfg.loops[h].depth)
    for header in headers:
        for index, answer in _over(trace, unwrapped, header, width):
            by_access.setdefault(index, []).append(answer)
    return {index: tuple(answers) for index, answers in by_access.items()}


def _over(
    trace: Trace, unwrapped: UnwrappedReading, header: int, width: int
) -> Iterator[tuple[int, model.Carried]]:
    """What is carried over the iterations of one loop."""
    inside = [a for a in trace.accesses if trace.cfg.block_of[a.index] in
              trace.cfg.loops[header].blocks]  # fmt: skip
    written = _Written.within(trace, inside, unwrapped, header)
    stable = Stable(trace, header)
    label = trace.cfg.name(header)
    classes: dict[Hashable, list[_Load]] = {}
    growths: dict[Hashable, Polynomial] = {}
    for access in inside:
        address = _address(access)
        if access.kind != "load" or access.space == "param" or address is None:
            continue
        polynomial = unwrapped.polynomial(address)
        split = over_iterations(polynomial, label, stable)
        if split is None or written.may_change(access, polynomial):
            continue
        rest, growth = split
        load, key = _reduced(trace, unwrapped, access, rest, growth, width)
        key = (access.space, access.bits, key)
        classes.setdefault(key, []).append(load)
        growths[key] = growth
    for key, loads in classes.items():
        growth = growths[key]
        yield from _matches(label, loads, growth.number)


def _address(access: Access) -> Term | None:
    addresses = {v.address for v in access.variants}
    return addresses.pop() if len(addresses) == 1 else None


def _counts(term: Term, label: str) -> bool:
    """Does it count the iterations of the loop of a label?"""
    return term.origin is Origin.ITERATION and term.of == (label,)


def over_iterations(
    polynomial: Polynomial, label: str, stable: Stable
) -> tuple[Polynomial, Polynomial] | None:
    """An address as `rest + growth * iteration` over the iterations of the loop of a label; None
    where it changes otherwise."""
    rest: list[tuple[Monomial, int]] = []
    growth: list[tuple[Monomial, int]] = []
    for monomial, factor in polynomial:
        others = tuple(t for t in monomial if not _counts(t, label))
        if len(monomial) - len(others) > 1 or not all(map(stable.holds, others)):
            return None
        (growth if len(others) < len(monomial) else rest).append((others, factor))
    return Polynomial.of(rest), Polynomial.of(growth)


def _reduced(
    trace: Trace,
    unwrapped: UnwrappedReading,
    access: Access,
    rest: Polynomial,
    growth: Polynomial,
    width: int,
) -> tuple[_Load, Hashable]:
    """A load in normal form, and what it has in common with those that may meet it."""
    iterations = 0
    pivot = next(((m, factor) for m, factor in growth if m), None)
    if pivot is not None:
        iterations = rest.coefficients.get(pivot[0], 0) // pivot[1]
        rest -= growth * iterations
    key = rest.varying, growth
    address = _address(access)
    step = unwrapped.lane_step(address) if address is not None else None
    return _Load(
        access.index,
        trace.module.source.line(access.instruction.span.start),
        iterations,
        rest.offset,
        Along((step is not None and step.number) or 0, width),
    ), key


def _matches(
    label: str, loads: Iterable[_Load], fixed: int | None
) -> Iterator[tuple[int, model.Carried]]:
    """The nearest earlier iteration for each load. `fixed`: bytes that addresses grow by in an
    iteration, where that is a number."""
    at: dict[int, dict[int, list[_Load]]] = {}  # by iterations, then by the bytes that are left
    for load in loads:
        at.setdefault(load.iterations, {}).setdefault(load.rest, []).append(load)
    for places in at.values():
        for here in places.values():
            answer = _nearest(here[0], at, fixed)
            if answer is not None:
                other, lane, iterations = answer
                for load in here:
                    yield load.index, model.Carried(other.line, lane, _short(label), iterations)


def _nearest(
    load: _Load, at: Mapping[int, Mapping[int, list[_Load]]], fixed: int | None
) -> tuple[_Load, int, int] | None:
    """The load, lane and number of iterations that fetched the bytes of `load` most recently; of
    two loads in that iteration the later."""
    for iterations in range(1, _ITERATIONS + 1 if fixed != 0 else 2):
        number, moved = load.iterations, iterations * (fixed or 0)
        if fixed is None:
            number, moved = load.iterations + iterations, 0
        places = at.get(number)
        if places:
            lane = load.along.nearest(load.rest + moved, places)
            if lane is not None:
                return places[load.rest + moved - lane * load.along.step][-1], lane, iterations
    return None


def _short(label: str) -> str:
    return label.replace("$L__", "")


class Stable(Struct, frozen=True):
    """Which terms are the same in every iteration of a loop, given that inner loops are in the same
    iteration of theirs."""

    trace: Trace
    header: int
    _memo: dict[Term, bool] = field(default_factory=dict)

    def holds(self, term: Term) -> bool:
        if term.origin is Origin.ITERATION:
            return True
        answer = self._memo.get(term)
        if answer is None:
            answer = self._memo[term] = all(self._keeps(node) for node in walk(term))
        return answer

    def _keeps(self, node: Term) -> bool:
        if node.kind is op.APPLY:  # memory that may be written, a choice between paths
            return node.value[1] is not Variance.LANE and node.value[0][0] != "phi"
        if node.kind is not op.ATOM:
            return True
        if node.origin in (Origin.ITERATION, Origin.LOOP_VALUE):
            return node.of[0] in self._outer()
        return node.origin in FIXED_IN_LOOPS

    def _outer(self) -> set[str]:
        cfg = self.trace.cfg
        return {cfg.name(h) for h in cfg.loops_around(self.header) if h != self.header}


class _Written(Struct, frozen=True):
    """What a loop writes: the pointers, by state space; None for anything at all."""

    pointers: Mapping[str, frozenset[Monomial]] | None

    @classmethod
    def within(
        cls, trace: Trace, inside: list[Access], unwrapped: UnwrappedReading, header: int
    ) -> _Written:
        blocks = trace.cfg.loops[header].blocks
        if any(trace.cfg.block_of[index] in blocks for index in calls(trace)):
            return cls(None)
        pointers: dict[str, frozenset[Monomial]] = {}
        for access in inside:
            if not _writes(access):
                continue
            bases = [_pointers(unwrapped.polynomial(v.address)) for v in access.variants]
            if access.kind == "other" or access.space == "generic" or not all(bases):
                return cls(None)
            pointers[access.space] = pointers.get(access.space, frozenset()).union(*bases)
        return cls(pointers)

    def may_change(self, access: Access, polynomial: Polynomial) -> bool:
        """May the loop write what a load of it reads? Different pointers are taken to lead to
        different memory."""
        if _read_only(access):
            return False
        if self.pointers is None:
            return True
        if access.space == "generic":
            return any(self.pointers.values())
        written = self.pointers.get(access.space, frozenset())
        own = _pointers(polynomial)
        return bool(written) and (not own or bool(own & written))


def _pointers(polynomial: Polynomial) -> frozenset[Monomial]:
    return frozenset(m for m, factor in polynomial if factor == 1 and is_pointer(m))
