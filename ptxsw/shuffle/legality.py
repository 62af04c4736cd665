"""When may lane i take lane j's value? Every rule, each with the reason of its refusal.

The rules are numbered as in `docs/soundness.md`. `Legality.legal` answers for one candidate: a
proof, or why not. It says nothing about whether the rewrite pays.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ptxsw.analysis.lane_reuse import Candidate, Places
from ptxsw.changes.assumptions import LOCKSTEP, NO_RACE
from ptxsw.changes.claim import Obligation
from ptxsw.changes.plan import Bypass, Proof, Refused, ServedLoad, UniformLoop
from ptxsw.emulator.budget import OUT_OF_TIME, PLANNING, Budget
from ptxsw.emulator.trace import Access, Trace
from ptxsw.flow.convergence import segments
from ptxsw.shuffle.memory_between import MemoryBetween
from ptxsw.shuffle.paths import NOT_TOLD, Bypasses, Fork, Paths
from ptxsw.shuffle.plain_loads import PlainLoads
from ptxsw.shuffle.same_bytes import SameBytes, whole_rows
from ptxsw.terms.solver import Solver


class Legality:
    """The rules over one trace. Where the threads of a `block` along x, y and z are given,
    shuffles that could serve no lane of it are refused, too. `loops` become uniform: by their votes
    the lanes that come together to an instruction of them are in the same iteration."""

    def __init__(
        self,
        trace: Trace,
        solver: Solver,
        assume: frozenset[str],
        budget: Budget | None = None,
        *,
        block: tuple[int, int, int] | None = None,
        loops: tuple[UniformLoop, ...] = (),
        places: Places | None = None,
    ) -> None:
        self.budget, self.loops = budget or Budget(), loops
        self.loop_of = {index: loop for loop in loops for index in loop.inside}
        self.places = places or Places(trace)
        self._block = block
        self._cfg = trace.cfg
        self._assume = assume
        self._loads = PlainLoads(trace)
        self._paths = Paths(trace.cfg, frozenset(self.loop_of))
        self._memory = MemoryBetween(trace, solver, assume)
        self._bytes = SameBytes(trace, solver, assume)
        self._bypasses = Bypasses(trace, solver)
        # What was proved for each destination, source and delta.
        self.obligations: dict[tuple[int, int, int], list[Obligation]] = {}

    @cached_property
    def segments(self) -> tuple[int, ...]:
        """The number of each instruction's straight-line segment."""
        return segments(self._cfg)

    def proved(self, rewrite: ServedLoad) -> tuple[Obligation, ...]:
        """What was proved of a rewrite, of the lanes beyond the warp's ends that a halo serves,
        too."""
        taken = [(part.source, part.delta) for part in rewrite.parts]
        if rewrite.scheme == "halo":
            beyond = [(s, delta - 32 if delta > 0 else delta + 32) for s, delta in taken if delta]
            taken += beyond
        obligations = (self.obligations.get((rewrite.dest, *one), ()) for one in taken)
        return tuple(dict.fromkeys(obligation for several in obligations for obligation in several))

    def legal(
        self, candidate: Candidate, *, before: int | None = None, source_at: int | None = None
    ) -> Proof | Refused:
        """May an element of `dest` take the value that `source` gave the other lane?

        Every guard of the proof can be tested before instruction `before` (default: the
        destination). `source_at` is the position that the source load is moved up to, if it is:
        it may then stand below the destination in the text. Past the time for planning the answer
        is no.
        """
        if self.budget.spent(PLANNING):
            return Refused(OUT_OF_TIME)
        source, dest = candidate.source, candidate.dest
        at = source.index if source_at is None else source_at
        before = dest.index if before is None else before
        # Cheap rules first: most pairs fail before the solver is asked.
        refused = (
            self.loadable(dest)
            or self.loadable(source)
            or self._loads.same_shape(candidate)
            or (self.can_hoist(source, at) if at != source.index else None)
            or (self._parted(dest.index) if candidate.crosses else None)
            or self._paths.same_instance(at, dest.index)
            or self._memory.nothing_between(source, dest, at, self._paths.between(at, dest.index))
        )
        if refused is not None:
            return refused
        assumed = self._across_lanes(candidate, at) if candidate.crosses else ()
        if isinstance(assumed, Refused):
            return assumed
        verdict = self._same_bytes(candidate, assumed, at, before)
        # Last, since only the conditions of each way around the source can tell, and Z3 is asked
        # for each of them.
        fork = self._paths.fork(at, dest.index)
        if isinstance(fork, Fork) and isinstance(verdict, Proof):
            verdict = self._not_bypassed(candidate, fork, verdict)
        if candidate.crosses and isinstance(verdict, Proof):
            return self._serves_nobody(verdict) or verdict
        return verdict

    def can_hoist(self, load: Access, at: int) -> Refused | None:
        """May a load be made before instruction `at` of its straight-line segment instead of
        where it stands? Registers are the caller's business: the address must be at hand there,
        and the destination is best a fresh register."""
        refused = self.loadable(load)
        if refused is not None:
            return refused
        if at > load.index or self.segments[at] != self.segments[load.index]:
            return Refused("the load cannot be moved out of its straight-line segment")
        return self._memory.can_hoist(load, at)

    def loadable(self, access: Access) -> Refused | None:
        """Is it a load that may take part at all?"""
        return self._loads.loadable(access)

    def _parted(self, dest: int) -> Refused | None:
        """Lanes that have left a uniform loop run through it with the others, and take any side of
        a branch that they do not all take: no active mask tells there who takes part, and no vote
        can ask."""
        loop = self.loop_of.get(dest)
        if loop is None or dest in loop.together:
            return None
        return Refused("in the uniform loop, lanes do not reach it together")

    def _across_lanes(self, candidate: Candidate, at: int) -> tuple[str, ...] | Refused:
        """What is assumed of the other lane: that it is in the same iteration, and that memory
        holds for it what it holds for this one."""
        dest = candidate.dest.index
        # In irreducible flow the blocks of a cycle are not known, so any block may lie on one.
        looping = self._cfg.loops_around(self._cfg.block_of[dest]) or self._cfg.irreducible
        assumed: tuple[str, ...] = ()
        if looping and dest not in self.loop_of:
            if LOCKSTEP not in self._assume:
                return Refused("lanes in a loop may be in different iterations")
            assumed = (LOCKSTEP,)
        stored = self._memory.no_earlier_store(candidate.source, candidate.dest, at)
        return stored if isinstance(stored, Refused) else (*assumed, *stored)

    def _same_bytes(
        self, candidate: Candidate, assumed: tuple[str, ...], at: int, before: int
    ) -> Proof | Refused:
        equal = self._bytes.compared(candidate, before)
        if isinstance(equal, Refused):
            return equal
        proof, proved = equal
        source, dest = candidate.source, candidate.dest
        spans = self._paths.between(at, dest.index)
        self._note(candidate, [*proved, *self._memory.distances(source, dest, at, spans)])
        return Proof.joined([Proof(assumptions=assumed), proof])

    def _not_bypassed(self, candidate: Candidate, fork: Fork, proof: Proof) -> Proof | Refused:
        """The proof, if the source was made in the other lane whenever both are here."""
        source, dest = candidate.source, candidate.dest
        other = self._bytes.other_lane(candidate)
        closed = self._bypasses.closed(source, dest, fork, other)
        if closed is None or (closed.loads and NO_RACE not in self._assume):
            return Refused(NOT_TOLD)
        self._note(candidate, closed.proved)
        rows = closed.rows and not self._bytes.one_row
        raced = (NO_RACE,) if closed.loads else ()
        return Proof.joined([proof, Proof((), rows, raced, (Bypass(source.index, fork.start),))])

    def _note(self, candidate: Candidate, proved: Iterable[Obligation]) -> None:
        key = (candidate.dest.index, candidate.source.index, candidate.delta)
        self.obligations[key] = list(dict.fromkeys([*self.obligations.get(key, []), *proved]))

    def _serves_nobody(self, proof: Proof) -> Refused | None:
        """The refusal if the block's shape makes the tests of a shuffle fail in all lanes
        (rule 6)."""
        if self._block is None:
            return None
        x, y, z = self._block
        if x * y * z < 32:
            return Refused(f"a block of {x * y * z} threads has no whole warp: no lane is served")
        if proof.block_shape and not whole_rows(self._block):
            return Refused(f"rows of {x} threads wrap inside a warp: no lane is served")
        return None
