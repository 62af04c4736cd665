"""Running a function symbolically, from its entry to a trace of its memory accesses.

Blocks are visited once each in reverse postorder. States that reach a block with the same
values of its live registers become one; past a bound they are widened into one. A loop's body
is run once for any turn (`loops`), irreducible flow bluntly: what it may write is unknown.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import starmap
from time import perf_counter
from typing import TypeVar

from ptxsw import isa
from ptxsw.cfg import Cfg, Loop, build, ends_block
from ptxsw.dataflow import CARRY, defs, liveness, slice_registers
from ptxsw.emulator.loops import Entered, LoopFacts, enter, find_steps, last
from ptxsw.emulator.memory import SPACES, ended, joined, renamed
from ptxsw.emulator.node import Term, Variance
from ptxsw.emulator.solver import Solver
from ptxsw.emulator.state import Machine, State, Step, Touch, elements
from ptxsw.emulator.terms import Terms
from ptxsw.emulator.trace import Access, Held, Statistics, Trace, Variant, Widening
from ptxsw.ir import Function, Instruction, Mem, Module, Reg, type_width

MAX_STATES = 16
"""States per block; more are widened into one."""

_MAX_PREDICATES = 8
_Key = TypeVar("_Key")
_KINDS = {"ld": "load", "ldu": "load", "st": "store"}


class _OutOfTime(Exception):
    """The kernel's time budget is spent."""


def emulate(
    module: Module, function: Function, *, budget_s: float = 10.0, solver: Solver | None = None
) -> Trace:
    """The memory trace of a function.

    Raises ParseError where its body does not parse. Past `budget_s` seconds the trace holds what
    was found so far and `statistics.timed_out` is set; nothing may be concluded from it.
    """
    with _no_collection():
        return _Emulation(module, function, budget_s, solver or Solver()).trace()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Terms and states hold no cycles; the collector would only walk the growing table again and
    again, which makes time grow faster than the code."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Emulation:
    def __init__(self, module: Module, function: Function, budget_s: float, solver: Solver) -> None:
        self.module, self.function = module, function
        self.cfg: Cfg = build(function.body)
        self.terms = Terms()
        self.machine = Machine(module, function, self.terms)
        self.solver = solver
        self.begin = perf_counter()
        self.deadline = self.begin + budget_s
        self.tracked = slice_registers(self.cfg, _roots)
        self.steps: list[Step | None] = [
            self.machine.prepare(ins, self.tracked) for ins in self.cfg.instructions
        ]
        self.live = self._live_registers()
        self.facts: dict[int, LoopFacts] = {}
        self.entered: dict[int, Entered] = {}
        self.states: dict[int, int] = {}  # in which a block was run, at most
        self.found: dict[int, dict[Touch, frozenset[Term]]] = {}
        self.widenings: dict[tuple[int, Reg], dict[Term, frozenset[Term]]] = {}
        self.branches: dict[int, Variance] = {}
        self.registers: dict[Reg, Variance] = {}
        self.defined: dict[tuple[int, Reg], Term] = {}
        self.predicates: dict[int, dict[Term, None]] = {}
        self.recording = False
        self.executed = self.visits = self.merged = self.widened = 0

    # ------------------------------------------------------------ the whole

    def trace(self) -> Trace:
        timed_out = False
        try:
            for loop in self.cfg.loops.values():  # inner loops come first
                self.facts[loop.header] = self._analyse(loop)
            self._forget()
            self.recording = True
            self.machine.ask(self.solver)
            self._flow(self.cfg.order, {0: [State({})]}, None)
        except _OutOfTime:
            timed_out = True
        return Trace(
            self.module,
            self.function,
            self.cfg,
            self.terms,
            tuple(self._access(index) for index in sorted(self.found)),
            tuple(Widening(i, r, tuple(starmap(Held, found.items()))) for (i, r), found in sorted(
                self.widenings.items(), key=lambda item: item[0][0]
            )),
            self.branches,
            self.registers,
            frozenset(h for h, entered in self.entered.items() if entered.uniform),
            Statistics(
                len(self.cfg.instructions), self.executed, self.visits, self.merged,
                self.widened, self.solver.questions, perf_counter() - self.begin, timed_out,
            ),
        )  # fmt: skip

    def _access(self, index: int) -> Access:
        instruction = self.cfg.instructions[index]
        effects = isa.effects(instruction.opcode, instruction.modifiers)
        kind = _KINDS.get(instruction.opcode)
        if kind is None:
            kind = "atomic" if effects & isa.Effect.ATOMIC else "other"
        found = self.found[index]
        spaces = {touch.space for touch in found}
        known = len(spaces) == 1
        variants: dict[tuple[Term, Term], frozenset[Term]] = {}
        for touch, conditions in found.items():
            key = (touch.place if known else touch.address, touch.guard)
            variants[key] = conditions & variants.get(key, conditions)
        return Access(
            index,
            instruction,
            kind,
            (spaces.pop() if known else "generic") or "generic",
            type_width(isa.access_type(instruction) or ""),
            elements(instruction),
            tuple(Variant(*key, conditions) for key, conditions in variants.items()),
            self._ways(self.cfg.block_of[index]) if len(variants) > 1 else Variance.UNIFORM,
        )

    def _live_registers(self) -> Mapping[int, tuple[Reg, ...]]:
        def wanted(ins: Instruction) -> bool:
            if any(r in self.tracked for r in defs(ins)):
                return True
            return bool(isa.effects(ins.opcode, ins.modifiers))

        facts = liveness(self.cfg, wanted)
        return {
            number: tuple(sorted(live & self.tracked, key=lambda r: (r.name, r.scope)))
            for number, live in facts.items()
        }

    # ------------------------------------------------------------ loops

    def _analyse(self, loop: Loop) -> LoopFacts:
        """Run one turn of a loop from atoms, joins merged into one state."""
        label = self.cfg.name(loop.header)
        live = self.live[loop.header]
        entry = {
            reg: self.terms.atom(
                f"entry({label}, {reg.name}@{reg.scope})",
                self.machine.width(reg),
                Variance.LANE,
            )
            for reg in live
        }
        written = self._written(loop.blocks)
        modified = frozenset(written.intersection(live))
        self._forget()
        order = sorted(loop.blocks, key=self.cfg.rank.__getitem__)
        ends = self._flow(order, {loop.header: [State(dict(entry))]}, loop)
        latest = [state for _, state in ends.get(loop.header, [])]
        steps, after = find_steps(entry, modified, [s.env for s in latest], self.terms)
        return LoopFacts(
            loop.header,
            label,
            entry,
            modified,
            steps,
            after,
            self._exit_predicates(loop),
            self._again(loop),
            frozenset(
                space
                for number in loop.blocks
                for step in self.steps[self.cfg.blocks[number].start : self.cfg.blocks[number].end]
                if step is not None
                for space in step.clobbers
            ),
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

    def _exit_predicates(self, loop: Loop) -> tuple[Term, ...] | None:
        """The predicates of all exits, if every lane still in the loop reaches each in every
        turn; else None. Lanes may pass an exit within an inner loop a different number of times."""
        found: list[Term] = []
        for number in {source for source, _ in loop.exits}:
            if self.cfg.loop_of[number] != loop.header:
                return None
            if not all(self.cfg.dominates(number, latch) for latch in loop.latches):
                return None
            if number not in self.predicates:
                return None
            found.extend(self.predicates[number])
        return tuple(found)

    def _again(self, loop: Loop) -> Term | None:
        """The condition of the loop's one back edge, where a guarded branch makes it."""
        latch = self.cfg.blocks[loop.latches[0]]
        taken = tuple(self.predicates.get(latch.number, ()))
        if len(loop.latches) != 1 or len(taken) != 1 or len(latch.successors) != 2:
            return None
        return taken[0] if latch.successors[0] == loop.header else self.terms.not_(taken[0])

    def _forget(self) -> None:
        """What is remembered of one walk over the blocks."""
        self.entered.clear()
        self.predicates.clear()
        self.states.clear()

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
            states = self._merge(number, pending.pop(number, []), limit)
            if number in self.cfg.irreducible:
                # It may be reached by a later block only, so it is run in any case.
                merged = self._merge(number, states, 1) or [State({})]
                states = [self._blunt(number, merged[0])]
            elif states and number in self.facts and (loop is None or number != loop.header):
                self.entered[number] = enter(
                    self.facts[number], states, self.terms, partial(self._ways, number)
                )
                states = self._merge(number, states, limit)
            self.states[number] = len(states)
            for state in states:
                for successor, after in self._execute(number, state):
                    if loop is not None and successor not in loop.blocks:
                        continue
                    if (number, successor) in self.cfg.retreating:
                        returned.setdefault(successor, []).append((number, after))
                    else:
                        pending.setdefault(successor, []).append(
                            self._leave(number, successor, after)
                        )
        return returned

    def _execute(self, number: int, state: State) -> list[tuple[int, State]]:
        """Run a block; the states in which its successors are reached."""
        if perf_counter() > self.deadline:
            raise _OutOfTime
        self.visits += 1
        block = self.cfg.blocks[number]
        for index in range(block.start, block.end):
            step = self.steps[index]
            if step is None:
                continue
            self.executed += 1
            touch = self.machine.run(step, state, index)
            if self.recording:
                self._record(step, state, index)
                if touch is not None:
                    _note(self.found.setdefault(index, {}), touch, state)
        return self._branch(number, state)

    def _record(self, step: Step, state: State, index: int) -> None:
        for reg, _ in step.dests:
            if reg in self.tracked:  # others are not followed through every instruction
                assert reg is not None
                self._varies(reg, state.env[reg], index)
        for reg in step.widened:
            if reg not in [r for r, _ in step.dests]:
                value = self.machine.read_reg(state, reg)
                _note(self.widenings.setdefault((index, reg), {}), value, state)

    def _varies(self, reg: Reg, value: Term, index: int) -> None:
        """Note how much a register varies at a place; where states give it different values, it
        matters which lanes are in which."""
        first = self.defined.setdefault((index, reg), value)
        most = max(self.registers.get(reg, Variance.UNIFORM), value.variance)
        if first is not value and most < Variance.LANE:
            most = max(most, self._ways(self.cfg.block_of[index]))
        self.registers[reg] = most

    def _branch(self, number: int, state: State) -> list[tuple[int, State]]:
        """The successors that can be reached, each with its own state."""
        block = self.cfg.blocks[number]
        last = self.cfg.instructions[block.end - 1] if block.end > block.start else None
        if last is None or not ends_block(last) or last.guard is None or last.opcode == "brx":
            if last is not None and last.opcode == "brx":
                self._note_indirect(number)
            return self._fork(state, [(s, None) for s in block.successors])
        taken = self.machine.guard(state, last)
        self.predicates.setdefault(number, {})[taken] = None
        if self.recording:
            seen = self.branches.get(block.end - 1, Variance.UNIFORM)
            if len(self.predicates[number]) > 1 and seen < Variance.LANE:
                seen = max(seen, self._ways(number))
            self.branches[block.end - 1] = max(seen, taken.variance)
        fall = self.terms.not_(taken)
        if last.opcode != "bra":  # a guarded exit: those who stay
            return self._fork(state, [(s, fall) for s in block.successors])
        sides: list[tuple[int, Term | None]] = [(block.successors[0], taken)]
        if len(block.successors) == 2:
            sides.append((block.successors[1], fall))
        elif len(block.successors) == 1:
            sides = [(block.successors[0], None)]
        return self._fork(state, sides)

    def _note_indirect(self, number: int) -> None:
        """An indirect branch goes where each lane's index says."""
        self.predicates.setdefault(number, {})[self.terms.fresh("brx", 1)] = None
        if self.recording:
            self.branches[self.cfg.blocks[number].end - 1] = Variance.LANE

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

    def _impossible(self, condition: Term, known: tuple[Term, ...], loops_back: bool) -> bool:
        """Does the path contradict itself? Looks first, asks the solver last, and not at the end
        of a loop, where both sides are nearly always possible."""
        if condition.kind == "const":
            return not condition.value
        if condition in known:
            return False
        if self.terms.not_(condition) in known:
            return True
        if loops_back or not self.recording or not known:
            return False
        return self.solver.contradicts(condition, known)

    # ------------------------------------------------------------ joins

    def _merge(self, number: int, states: list[State], limit: int) -> list[State]:
        """States with equal values of the live registers become one; past `limit`, all do."""
        if len(states) < 2:
            return states
        live = self.live[number]
        distinct: dict[tuple[Term | None, ...], State] = {}
        for state in states:
            key = tuple(state.env.get(reg) for reg in live)
            known = distinct.get(key)
            if known is None:
                distinct[key] = state
            else:
                self.merged += 1
                distinct[key] = self._common(number, known, state, known.env)
        if len(distinct) <= limit:
            return list(distinct.values())
        self.widened += self.recording
        return [self._widen(number, list(distinct.values()))]

    def _common(self, number: int, a: State, b: State, env: dict[Reg, Term]) -> State:
        conditions = tuple(c for c in a.conditions if c in b.conditions)
        mark = len(self.cfg.instructions) + 1 + number
        return State(env, conditions, joined(a.epochs, b.epochs, mark))

    def _widen(self, number: int, states: list[State]) -> State:
        result = states[0]
        for other in states[1:]:
            result = self._common(number, result, other, result.env)
        env: dict[Reg, Term] = {}
        controls: tuple[Term, ...] | None = None
        for reg in self.live[number]:
            values = [self.machine.read_reg(s, reg) for s in states]
            if all(v is values[0] for v in values):
                env[reg] = values[0]
                continue
            if controls is None:
                controls = self._controls(number)
            env[reg] = self._phi(number, reg, values, controls)
        return State(env, result.conditions, result.epochs)

    def _phi(
        self, number: int, reg: Reg, values: Sequence[Term], controls: tuple[Term, ...]
    ) -> Term:
        """A value that depends on the way a block was reached: a function of the values it may
        be and of the predicates that choose among them, so it varies as much as they do."""
        name = ("phi", number, reg.name, reg.scope)
        width = self.machine.width(reg)
        arguments = (*dict.fromkeys(values), *controls)
        if sum(a.size for a in arguments) > 500:
            most = max(a.variance for a in arguments)
            return self.terms.fresh(f"phi({reg.name})", width, most)
        return self.terms.apply(name, width, arguments, Variance.UNIFORM)

    def _ways(self, number: int) -> Variance:
        """How much it varies over lanes which of several states reaches a block."""
        return max((p.variance for p in self._controls(number)), default=Variance.UNIFORM)

    def _controls(self, number: int) -> tuple[Term, ...]:
        """The predicates of all branches between a block and the next dominator that was run in
        one state: which way was taken depends on nothing else."""
        stop = self.cfg.idom[number]
        while self.states.get(stop, 1) > 1:
            stop = self.cfg.idom[stop]
        seen: set[int] = set()
        work = self._forward_into(number)
        found: dict[Term, None] = {}
        while work:
            block = work.pop()
            if block in seen:
                continue
            seen.add(block)
            if len(self.cfg.blocks[block].successors) > 1:
                names = self._names_behind(block, number)
                predicates = self.predicates.get(block, {}) or {self.terms.fresh("way", 1): None}
                found.update((names(p), None) for p in predicates)
            if block != stop:
                work.extend(self._forward_into(block))
            if len(found) > _MAX_PREDICATES:
                return (self.terms.fresh("way", 1),)
        return tuple(found)

    def _forward_into(self, number: int) -> list[int]:
        """Predecessors but for the latches of a loop: in one turn nothing comes from them."""
        back = self.cfg.retreating if number not in self.cfg.irreducible else ()
        return [p for p in self.cfg.predecessors[number] if (p, number) not in back]

    def _blunt(self, number: int, state: State) -> State:
        """Irreducible flow: whatever any block may write is unknown here, and no earlier
        condition about it is kept."""
        env = dict(state.env)
        for reg in self._written(self.cfg.order).intersection(self.live[number]):
            env[reg] = self.terms.fresh(f"join({reg.name})", self.machine.width(reg))
        mark = -1 - len(self.cfg.blocks) - number
        return State(env, (), ended(state.epochs, SPACES, mark))

    def _leave(self, number: int, successor: int, state: State) -> State:
        """Give the values of loops that this edge leaves the names they have behind them."""
        rename = self._names_behind(number, successor)
        if rename is _same:
            return state
        env = {reg: rename(value) for reg, value in state.env.items()}
        if self.recording:
            for reg, value in env.items():
                self.registers[reg] = max(self.registers.get(reg, value.variance), value.variance)
        return State(env, tuple(map(rename, state.conditions)), renamed(state.epochs))

    def _names_behind(self, number: int, successor: int) -> Callable[[Term], Term]:
        """How terms of block `number` read in block `successor`. Behind a loop that lanes leave
        in different turns whatever was made in a turn varies: its count, those of loops in it,
        and numbered atoms."""
        left = [
            header
            for header in self.cfg.loops_around(number)
            if successor not in self.cfg.loops[header].blocks
            and header in self.entered
            and not self.entered[header].uniform
        ]
        if not left:
            return _same
        inside = self.cfg.loops[left[-1]].blocks
        names: dict[Term, Term] = {}
        for header, entered in self.entered.items():
            if header in inside:
                names.update((a, last(a, self.terms)) for a in entered.atoms)
        memo: dict[Term, Term] = {}

        def leaf(node: Term) -> Term | None:
            if node.variance < Variance.LANE and node.kind == "atom" and "#" in node.value:
                return last(node, self.terms)
            return names.get(node)

        return lambda term: self.terms.substitute(term, leaf, memo)


def _same(term: Term) -> Term:
    return term


def _note(seen: dict[_Key, frozenset[Term]], key: _Key, state: State) -> None:
    """Add what a state shows; of states that show the same the common conditions are kept."""
    facts = frozenset(state.conditions)
    known = seen.get(key)
    seen[key] = facts if known is None else known & facts


def _roots(instruction: Instruction) -> tuple[Reg, ...]:
    """Registers a trace needs: bases of addresses, and predicates of branches and accesses."""
    roots = [o.base for o in instruction.operands if isinstance(o, Mem) and isinstance(o.base, Reg)]
    if instruction.guard is not None and isa.effects(instruction.opcode, instruction.modifiers):
        roots.append(instruction.guard.reg)
    return tuple(roots)
