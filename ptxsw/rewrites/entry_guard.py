"""The test at a kernel's entry that ranges of bytes do not overlap; all threads get one answer.

Ranges on one pointer are first joined into few: the test compares each range that is written with
each that is read, once, on the parameters and the size of the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ptxsw.analysis.instruction_kinds import Kind, asked_anywhere, kind, meets
from ptxsw.codegen.entry_guard import EntryGuard, Shared, Sum
from ptxsw.codegen.versioning import LoopPlace, obstacle_to_copy
from ptxsw.emulator.trace import Access
from ptxsw.facts.grid import BLOCKS, FARTHEST, Grid
from ptxsw.facts.grid_facts import Facts, GridFacts, facts, proved
from ptxsw.facts.ranges import Range
from ptxsw.ptx.ir import Close, Directive, Open, Variable
from ptxsw.rewrites.base import Kernel
from ptxsw.terms.node import Term, ones, unknowns
from ptxsw.terms.polynomial import Polynomial

LIMITS = (30, 24, 19, 15)
"""Numbers among the parameters, and the blocks of the grid, are tested to be below 2^n, so that no
bound overflows: the fewer bits the more of them may be multiplied."""
_MOST_RANGES = 256
_MOST_PAIRS = 8


def grid_below(kernel: Kernel, accesses: Iterable[Access], bits: int | None) -> Grid:
    """Bounds over the grid, if the numbers among the parameters that occur in addresses are below
    2^`bits` (None: if they may be anything)."""
    holds = kernel.solver.proves
    plain = Grid.of(kernel.trace, {}, holds)
    if bits is None:
        return plain
    variants = [variant for access in accesses for variant in access.variants]
    pointers = {plain.pointer(variant.address) for variant in variants}
    wholes = {
        whole
        for variant in variants
        for whole in (variant.address, variant.guard, *variant.conditions)
    }
    terms = [term for term in unknowns(*wholes) if plain.is_parameter(term)]
    terms += map(plain.size_atom, BLOCKS)
    terms = sorted(set(terms), key=lambda term: term.id)
    # A number that cannot reach the limit anyway needs no test.
    most = {t: (FARTHEST if t in pointers else 1 << bits) - 1 for t in terms}
    return Grid.of(kernel.trace, {t: n for t, n in most.items() if n < ones(t)}, holds)


def obstacle_to_versions(kernel: Kernel) -> str | None:
    """Why a kernel cannot be duplicated behind a test; None if it can."""
    body = kernel.function.body
    reason = obstacle_to_copy(body.code[len(body.leading) :]) or _asking(kernel)
    return None if reason is None else f"{reason}, which cannot be duplicated"


def _asking(kernel: Kernel) -> str | None:
    """What asks which threads are together: another copy might have others answer."""
    for index, instruction in enumerate(kernel.trace.cfg.instructions):
        asks = instruction.opcode == "activemask" or (
            instruction.opcode in ("shfl", "vote", "match", "elect")
            and "sync" not in instruction.modifiers
        )
        if asks:
            return f"{instruction.name} (line {kernel.line(index)}) asks which lanes are active"
    return None


def obstacle_to_loop_copy(kernel: Kernel, place: LoopPlace) -> str | None:
    """Why a loop may not be duplicated, with some threads in either copy; None if it may."""
    # Threads of one warp may take different copies. Any later `activemask` could then report other
    # lanes than before, and a barrier in the loop would be reached by only some of the threads.
    if asked_anywhere(kernel.trace.cfg):
        return "it would need a branch, and the kernel asks which lanes are active"
    body = kernel.trace.cfg.instructions[place.start : place.end + 1]
    for instruction in body:
        if meets(instruction) or kind(instruction) is Kind.EVENT:
            return f"{instruction.name} is in the loop, which would be duplicated"
        if instruction.opcode == "brx":
            return "an indirect branch is in the loop, which would be duplicated"
    first, last = body[0].start, body[-1].end
    for statement in kernel.function.body.others:
        if not first <= statement.span.start < last:
            continue
        if isinstance(statement, Open | Close | Variable):
            return "a scope or a variable begins inside the loop"
        if isinstance(statement, Directive) and statement.label:
            return "a table of branch targets is in the loop"
    return None


def entry_guard(
    grid: Grid, pairs: Sequence[tuple[Range, Range]], needs: Iterable[Polynomial] = ()
) -> EntryGuard | str:
    """The test that no two ranges of a pair meet, and that polynomials are at most 0; a text where
    there can be none."""
    ranges = list(dict.fromkeys(one for pair in pairs for one in pair))
    if len(ranges) > _MOST_RANGES:
        return "a test would have to compare too many ranges"
    bases = dict.fromkeys((a.base, b.base) for a, b in pairs)
    # Exact hulls first. If they give too many pairs to compare, one wider range for each pointer:
    # the test then also fails for some ranges that do not meet, which is safe.
    for together in (_hulls, _one_hull):
        hulls = {
            base: together([r for r in ranges if r.base is base], grid)
            for base in dict.fromkeys(r.base for r in ranges)
        }
        compared = [(x, y) for a, b in bases for x in hulls[a] for y in hulls[b]]
        if len(compared) <= _MOST_PAIRS:
            break
    else:
        return "a test would have to compare too many ranges"
    return EntryGuard(
        tuple((_shared(t), grid.most[t] + 1) for t in grid.numbers if t in grid.most),
        tuple(map(_sum, _strongest((*needs, *(n for r in ranges for n in r.needs)), grid))),
        tuple((_order(x, y), _order(y, x)) for x, y in compared),
    )


def _hulls(ranges: Sequence[Range], grid: Grid) -> list[Range]:
    """As few ranges as are seen to hold some on one pointer. Their needs are left out."""
    hulls: list[Range] = []
    for one in sorted(ranges, key=repr):
        for at, other in enumerate(hulls):
            low = _least(one.low, other.low, grid)
            high = _least(one.high * -1, other.high * -1, grid)
            if low is not None and high is not None:
                hulls[at] = Range(one.base, low, high * -1, frozenset())
                break
        else:
            hulls.append(Range(one.base, one.low, one.high, frozenset()))
    return hulls


def _one_hull(ranges: Sequence[Range], grid: Grid) -> list[Range]:
    """One range that holds all of some on one pointer, if a larger one: no product of sizes is
    negative, so the least factor of each is a bound from below. Needs are left out."""
    low = _outermost([one.low for one in ranges], min)
    high = _outermost([one.high for one in ranges], max)
    # The wider bound could overflow 64 bits, and the comparison would be wrong.
    if grid.span(low)[0] < -FARTHEST or grid.span(high)[1] > FARTHEST:
        return _hulls(ranges, grid)
    return [Range(ranges[0].base, low, high, frozenset())]


def _outermost(bounds: Sequence[Polynomial], choose: Callable[[Iterable[int]], int]) -> Polynomial:
    """Of each product the least, or the highest, factor that it has in any of the bounds."""
    factors = [bound.coefficients for bound in bounds]
    products = dict.fromkeys(product for each in factors for product in each)
    return Polynomial.of((p, choose(each.get(p, 0) for each in factors)) for p in products)


def _least(a: Polynomial, b: Polynomial, grid: Grid) -> Polynomial | None:
    """The one that is never more than the other, if either is."""
    if proved(a - b, Facts(), grid):
        return a
    return b if proved(b - a, Facts(), grid) else None


def _strongest(needs: Iterable[Polynomial], grid: Grid) -> list[Polynomial]:
    """Some of the needs, from which all follow."""
    strongest: list[Polynomial] = []
    # Sorted, since sets differ in order from run to run and the text must not.
    for need in sorted(dict.fromkeys(needs), key=repr):
        if not proved(need, Facts(tuple(strongest)), grid):
            strongest = [other for other in strongest if not proved(other, Facts((need,)), grid)]
            strongest.append(need)
    return strongest


def _shared(atom: Term) -> Shared:
    return Shared(str(atom.value), atom.width)


def _sum(value: Polynomial) -> Sum:
    assert value.is_whole
    return tuple((tuple(map(_shared, product)), factor) for product, factor in value)


def _order(first: Range, second: Range) -> tuple[Sum, Sum]:
    """The end of a range and the start of another, which follows if the first is no more."""
    end, start = Polynomial.atom(first.base) + first.high, Polynomial.atom(second.base) + second.low
    return _sum(end), _sum(start)


class SupposedFacts:
    """What a test at entry has to establish, so that loops may keep values in registers. While a
    loop is examined, every question that a test could answer is answered with yes and noted; the
    test is then written for the noted questions, where numbers are tested to be below 2^`bits`."""

    def __init__(self, kernel: Kernel, bits: int) -> None:
        self._grid = grid_below(kernel, kernel.trace.accesses, bits)
        self._needs: dict[Polynomial, None] = {}
        self._pairs: dict[tuple[Range, Range], None] = {}

    def facts(self, given: Iterable[Term]) -> GridFacts:
        """What holds where some conditions do, and what is supposed."""
        conditions = tuple(given)
        # At once: the test is about the numbers that the grid has met, in their order.
        return GridFacts(self._grid, conditions, facts(conditions, self._grid), supposed=self)

    def at_most_0(self, need: Polynomial) -> bool:
        """Can a test find that a polynomial is at most 0?"""
        self._needs[need] = None
        return True

    def apart(self, a: Range, b: Range) -> bool:
        """Can a test tell that two ranges have no byte in common?"""
        if a.base is b.base:
            return False
        # The same pair may be asked either way round; it is tested once.
        self._pairs[(a, b) if a.base.id < b.base.id else (b, a)] = None
        return True

    def guard(self) -> EntryGuard | str:
        """The test for all that was asked; a text where there can be none."""
        return entry_guard(self._grid, list(self._pairs), self._needs)
