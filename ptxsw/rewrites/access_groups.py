"""Accesses of one thread to the same bytes, by groups, and what may come between two of them: the
one walk over a kernel's accesses on which the searches of load elimination stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from ptxsw.codegen.builder import elements
from ptxsw.codegen.lower_load_elimination import KeptValue
from ptxsw.emulator.trace import Access
from ptxsw.facts.grid_facts import GridFacts
from ptxsw.facts.lane_equality import prove_disjoint
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Reg, type_width
from ptxsw.rewrites.base import Kernel
from ptxsw.rewrites.entry_guard import SupposedFacts
from ptxsw.rewrites.hoist_obstacles import SPACES, hazard, is_plain, shared_facts
from ptxsw.shuffle.memory_between import within
from ptxsw.shuffle.paths import Paths
from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.terms import Terms

_MOST_STORES = 64
"""With more stores between two accesses, the load is refused without comparing them."""


class AccessGroups:
    """The accesses of a kernel that can be followed and meet others, a load among them: those of
    the same bytes as the same type together, in the order of the text."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.cfg = kernel, kernel.trace.cfg
        self.paths = Paths(self.cfg)
        self.stores = Stores(kernel, None)

    @cached_property
    def _groups(self) -> list[list[Access]]:
        trace = self.kernel.trace
        places = [(a, place) for a in trace.accesses if (place := _place(a)) is not None]
        met = Counter(place for _, place in places)
        groups: dict[tuple[object, ...], list[Access]] = {}
        for access, place in places:
            key = _key(access, place) if met[place] > 1 else None  # most stand alone
            if key is not None and trace.cfg.block_of[access.index] in trace.cfg.rank:
                groups.setdefault(key, []).append(access)
        several = (group for group in groups.values() if len(group) > 1)
        return [group for group in several if any(access.kind == "load" for access in group)]

    @cached_property
    def written(self) -> list[list[Access]]:
        """Those of memory that may be written while the kernel runs."""
        return [group for group in self._groups if not is_constant(group[0])]

    @cached_property
    def constant(self) -> list[list[Access]]:
        """Those of loads by `.nc`."""
        return [group for group in self._groups if is_constant(group[0])]

    @cached_property
    def _obstacles(self) -> list[int]:
        """What no value may be carried past."""
        followed = {access.index for access in self.kernel.trace.accesses}
        instructions = enumerate(self.cfg.instructions)
        return [at for at, one in instructions if hazard(one, at in followed)]

    def is_cut(self, spans: Iterable[range]) -> bool:
        """Is there something that no value may be carried past?"""
        return any(within(self._obstacles, span) for span in spans)

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


def is_constant(access: Access) -> bool:
    """Is it a load of what nobody writes while the kernel runs?"""
    return "nc" in access.instruction.modifiers


def _place(access: Access) -> Term | None:
    """The one address of an access; None where there are several."""
    if len(access.variants) == 1:
        return access.variants[0].address
    places = {variant.address for variant in access.variants}
    return places.pop() if len(places) == 1 else None


def _key(access: Access, place: Term) -> tuple[object, ...] | None:
    """What accesses of the same bytes as the same type have in common; None where an access is
    none that can be followed."""
    instruction = access.instruction
    if not is_plain(instruction):
        return None
    kind = isa.access_type(instruction)
    return is_constant(access), access.space, place, kind, access.elements


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
