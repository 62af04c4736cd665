"""When may lane i take lane j's value? Every rule, each with the reason of its refusal.

The rules are numbered as in `docs/soundness.md`. `Legality.legal` answers for one candidate: a
proof, or why not. It says nothing about whether the rewrite pays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from copy import copy

from msgspec import Struct

from ptxsw import isa
from ptxsw.analysis.address_equality import (
    UNPROVED,
    Different,
    NoOverflow,
    Obligation,
    Same,
    ShiftedLane,
    apart,
    assume_no_overflow,
    discharge,
    needs_rows,
    pointer_bases,
    prove_equal,
)
from ptxsw.analysis.lane_reuse import Candidate, is_plain
from ptxsw.analysis.reaching_stores import ORDER, ReachingStores, pointers, unrelated
from ptxsw.emulator.budget import OUT_OF_TIME, PLANNING, Budget
from ptxsw.emulator.node import Term, Variance
from ptxsw.emulator.solver import Solver
from ptxsw.emulator.trace import Access, Trace, Variant
from ptxsw.flow.segments import segments
from ptxsw.ir import Instruction, Reg, Vec
from ptxsw.isa import Effect
from ptxsw.plan import Bypass, Proof, Rewrite, UniformLoop, WrapGuard
from ptxsw.shuffle.bypass import NOT_ON_EVERY_PATH, NOT_TOLD, Bypasses, Fork, find_fork
from ptxsw.shuffle.overflow_guards import Guards

LOCKSTEP = "lockstep-iterations"
NO_WRAP = "no-index-wrap"
NO_RACE = "no-lane-race"
ASSUMPTIONS = frozenset({LOCKSTEP, NO_WRAP, NO_RACE})

# Effects that order memory between threads or may write anything.
_ORDERS = Effect.BARRIER | Effect.FENCE | Effect.ATOMIC | Effect.ASYNC | Effect.CALL
_STORES_COMPARED = 64
"""More between two loads are not held against them one by one."""

_UNPROVED_ASKED = 4
"""So often Z3 may fail to tell that addresses are equal before it is asked no more."""

_FORKS_TRIED = 4
"""For the loads of one block: more sources that a path leads around are not looked at."""


class Refused(Struct, frozen=True):
    """Why a load is left alone, in words."""

    reason: str


class _SameBytes(Struct, frozen=True):
    """Two lanes' addresses are equal: what has to be tested for it, whether rows of the block must
    not wrap inside a warp, what is assumed, and what was proved."""

    guards: tuple[WrapGuard, ...]
    rows: bool
    assumed: tuple[str, ...]
    proved: tuple[Obligation, ...]


class Legality:
    """The rules over one trace. Where the threads of a `block` along x, y and z are given,
    shuffles that could serve no lane of it are refused, too."""

    def __init__(
        self,
        trace: Trace,
        solver: Solver,
        assume: frozenset[str],
        budget: Budget | None = None,
        *,
        block: tuple[int, int, int] | None = None,
    ) -> None:
        self.budget = budget or Budget()
        self._block = block
        self._trace = trace
        self._cfg = trace.cfg
        self._terms = trace.terms
        self.solver = solver
        self._assume = assume
        self._in_step: frozenset[int] = frozenset()
        self._uniform: frozenset[int] = frozenset()  # instructions in uniform loops
        self._guards = Guards(trace)
        self._access_at = {a.index: a for a in trace.accesses}
        self._orders = [i for i, ins in enumerate(self._cfg.instructions) if _orders(ins)]
        self._stores = [i for i, ins in enumerate(self._cfg.instructions) if _stores(ins)]
        self._earlier = ReachingStores(trace, isa.may_write_global, _orders)
        self._unproved = 0  # addresses that Z3 could not tell to be equal
        self._compared_bytes: dict[tuple[int, ...], _SameBytes | Refused] = {}
        self._apart: dict[tuple[int, int], tuple[Obligation, ...]] = {}
        self._between: dict[tuple[int, int], tuple[tuple[range, ...], bool]] = {}
        self._forks: dict[tuple[int, int], Fork | str] = {}
        self._tried: dict[int, int] = {}  # how many forks were looked for, by the load's block
        self._bypasses = Bypasses(trace, solver)
        self.segments = segments(trace.cfg)
        self._loadable: dict[int, Refused | None] = {}
        self._widths: dict[int, tuple[int, ...]] = {}
        self._barring: dict[int, tuple[int, Refused]] = {}
        # What was proved for each destination, source and delta.
        self.obligations: dict[tuple[int, int, int], list[Obligation]] = {}

    def proved(self, rewrite: Rewrite) -> tuple[Obligation, ...]:
        """What was proved of a rewrite, of the lanes beyond the warp's ends that a halo serves,
        too."""
        taken = [(part.source, part.delta) for part in rewrite.parts]
        if rewrite.scheme == "halo":
            beyond = [(s, delta - 32 if delta > 0 else delta + 32) for s, delta in taken if delta]
            taken += beyond
        found = (self.obligations.get((rewrite.dest, *one), ()) for one in taken)
        return tuple(dict.fromkeys(obligation for several in found for obligation in several))

    def in_step(self, loops: Iterable[UniformLoop]) -> Legality:
        """The same rules once these loops are uniform: by their votes the lanes that come
        together to an instruction of them are in the same iteration."""
        other = copy(self)
        other._in_step = frozenset().union(*(loop.together for loop in loops))
        other._uniform = frozenset().union(*(loop.inside for loop in loops))
        other._forks, other._tried = {}, {}
        return other

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
        refused = (
            self.loadable(dest)
            or self.loadable(source)
            or self._same_shape(candidate)
            or (self.can_hoist(source, at) if at != source.index else None)
            or self._same_instance(at, dest.index)
            or self._nothing_between(source, dest, at)
        )
        if refused is not None:
            return refused
        fork = self._fork(at, dest.index)
        assumptions: list[str] = []
        if candidate.crosses:
            # Of flow with several ways into a cycle it is not asked who lies on the cycle.
            around = self._cfg.loops_around(self._cfg.block_of[dest.index])
            looping = around or self._cfg.irreducible
            if looping and dest.index not in self._in_step:
                if LOCKSTEP not in self._assume:
                    return Refused("lanes in a loop may be in different iterations")
                assumptions.append(LOCKSTEP)
            stored = self._no_earlier_store(source, dest, at)
            if isinstance(stored, Refused):
                return stored
            assumptions.extend(stored)
        before = dest.index if before is None else before
        verdict = self._same_bytes(candidate, assumptions, at, before)
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
        span = range(at, load.index)
        for index in _within(self._orders, span):
            return Refused(f"{self._named(index)} stands in the way of moving the load")
        if not _read_only(load):
            stores = _within(self._stores, span)
            if len(stores) > _STORES_COMPARED:
                return Refused("too many stores stand in the way of moving the load")
            for index in stores:
                if not self._store_apart(index, load):
                    return Refused(f"{self._named(index)} on the load's way may change it")
        return None

    # ------------------------------------------------------------ 5: plain loads only

    def loadable(self, access: Access) -> Refused | None:
        """Is it a load that may take part at all?"""
        if access.index not in self._loadable:
            self._loadable[access.index] = self._is_loadable(access)
        return self._loadable[access.index]

    def _is_loadable(self, access: Access) -> Refused | None:
        instruction = access.instruction
        if not is_plain(access):
            strong = isa.effects(instruction.opcode, instruction.modifiers) & ~Effect.READ
            kind = "ordered or strong access" if strong else "load of a special kind"
            kind = "volatile access" if "volatile" in instruction.modifiers else kind
            return Refused(f"{instruction.name} is a{'n' if kind[0] == 'o' else ''} {kind}")
        if instruction.guard is not None:
            return Refused("the load is guarded by a predicate")
        widths = self._register_widths(access)
        if access.bits > 64 or not widths or any(w not in (0, 16, 32, 64) for w in widths):
            return Refused("the load is not into registers of 16, 32 or 64 bits")
        if set(isa.defs(instruction)) & set(isa.uses(instruction)):
            return Refused("the load overwrites its own address")
        if access.space == "generic" and not self._surely_global(access):
            return Refused("the generic address is not known to be in global memory")
        return None

    def _register_widths(self, access: Access) -> tuple[int, ...]:
        """Of the registers that the elements go to, in bits; 0 for an element that goes nowhere;
        none where these are not as many registers as the load has elements."""
        found = self._widths.get(access.index)
        if found is None:
            found = self._widths[access.index] = self._filled(access)
        return found

    def _filled(self, access: Access) -> tuple[int, ...]:
        operand = access.instruction.operands[0]
        elements = operand.elements if isinstance(operand, Vec) else (operand,)
        named = [reg for reg in elements if isinstance(reg, Reg)]
        if len(elements) != access.elements or len(set(named)) != len(named):
            return ()
        body = self._trace.function.body
        return tuple(body.width(reg) if isinstance(reg, Reg) else 0 for reg in elements)

    def _same_shape(self, candidate: Candidate) -> Refused | None:
        """The same bytes must give the same register contents."""
        source, dest = candidate.source, candidate.dest
        width = self._register_widths(source)[candidate.element]
        widths = self._register_widths(dest)
        if not width or not all(widths):
            return Refused("an element of the vector goes into no register")
        if width != widths[candidate.dest_element]:
            return Refused("the loads fill registers of different widths")
        if source.bits != dest.bits:
            return Refused("the loads have different types")
        if source.bits < width and _signed(source) != _signed(dest):
            return Refused("one load extends the sign, the other does not")
        return None

    def _surely_global(self, access: Access) -> bool:
        """A kernel parameter or a global symbol as base: the same byte for every thread."""
        function, module = self._trace.function, self._trace.module
        fit = {p.name for p in function.params} | {
            f"&{v.name}"
            for v in (*module.variables, *function.body.variables)
            if v.space == "global"
        }
        for variant in access.variants:
            bases = pointer_bases(variant.address)
            if not bases or any(b.kind != "atom" or str(b.value) not in fit for b in bases):
                return False
        return True

    # ------------------------------------------------------------ 2: same instance

    def _same_instance(self, source: int, dest: int) -> Refused | None:
        """Of the positions at which the two loads are made."""
        cfg = self._cfg
        above, below = cfg.block_of[source], cfg.block_of[dest]
        if above == below:
            return None if source <= dest else Refused("the source comes later")
        fork = self._fork(source, dest)
        if fork is not None:
            return Refused(fork) if isinstance(fork, str) else None
        if self._region(above, below)[1]:
            return Refused("a loop lies between the two loads")
        return None

    def _fork(self, source: int, dest: int) -> Fork | str | None:
        """Where paths part that pass the source and that do not, or why it may not have been
        made in the same turn; None where all pass it."""
        cfg = self._cfg
        above, below = cfg.block_of[source], cfg.block_of[dest]
        if cfg.dominates(above, below):
            return None
        if (above, below) not in self._forks:
            tried = self._tried[below] = self._tried.get(below, 0) + 1
            # In a uniform loop lanes run through what they would have gone around.
            apart = self._uniform.isdisjoint((source, dest))
            found = find_fork(cfg, above, below) if apart and tried <= _FORKS_TRIED else None
            self._forks[above, below] = found or NOT_ON_EVERY_PATH
        return self._forks[above, below]

    def _not_bypassed(self, candidate: Candidate, fork: Fork, proof: Proof) -> Proof | Refused:
        """The proof, if the source was made in the other lane whenever both are here."""
        source, dest = candidate.source, candidate.dest
        closed = self._bypasses.closed(source, dest, fork, self._other(candidate))
        if closed is None or (closed.loads and NO_RACE not in self._assume):
            return Refused(NOT_TOLD)
        key = (dest.index, source.index, candidate.delta)
        self.obligations[key] = list(dict.fromkeys([*self.obligations[key], *closed.proved]))
        return Proof.joined(
            [
                proof,
                Proof(
                    (),
                    closed.rows and not self._one_row(),
                    (NO_RACE,) if closed.loads else (),
                    (Bypass(source.index, fork.start),),
                ),
            ]
        )

    def _region(self, above: int, below: int) -> tuple[tuple[range, ...], bool]:
        """Instructions of the blocks between two blocks on paths that do not come back to the
        first, and whether such a path may go round a cycle."""
        found = self._between.get((above, below))
        if found is None:
            found = self._between[above, below] = self._find_region(above, below)
        return found

    def _find_region(self, above: int, below: int) -> tuple[tuple[range, ...], bool]:
        cfg = self._cfg
        forward = _reach(cfg.blocks[above].successors, lambda n: cfg.blocks[n].successors, above)
        backward = _reach([below], lambda n: cfg.predecessors[n], above)
        inside = forward & backward
        cyclic = any(n in inside and s in inside for n, s in cfg.retreating)
        blocks = (cfg.blocks[n] for n in sorted(inside - {below}))
        return tuple(range(b.start, b.end) for b in blocks), cyclic

    def _ranges(self, source: int, dest: int) -> Iterator[range]:
        """Positions of the instructions on any path between two positions; where paths lead around
        the first, of those behind the fork. The loads themselves may be among them: they change
        nothing."""
        cfg = self._cfg
        above, below = cfg.block_of[source], cfg.block_of[dest]
        if above == below:
            yield range(source, dest)
            return
        fork = self._fork(source, dest)
        if isinstance(fork, Fork):
            for block in (cfg.blocks[n] for n in sorted(fork.blocks)):
                yield range(block.start, dest if block.number == below else block.end)
            return
        yield range(source, cfg.blocks[above].end)
        yield from self._region(above, below)[0]
        yield range(cfg.blocks[below].start, dest)

    # ------------------------------------------------------------ 3: nothing between

    def _nothing_between(self, source: Access, dest: Access, at: int) -> Refused | None:
        if _read_only(source) and _read_only(dest):
            return None
        known = self._barred(dest, at)
        if known is not None:
            return known
        for span in self._ranges(at, dest.index):
            for index in _within(self._orders, span):
                refused = Refused(f"{self._named(index)} stands between the two loads")
                return self._bar(dest, index, refused)
            stores = _within(self._stores, span)
            if len(stores) > _STORES_COMPARED:
                return Refused("too many stores stand between the two loads")
            for index in stores:
                misses = self._store_apart(index, dest)
                if not misses or not self._store_apart(index, source):
                    refused = Refused(f"{self._named(index)} between the two loads may change it")
                    return refused if misses else self._bar(dest, index, refused)
        return None

    def _bar(self, dest: Access, index: int, refused: Refused) -> Refused:
        """Remember that an instruction stands between a load and whatever lies before both."""
        if self._cfg.block_of[index] == self._cfg.block_of[dest.index]:
            self._barring[dest.index] = index, refused
        return refused

    def _barred(self, dest: Access, at: int) -> Refused | None:
        """What is known to stand between position `at` and a load, in the load's own block."""
        index, refused = self._barring.get(dest.index, (-1, None))
        block_of = self._cfg.block_of
        before = at <= index or block_of[at] != block_of[dest.index]
        return refused if before else None

    def _distances(self, candidate: Candidate, at: int) -> Iterator[Obligation]:
        """What was proved of the stores between two loads."""
        source, dest = candidate.source, candidate.dest
        if _read_only(source) and _read_only(dest):
            return
        spans = [*self._ranges(at, dest.index), range(at, source.index)]
        for index in dict.fromkeys(i for span in spans for i in _within(self._stores, span)):
            for load in (source, dest):
                yield from self._apart.get((index, load.index), ())

    def _store_apart(self, index: int, load: Access) -> tuple[Obligation, ...]:
        """The proofs that a store by any thread misses the load's bytes; none if it may not."""
        found = self._apart.get((index, load.index))
        if found is None:
            store = self._access_at.get(index)
            # A store that the emulation never reached has no address to compare.
            proofs: list[Obligation | None] = [None]
            if store is not None:
                proofs = [
                    apart(self._terms, self.solver, mine, store.bytes, other, load.bytes)
                    for mine in store.variants
                    for other in load.variants
                ]
            proved = [p for p in proofs if p is not None]
            found = tuple(proved) if len(proved) == len(proofs) else ()
            self._apart[index, load.index] = found
        return found

    def _named(self, index: int) -> str:
        instruction = self._cfg.instructions[index]
        line = self._trace.module.source.line(instruction.span.start)
        return f"{instruction.name} (line {line})"

    # ------------------------------------------------------------ 4: no earlier own store

    def _no_earlier_store(self, source: Access, dest: Access, at: int) -> list[str] | Refused:
        """A store by this thread before the source, which lane j need not have seen: refused
        where it may be to the same array, assumed harmless for unrelated pointers. What orders
        memory, such as an acquire, may have shown this lane a store that came after lane j's load,
        if that load raced with it: assumed not to be."""
        if _read_only(source) and _read_only(dest):
            return []
        assumed: list[str] = []
        mine = pointers(source)
        for others, index in self._earlier.reaching(at):
            named = self._named(index)
            if others == ORDER:
                if NO_RACE not in self._assume:
                    return Refused(f"{named} before the source may show lanes different memory")
                assumed = [NO_RACE]
                continue
            assert not isinstance(others, str)
            if not unrelated(mine, others):
                return Refused(f"{named} before the source may write the same array")
            if NO_RACE not in self._assume:
                return Refused(f"{named} before the source may write what is loaded")
            assumed = [NO_RACE]
        return assumed

    # ------------------------------------------------------------ 1: same bytes

    def _same_bytes(
        self, candidate: Candidate, assumptions: list[str], at: int, before: int
    ) -> Proof | Refused:
        elements = candidate.element, candidate.dest_element
        lanes = candidate.delta, candidate.mirror, candidate.displacement
        key = (candidate.dest.index, candidate.source.index, candidate.delta)
        known = (*key, *elements, *lanes, at, before)
        if known not in self._compared_bytes:
            self._compared_bytes[known] = self._compared_all(candidate, before)
        found = self._compared_bytes[known]
        if isinstance(found, Refused):
            return found
        obligations = [*found.proved, *self._distances(candidate, at)]
        proved_so_far = self.obligations.get(key, [])
        self.obligations[key] = list(dict.fromkeys([*proved_so_far, *obligations]))
        return Proof(found.guards, found.rows, tuple(dict.fromkeys((*assumptions, *found.assumed))))

    def _compared_all(self, candidate: Candidate, before: int) -> _SameBytes | Refused:
        """The same for any scheme, and whichever loops are uniform."""
        guards: list[WrapGuard] = []
        obligations: list[Obligation] = []
        assumptions: list[str] = []
        rows = False
        for mine, theirs in self._pairs(candidate):
            other = self._other(candidate)
            source, dest = self._addresses(candidate, theirs, mine)
            outcome = self._compared(source, dest, other, mine.conditions, assumptions)
            if isinstance(outcome, Refused):
                return outcome
            rows = rows or (other is not None and needs_rows(source, dest))
            obligations.append(outcome.proved)
            known = mine.conditions | (other.exists(source, dest) if other else frozenset())
            for need in outcome.needs:
                match self._discharge(need, known, candidate, before):
                    case Refused() as refused:
                        return refused
                    case WrapGuard() as guard:
                        guards.append(guard)
                    case Obligation() as proved:
                        obligations.append(proved)
                    case assumed:
                        assumptions.append(assumed)
        return _SameBytes(
            tuple(dict.fromkeys(guards)),
            rows and not self._one_row(),
            tuple(assumptions),
            tuple(obligations),
        )

    def _compared(
        self,
        source: Term,
        dest: Term,
        other: ShiftedLane | None,
        conditions: frozenset[Term],
        assumptions: list[str],
    ) -> Same | Refused:
        """Are the addresses equal? Z3 is not asked where the user has vouched for it, nor when
        it has given up on this kernel often enough."""
        terms, unwraps = self._terms, NO_WRAP in self._assume
        moved = other(source) if other is not None else source
        asked = not unwraps and self._unproved < _UNPROVED_ASKED
        outcome = prove_equal(
            terms, self.solver if asked else None, source, dest, other, conditions
        )
        if outcome == UNPROVED:
            self._unproved += asked
            unwrapped = assume_no_overflow(terms, moved, dest)
            if isinstance(unwrapped, Same) and not unwraps:
                return Refused(f"that no index wraps cannot be tested here: --assume {NO_WRAP}")
            if isinstance(unwrapped, Same):
                assumptions.append(NO_WRAP)
                return unwrapped
            if unwraps and self._unproved < _UNPROVED_ASKED:
                outcome = prove_equal(terms, self.solver, source, dest, other, conditions)
                self._unproved += outcome == UNPROVED
        return Refused(outcome.reason) if isinstance(outcome, Different) else outcome

    def _other(self, candidate: Candidate) -> ShiftedLane | None:
        if not candidate.crosses:
            return None
        return ShiftedLane(self._terms, candidate.delta, candidate.mirror)

    def _addresses(self, candidate: Candidate, theirs: Variant, mine: Variant) -> tuple[Term, Term]:
        """Of the two elements, each as its own lane computes it."""
        ahead = candidate.displacement + candidate.element * candidate.source.bits // 8
        behind = candidate.dest_element * candidate.dest.bits // 8
        terms, width = self._terms, mine.address.width
        return (
            terms.add(theirs.address, terms.const(ahead, theirs.address.width)),
            terms.add(mine.address, terms.const(behind, width)),
        )

    def _pairs(self, candidate: Candidate) -> Iterator[tuple[Variant, Variant]]:
        """The views of the two lanes that can meet: any two for different lanes, unless only
        warp-uniform conditions tell the paths apart; for a copy, those of one path."""
        for mine in candidate.dest.variants:
            for theirs in candidate.source.variants:
                together = not candidate.crosses or self._uniformly_apart(mine, theirs)
                if not (together and self._contradict(mine, theirs)):
                    yield mine, theirs

    def _uniformly_apart(self, a: Variant, b: Variant) -> bool:
        apart = a.conditions ^ b.conditions
        return all(c.variance == Variance.UNIFORM for c in apart)

    def _contradict(self, a: Variant, b: Variant) -> bool:
        return any(self._terms.not_(c) in b.conditions for c in a.conditions)

    def _discharge(
        self, need: NoOverflow, known: frozenset[Term], candidate: Candidate, before: int
    ) -> Obligation | WrapGuard | Refused | str:
        """Prove, else guard, or assume what the user said: the assumption's name."""
        proved = discharge(self._terms, self.solver, need, known)
        if proved is not None:
            return proved
        if need.signed and NO_WRAP in self._assume:
            return NO_WRAP
        guard = self._guards.place(need, known, before)
        if guard is None:
            return Refused("the index may wrap, and no register holds it to be tested")
        if not candidate.crosses:
            return Refused("the index may wrap")
        return guard

    # ------------------------------------------------------------ 6: neighbour

    def _one_row(self) -> bool:
        """Is lane i + N known to be the thread with tid.x + N, from `.reqntid`?"""
        return one_row(self._trace)

    def _serves_nobody(self, proof: Proof) -> Refused | None:
        """Is it known of the block that the tests of a shuffle fail in all its lanes?"""
        if self._block is None:
            return None
        x, y, z = self._block
        if x * y * z < 32:
            return Refused(f"a block of {x * y * z} threads has no whole warp: no lane is served")
        if proof.block_shape and not whole_rows(self._block):
            return Refused(f"rows of {x} threads wrap inside a warp: no lane is served")
        return None


def one_row(trace: Trace) -> bool:
    """Does `.reqntid` say that rows of the block do not wrap inside a warp?"""
    shape = trace.function.block_shape
    return shape is not None and whole_rows(shape)


def whole_rows(block: tuple[int, int, int]) -> bool:
    """Do the lanes of each warp of such a block lie in one row of it?"""
    return block[0] % 32 == 0 or block[1:] == (1, 1)


def _signed(access: Access) -> bool:
    return (isa.access_type(access.instruction) or "").startswith("s")


def _read_only(access: Access) -> bool:
    return "nc" in access.instruction.modifiers


def _orders(instruction: Instruction) -> bool:
    return bool(isa.effects(instruction.opcode, instruction.modifiers) & _ORDERS)


def _stores(instruction: Instruction) -> bool:
    """An unordered write that may be to global memory."""
    return isa.may_write_global(instruction) and not _orders(instruction)


def _within(ordered: list[int], span: range) -> list[int]:
    """The members of a sorted list that lie in a range."""
    return ordered[bisect_right(ordered, span.start - 1) : bisect_right(ordered, span.stop - 1)]


def _reach(start: Iterable[int], step: Callable[[int], Iterable[int]], barred: int) -> set[int]:
    """Blocks reached from `start` without passing `barred`."""
    seen: set[int] = set()
    work = [n for n in start if n != barred]
    while work:
        number = work.pop()
        if number in seen:
            continue
        seen.add(number)
        work.extend(n for n in step(number) if n != barred)
    return seen
