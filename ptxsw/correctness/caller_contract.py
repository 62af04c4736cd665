"""Would a caller who keeps what a kernel takes for granted ever see a fault?

A launch that was invented chooses numbers, contents and a block. A fault that goes away when a
stride grows, when a loop that counts into an array ends at once, or when an index buffer holds
something else, is one that a caller avoids. So it is shown again with other choices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.correctness.address_provenance import MadeOf, Slices
from ptxsw.correctness.caller_launches import Natural
from ptxsw.correctness.evidence import Ran, ShownFault
from ptxsw.simt.state import Livelock, MemoryFault
from ptxsw.verify.launches import Launch

_FEW = (1, 2, 5)  # of what a number may count
_FURTHER = 16411  # a stride that is no multiple of anything
SHORT = 5  # by so much a number is less than what all threads cover, so that no block divides it
_APART = 131  # between strides: more than most extents

Run = Callable[[Launch], Ran]


class Promises(Struct, frozen=True):
    natural: Natural
    slices: Slices
    run: Run

    def kept(self, evidence: ShownFault, ran: Ran) -> bool:
        """Does a fault that a launch shows stand when what is promised changes?"""
        match evidence.rule:
            case "data-race" | "async-wait":
                return self._race(evidence, ran)
            case "out-of-bounds":
                return self._address(evidence, ran.launch, _FEW)
            case "misaligned-access":
                return self._address(evidence, ran.launch, (64, 128))
            case "undefined-value":
                return self._within_a_block(evidence, ran.launch)
            case "warp-mask":
                mask = self.slices.of_mask(evidence.index)
                own = evidence.places[0].function == self.natural.subject.function.name
                return own and not (mask.parameters or mask.loads)  # else a caller names the lanes
            case "deadlock" if isinstance(evidence.error, Livelock):
                return self._always(evidence, ran.launch)
            case "deadlock":
                counted = self.slices.of_operands(evidence.index)
                return not (counted.parameters or counted.loads)  # so many come as a caller says
        return True

    def origins(self, evidence: ShownFault) -> MadeOf:
        other = evidence.index if evidence.other is None else evidence.other
        shared = evidence.shared
        found = self.slices.of_address(evidence.index, shared=shared)
        if other == evidence.index:
            return found
        return found | self.slices.of_address(other, shared=shared)

    def _numbers(self, names: frozenset[str]) -> list[str]:
        return [s.parameter.name for s in self.natural.numbers if s.parameter.name in names]

    def _shown(self, evidence: ShownFault, launch: Launch) -> bool:
        return self.run(launch).shows(evidence.key) is not None

    def _for_all_contents(self, evidence: ShownFault, launch: Launch) -> bool:
        """Whatever integers buffers hold, as long as they are in range: all different ones, if
        there are enough of those."""
        holding = self.natural.holding
        return (
            self._with_different(evidence, launch, "iota")
            and all(self._shown(evidence, holding(launch, c)) for c in ("zeros", "random"))
        ) or (evidence.rule == "data-race" and self._in_range(evidence, launch))

    def _with_different(self, evidence: ShownFault, launch: Launch, contents: str) -> bool:
        """With integers that count up from 1 on. From 0 on they are the numbers of the threads
        themselves, so that each has a place of its own: that is no promise in shared memory."""
        shared = evidence.rule == "data-race" and evidence.shared
        holding = self.natural.holding
        return all(
            self._shown(evidence, holding(launch, contents, first))
            for first in ((1,) if shared else (0, 1))
        )

    def _in_range(self, evidence: ShownFault, launch: Launch) -> bool:
        """Do integers count up too far for an array, and is there a race with all that fit, too?"""
        ran = self.run(self.natural.holding(launch, "iota"))
        if not isinstance(ran.error, MemoryFault) or not ran.error.space:
            return False
        low, high = 1, 1 << 11  # so many fit, so many do not
        while high - low > 1:
            middle = (low + high) // 2
            ran = self.run(self.natural.holding(launch, str(middle)))
            low, high = (low, middle) if isinstance(ran.error, MemoryFault) else (middle, high)
        return (
            low > 1
            and self._with_different(evidence, launch, str(low))
            and self._shown(evidence, self.natural.holding(launch, "1"))
        )

    def _race(self, evidence: ShownFault, ran: Ran) -> bool:
        """Strides may be longer, each alone and all of them; what shifts or divides may be 1; and
        loops that count up an address end after one iteration."""
        origins, launch = self.origins(evidence), ran.launch
        if origins.loads and not self._for_all_contents(evidence, launch):
            return False
        names = self._numbers(origins.parameters)
        least = self.natural.extent(launch.block) - SHORT
        if any(self.natural.value(launch, name) < least for name in names):
            return False  # such a stride is shorter than a row
        changed = [{name: 1} for name in self._numbers(origins.scales)]
        if not all(self._shown(evidence, self.natural.with_number(launch, c)) for c in changed):
            return False
        if not self._with_strides(evidence, ran, names):
            return False
        counts = self._numbers(origins.counts)
        extent = self.natural.extent(launch.block)
        as_it_is = all(self.natural.value(launch, name) >= extent for name in counts)
        twice = self.natural.with_number(launch, dict.fromkeys(counts, 2))
        return (
            not counts
            or any(
                self._in_one_iteration(evidence, changed)
                for changed in (
                    *([launch] * as_it_is),
                    *(
                        self.natural.with_number(launch, dict.fromkeys(counts, n))
                        for n in (extent, 1)
                    ),
                )
            )
            or self._shown(evidence, twice)  # nobody promises that a loop never goes round
        )

    def _with_strides(self, evidence: ShownFault, ran: Ran, names: Sequence[str]) -> bool:
        """Does a race stand when each of some strides grows, and all lie far apart? Where one says
        how many threads come there, too, the grid grows with it."""
        launch, with_number = ran.launch, self.natural.with_number
        grown: dict[str, Launch] = {}
        for name in names:
            if self._shown(evidence, with_number(launch, {name: _FURTHER})):
                continue
            longer = self._covered(launch, name) if self._bounds(evidence, ran, name) else ()
            shown = next((one for one in longer if self._shown(evidence, one)), None)
            if shown is None:
                return False
            grown[name] = shown
        if len(names) < 2:
            return True
        base = max(grown.values(), key=lambda one: one.threads, default=launch)
        kept = {name: self.natural.value(one, name) for name, one in grown.items()}
        others = [name for name in names if name not in grown]
        first = 2 if grown else 1  # beyond what the others separate
        apart = {name: _APART**at for at, name in enumerate(others, first)}
        return self._shown(evidence, with_number(base, apart | kept))

    def _bounds(self, evidence: ShownFault, ran: Ran, name: str) -> bool:
        """Do fewer threads come to a race where a number is 1?"""
        fewer = self.run(self.natural.with_number(ran.launch, {name: 1}))
        return bool(fewer.executed) and all(
            fewer.executed[index] < ran.executed[index] for index in evidence.key[1:]
        )

    def _covered(self, launch: Launch, name: str) -> Iterator[Launch]:
        """With a larger number, and a grid whose threads along an axis are just as many."""
        value, axes = self.natural.value(launch, name), self.natural.grid()
        blocks = [value // b + 1 if n > 1 else n for b, n in zip(launch.block, axes, strict=True)]
        x, y, z = blocks
        wider = replace(launch, grid=(x, y, z))
        for number in sorted({b * n for b, n in zip(launch.block, blocks, strict=True)}):
            if number > value:
                yield self.natural.with_number(wider, {name: number})

    def _in_one_iteration(self, evidence: ShownFault, launch: Launch) -> bool:
        """Does a launch show it, in which no thread executes an instruction twice?"""
        ran = self.run(launch)
        pair = (evidence.index, evidence.index if evidence.other is None else evidence.other)
        return ran.shows(evidence.key) is not None and all(
            ran.executed[index] <= launch.threads for index in pair
        )

    def _address(self, evidence: ShownFault, launch: Launch, numbers: tuple[int, ...]) -> bool:
        """Whatever the numbers are that the address is made of, and what buffers hold."""
        origins = self.origins(evidence)
        if origins.loads and not self._for_all_contents(evidence, launch):
            return False
        names = self._numbers(origins.parameters | origins.counts)
        return not names or all(
            self._shown(evidence, self.natural.with_number(launch, dict.fromkeys(names, number)))
            for number in numbers
        )

    def _within_a_block(self, evidence: ShownFault, launch: Launch) -> bool:
        """With numbers that are no larger than the block, whose threads fill what they count."""
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        values = [s.parameter.name for s in self.natural.numbers]
        return not values or any(
            self._shown(evidence, self.natural.with_number(launch, dict.fromkeys(values, number)))
            for number in (min(5, threads), max(launch.block), threads)
        )

    def _always(self, evidence: ShownFault, launch: Launch) -> bool:
        """Whatever the numbers and the contents: a word may count to one of them."""
        names = [s.parameter.name for s in self.natural.numbers]
        numbers = (1, 2, self.natural.extent(launch.block)) if names else (1,)
        return all(
            self._for_all_contents(
                evidence, self.natural.with_number(launch, dict.fromkeys(names, number))
            )
            for number in numbers
        )
