"""A second race detector, by brute force: all accesses of a small launch, and their order as a
graph of what each thread does. It sees what the first one sees go by, and shares no idea with it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptxsw.simt import Races

Told = set[tuple[str, bool, int, int]]


@dataclass
class Access:
    """Of one element: its bytes, and the moments at which it begins and has ended."""

    thread: int
    block: int
    where: tuple[int, int, int]  # region, first byte, size
    line: int
    write: bool
    how: Any
    shared: bool
    value: int | None
    node: int
    end: int | None
    group: int
    step: int  # of the instruction: its threads do it at once


@dataclass
class BruteForce(Races):
    """Moments are numbers; `before` holds those before each, as the bits of a number."""

    before: list[int] = field(default_factory=list)
    quick: list[int] = field(default_factory=list)  # by program order and barriers alone
    last: dict[int, int] = field(default_factory=dict)  # moment, by thread
    open: set[int] = field(default_factory=set)  # threads that have told nothing since that
    accesses: list[Access] = field(default_factory=list)
    fences: list[tuple[int, int, int, Any]] = field(default_factory=list)
    reads: dict[int, list[tuple[int, int, bool]]] = field(default_factory=lambda: defaultdict(list))
    words: dict[Any, tuple[int, bool, list[tuple[int, int, bool]]]] = field(default_factory=dict)
    steps: int = 0

    def begin(self, chunk: Any) -> None:
        assert not self.before, "one chunk"
        self.padded = chunk.padded

    def moment(self, thread: int, after: Any = (), met: tuple[int, int] = (0, 0)) -> int:
        """A new one of a thread, after its last, and after others. `met` is what those have seen
        that it met at a barrier, as `seen_by` tells it."""
        number = len(self.before)
        known, quick = (1 << number | one for one in met)
        for one in after:
            known |= self.before[one]
        previous = self.last.get(thread)
        if previous is not None:
            known |= self.before[previous]
            quick |= self.quick[previous]
        self.before.append(known)
        self.quick.append(quick)
        self.last[thread] = number
        self.open.discard(thread)
        return number

    def seen_by(self, moments: Any) -> tuple[int, int]:
        known = quick = 0
        for one in moments:
            known |= self.before[one]
            quick |= self.quick[one]
        return known, quick

    def plainly(self, thread: int) -> int:
        """The moment of a plain access: that of the one before, if nobody can tell them apart."""
        if thread not in self.open:
            self.moment(thread)
            self.open.add(thread)
        return self.last[thread]

    def meet(self, groups: dict[int, list[int]]) -> None:
        for threads in groups.values():
            met = self.seen_by([self.moment(thread) for thread in threads])
            seen = list(dict.fromkeys(one for thread in threads for one in self.reads[thread]))
            for thread in threads:
                self.moment(thread, met=met)
                self.reads[thread] = list(seen)

    def blocks_met(self, chunk: Any, idx: Any) -> None:
        groups: dict[int, list[int]] = defaultdict(list)
        for thread in idx.tolist():
            groups[thread // self.padded].append(thread)
        self.meet(groups)

    def warps_met(self, idx: Any) -> None:
        groups: dict[int, list[int]] = defaultdict(list)
        for thread in idx.tolist():
            groups[thread // 32].append(thread)
        self.meet(groups)

    def come(self, told: Any, idx: Any) -> Any:
        told = defaultdict(lambda: ([], [])) if told is None else told
        for thread in idx.tolist():
            came, seen = told[thread // self.padded]
            came.append(self.moment(thread))
            seen += self.reads[thread]
        return told

    def go_on(self, told: Any, waiting: Any, blocks: Any) -> None:
        met = {block: self.seen_by(came) for block, (came, _) in (told or {}).items()}
        for thread in waiting.tolist():
            _, seen = told[thread // self.padded]
            self.moment(thread, met=met[thread // self.padded])
            self.reads[thread] = list(dict.fromkeys(self.reads[thread] + seen))
        for block in blocks.tolist():
            del told[block]

    def fence(self, idx: Any, ordering: Any) -> None:
        for thread in idx.tolist():
            block, after = thread // self.padded, []
            for head, of, wide in self.reads[thread] if ordering.acquires else ():
                if of == block or (wide and ordering.wide):
                    after.append(head)
            node = self.moment(thread, after)
            if ordering.releases:
                self.fences.append((node, thread, block, ordering.wide))

    def waited(self, chunk: Any, waits: Any, left: int) -> None:
        nodes = {thread: self.moment(thread) for thread in np.flatnonzero(waits).tolist()}
        for one in self.accesses:
            waited = one.how.lasting and one.end is None and one.thread in nodes
            if waited and one.group < chunk.committed[one.thread] - left:
                one.end = nodes[one.thread]

    def record(
        self, chunk: Any, fragment: Any, place: Any, size: int, count: int, write: bool,
        ordering: Any, values: Any = (), order: Any = None,
    ) -> None:  # fmt: skip
        if place.region is chunk.local:
            return
        self.steps += 1
        idx = fragment.idx if place.which is None else fragment.idx[place.which]
        offsets = np.broadcast_to(place.offsets, len(idx))
        line = chunk.program.module.source.line(chunk.instruction(fragment).span.start)
        for at in range(len(idx)) if order is None else order.tolist():
            thread = int(idx[at])
            for element in range(count):
                where = id(place.region), int(offsets[at]) + element * size, size
                value = None
                if element < len(values):
                    value = int(np.broadcast_to(values[element], len(idx))[at])
                after = self.strongly(thread, where, write, ordering)
                node = self.moment(thread, after) if ordering.strong else self.plainly(thread)
                self.accesses.append(
                    Access(
                        thread,
                        thread // self.padded,
                        where,
                        line,
                        write,
                        ordering,
                        not place.arena,
                        value,
                        node,
                        None if ordering.lasting else node,
                        int(chunk.committed[thread]),
                        self.steps,
                    )
                )
                self.written(thread, where, node, write, ordering)

    def strongly(self, thread: int, where: Any, write: bool, how: Any) -> list[int]:
        """The releases that a strong read acquires at once."""
        block = thread // self.padded
        after: list[int] = []
        if not how.strong or (write and not how.atomic):
            return after
        for head, of, wide in self.seen(block, where, how):
            self.reads[thread].append((head, of, wide))
            if how.acquires and (of == block or (wide and how.wide)):
                after.append(head)
        return after

    def seen(self, block: int, where: Any, how: Any) -> list[tuple[int, int, bool]]:
        """The releases whose word a strong access finds."""
        for at, (of, wide, heads) in self.words.items():
            if at == where and (of == block or (wide and how.wide)):
                return heads
        return []

    def written(self, thread: int, where: Any, node: int, write: bool, how: Any) -> None:
        if not write or how.lasting:
            return
        block = thread // self.padded
        heads = self.seen(block, where, how) if how.atomic else []
        for at in list(self.words):
            common = at[1] < where[1] + where[2] and where[1] < at[1] + at[2]
            if at[0] == where[0] and common and (not how.strong or at == where):
                del self.words[at]
        if not how.strong:
            return
        mine = [
            (fence, block, wide and how.wide)
            for fence, _, of, wide in self.fences
            if of == block and self.quick[node] >> fence & 1
        ]
        mine += [(node, block, how.wide)] if how.releases else []
        self.words[where] = block, how.wide, [*heads, *mine]

    # ------------------------------------------------------------ the answer

    def conflicts_found(self) -> Told:
        found: Told = set()
        torn: set[tuple[int, int]] = set()
        same: list[tuple[set[tuple[int, int]], bool, int, int]] = []
        read: dict[tuple[int, int], list[Access]] = defaultdict(list)
        written: dict[tuple[int, int], list[Access]] = defaultdict(list)
        for two in self.accesses:
            region, low, size = two.where
            words_of = [(region, word) for word in range(low // 4, (low + size - 1) // 4 + 1)]
            earlier = [one for word in words_of for one in written[word]]
            earlier += [one for word in words_of if two.write for one in read[word]]
            for word in words_of:
                (written if two.write else read)[word].append(two)
            for one in earlier:
                kind = self.kind(one, two)
                if not kind:
                    continue
                low, high = sorted((one.line, two.line))
                found.add((kind, one.shared, low, high))
                words = {
                    (w[0], b // 4) for w in (one.where, two.where) for b in range(w[1], w[1] + w[2])
                }
                if kind == "race" and not (one.write and two.write):
                    torn |= words
                elif kind == "same value":
                    same.append((words, one.shared, low, high))
        for words, shared, low, high in same:
            if words & torn:
                found.discard(("same value", shared, low, high))
                found.add(("race", shared, low, high))
        return found

    def kind(self, one: Access, two: Access) -> str:
        """Of a conflict between an access and a later one."""
        (region, low, size), (other, at, length) = one.where, two.where
        if region != other or low + size <= at or at + length <= low:
            return ""
        if not (one.write or two.write):
            return ""
        if one.thread == two.thread and not one.how.lasting:
            return ""
        if one.end is not None and one.step != two.step and self.before[two.node] >> one.end & 1:
            return ""
        if one.how.strong and two.how.strong:
            inclusive = one.block == two.block or (one.how.wide and two.how.wide)
            if inclusive and one.where == two.where:
                return "" if one.how.atomic and two.how.atomic else "strong"
            return "race"
        weak = not (one.how.strong or two.how.strong) and one.write and two.write
        same = one.where == two.where and one.value == two.value
        return "same value" if weak and same and one.value is not None else "race"
