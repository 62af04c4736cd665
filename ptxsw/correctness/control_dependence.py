"""The branches that choose what comes next.

    @%p1 bra JOIN;             chooses nothing: both sides come to the branch behind JOIN
    st.shared.u32 [%r1], %r2;
    JOIN:
    @%p2 bra LOOP;             chooses between another iteration and the barrier
    bar.sync 0;

If all threads go one way at the branches that choose, they come to the same events in the same
order, and between two of these to the same branches that choose. This is the weak control closure
of the events (Danicic et al., "A unifying theory of control dependence", 2011): the least set of
branches behind which it is certain which event or branch of the set is the next. Where a branch of
the set lies in a loop, going round that is an event, too: so threads are in the same iteration
there.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from ptxsw.correctness.segments import AGAIN, END, Edge, Event, Segment, Segments, coming, sides

_CHOICE = "choice"


def choosing(segments: Segments, within: Sequence[Segment], ends: bool = False) -> frozenset[int]:
    """Of some segments, those whose last instructions choose between events. That a thread ends
    is an event only with `ends`."""
    found: set[int] = set()
    loops: set[int] = set()
    while True:
        marked = [_marked(segments, s, loops, ends) for s in within]
        nexts = coming(marked, {n: frozenset({(_CHOICE, n)}) for n in found})
        open_ones = {
            s.number: living
            for s in marked
            if s.number not in found and len(living := [x for x in sides(s, nexts) if x]) > 1
        }
        undecided = {
            n: living for n, living in open_ones.items() if len({*living}) > 1 or len(living[0]) > 1
        }
        new = {n for n, living in undecided.items() if _is_certain(living)} or set(undecided)
        if not new:
            return frozenset(found)
        found |= new
        for number in new:
            loops.update(segments.cfg.loops_around(segments.all[number].block))


def _is_certain(living: Sequence[frozenset[Event]]) -> bool:
    """Is it certain on one side what comes next, and something else possible on another?"""
    return any(len(side) == 1 and any(other != side for other in living) for side in living)


def _marked(segments: Segments, segment: Segment, loops: set[int], ends: bool) -> Segment:
    edges: list[Edge] = []
    for edge in segment.edges:
        if edge.event is None and (header := segments.round_again(segment, edge)) in loops:
            assert header is not None
            edge = Edge((AGAIN, header), edge.to)
        if ends or edge.event != END:
            edges.append(edge)
    return structs.replace(segment, edges=tuple(edges))
