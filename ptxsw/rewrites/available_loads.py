"""Loads whose bytes this thread has in a register although it has stored since, or because it has
stored them: what load elimination finds beside plain repeats.

A store between may be to the same bytes. Where its address alone does not tell, the ranges of bytes
over the whole grid do, or a test of them where the kernel begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from msgspec.structs import replace

from ptxsw.changes.change import Change, Refusal
from ptxsw.changes.plan import Proof
from ptxsw.codegen.builder import elements
from ptxsw.codegen.entry_guard import EntryGuard
from ptxsw.codegen.lower_load_elimination import KeptValue
from ptxsw.codegen.versioning import stands_twice
from ptxsw.emulator.budget import PLANNING
from ptxsw.emulator.trace import Access, Trace
from ptxsw.facts.grid_facts import GridFacts
from ptxsw.facts.lane_equality import prove_disjoint
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Reg, type_width
from ptxsw.rewrites.base import Kernel
from ptxsw.rewrites.entry_guard import LIMITS, SupposedFacts, obstacle_to_versions
from ptxsw.rewrites.hoist_obstacles import SPACES, hazard, is_plain, shared_facts
from ptxsw.shuffle.memory_between import within
from ptxsw.shuffle.paths import Paths
from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.terms import Terms

NAME = "load-elimination"
_MOST_STORES = 64
"""With more stores between two accesses, the load is refused without comparing them."""
_MOST_TRIED = 8
"""Earlier accesses to the same bytes that are looked at."""
_COSTS = "a test and a second copy of the code cost more than the certain saving; force rewrites it"
_TOLD = "the kernel's stores are disjoint from what it keeps in registers"


def available_loads(
    kernel: Kernel, same_bytes: Sequence[Sequence[Access]]
) -> Iterator[Change | Refusal]:
    """The loads that take a value over stores, or from one, and why others do not; `same_bytes`
    are the accesses that meet."""
    if kernel.trace.statistics.timed_out or kernel.budget.spent(PLANNING):
        return
    pairs = list(Pairs(kernel, same_bytes).kept())
    if not pairs:
        return
    always = Stores(kernel, None)
    open_pairs: dict[KeptValue, Access] = {}
    details: list[KeptValue] = []
    for pair in pairs:
        if kernel.budget.spent(PLANNING):
            break
        store = always.between(pair)
        if store is None:
            details.append(pair)
        else:
            open_pairs[pair] = store
    test: EntryGuard | str | None = None
    if open_pairs:
        test = _obstacle(kernel)
        if test is None:
            open_pairs, more, test = _tested(kernel, open_pairs)
            details += more
    for detail in sorted(details, key=lambda d: d.at):
        tests = () if detail.test is None else (_TOLD,)
        yield Change(
            NAME, detail.at, frozenset({detail.at}), Proof(tests=tests), detail,
            detail.source,
        )  # fmt: skip
    for pair, store in open_pairs.items():
        named = f"{store.instruction.name} at line {kernel.line(store.index)}"
        why = f"; {test}" if isinstance(test, str) else ""
        yield Refusal(NAME, pair.at, f"{named} may write these bytes{why}")


def _obstacle(kernel: Kernel) -> str | None:
    """Why no test is made where the kernel begins."""
    if kernel.options.mode != "force":
        return _COSTS
    if stands_twice(kernel.function.body):
        return "the kernel is already duplicated"
    return obstacle_to_versions(kernel)


def _tested(
    kernel: Kernel, open_pairs: dict[KeptValue, Access]
) -> tuple[dict[KeptValue, Access], list[KeptValue], EntryGuard | str | None]:
    """Those that still wait, those that a test serves, and the test: the one that serves most,
    and of such the one that supposes least."""
    best: tuple[dict[KeptValue, Access], EntryGuard | str | None] = open_pairs, None
    for bits in LIMITS:
        supposed = SupposedFacts(kernel, bits)
        stores = Stores(kernel, supposed)
        left = {p: w for p in open_pairs if (w := stores.between(p)) is not None}
        test = supposed.guard() if len(left) < len(best[0]) else best[1]
        if isinstance(test, EntryGuard) and len(left) < len(best[0]):
            best = left, test
        elif isinstance(test, str) and best[1] is None:
            best = open_pairs, test
    left, test = best
    served = [p for p in open_pairs if p not in left]
    return left, [replace(p, test=test) for p in served if isinstance(test, EntryGuard)], test


class Pairs:
    """Loads, and the last access before each that must have been to the same bytes."""

    def __init__(self, kernel: Kernel, same_bytes: Sequence[Sequence[Access]]) -> None:
        self.kernel, self.cfg = kernel, kernel.trace.cfg
        self.same_bytes = same_bytes
        self.paths = Paths(self.cfg)

    @cached_property
    def stores(self) -> list[int]:
        """Whatever may write memory."""
        instructions = enumerate(self.cfg.instructions)
        return [at for at, one in instructions if _may_store(one.opcode, one.modifiers)]

    @cached_property
    def _obstacles(self) -> list[int]:
        """What no value may be carried past."""
        followed = {access.index for access in self.kernel.trace.accesses}
        instructions = enumerate(self.cfg.instructions)
        return [at for at, one in instructions if hazard(one, at in followed)]

    def kept(self) -> Iterator[KeptValue]:
        """The pairs with a store at the source or between; all others are plain repeats."""
        for accesses in self.same_bytes:
            for number, access in enumerate(accesses):
                source = self._source(access, accesses[max(number - _MOST_TRIED, 0) : number])
                if source is not None:
                    yield KeptValue(access.index, source.index)

    def _source(self, load: Access, earlier: Iterable[Access]) -> Access | None:
        if load.kind != "load":
            return None
        before = [a for a in earlier if self._comes_before(a, load)]
        source = next((a for a in reversed(before) if self._is_last(a, before)), None)
        if source is None or self.is_cut(self._beside(source.index, load.index)):
            return None
        if not self.fits(source, load):
            return None
        spans = list(self.paths.between(source.index, load.index))
        crossed = any(within(self.stores, span) for span in spans)  # the source may be one
        return source if crossed and not self.is_cut(spans) else None

    def _beside(self, source: int, load: int) -> tuple[range, ...]:
        """Instructions on every path from one position to another: only those in the two blocks
        themselves, which take no search of the graph. A cheap first test."""
        above, below = self.cfg.block_of[source], self.cfg.block_of[load]
        if above == below:
            return (range(source, load),)
        blocks = self.cfg.blocks
        return range(source, blocks[above].end), range(blocks[below].start, load)

    def is_cut(self, spans: Iterable[range]) -> bool:
        """Is there something that no value may be carried past?"""
        return any(within(self._obstacles, span) for span in spans)

    def _comes_before(self, source: Access, load: Access) -> bool:
        """Has this thread made the access in the same iteration of the same loops?"""
        above, below = (self.cfg.block_of[a.index] for a in (source, load))
        same_loops = self.cfg.loops_around(above) == self.cfg.loops_around(below)
        return (
            same_loops
            and (source.index < load.index if above == below else self.cfg.dominates(above, below))
            and self.paths.same_instance(source.index, load.index) is None
        )

    def _is_last(self, one: Access, all_before: Iterable[Access]) -> bool:
        return all(a is one or self._comes_before(a, one) for a in all_before)

    def fits(self, source: Access, load: Access) -> bool:
        """Do the registers of the source hold what the load's would?"""
        width = self.kernel.function.body.width
        first, second = (elements(a.instruction) for a in (load, source))
        whole = type_width(isa.access_type(source.instruction) or "")
        for a, b in zip(first, second, strict=True):
            if not isinstance(a, Reg) or not isinstance(b, Reg) or a.scope or b.scope:
                return False
            if width(a) != width(b) or (source.kind == "store" and width(b) != whole):
                return False
        return True


def same_bytes(trace: Trace, *, constant: bool = False) -> list[list[Access]]:
    """The accesses that can be followed and meet others, a load among them: those of the same
    bytes as the same type together, in the order of the text. Loads by `.nc` only if `constant`,
    and then they alone."""
    places = [(access, place) for access in trace.accesses if (place := _place(access)) is not None]
    met = Counter(place for _, place in places)
    groups: dict[tuple[object, ...], list[Access]] = {}
    for access, place in places:
        key = _key(access, place, constant) if met[place] > 1 else None  # most stand alone
        if key is not None and trace.cfg.block_of[access.index] in trace.cfg.rank:
            groups.setdefault(key, []).append(access)
    several = (group for group in groups.values() if len(group) > 1)
    return [group for group in several if any(access.kind == "load" for access in group)]


def _place(access: Access) -> Term | None:
    """The one address of an access; None where there are several."""
    if len(access.variants) == 1:
        return access.variants[0].address
    places = {variant.address for variant in access.variants}
    return places.pop() if len(places) == 1 else None


def _key(access: Access, place: Term, constant: bool) -> tuple[object, ...] | None:
    """What accesses of the same bytes as the same type have in common; None where an access is
    none that can be followed."""
    instruction = access.instruction
    if not is_plain(instruction) or ("nc" in instruction.modifiers) != constant:
        return None
    return access.space, place, isa.access_type(instruction), access.elements


@isa.by_name
def _may_store(opcode: str, modifiers: tuple[str, ...]) -> bool:
    return bool(isa.effects(opcode, modifiers) & isa.Effect.WRITE)


class Stores:
    """The stores of one kernel, and whether they may write what a load reads. With `supposed`, a
    test where the kernel begins may find out what is not known."""

    def __init__(self, kernel: Kernel, supposed: SupposedFacts | None) -> None:
        self.kernel, self.supposed = kernel, supposed
        self.cfg = kernel.trace.cfg
        self.paths = Paths(self.cfg)
        self.access_at = {a.index: a for a in kernel.trace.accesses}
        self.stores = sorted(i for i, a in self.access_at.items() if a.kind != "load")
        self._facts: dict[frozenset[Term], GridFacts] = {}

    def between(self, pair: KeptValue) -> Access | None:
        """A store on the way from a source to its load that may write the bytes."""
        return self.in_spans(pair.at, pair.source, self.paths.between(pair.source, pair.at))

    def in_spans(self, at: int, source: int, spans: Iterable[range]) -> Access | None:
        """One among some instructions that may write what load `at` reads; not the source."""
        load = self.access_at[at]
        crossed = [
            self.access_at[other]
            for span in spans
            for other in within(self.stores, span)
            if other != source
        ]
        if len(crossed) > _MOST_STORES:
            return crossed[0]
        return next((store for store in crossed if not self._misses(load, store)), None)

    def _misses(self, load: Access, store: Access) -> bool:
        if {load.space, store.space} == SPACES or store.space == "local":
            return True
        if load.space != store.space:
            return False
        pairs = [(a, b) for a in load.variants for b in store.variants]
        terms, solver = self.kernel.trace.terms, self.kernel.solver
        near = (_distance(terms, a.address, b.address) for a, b in pairs)
        if all(d is not None and (d >= store.bytes or -d >= load.bytes) for d in near):
            return True
        apart_here = all(
            prove_disjoint(terms, solver, b, store.bytes, a, load.bytes) is not None
            for a, b in pairs
        )
        return apart_here or self._facts_of(load, store).accesses_apart(load, store)

    def _facts_of(self, *accesses: Access) -> GridFacts:
        """What holds where the conditions do that some accesses share."""
        shared = frozenset.intersection(*(v.conditions for a in accesses for v in a.variants))
        if shared not in self._facts:
            self._facts[shared] = shared_facts(self.kernel, accesses, self.supposed)
        return self._facts[shared]


def _distance(terms: Terms, a: Term, b: Term) -> int | None:
    """`a - b` in bytes where it is one number, in this thread and this iteration."""
    if a.width != b.width:
        return None
    difference = terms.sub(a, b)
    return wrapped(difference.value, a.width) if difference.kind is op.CONST else None
