"""A body cut at the barriers of the block, and what a thread comes to next from each piece.

    LOOP:                              segment 1, which the back edge enters
        ld.shared.f32 %f1, [%r1];
        bar.sync 0;                    segment 1 ends: an event
        st.shared.f32 [%r1], %f1;      segment 2
        @%p1 bra LOOP;                 a back edge of a loop with a barrier: an event, too
        ret;                           segment 3: the last event of a thread

All threads of a block that live go through the same events in the same order, if each branch that
chooses between events goes one way for all of them. Between two events threads may do what they
like. A guarded barrier is a branch: who does not take part goes past it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from msgspec import Struct, structs

from ptxsw.flow.cfg import Cfg, ends_block
from ptxsw.flow.flow_graph import Block
from ptxsw.ptx.ir import Body

BARRIER, AGAIN, EXIT, OUT = "barrier", "again", "exit", "out"
"""Kinds of events: a barrier, by its instruction; another iteration of a loop, by its header; the
end of a thread; and, where one loop alone is looked at, that the loop is left."""

Event = tuple[str, int]
END: Event = (EXIT, -1)


class Edge(Struct, frozen=True):
    """A way on from a segment: the event that lies on it, and the segment behind, None behind the
    last event."""

    event: Event | None
    to: int | None


class Segment(Struct, frozen=True):
    """Instructions `start` to `end`, of which only the last may part threads or be a barrier."""

    number: int
    block: int
    start: int
    end: int
    edges: tuple[Edge, ...]


class Segments(Struct, frozen=True, dict=True):
    """The segments of a body by number; 0 is the entry. `synced` are the headers of the loops that
    hold a barrier: each of their iterations is an event."""

    cfg: Cfg
    all: tuple[Segment, ...]
    synced: frozenset[int]
    first: Mapping[int, int]  # segment of each block

    @cached_property
    def of(self) -> Mapping[int, int]:
        """The segment of each instruction."""
        return {at: s.number for s in self.all for at in range(s.start, s.end)}

    @cached_property
    def next(self) -> Mapping[int, frozenset[Event]]:
        """The events that may be the next from the start of each segment."""
        return coming(self.all)

    def round_again(self, segment: Segment, edge: Edge) -> int | None:
        """The header of the loop that an edge goes round."""
        to = None if edge.to is None else self.all[edge.to].block
        if to is None or edge.to != self.first[to] or to not in self.cfg.loops:
            return None
        return to if (segment.block, to) in self.cfg.retreating else None

    def sides(self, number: int) -> tuple[frozenset[Event], ...]:
        """What may be next on each way on from a segment."""
        return sides(self.all[number], self.next)

    def after(self, start: Iterable[int]) -> frozenset[int]:
        """Segments to which control may come from some without a barrier, these included."""
        work = list(start)
        found = set(work)
        while work:
            for edge in self.all[work.pop()].edges:
                barrier = edge.event is not None and edge.event[0] == BARRIER
                if edge.to is not None and not barrier and edge.to not in found:
                    found.add(edge.to)
                    work.append(edge.to)
        return frozenset(found)


def sides(segment: Segment, nexts: Mapping[int, frozenset[Event]]) -> tuple[frozenset[Event], ...]:
    """What may be next on each way on from a segment."""
    found: list[frozenset[Event]] = []
    for edge in segment.edges:
        if edge.event is not None:
            found.append(frozenset({edge.event}))
        elif edge.to is not None:
            found.append(nexts[edge.to])
    return tuple(found)


def coming(
    segments: Sequence[Segment], known: Mapping[int, frozenset[Event]] = MappingProxyType({})
) -> dict[int, frozenset[Event]]:
    """The events that may be the next from the start of each segment, but for those of which they
    are `known`."""
    nexts = {s.number: known.get(s.number, frozenset[Event]()) for s in segments}
    open_ones = [s for s in reversed(segments) if s.number not in known]
    changed = True
    while changed:
        changed = False
        for segment in open_ones:
            new = frozenset[Event]().union(*sides(segment, nexts))
            if new != nexts[segment.number]:
                nexts[segment.number] = new
                changed = True
    return nexts


def cut(cfg: Cfg, body: Body, barriers: frozenset[int]) -> Segments:
    """A body cut at some barriers, by their instructions."""
    held = {cfg.block_of[at] for at in barriers}
    synced = frozenset(h for h, loop in cfg.loops.items() if not held.isdisjoint(loop.blocks))
    pieces: list[tuple[int, int, int]] = []  # block, start, end
    first: dict[int, int] = {}
    for number in cfg.order:
        block, start = cfg.blocks[number], cfg.blocks[number].start
        first[number] = len(pieces)
        for at in range(block.start, block.end):
            if at in barriers:
                pieces.append((number, start, at + 1))
                start = at + 1
        pieces.append((number, start, block.end))
    made: list[Segment] = []
    for at, (number, start, end) in enumerate(pieces):
        if end > start and end - 1 in barriers:
            edges = [Edge((BARRIER, end - 1), at + 1)]
            if cfg.instructions[end - 1].guard is not None:
                edges.append(Edge(None, at + 1))
        else:
            edges = _leaving(cfg, body, cfg.blocks[number], first, synced)
        made.append(Segment(at, number, start, end, tuple(edges)))
    return Segments(cfg, tuple(made), synced, first)


def _leaving(
    cfg: Cfg, body: Body, block: Block, first: Mapping[int, int], synced: frozenset[int]
) -> list[Edge]:
    """The ways out of a block. What ends the launch (`trap`) is no event: nobody goes on."""
    last = cfg.instructions[block.end - 1] if block.end > block.start else None
    edges: list[Edge] = []
    for successor in block.successors:
        back = (block.number, successor) in cfg.retreating and successor in synced
        edges.append(Edge((AGAIN, successor) if back else None, first[successor]))
    if last is not None and last.opcode == "trap":
        return edges
    if last is not None and last.guard is None and body.ends_path(last):
        return edges
    leaves = last is not None and ends_block(last) and last.opcode in ("ret", "exit")
    if leaves or not block.successors:
        edges.append(Edge(END, None))
    return edges


def loop_events(segments: Segments, header: int) -> tuple[Segment, ...]:
    """The segments of a loop, with what ends an iteration as events: back, or out of the loop."""
    loop = segments.cfg.loops[header]
    made: list[Segment] = []
    for segment in (s for s in segments.all if s.block in loop.blocks):
        edges: list[Edge] = []
        for edge in segment.edges:
            to = None if edge.to is None else segments.all[edge.to].block
            if to is None:
                edges.append(Edge(END, None))
            elif to not in loop.blocks:
                edges.append(Edge((OUT, -1), None))
            elif edge.to == segments.first[header]:
                edges.append(Edge((AGAIN, header), None))
            else:
                edges.append(Edge(None, edge.to))
        made.append(structs.replace(segment, edges=tuple(edges)))
    return tuple(made)
