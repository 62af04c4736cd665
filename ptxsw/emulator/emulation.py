"""The run behind `run.emulate`: states carried through the blocks of a function.

Blocks are visited once each in reverse postorder. States that reach a block with the same
values of its live registers become one; past a bound they are widened into one. A loop's body
is run once for any iteration (`loops`), irreducible flow bluntly: what it may write is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, partial

from ptxsw.emulator.budget import Budget, OutOfTime
from ptxsw.emulator.joins import Joins
from ptxsw.emulator.memory import SPACES, ended
from ptxsw.emulator.record import Record, followed, followed_anyway, live_registers, tracked
from ptxsw.emulator.recurrences import (
    LoopFacts,
    condition_inside,
    condition_to_go_on,
    enter,
    exit_predicates,
    find_steps,
)
from ptxsw.emulator.state import Hook, Iteration, State, Step, reach
from ptxsw.emulator.symbolic_machine import SymbolicMachine
from ptxsw.emulator.trace import Statistics, Trace
from ptxsw.flow.cfg import Cfg, build, ends_block
from ptxsw.flow.dataflow import CARRY
from ptxsw.flow.flow_graph import Block, Loop
from ptxsw.ptx.garbage import no_collection
from ptxsw.ptx.ir import Function, Instruction, Module, Reg
from ptxsw.terms import op
from ptxsw.terms.enumeration import Enumeration
from ptxsw.terms.node import Term, Variance, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.solver import Solver
from ptxsw.terms.terms import Terms

MAX_STATES = 16
"""States per block; more are widened into one."""

_OFTEN = 64  # instructions of a block, after which the time is looked at

_MAX_APART = 4  # states of a block that are noted, or not made one where paths are told apart

MAX_VISITS = 5_000
"""Of blocks, in all runs that ask for ways around others: past it there is no answer."""

_MAX_TARGETS = 64  # of an indirect branch; of longer tables no condition is kept


class Emulation:
    """A run of one function in the making: `trace` makes it, whole or as far as the time
    allows."""

    def __init__(
        self,
        module: Module,
        function: Function,
        budget: Budget,
        solver: Solver,
        follow: frozenset[str] = frozenset(),
        terms: Terms | None = None,
        note: frozenset[str] = frozenset(),
    ) -> None:
        self.module, self.function = module, function
        self.cfg: Cfg = build(function.body)
        self.terms = terms or Terms()
        self.machine = SymbolicMachine(module, function, self.terms)
        self.solver = solver
        self.budget = budget
        self.tracked = tracked(self.cfg, follow)
        self.names = follow | followed_anyway(self.cfg, note, self.tracked)
        self.followed = followed(self.cfg, self.names)
        self.steps: list[Step | None] = [
            None
            if self.tracked.isdisjoint(written) and not reach(ins.opcode, ins.modifiers).touches
            else self.machine.prepare(ins, self.tracked)
            for ins, written in zip(self.cfg.instructions, self.cfg.written, strict=True)
        ]
        self.live = live_registers(self.cfg, self.tracked)
        self.facts: dict[int, LoopFacts] = {}
        self.joins = Joins(self.cfg, self.machine, self.live)
        self.record = Record(self.cfg, self.machine, self.tracked, self.joins.path_variance)
        self.recording = False
        self.iteration: Iteration | None = None  # the one that is analysed
        self.hook: Hook | None = None
        self.apart: frozenset[int] | None = None  # where paths are told apart, none left out
        self.coming: dict[int, list[State]] | None = None  # states at the head of each block
        self.noting = False
        self.enough = 0  # visits after which ways are no longer asked for
        self.first_later = 0  # the first number of a term that is not of the trace
        self.entries: dict[int, list[State]] | None = None
        self.executed = self.visits = 0

    @cached_property
    def _enumeration(self) -> Enumeration:
        return Enumeration()

    # ------------------------------------------------------------ the whole

    def trace(self) -> Trace:
        timed_out = False
        try:
            for loop in self.cfg.loops.values():  # inner loops come first
                self.facts[loop.header] = self._analyse(loop)
            self.joins.forget()
            self.recording = True
            self.joins.widened = 0
            self.joins.solver = self.solver
            self.machine.ask(self.solver)
            self._flow(self.cfg.order, {0: [State({})]}, None)
        except OutOfTime:
            timed_out = True
        self.first_later = self.terms.fresh("known", 1).id
        self.enough = self.visits + MAX_VISITS + len(self.cfg.blocks) * MAX_STATES
        return Trace(
            self.module,
            self.function,
            self.cfg,
            self.terms,
            self.record.accesses(),
            self.record.widenings(),
            self.record.quotients(),
            self.record.pointers(),
            self.record.branches,
            self.record.registers,
            frozenset(h for h, entered in self.joins.entered.items() if entered.uniform),
            Statistics(
                len(self.cfg.instructions), self.executed, self.visits, self.joins.merged,
                self.joins.widened, self.solver.questions, self.budget.used, timed_out,
            ),
            self.paths_around,
            self.record.operands(),
            {a: t for entered in self.joins.entered.values() for a, t in
            entered.iterations.items()}, {entered.count: entered.entries for entered in
            self.joins.entered.values()}, self.facts, self.steps,
            self.names, self.record.decisions(),
            {h: entered.begins for h, entered in self.joins.entered.items()},
        )  # fmt: skip

    def paths_around(
        self, fork: int, below: int, without: int, between: frozenset[int]
    ) -> tuple[tuple[Term, ...], ...] | None:
        """As `trace.PathsAround` says. What these paths alone show of how values vary says nothing
        of lanes on other paths: conditions on such values are left out."""
        if self.visits > self.enough:
            return None
        order = self.cfg.in_order({fork, *between} - {below, without})
        try:
            with no_collection(), self.budget:
                pending = {fork: self._coming_to(fork)}
                if not pending[fork]:
                    return None
                self.apart = between
                self._flow(order, pending, None)
        except OutOfTime:
            return None
        finally:
            self.apart, self.noting = None, False
        return tuple(tuple(filter(self._is_known, s.conditions)) for s in pending.get(below, ()))

    def _coming_to(self, number: int) -> list[State]:
        """The states that come to a block; none where they are many. All blocks are run once more
        for that, with the first block that is asked for."""
        if self.coming is None:
            self.recording, self.coming = False, {}
            self.joins = Joins(self.cfg, self.machine, self.live)
            self.apart = frozenset()
            self.noting = True
            self._flow(self.cfg.order, {0: [State({})]}, None)
            self.noting = False
            self.enough = self.visits + MAX_VISITS
        return [s.copy() for s in self.coming.get(number, ())]

    def _is_known(self, condition: Term) -> bool:
        """Was each value of which it says that lanes share it found on all paths?"""
        return all(
            n.id < self.first_later or n.variance is Variance.LANE
            for n in walk(condition)
            if n.kind is op.ATOM
        )

    # ------------------------------------------------------------ loops

    def _analyse(self, loop: Loop) -> LoopFacts:
        """Run one iteration of a loop from atoms, joins merged into one state."""
        label = self.cfg.name(loop.header)
        live = self.live[loop.header]
        entry: dict[Reg, Term] = {}
        for reg in live:
            name, width = f"entry({label}, {reg.name}@{reg.scope})", self.machine.width(reg)
            entry[reg] = self.terms.atom(name, width, Variance.LANE, None, Origin.ENTRY)
        written = self._written(loop.blocks)
        modified = frozenset(written.intersection(live))
        self.joins.forget()
        self.iteration = iteration = Iteration({}, {})
        order = self.cfg.in_order(loop.blocks)
        ends = self._flow(order, {loop.header: [State(dict(entry))]}, loop)
        self.iteration = None
        latest = [state for _, state in ends.get(loop.header, [])]
        again = condition_to_go_on(self.cfg, loop, self.joins.predicates, self.terms)
        steps, after = find_steps(entry, modified, [s.env for s in latest], self.terms)
        return LoopFacts(
            loop.header,
            label,
            entry,
            modified,
            steps,
            after,
            exit_predicates(self.cfg, loop, self.joins.predicates),
            again,
            again or condition_inside(self.cfg, loop, self.joins.predicates, self.terms),
            frozenset(
                space
                for number in loop.blocks
                for step in self.steps[self.cfg.blocks[number].start : self.cfg.blocks[number].end]
                if step is not None
                for space in step.clobbers
            ),
            iteration.addresses,
            iteration.values,
        )

    def _written(self, blocks: Iterable[int]) -> set[Reg]:
        written: set[Reg] = set()
        for number in blocks:
            block = self.cfg.blocks[number]
            for step in self.steps[block.start : block.end]:
                if step is not None:
                    written.update(reg for reg, _ in step.dests if reg is not None)
                    if step.meaning is not None and step.meaning.writes_carry:
                        written.add(CARRY)
        return written

    # ------------------------------------------------------------ flow

    def _flow(
        self, order: Sequence[int], pending: dict[int, list[State]], loop: Loop | None
    ) -> dict[int, list[tuple[int, State]]]:
        """Run the blocks of `order` from the pending states. Returns what goes back against
        the order, by target. Within a loop (when it is analysed) exits are not followed, and
        joins are merged into one state."""
        returned: dict[int, list[tuple[int, State]]] = {}
        limit = MAX_STATES if loop is None else 1
        for number in order:
            states = pending.pop(number, [])
            if not (self.apart and number in self.apart and len(states) <= _MAX_APART):
                states = self.joins.merge(number, states, limit)
            if self.noting and self.coming is not None and len(states) <= _MAX_APART:
                self.coming[number] = [s.copy() for s in states]
            if number in self.cfg.irreducible:
                # It may be reached by a later block only, so it is run in any case.
                merged = self.joins.merge(number, states, 1) or [State({})]
                states = [self._blunt(number, merged[0])]
            elif states and number in self.facts and (loop is None or number != loop.header):
                self.joins.entered[number] = enter(
                    self.facts[number],
                    states,
                    self.terms,
                    partial(self.joins.path_variance, number),
                )
                states = self.joins.merge(number, states, limit)
            self.joins.states[number] = len(states)
            self.machine.broadcasts.alone = len(states) == 1
            for state in states:
                for successor, after in self._execute(number, state):
                    if loop is not None and successor not in loop.blocks:
                        continue
                    if (number, successor) in self.cfg.retreating:
                        returned.setdefault(successor, []).append((number, after))
                    else:
                        left = self.joins.behind(number, successor, after)
                        if self.recording and left is not after:
                            self.record.left(left)
                        pending.setdefault(successor, []).append(left)
        return returned

    def _execute(self, number: int, state: State) -> list[tuple[int, State]]:
        """Run a block; the states in which its successors are reached."""
        self.visits += 1
        if self.recording and self.entries is not None:
            self.entries.setdefault(number, []).append(state.copy())
        block = self.cfg.blocks[number]
        for index in range(block.start, block.end):
            if index == block.start or index % _OFTEN == 0:
                self.budget.check()
            step = self.steps[index]
            if step is None:
                continue
            self.executed += 1
            if self.recording and index in self.followed:
                self.record.reads(step, state, index)
            touch = self.machine.run(step, state, index)
            if self.recording:
                self.record.step(step, state, index, touch)
                if self.hook is not None:
                    self.hook(index, state, touch)
            elif self.iteration is not None:
                if touch is not None:
                    self.iteration.addresses[index] = touch.address
                if len(step.dests) == 1 and (reg := step.dests[0][0]) is not None:
                    self.iteration.values[index] = state.env[reg]
        return self._branch(number, state)

    def _branch(self, number: int, state: State) -> list[tuple[int, State]]:
        """The successors that can be reached, each with its own state."""
        block = self.cfg.blocks[number]
        last = self.cfg.instructions[block.end - 1] if block.end > block.start else None
        if last is not None and last.opcode == "brx":
            return self._fork(state, self._indirect(block, last, state))
        if last is None or not ends_block(last) or last.guard is None:
            return self._fork(state, [(s, None) for s in block.successors])
        taken = self.machine.guard(state, last)
        self._decided(block, (taken,), state)
        fall = self.terms.not_(taken)
        if last.opcode != "bra":  # a guarded exit: those who stay
            return self._fork(state, [(s, fall) for s in block.successors])
        sides: list[tuple[int, Term | None]] = [(block.successors[0], taken)]
        if len(block.successors) == 2:
            sides.append((block.successors[1], fall))
        elif len(block.successors) == 1:
            sides = [(block.successors[0], None)]
        return self._fork(state, sides)

    def _indirect(
        self, block: Block, branch: Instruction, state: State
    ) -> list[tuple[int, Term | None]]:
        """Where `brx.idx` goes, by its index; one beyond the table is undefined (manual
        9.7.13.4)."""
        guard = self.machine.guard(state, branch)
        index = self.machine.read(branch.operands[0], self.machine.get(state))
        if not block.table or len(block.table) > _MAX_TARGETS or isinstance(index, int):
            self._decided(block, (guard, self.terms.fresh("brx", 1)), state)
            return [(s, None) for s in block.successors]
        self._decided(block, (guard, index), state)
        sides: dict[int, Term] = {}
        if branch.guard is not None:
            sides[block.number + 1] = self.terms.not_(guard)
        for at, target in enumerate(block.table):
            chosen = self.terms.eq(index, self.terms.const(at, index.width))
            chosen = self.terms.and_(guard, chosen)
            sides[target] = self.terms.or_(sides[target], chosen) if target in sides else chosen
        return [(s, sides[s]) for s in block.successors]

    def _decided(self, block: Block, values: tuple[Term, ...], state: State) -> None:
        """The values that decide where the branch at a block's end goes."""
        vary = [v for v in values if v.kind is not op.CONST]
        self.joins.predicates.setdefault(block.number, {}).update(dict.fromkeys(vary or values))
        if self.recording:
            self.record.branch(block.end - 1, values, state)

    def _fork(
        self, state: State, sides: Sequence[tuple[int, Term | None]]
    ) -> list[tuple[int, State]]:
        reached = []
        loops_back = any(s in self.facts for s, _ in sides)
        for successor, condition in sides:
            conditions = state.conditions
            if condition is not None:
                if self._impossible(condition, state.conditions, loops_back):
                    continue
                conditions = state.assume(condition)
            env = {r: state.env[r] for r in self.live[successor] if r in state.env}
            reached.append((successor, State(env, conditions, state.epochs)))
        return reached

    def _impossible(self, condition: Term, given: tuple[Term, ...], loops_back: bool) -> bool:
        """Does the path contradict itself? Not looked at at the end of a loop, where both
        sides are nearly always possible."""
        if condition.kind is op.CONST:
            return not condition.value
        if condition in given or self.apart is not None:
            return False
        if self.terms.not_(condition) in given:
            return True
        if loops_back or not self.recording or not given:
            return False
        return self._enumeration.contradict((condition, *given))

    def _blunt(self, number: int, state: State) -> State:
        """Irreducible flow: whatever any block may write is unknown here, and no earlier
        condition about it is kept."""
        env = dict(state.env)
        for reg in self._written(self.cfg.order).intersection(self.live[number]):
            env[reg] = self.terms.fresh(
                f"join({reg.name})", self.machine.width(reg), origin=Origin.MERGED
            )
        mark = -1 - len(self.cfg.blocks) - number
        return State(env, (), ended(state.epochs, SPACES, mark))
