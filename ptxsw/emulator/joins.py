"""Where paths meet: equal states become one, and too many are widened into one.

A walk over the blocks remembers here what a join depends on: the predicates of the branches on
the way, in how many states a block was run, and how loops were entered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from msgspec import Struct

from ptxsw.emulator.memory import joined, renamed
from ptxsw.emulator.recurrences import Entered
from ptxsw.emulator.state import State
from ptxsw.emulator.symbolic_machine import SymbolicMachine
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx.ir import Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, ones
from ptxsw.terms.origin import NUMBERED, Origin
from ptxsw.terms.solver import Solver
from ptxsw.terms.substitution import MAX_CHOICES, choice, substitute
from ptxsw.terms.terms import Terms

_MAX_PREDICATES = 8
_MAX_ARGUMENTS = 500  # nodes


class Joins:
    """The joins of one walk over the blocks of a function."""

    def __init__(
        self, cfg: Cfg, machine: SymbolicMachine, live: Mapping[int, tuple[Reg, ...]]
    ) -> None:
        self._cfg, self._machine, self._live = cfg, machine, live
        self._terms = machine.terms
        self.predicates: dict[int, dict[Term, None]] = {}  # of the branch that ends a block
        self.states: dict[int, int] = {}  # in which a block was run, at most
        self.entered: dict[int, Entered] = {}  # loops by header
        self.merged = self.widened = 0
        self.solver: Solver | None = None  # without one, paths are taken to be possible

    def forget(self) -> None:
        """Begin another walk."""
        self.entered.clear()
        self.predicates.clear()
        self.states.clear()

    def merge(self, number: int, states: list[State], limit: int) -> list[State]:
        """States with equal values of the live registers become one; past `limit`, all do."""
        if len(states) < 2:
            return states
        live = self._live[number]
        states = widened(states, live, self._terms)
        distinct: dict[tuple[Term | None, ...], State] = {}
        for state in states:
            key = tuple(state.env.get(reg) for reg in live)
            twin = distinct.get(key)
            if twin is None:
                distinct[key] = state
            else:
                self.merged += 1
                distinct[key] = self._common(number, twin, state, twin.env)
        if len(distinct) > 1 and self.solver is not None:
            distinct = {key: s for key, s in distinct.items() if self._is_possible(s)}
        if len(distinct) <= limit:
            return list(distinct.values())
        self.widened += 1
        return [self._widen(number, list(distinct.values()))]

    def _is_possible(self, state: State) -> bool:
        """May a path be gone? It is asked where the answer matters: where what other paths leave
        behind is different."""
        *given, newest = state.conditions or (self._machine.true,)
        return self.solver is None or not self.solver.contradicts(newest, given)

    def _common(self, number: int, a: State, b: State, env: dict[Reg, Term]) -> State:
        conditions = tuple(c for c in a.conditions if c in b.conditions)
        mark = len(self._cfg.instructions) + 1 + number
        return State(env, conditions, joined(a.epochs, b.epochs, mark))

    def _widen(self, number: int, states: list[State]) -> State:
        result = states[0]
        for other in states[1:]:
            result = self._common(number, result, other, result.env)
        env: dict[Reg, Term] = {}
        controls: tuple[Term, ...] | None = None
        for reg in self._live[number]:
            values = [self._machine.read_reg(s, reg) for s in states]
            if all(v is values[0] for v in values):
                env[reg] = values[0]
                continue
            chosen = self._chosen(states, values)
            if chosen is not None:
                env[reg] = chosen
                continue
            if controls is None:
                controls = self.controlling_predicates(number)
            env[reg] = self._phi(number, reg, values, controls)
        return State(env, result.conditions, result.epochs)

    def _chosen(self, states: Sequence[State], values: Sequence[Term]) -> Term | None:
        """The value of a register as a choice by conditions that all lanes share, where these
        tell which of few values it has."""
        facts: dict[Term, frozenset[Term]] = {}
        for state, value in zip(states, values, strict=True):
            shared = frozenset(c for c in state.conditions if c.variance is Variance.UNIFORM)
            facts[value] = shared & facts.get(value, shared)
        return choice(self._terms, facts) if len(facts) <= MAX_CHOICES else None

    def _phi(
        self, number: int, reg: Reg, values: Sequence[Term], controls: tuple[Term, ...]
    ) -> Term:
        """A value that depends on the way a block was reached: a function of the values it may
        be and of the predicates that choose among them, so it varies as much as they do."""
        name = ("phi", number, reg.name, reg.scope)
        width = self._machine.width(reg)
        arguments = (*dict.fromkeys(values), *controls)
        if sum(a.size for a in arguments) > _MAX_ARGUMENTS:
            most = max(a.variance for a in arguments)
            return self._terms.fresh(f"phi({reg.name})", width, most, Origin.MERGED)
        return self._terms.apply(name, width, arguments, Variance.UNIFORM)

    # ------------------------------------------------------------ which way

    def path_variance(self, number: int) -> Variance:
        """How much it varies over lanes which of several states reaches a block."""
        return max(
            (p.variance for p in self.controlling_predicates(number)), default=Variance.UNIFORM
        )

    def controlling_predicates(self, number: int) -> tuple[Term, ...]:
        """The predicates of all branches between a block and the next dominator that was run in
        one state, of which several sides lead to the block: which way was taken depends on nothing
        else."""
        stop = self._cfg.idom[number]
        while self.states.get(stop, 1) > 1:
            stop = self._cfg.idom[stop]
        open_ones = number in self._cfg.irreducible
        seen: set[int] = set()
        work = self._latest_first(number)
        deciding: dict[Term, None] = {}
        while work:
            block = heappop(work)[1]
            if block in seen:
                continue
            seen.add(block)
            ahead = self._cfg.blocks[block].successors
            # Where only one side leads here, those who came took it: they did not choose.
            sides = ahead if open_ones else [s for s in ahead if s in seen or s == number]
            if len(sides) > 1:
                names = self._names_behind(block, number)
                predicates = self.predicates.get(block, {}) or {self._terms.fresh("way", 1): None}
                deciding.update((names(p), None) for p in predicates)
            if block != stop:
                for before in self._latest_first(block):
                    heappush(work, before)
            if len(deciding) > _MAX_PREDICATES:
                return (self._terms.fresh("way", 1),)
        return tuple(deciding)

    def _latest_first(self, number: int) -> list[tuple[int, int]]:
        """The blocks right before one, as a heap from which those behind others come first."""
        pairs = [(-self._cfg.rank[block], block) for block in self._forward_into(number)]
        heapify(pairs)
        return pairs

    def _forward_into(self, number: int) -> list[int]:
        """Predecessors but for the latches of a loop: in one iteration nothing comes from them."""
        back = self._cfg.retreating if number not in self._cfg.irreducible else ()
        return [p for p in self._cfg.predecessors[number] if (p, number) not in back]

    # ------------------------------------------------------------ behind loops

    def behind(self, number: int, successor: int, state: State) -> State:
        """A state of block `number` as it reaches a successor: values of loops that the edge
        leaves have the names that they have behind them."""
        rename = self._names_behind(number, successor)
        if rename is _same:
            return state
        env = {reg: rename(value) for reg, value in state.env.items()}
        return State(env, tuple(map(rename, state.conditions)), renamed(state.epochs))

    def _names_behind(self, number: int, successor: int) -> Callable[[Term], Term]:
        """How terms of block `number` read in block `successor`. Behind a loop that lanes leave
        in different iterations whatever was made in an iteration varies: its count, those of loops
        in it, and numbered atoms."""
        left = [
            header
            for header in self._cfg.loops_around(number)
            if successor not in self._cfg.loops[header].blocks
            and header in self.entered
            and not self.entered[header].uniform
        ]
        if not left:
            return _same
        inside = self._cfg.loops[left[-1]].blocks
        names: dict[Term, Term] = {}
        for header, entered in self.entered.items():
            if header in inside:
                names.update((a, self._terms.behind(a)) for a in entered.atoms)
        memo: dict[Term, Term] = {}

        def leaf(node: Term) -> Term | None:
            if node.variance < Variance.LANE and node.origin in NUMBERED:
                return self._terms.behind(node)
            return names.get(node)

        return lambda term: substitute(self._terms, term, leaf, memo)


def _same(term: Term) -> Term:
    return term


_HALF = 32  # bits


# ---------------------------------------------------------------- narrow divisions
#
#     or.b64 %rd3, %rd1, %rd2;   shr.u64 %rd4, %rd3, 32;   setp.ne.s64 %p1, %rd4, 0;
#     @%p1 bra $wide;
#     div.u32 %r3, %r1, %r2;   cvt.u64.u32 %rd5, %r3;      the low halves
#     bra $both;
#     $wide: div.u64 %rd5, %rd1, %rd2;
#     $both:                                               %rd5 is the same on both paths
#
# Compilers divide in 32 bits where both operands fit. Both paths end with one value, which would be
# two as terms, and no lane's address would be known behind it. A quotient by zero has no defined
# value (manual, `div`), so it may be the same one, too.


class _Division(Struct, frozen=True):
    """A wide quotient or remainder, or its low half; and the same made of the low halves."""

    operands: tuple[Term, ...]
    wide: Term
    narrow: Term


def widened(states: Sequence[State], live: Iterable[Reg], terms: Terms) -> list[State]:
    """The states that come to a block, what is made of a narrow quotient as what another of them
    has in its place, made of the wide one."""
    wider = list(states)
    for reg in live:
        values = [state.env.get(reg) for state in states]
        different = dict.fromkeys(values)
        for value in different if len(different) > 1 else ():
            division = None if value is None else _read(value, terms)
            if division is None:
                continue
            for number, state in enumerate(wider):
                if values[number] is division.narrow and _both_fit(division.operands, state, terms):
                    env = {**state.env, reg: division.wide}
                    wider[number] = State(env, state.conditions, state.epochs)
    return wider


def _read(value: Term, terms: Terms) -> _Division | None:
    whole = value
    if value.kind is op.EXTRACT and value.value == 0 and value.width == _HALF:
        whole = value.args[0]
    if whole.width != 2 * _HALF:
        return None
    quotient = _quotient(whole, terms)
    if quotient is None:
        return None
    a, b = (terms.extract(arg, 0, _HALF) for arg in quotient.args)
    narrow = terms.udiv(a, b) if quotient.kind in (op.UDIV, op.SDIV) else terms.urem(a, b)
    if quotient is not whole:
        narrow = terms.sub(a, terms.mul(b, narrow))
    return _Division(quotient.args, value, terms.zext(narrow, value.width))


def _quotient(term: Term, terms: Terms) -> Term | None:
    """The division that a term is the result of, or whose remainder `a - b * (a / b)` it is."""
    if term.kind in op.QUOTIENTS:
        return term
    if term.kind is not op.SUM:
        return None
    for part in {t for item in term.args for t in (item, *item.args)}:
        if part.kind in (op.UDIV, op.SDIV) and part.width == term.width:
            a, b = part.args
            if terms.sub(a, terms.mul(b, part)) is term:
                return part
    return None


def _both_fit(operands: Sequence[Term], state: State, terms: Terms) -> bool:
    """Are the high halves of both zero, by their bits or by what is known on this path?"""
    large = [term for term in operands if ones(term) >> _HALF]
    if all(_fits(term, state, terms) for term in large):
        return True
    return len(large) == 2 and _fits(terms.or_(*large), state, terms)


def _fits(term: Term, state: State, terms: Terms) -> bool:
    width, high = term.width, (1 << term.width) - (1 << _HALF)
    zero = terms.const(0, width)
    tests = (
        terms.eq(terms.and_(term, terms.const(high, width)), zero),
        terms.eq(terms.lshr(term, terms.const(_HALF, width)), zero),
        terms.ult(term, terms.const(1 << _HALF, width)),
    )
    return any(test in state.conditions for test in tests)
