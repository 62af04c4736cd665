"""Random flow of control with barriers, and what threads may do there, by walking through it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import NamedTuple

from ptxsw.correctness.barriers import BlockBarriers
from ptxsw.correctness.segments import BARRIER, Event
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.terms.node import Term, walk

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u32 a)
{
	.reg .pred %p<99>; .reg .b32 %r<9>;
	.shared .align 4 .b8 tile[4096];
	mov.u32 %r1, %tid.x;
	ld.param.u32 %r2, [a];
"""


def program(random: Random) -> str:
    writer = _Writer(random)
    writer.block(3)
    return HEAD + "\n".join([*writer.lines, "ret;", "}"])


class _Writer:
    def __init__(self, random: Random) -> None:
        self.random, self.lines, self.names = random, list[str](), 0

    def name(self) -> int:
        self.names += 1
        return self.names

    def test(self) -> str:
        """A predicate that all threads of a block share, or one that they do not."""
        number, register = self.name(), self.random.choice(["%r2", "%r2", "%r2", "%r1"])
        self.lines.append(f"setp.gt.u32 %p{number}, {register}, {number};")
        return f"%p{number}"

    def block(self, depth: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            kinds = ["access", "barrier", "if", "loop", "loop", "leave"]
            kind = self.random.choice(kinds if depth else kinds[:2])
            getattr(self, kind)(depth - 1)

    def access(self, depth: int) -> None:
        self.lines.append("ld.shared.u32 %r3, [tile];")

    def barrier(self, depth: int) -> None:
        guard = f"@{self.test()} " if self.random.random() < 0.1 else ""
        self.lines.append(f"{guard}bar.sync 0;")

    def leave(self, depth: int) -> None:
        if self.random.random() < 0.5:
            self.lines.append(f"@{self.test()} ret;")

    def _branch(self, label: str) -> None:
        self.lines.append(f"@{self.test()} bra {label};")

    def _if(self, depth: int) -> None:
        number = self.name()
        self._branch(f"ELSE{number}")
        self.block(depth)
        if self.random.random() < 0.5:
            self.lines.append(f"bra OVER{number};")
            self.lines.append(f"ELSE{number}:")
            self.block(depth)
            self.lines.append(f"OVER{number}:")
        else:
            self.lines.append(f"ELSE{number}:")

    def loop(self, depth: int) -> None:
        number = self.name()
        top = self.random.random() < 0.5
        self.lines.append(f"LOOP{number}:")
        if top:
            self._branch(f"OUT{number}")
        self.block(depth)
        if self.random.random() < 0.3:
            self._branch(f"OUT{number}")
            self.block(depth)
        if top:
            self.lines.append(f"bra LOOP{number};")
        else:
            self._branch(f"LOOP{number}")
        self.lines.append(f"OUT{number}:")


setattr(_Writer, "if", _Writer._if)


def has_lanes(term: Term) -> bool:
    return any("tid" in str(node.value) for node in walk(term))


def barriers(text: str) -> BlockBarriers:
    module = parse(text)
    trace = emulate(module, module.kernels[0])
    return BlockBarriers(trace, None, lambda term, counters: not has_lanes(term))


class Visit(NamedTuple):
    """An access: its instruction, how many barriers its thread had passed, and the counts of loops
    by header: of those around it, and of those that lie before it in the same iteration."""

    at: int
    interval: int
    counts: Mapping[int, int]


class Thread(NamedTuple):
    visits: list[Visit]
    events: list[Event]
    ended: bool


def thread(of: BlockBarriers, seed: int, number: int) -> Thread:
    """What a thread does that goes where its own mind says at branches that part threads, and
    where all of its block go at others."""
    own = Random(f"{seed} {number}")
    at, passed, counts = 0, 0, dict[int, int]()
    visits, events = list[Visit](), list[Event]()
    instructions, cfg = of.cfg.instructions, of.cfg
    for _ in range(150):
        segment = of.segments.all[at]
        visits += [
            Visit(i, passed, dict(counts))
            for i in range(segment.start, segment.end)
            if instructions[i].opcode == "ld" and "shared" in instructions[i].modifiers
        ]
        choice = 0
        if len(segment.edges) > 1:
            last = of.trace.decisions.get(segment.end - 1, ())
            shared = not any(has_lanes(v) for d in last for v in d.values)  # type: ignore[arg-type]
            around = [(h, counts[h]) for h in sorted(cfg.loops_around(segment.block))]
            mind = Random(f"{seed} {events} {around} {at}") if shared else own
            choice = mind.randrange(len(segment.edges))
        edge = segment.edges[choice]
        if edge.event is not None:
            events.append(edge.event)
        if edge.to is None:
            return Thread(visits, events, True)
        passed += edge.event is not None and edge.event[0] == BARRIER
        _count(of, counts, segment.block, edge.to)
        at = edge.to
    return Thread(visits, events, False)


def _count(of: BlockBarriers, counts: dict[int, int], before: int, to: int) -> None:
    cfg, after = of.cfg, of.segments.all[to].block
    for header, loop in cfg.loops.items():
        if to != of.segments.first[header]:
            continue
        if before in loop.blocks:
            counts[header] += 1
            for inner in cfg.loops:
                if inner != header and inner in loop.blocks:
                    counts.pop(inner, None)
        elif after == header:
            counts[header] = 0


def unordered(one: Thread, two: Thread) -> Iterator[tuple[Visit, Visit]]:
    for a in one.visits:
        for b in two.visits:
            last = max((v.interval for v in one.visits), default=0)
            early = one.ended and b.interval > a.interval and a.interval == _last(one)
            if a.interval == b.interval or (early and last == a.interval):
                yield a, b


def _last(of: Thread) -> int:
    return sum(event[0] == BARRIER for event in of.events)
