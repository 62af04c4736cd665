"""Kernels of a few lines, what the judge says of their loads, and whether it is so."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from ptxsw.analysis.lane_reuse import Candidate, candidates
from ptxsw.changes.plan import Proof, WrapGuard
from ptxsw.driver.pipeline import DEFAULT_ASSUME
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Access, Trace
from ptxsw.parser import parse
from ptxsw.shuffle.legality import Legality
from ptxsw.terms import op
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, Variance, walk
from ptxsw.terms.solver import Solver

KERNEL = """.version 8.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to, .param .u32 n, .param .u32 m){directives}
{{
	.reg .pred %p<9>;
	.reg .b16 %h<19>;
	.reg .b32 %r<29>;
	.reg .f32 %f<39>;
	.reg .b64 %rd<29>;
	.reg .f64 %fd<9>;
	ld.param.u64 %rd1, [from];
	ld.param.u64 %rd2, [to];
	ld.param.u32 %r1, [n];
	ld.param.u32 %r2, [m];
	mov.u32 %r3, %tid.x;
	mov.u32 %r4, %laneid;
	mov.u32 %r5, %ctaid.x;
	mov.u32 %r6, %ntid.x;
{body}
	ret;
}}
"""
"""%rd1 and %rd2 are pointers, %r1 and %r2 integers of the caller's choice."""


@dataclass(frozen=True)
class Judged:
    trace: Trace
    judge: Legality
    loads: tuple[Access, ...]

    def legal(self) -> dict[Candidate, Proof]:
        """Every legal candidate of every element."""
        found = {}
        for _, elements in candidates(self.trace, 31):
            for several in elements:
                for candidate in several:
                    verdict = self.judge.legal(candidate)
                    if isinstance(verdict, Proof):
                        found[candidate] = verdict
        return found

    def reasons(self) -> set[str]:
        """Why candidates are refused."""
        verdicts = [
            self.judge.legal(candidate)
            for _, elements in candidates(self.trace, 31)
            for several in elements
            for candidate in several
        ]
        return {v.reason for v in verdicts if not isinstance(v, Proof)}


def judged(body: str, directives: str = "", assume: frozenset[str] = DEFAULT_ASSUME) -> Judged:
    """The only kernel of a text with this body."""
    module = parse(KERNEL.format(body=body, directives=directives))
    (function,) = module.functions
    solver = Solver()
    trace = emulate(module, function, solver=solver)
    return Judged(trace, Legality(trace, solver, assume), trace.global_loads)


def hold(one: Judged, seed: int = 1, rounds: int = 40) -> int:
    """Are all that the judge allows true of addresses of actual warps? Each legal candidate is
    evaluated in every lane that takes a value; returns how many were compared."""
    rng = random.Random(seed)
    compared = 0
    legal = one.legal()
    for _ in range(rounds):
        uniform: dict[Term, int] = {}
        shape = one.trace.function.block_shape or (1024, 1, 1)
        first = 32 * rng.randrange(shape[0] // 32)
        lanes = [_Lane(one.trace, first, lane, uniform, rng) for lane in range(32)]
        for candidate, proof in legal.items():
            for mine in range(32):
                other = candidate.delta - mine if candidate.mirror else mine + candidate.delta
                if 0 <= other < 32 and all(lanes[mine].fits(g) for g in proof.guards):
                    ours = lanes[mine].address(candidate.dest, candidate.dest_element)
                    theirs = lanes[other].address(candidate.source, candidate.element)
                    assert theirs + candidate.displacement == ours, (candidate, mine)
                    compared += 1
    return compared


class _Lane:
    """One lane of a warp whose lanes lie in one row of the block."""

    def __init__(
        self, trace: Trace, first: int, lane: int, uniform: dict[Term, int], rng: random.Random
    ) -> None:
        self._trace = trace
        self._known = {"%tid.x": first + lane, "%laneid": lane}
        self._uniform = uniform
        self._rng = rng

    def _values(self, term: Term) -> Iterator[tuple[Term, int]]:
        for node in walk(term):
            if node.kind is not op.ATOM:
                continue
            if node.variance is Variance.LANE:
                yield node, self._known[str(node.value)]
            else:
                edge = self._rng.choice((0, (1 << (node.width - 1)) - 40, (1 << node.width) - 40))
                yield node, self._uniform.setdefault(node, edge + self._rng.randrange(80))

    def value(self, term: Term) -> int:
        return evaluate(term, dict(self._values(term)))

    def address(self, access: Access, element: int) -> int:
        (variant,) = access.variants
        return self.value(variant.address) + element * access.bits // 8

    def fits(self, guard: WrapGuard) -> bool:
        """Does the index stay within its type?"""
        (held,) = (
            w.terms[0]
            for w in self._trace.widenings
            if (w.index, w.reg) == (guard.index, guard.reg)
        )
        size = 1 << guard.width
        value = (self.value(held) + guard.addend) % size
        if guard.signed:
            value -= size if value >= size // 2 else 0
            return -size // 2 <= value + guard.step < size // 2
        return 0 <= value + guard.step < size
