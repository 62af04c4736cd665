"""Launches that show a fault: run in the interpreter, which names it or does not.

A launch that the user gives is taken as it is. Others are invented (`caller_launches`), for blocks
of usual shapes unless one is declared. What one of them shows counts if it stands whatever a caller
may choose (`caller_contract`), and in blocks of all shapes that fit the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from time import thread_time

from msgspec import Struct, field
from msgspec.structs import replace

from ptxsw.correctness.address_provenance import Slices
from ptxsw.correctness.barriers import of_block
from ptxsw.correctness.caller_contract import SHORT, Promises
from ptxsw.correctness.caller_launches import Natural
from ptxsw.correctness.evidence import Key, Ran, ShownFault, run
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Fault, Proof
from ptxsw.correctness.wording import fault_of
from ptxsw.simt import Deadlock
from ptxsw.terms.node import Term
from ptxsw.verify.arguments import Data
from ptxsw.verify.launches import Launch, Shape, buffers, with_argument
from ptxsw.verify.runs import LIMIT
from ptxsw.verify.witness import simpler_grids, smaller

SECONDS = 3.0
"""CPU time for all launches of a kernel."""
_QUIET = 0.8  # the same while none shows anything
_ONE = 0.5  # for one that was invented
_MODELS = 6  # of suspects, that launches are made of
_SEEDS = (1, 2)  # of fuzzed schedules
_STEPS, _WORK, _FEW = 1 << 13, 1 << 21, 1 << 11
"""Of groups of threads, in an invented launch: fewer, but not too few, where there are many."""
_MORE_ROUNDS = (5, 17)  # one more than a compiler unrolls
_LARGE = 1 << 12  # threads of a launch of which not all blocks are run


class Searched(Struct, frozen=True):
    """The faults that launches of a kernel show; or why none could be run."""

    faults: tuple[Fault, ...]
    not_run: str = ""


def search(subject: Subject, open: Mapping[str, Proof]) -> Searched:
    """Of the rules that proofs leave open."""
    models = [s.values for p in open.values() for s in p.open if s.values is not None]
    run = _Search(subject, frozenset(open), models[:_MODELS])
    faults = tuple(run.faults())
    refused = [ran.unsupported for ran in run.known.values()]
    return Searched(faults, refused[0] if refused and all(refused) else "")


class _Search(Struct):
    subject: Subject
    rules: frozenset[str]
    models: Sequence[Mapping[Term, int]] = ()
    trials: list[Ran] = field(default_factory=list)
    known: dict[Launch, Ran] = field(default_factory=dict)
    began: float = field(default_factory=thread_time)

    def faults(self) -> Iterator[Fault]:
        told: set[Key] = set()
        if self.subject.launch is not None:
            ran = self._given(self.subject.launch)
            for evidence in ran.evidence:
                if evidence.rule in self.rules:
                    told.add(evidence.key)
                    yield self._fault(evidence, ran, "")
        natural = Natural(self.subject)
        self._try(_of_first_shape(natural))
        self._try(filter(None, map(natural.modelled, self.models)))
        longer = _MORE_ROUNDS if natural.numbers and self._is_missed() else ()
        self._try(_of_more_rounds(natural, natural.shapes[0], longer))
        if self._keys():
            self._try(_of_other_shapes(natural, longer))
        yield from self._judged(natural, told)

    def _given(self, launch: Launch) -> Ran:
        """The launch that the user gives as it is; of a large one the first blocks."""
        threads = prod(launch.block)
        if launch.only is None and launch.threads > _LARGE:
            launch = replace(launch, only=(0, max(_LARGE // threads, 1)))
        limit = min(LIMIT, max((_WORK << 2) // launch.threads, _FEW << 1))
        return run(self.subject, launch, self.rules, limit=limit, seconds=SECONDS, given=True)

    def _try(self, launches: Iterable[Launch]) -> None:
        """Runs launches, unless the kernel cannot be run; not for long while nothing shows."""
        for launch in launches:
            if self.trials and self.trials[-1].unsupported:
                return
            if not self._spent() and (self._keys() or self._used() < _QUIET):
                self.trials.append(self.run(launch))

    def run(self, launch: Launch) -> Ran:
        ran = self.known.get(launch)
        if ran is None and self._spent():
            return Ran(launch, unsupported="it takes too long")
        if ran is None:
            limit = min(_STEPS, max(_WORK // launch.threads, _FEW))
            ran = self.known[launch] = run(
                self.subject, launch, self.rules, limit=limit, seconds=_ONE
            )
        return ran

    def _is_missed(self) -> bool:
        """Is there an access to which no thread of any launch came?"""
        accesses = {access.index for access in self.subject.trace.accesses}
        for ran in self.trials:
            accesses = {i for i in accesses if not ran.executed or not ran.executed[i]}
        return bool(accesses)

    def _spent(self) -> bool:
        return self._used() > SECONDS or self.subject.budget.spent()

    def _used(self) -> float:
        return thread_time() - self.began

    # ------------------------------------------------------------ what counts

    def _judged(self, natural: Natural, told: set[Key]) -> Iterator[Fault]:
        """The faults that count; of races that one barrier would end, the closest two accesses."""
        names = frozenset(p.name for p in self.subject.function.params)
        promises = Promises(natural, Slices(self.subject.cfg, names), self.run)
        for key in self._keys():
            if key in told or self._spent() or self._wider(key, told):
                continue
            condition = self._condition(natural, key)
            if condition is None:
                continue
            ran = self._standing(promises, key, condition)
            evidence = None if ran is None else ran.shows(key)
            if ran is not None and evidence is not None:
                told.add(key)
                yield self._fault(evidence, self._reduced(ran, key), condition)

    def _standing(self, promises: Promises, key: Key, condition: str) -> Ran | None:
        """The first launch that shows a fault whatever a caller promises; None where there is none
        in blocks of one of the shapes that show it."""
        by_block: dict[Shape, list[tuple[ShownFault, Ran]]] = {}
        for ran in self._showing(key):
            evidence = ran.shows(key)
            if evidence is not None and not (evidence.same and condition):
                by_block.setdefault(ran.launch.block, []).append((evidence, ran))
        first: Ran | None = None
        for shown in by_block.values():
            kept = next((ran for evidence, ran in shown if promises.kept(evidence, ran)), None)
            if kept is None:
                return None
            first = first or kept
        return first

    def _keys(self) -> list[Key]:
        """The faults that any launch showed, in the order of the text."""
        every = {e.key for ran in self.trials for e in ran.evidence}
        asked = (key for key in every if key[0] in self.rules)
        return sorted(asked, key=lambda key: (key[2] - key[1], key))

    def _wider(self, key: Key, told: set[Key]) -> bool:
        """Would what mends a race of two instructions of a block mend this one, too?"""
        evidence = next(e for ran in self.trials for e in ran.evidence if e.key == key)
        return evidence.shared and any(
            rule == key[0] and key[1] <= low < high <= key[2] for rule, low, high in told
        )

    def _showing(self, key: Key) -> list[Ran]:
        """The launches that show a fault, the smallest first; those in which two threads write
        different values before all that show the same one."""
        shown = [(ran, e) for ran in self.trials for e in ran.evidence if e.key == key]
        shown.sort(key=lambda one: (one[1].same, not one[0].clean, one[0].launch.threads))
        return [ran for ran, _ in shown]

    def _condition(self, natural: Natural, key: Key) -> str | None:
        """What has to be true of the block: nothing where it is declared, or where all shapes that
        fit the kernel show the fault; None if no caller need ever see it."""
        showing = [ran for ran in self.trials if ran.shows(key) is not None]
        if {ran.launch.block for ran in self.trials} < {*natural.shapes}:
            return None  # there was no time for all shapes
        least = min(prod(ran.launch.block) for ran in showing)  # whatever else goes wrong
        if any(ran.clean for ran in showing):
            showing = [ran for ran in showing if ran.clean]
        shown = {ran.launch.block for ran in showing}
        others = {ran.launch.block for ran in self.trials if ran.passes(key)} - shown
        if not others:
            return ""
        most = max(map(prod, others))
        if key[0] not in ("data-race", "async-wait") or most >= least or not self._of_blocks():
            return None
        return f"more than {most} threads"

    def _of_blocks(self) -> bool:
        """Is the kernel written for more than a warp: has it a barrier of the block?"""
        return any(map(of_block, self.subject.cfg.instructions))

    # ------------------------------------------------------------ what is told

    def _reduced(self, ran: Ran, key: Key) -> Ran:
        """With fewer blocks, and plainer and shorter buffers, as far as the fault stays."""
        same = ran.shows(key)
        assert same is not None
        if isinstance(same.error, Deadlock):  # who else should have come?
            return ran

        def shows(launch: Launch) -> bool:
            other = self.run(launch)
            found = other.shows(key)
            return other.launch == launch and found is not None and found.same == same.same

        return self.run(smaller(ran.launch, shows, _simpler))

    def _fault(self, evidence: ShownFault, ran: Ran, condition: str) -> Fault:
        evidence = ran.shows(evidence.key) or evidence
        races = evidence.rule in ("data-race", "async-wait")
        return fault_of(self.subject, evidence, replace(ran.launch, races=races), condition)


def _of_first_shape(natural: Natural) -> Iterator[Launch]:
    """Of the likeliest one, with a second one that says whether there is more to be seen."""
    first, *others = natural.shapes
    yield from _launches(natural, first)
    yield from (natural.launch(block, _roomy(natural, block)) for block in others[:1])


def _of_other_shapes(natural: Natural, rounds: Sequence[int]) -> Iterator[Launch]:
    for block in natural.shapes[1:]:
        yield from _plain(natural, block)
        yield from _of_more_rounds(natural, block, rounds)


def _of_more_rounds(natural: Natural, block: Shape, rounds: Sequence[int]) -> Iterator[Launch]:
    """With numbers so large that a loop over the grid goes round so often."""
    return (natural.launch(block, times * _roomy(natural, block)) for times in rounds)


def _roomy(natural: Natural, block: Shape) -> int:
    return -(-natural.extent(block) // 64) * 64


def _plain(natural: Natural, block: Shape) -> Iterator[Launch]:
    """With a number that is large enough, and with one that no block divides."""
    yield natural.launch(block, _roomy(natural, block))
    if natural.numbers:
        yield natural.launch(block, max(natural.extent(block) - SHORT, 1))


def _launches(natural: Natural, block: Shape) -> Iterator[Launch]:
    if natural.numbers:
        yield from (natural.launch(block, number) for number in (1, 5))
    yield from _plain(natural, block)
    if any(map(natural.whole, natural.slots)):
        for contents in ("zeros", "random"):
            yield natural.launch(block, _roomy(natural, block), contents)
        if natural.numbers:
            yield natural.launch(block, 1, "random")
    if natural.waits:
        small = natural.launch(block, _roomy(natural, block))
        yield from (replace(small, seed=seed) for seed in _SEEDS)


def _simpler(launch: Launch) -> Iterator[Launch]:
    yield from simpler_grids(launch)
    for place, data in buffers(launch):
        if data.kind == "file":
            continue
        for plainer in _plainer(data):
            yield with_argument(launch, place, plainer)


def _plainer(data: Data) -> Iterator[Data]:
    if data.first:
        yield replace(data, first=0, count=data.count - data.first)
    for count in (1 << 6, 1 << 10):
        if count < data.count - data.first:
            yield replace(data, count=data.first + count)
    if data.kind not in ("zeros", "iota"):
        yield replace(data, kind="zeros", seed=0, values=())
