"""Loads whose bytes this thread has in a register although it has stored since, or because it has
stored them: what load elimination finds beside plain repeats.

A store between may be to the same bytes. Where its address alone does not tell, the ranges of bytes
over the whole grid do, or a test of them where the kernel begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from msgspec.structs import replace

from ptxsw.changes.change import Change, Refusal
from ptxsw.changes.plan import Proof
from ptxsw.codegen.entry_guard import EntryGuard
from ptxsw.codegen.lower_load_elimination import KeptValue
from ptxsw.codegen.versioning import stands_twice
from ptxsw.emulator.budget import PLANNING
from ptxsw.emulator.trace import Access
from ptxsw.ptx import isa
from ptxsw.rewrites.access_groups import AccessGroups, Stores
from ptxsw.rewrites.base import Kernel
from ptxsw.rewrites.entry_guard import LIMITS, SupposedFacts, obstacle_to_versions
from ptxsw.shuffle.memory_between import within

NAME = "load-elimination"
_MOST_TRIED = 8
"""Earlier accesses to the same bytes that are looked at."""
_COSTS = "a test and a second copy of the code cost more than the certain saving; force rewrites it"
_TOLD = "the kernel's stores are disjoint from what it keeps in registers"


def available_loads(kernel: Kernel, groups: AccessGroups) -> Iterator[Change | Refusal]:
    """The loads that take a value over stores, or from one, and why others do not."""
    if kernel.trace.statistics.timed_out or kernel.budget.spent(PLANNING):
        return
    pairs = list(_Pairs(groups).kept())
    if not pairs:
        return
    open_pairs: dict[KeptValue, Access] = {}
    details: list[KeptValue] = []
    for pair in pairs:
        if kernel.budget.spent(PLANNING):
            break
        store = groups.stores.between(pair)
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


class _Pairs:
    """Loads, and the last access before each that must have been to the same bytes."""

    def __init__(self, groups: AccessGroups) -> None:
        self.groups, self.cfg, self.paths = groups, groups.cfg, groups.paths

    @cached_property
    def _stores(self) -> list[int]:
        """Whatever may write memory."""
        instructions = enumerate(self.cfg.instructions)
        return [at for at, one in instructions if _may_store(one.opcode, one.modifiers)]

    def kept(self) -> Iterator[KeptValue]:
        """The pairs with a store at the source or between; all others are plain repeats."""
        for accesses in self.groups.written:
            for number, access in enumerate(accesses):
                source = self._source(access, accesses[max(number - _MOST_TRIED, 0) : number])
                if source is not None:
                    yield KeptValue(access.index, source.index)

    def _source(self, load: Access, earlier: Iterable[Access]) -> Access | None:
        if load.kind != "load":
            return None
        before = [a for a in earlier if self._comes_before(a, load)]
        source = next((a for a in reversed(before) if self._is_last(a, before)), None)
        if source is None or self.groups.is_cut(self._beside(source.index, load.index)):
            return None
        if not self.groups.fits(source, load):
            return None
        spans = list(self.paths.between(source.index, load.index))
        crossed = any(within(self._stores, span) for span in spans)  # the source may be one
        return source if crossed and not self.groups.is_cut(spans) else None

    def _beside(self, source: int, load: int) -> tuple[range, ...]:
        """Instructions on every path from one position to another: only those in the two blocks
        themselves, which take no search of the graph. A cheap first test."""
        above, below = self.cfg.block_of[source], self.cfg.block_of[load]
        if above == below:
            return (range(source, load),)
        blocks = self.cfg.blocks
        return range(source, blocks[above].end), range(blocks[below].start, load)

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


@isa.by_name
def _may_store(opcode: str, modifiers: tuple[str, ...]) -> bool:
    return bool(isa.effects(opcode, modifiers) & isa.Effect.WRITE)
