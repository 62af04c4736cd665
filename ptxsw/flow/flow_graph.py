"""Blocks of code and how control goes between them: dominators, post-dominators, loops.

A block is a maximal run of instructions that is entered only at its first and left only at its
last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from msgspec import Struct

_Node = TypeVar("_Node", bound=Hashable)


class Block(Struct, frozen=True):
    """A run of instructions `body.instructions[start:end]`. It is empty for an empty body, and
    after the last instruction where a label stands: control that comes there returns.

    `successors` are block numbers; for a guarded direct branch the taken side comes first.
    `table` are those that a closing `brx.idx` goes to for the indices 0, 1, …; empty where they
    are not known.
    """

    number: int
    start: int
    end: int
    labels: tuple[str, ...]
    successors: tuple[int, ...]
    table: tuple[int, ...] = ()


class Loop(Struct, frozen=True):
    """A natural loop: `header` dominates every block of it. Exits are edges that leave it."""

    header: int
    blocks: frozenset[int]
    latches: tuple[int, ...]
    exits: tuple[tuple[int, int], ...]
    parent: int | None  # header of the next loop outward
    depth: int  # 1 for an outermost loop


class FlowGraph(Struct, frozen=True, dict=True):
    """Blocks of any code, PTX or what was made of it, and how control goes between them; block 0
    is the entry. `order` is a reverse postorder of the reachable blocks."""

    blocks: tuple[Block, ...]
    order: tuple[int, ...]

    @cached_property
    def _names(self) -> Mapping[int, str]:
        uses = Counter(label for block in self.blocks for label in block.labels)
        return {
            b.number: (b.labels[0] if uses[b.labels[0]] == 1 else f"{b.labels[0]}@{b.number}")
            if b.labels
            else f"block {b.number}"
            for b in self.blocks
        }

    def name(self, number: int) -> str:
        """A name of a block that no other block has: its label, if it has one of its own."""
        return self._names[number]

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        before: list[list[int]] = [[] for _ in self.blocks]
        for number in self.order:
            for successor in self.blocks[number].successors:
                if number not in before[successor]:
                    before[successor].append(number)
        return tuple(map(tuple, before))

    @cached_property
    def rank(self) -> Mapping[int, int]:
        """Position of each reachable block in `order`."""
        return {number: at for at, number in enumerate(self.order)}

    @cached_property
    def idom(self) -> Mapping[int, int]:
        """Immediate dominator of each reachable block; the entry's is itself."""
        return dominators(self.order, self.predecessors)

    @cached_property
    def ipdom(self) -> Mapping[int, int]:
        """Immediate post-dominator of each block that reaches an end; -1 stands for the end."""
        # A virtual end behind all blocks without a successor; blocks of an endless loop have none.
        ends = [n for n in self.order if not self.blocks[n].successors]
        successors = {n: list(self.blocks[n].successors) or [-1] for n in self.order}
        backward: dict[int, list[int]] = {-1: ends, **{n: [] for n in self.order}}
        for number, after in successors.items():
            for successor in after:
                if successor != -1:
                    backward[successor].append(number)
        order = reverse_postorder(-1, backward)
        return dominators(order, successors)

    def reached_from(self, start: Iterable[int], barred: Container[int] = ()) -> set[int]:
        """The blocks that control may reach from the heads of some, these included, on paths
        that enter none of the `barred`."""
        return reached(start, lambda number: self.blocks[number].successors, barred)

    def reaching(self, end: Iterable[int], barred: Container[int] = ()) -> set[int]:
        """The blocks from which control may reach the heads of some, these included, on paths
        that pass none of the `barred`."""
        return reached(end, self.predecessors.__getitem__, barred)

    def dominates(self, above: int, below: int) -> bool:
        """Does every path from the entry to block `below` pass block `above`?"""
        low, high = self._interval[above]
        return low <= self._interval[below][0] and self._interval[below][1] <= high

    @cached_property
    def _interval(self) -> Mapping[int, tuple[int, int]]:
        """Entry and exit times of a walk over the dominator tree: one block dominates another
        exactly if its interval encloses the other's."""
        children: dict[int, list[int]] = {n: [] for n in self.order}
        for number in self.order[1:]:
            children[self.idom[number]].append(number)
        times: dict[int, tuple[int, int]] = {}
        clock = 0
        stack: list[tuple[int, bool]] = [(0, False)] if self.order else []
        starts: dict[int, int] = {}
        while stack:
            number, done = stack.pop()
            clock += 1
            if done:
                times[number] = (starts[number], clock)
                continue
            starts[number] = clock
            stack.append((number, True))
            stack.extend((child, False) for child in children[number])
        return times

    @cached_property
    def retreating(self) -> frozenset[tuple[int, int]]:
        """Edges that go against `order`: the back edges, and those of irreducible flow."""
        rank = self.rank
        return frozenset(
            (n, s) for n in self.order for s in self.blocks[n].successors if rank[s] <= rank[n]
        )

    @cached_property
    def irreducible(self) -> frozenset[int]:
        """Targets of retreating edges that do not dominate the edge's source."""
        return frozenset(s for n, s in self.retreating if not self.dominates(s, n))

    @cached_property
    def loops(self) -> Mapping[int, Loop]:
        """Natural loops by header, inner loops before the loops around them."""
        latches: dict[int, list[int]] = {}
        for number, successor in sorted(self.retreating, key=lambda e: self.rank[e[0]]):
            if self.dominates(successor, number):
                latches.setdefault(successor, []).append(number)
        bodies = {header: self._loop_body(header, ends) for header, ends in latches.items()}
        # Two natural loops are nested or share no block, so the smaller one is the inner one.
        inner_first = sorted(bodies, key=lambda h: (len(bodies[h]), -self.rank[h]))
        parents: dict[int, int | None] = {}
        depths: dict[int | None, int] = {None: 0}
        innermost: dict[int, int] = {}  # of the loops seen so far, outer ones first
        for header in reversed(inner_first):
            parents[header] = parent = innermost.get(header)
            depths[header] = depths[parent] + 1
            innermost.update(dict.fromkeys(bodies[header], header))
        loops: dict[int, Loop] = {}
        for header in inner_first:
            exits = tuple(
                (n, s)
                for n in sorted(bodies[header])
                for s in self.blocks[n].successors
                if s not in bodies[header]
            )
            loops[header] = Loop(
                header,
                frozenset(bodies[header]),
                tuple(latches[header]),
                exits,
                parents[header],
                depths[header],
            )
        return loops

    def _loop_body(self, header: int, latches: Iterable[int]) -> set[int]:
        return {header} | self.reaching(latches, {header})

    @cached_property
    def loop_of(self) -> Mapping[int, int]:
        """Header of the innermost loop around each block that lies in one."""
        owner: dict[int, int] = {}
        for header, loop in self.loops.items():  # inner loops come first
            for number in loop.blocks:
                owner.setdefault(number, header)
        return owner

    @cached_property
    def innermost_loops(self) -> Mapping[int, Loop]:
        """The loops without a loop inside, by header."""
        parents = {loop.parent for loop in self.loops.values()}
        return {header: loop for header, loop in self.loops.items() if header not in parents}

    def in_order(self, blocks: Iterable[int]) -> list[int]:
        """Blocks that are reached, in reverse postorder."""
        return sorted(blocks, key=self.rank.__getitem__)

    def loops_around(self, number: int) -> tuple[int, ...]:
        """Headers of all loops around a block, innermost first."""
        around: list[int] = []
        header = self.loop_of.get(number)
        while header is not None:
            around.append(header)
            header = self.loops[header].parent
        return tuple(around)


def reached(
    start: Iterable[_Node], step: Callable[[_Node], Iterable[_Node]], barred: Container[_Node] = ()
) -> set[_Node]:
    """Some nodes and all to which steps lead from them, on ways that enter none of the `barred`."""
    work = [node for node in start if node not in barred]
    seen = set(work)
    while work:
        for node in step(work.pop()):
            if node not in seen and node not in barred:
                seen.add(node)
                work.append(node)
    return seen


def reverse_postorder(root: int, successors: Mapping[int, Sequence[int]]) -> list[int]:
    """The nodes that are reached from `root`, latest finished first."""
    seen = {root}
    post: list[int] = []
    stack = [(root, iter(successors[root]))]
    while stack:
        number, rest = stack[-1]
        for successor in rest:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(successors[successor])))
                break
        else:
            post.append(number)
            stack.pop()
    post.reverse()
    return post


def dominators(
    order: Sequence[int], predecessors: Mapping[int, Sequence[int]] | Sequence[Sequence[int]]
) -> dict[int, int]:
    """Immediate dominators over a reverse postorder (Cooper, Harvey, Kennedy 2001)."""
    rank = {number: at for at, number in enumerate(order)}
    root = order[0]
    idom = {root: root}

    def meet(a: int, b: int) -> int:
        while a != b:
            while rank[a] > rank[b]:
                a = idom[a]
            while rank[b] > rank[a]:
                b = idom[b]
        return a

    changed = True
    while changed:
        changed = False
        for number in order[1:]:
            settled = [p for p in predecessors[number] if p in idom]
            new = settled[0]
            for other in settled[1:]:
                new = meet(new, other)
            if idom.get(number) != new:
                idom[number] = new
                changed = True
    return idom
