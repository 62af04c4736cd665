"""What one iteration of a loop does to the registers: recurrences, and which lanes leave together.

The body of a loop is run once with an atom `entry(H, r)` for each register at its header. A
register that comes back as `entry(H, r) + step` with a step that does not change in the loop is
an induction variable; all of a loop's share one iteration count (chains of recurrences, van
Engelen 2001). The facts are found once for each loop, inner loops first, and filled in for each
state that enters it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ptxsw.emulator.memory import ended
from ptxsw.emulator.state import State, named, undefined
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.flow_graph import Loop
from ptxsw.flow.loop_exits import ends_iterations, executes_every_iteration
from ptxsw.ptx.ir import Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, walk
from ptxsw.terms.origin import FIXED_IN_LOOPS, Origin
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms


class LoopFacts(Struct, frozen=True):
    """One iteration of the loop with header `header`, over its entry atoms."""

    header: int
    label: str
    entry: Mapping[Reg, Term]  # the atom of each register live at the header
    modified: frozenset[Reg]  # live registers that the loop writes
    steps: Mapping[Reg, Term]  # what an induction variable grows by
    after: Mapping[Reg, Term]  # other modified registers after one iteration
    exits: tuple[Term, ...] | None  # predicates by which lanes leave; None: not in step
    again: Term | None  # the condition that another follows, over values after the iteration
    goes_on: Term | None  # where that is not known: the condition to pass the first exit
    writes: frozenset[str]  # spaces that the loop may write
    addresses: Mapping[int, Term]  # of the accesses that the iteration made, by instruction
    values: Mapping[int, Term]  # what an instruction of the iteration leaves in its only register


class LoopEntry(Struct, frozen=True):
    """A way into a loop: `again` held before every iteration but the first, true where it is not
    known; `given` held as the loop was entered. `inside` tells whether `again` is of a test inside
    the loop, before what an iteration does if it passes that."""

    again: Term
    given: tuple[Term, ...]
    inside: bool = False


class Entered(Struct, frozen=True):
    """A loop as some states entered it."""

    atoms: Mapping[Term, Term]  # what each atom of the current iteration is called after the loop
    uniform: bool  # do all lanes that entered together leave together?
    iterations: Mapping[Term, Iterations]  # of atoms whose values in the first iterations are known
    count: Term  # the number of iterations made
    entries: tuple[LoopEntry, ...]  # those that differ in what held before each other iteration
    begins: Mapping[Term, Term]  # by atoms of `entry` what all states agree on


class IterationValue(Struct, frozen=True):
    """What a register that changes in a loop holds in one of its iterations, over values from
    before the loop, and the condition that another iteration follows."""

    value: Term
    again: Term


Iterations = tuple[IterationValue, ...]
"""The first iterations of a loop, in order: as many as there are, or `_MOST_ITERATIONS`."""

_MOST_ITERATIONS = 32
_LARGEST_ITERATION = 50  # nodes of what one iteration does to a register


def exit_predicates(
    cfg: Cfg, loop: Loop, predicates: Mapping[int, Iterable[Term]]
) -> tuple[Term, ...] | None:
    """The predicates of all exits, if every lane still in the loop reaches each in every iteration;
    else None. Lanes may pass an exit within an inner loop a different number of times.
    `predicates` holds, by block, what decided its branch while the body was run."""
    leaving: list[Term] = []
    for number in {source for source, _ in loop.exits}:
        if number not in predicates or not executes_every_iteration(cfg, number, loop):
            return None
        leaving.extend(predicates[number])
    return tuple(leaving)


def condition_to_go_on(
    cfg: Cfg, loop: Loop, predicates: Mapping[int, Iterable[Term]], terms: Terms
) -> Term | None:
    """The condition under which an iteration is followed by another, where one branch at its end
    decides."""
    for number in reversed(cfg.in_order(loop.blocks)):
        taken = tuple(predicates.get(number, ()))
        if len(taken) == 1 and ends_iterations(cfg, number, loop):
            stays = cfg.blocks[number].successors[0] in loop.blocks
            return taken[0] if stays else terms.not_(taken[0])
    return None


def condition_inside(
    cfg: Cfg, loop: Loop, predicates: Mapping[int, Iterable[Term]], terms: Terms
) -> Term | None:
    """The condition under which lanes go on from the first exit of a loop, where one branch decides
    in every iteration."""
    for number in cfg.in_order({source for source, _ in loop.exits}):
        taken = tuple(predicates.get(number, ()))
        inside = [successor in loop.blocks for successor in cfg.blocks[number].successors]
        if len(taken) == 1 and len(inside) == 2 and executes_every_iteration(cfg, number, loop):
            return taken[0] if inside[0] else terms.not_(taken[0])
    return None


def find_steps(
    entry: Mapping[Reg, Term], modified: frozenset[Reg], ends: Iterable[Mapping[Reg, Term]],
    terms: Terms,
) -> tuple[dict[Reg, Term], dict[Reg, Term]]:  # fmt: skip
    """Split the modified registers into those with a loop-invariant step, and the rest with
    their value after one iteration."""
    envs = list(ends)
    changing = {entry[reg] for reg in modified}
    steps: dict[Reg, Term] = {}
    after: dict[Reg, Term] = {}
    for reg in modified:
        values = {env.get(reg, entry[reg]) for env in envs}
        value = values.pop() if len(values) == 1 else None
        if value is None:
            continue
        # Terms of one bit are no sums: what an iteration makes of a predicate is kept as it is.
        step = terms.sub(value, entry[reg]) if value.width > 1 else value
        if value.width > 1 and invariant(step, changing):
            steps[reg] = step
        else:
            after[reg] = value
    return steps, after


def invariant(term: Term, changing: set[Term]) -> bool:
    """Is the term the same in every iteration? Values read from memory are not, unless the memory
    is read-only."""
    for node in walk(term):
        if node in changing:
            return False
        if node.kind is op.APPLY and (node.value[1] is Variance.LANE or node.value[0][0] == "phi"):
            return False
        if node.kind is op.ATOM and node.origin not in FIXED_IN_LOOPS:
            return False
    return True


def enter(
    facts: LoopFacts, states: Sequence[State], terms: Terms, path_variance: Callable[[], Variance]
) -> Entered:
    """Put the values of any one iteration into `states`, which come from outside the loop. `ways`
    tells how much it varies over the lanes which of several states a lane is in."""
    for state in states:
        for reg, atom in facts.entry.items():
            if reg not in state.env:
                state.env[reg] = undefined(terms, reg, atom.width)
    apart = path_variance() if len(states) > 1 else Variance.UNIFORM
    level: dict[Reg, Variance] = dict.fromkeys(facts.modified, apart)
    for state in states:
        for reg, most in _variances(facts, state.env).items():
            level[reg] = max(level[reg], most)
    count = terms.iteration(facts.label)
    begins = {
        atom: value for reg, atom in facts.entry.items()
        if all(s.env[reg] is (value := states[0].env[reg]) for s in states)
    }  # fmt: skip
    iterations = _iterations(facts, [state.env for state in states], level, terms)
    atoms: dict[Term, None] = {count: None}
    given: dict[Term, tuple[Term, ...]] = {}
    for state in states:
        before = state.conditions
        made, again = _begin(facts, state, count, level, terms)
        atoms.update(dict.fromkeys(made))
        given[again] = tuple(c for c in given.get(again, before) if c in before)
    inside = facts.again is None
    entries = tuple(LoopEntry(again, known, inside) for again, known in given.items())
    uniform = apart is Variance.UNIFORM and all(_uniform(facts, s, terms) for s in states)
    counts = {atom: iterations[atom] for atom in atoms if atom in iterations}
    left = {a: a if uniform else terms.behind(a) for a in atoms}
    return Entered(left, uniform, counts, count, entries, begins)


def _begin(
    facts: LoopFacts, state: State, count: Term, level: Mapping[Reg, Variance], terms: Terms
) -> tuple[list[Term], Term]:
    """Put the values of iteration `count` into one state. Returns the atoms made for it, and the
    condition of the way back that led to any iteration but the first."""
    iteration = _Iteration(facts, dict(state.env), count, terms)
    atoms: list[Term] = []
    for reg, atom in facts.entry.items():
        if reg not in facts.modified:
            continue
        if reg in facts.steps:
            state.env[reg] = iteration.now(atom)
            continue
        followed = iteration.follow(reg)
        if followed is None:
            followed = _unfollowed(facts, reg, level, terms)
            atoms.append(followed)
        state.env[reg] = followed
    if facts.writes:
        # The iterations before this one have written. The mark is negative, as no instruction's is:
        # memory at the header is another time than behind any store of the body.
        state.epochs = ended(state.epochs, facts.writes, -1 - facts.header)
    for bound in iteration.falling(state.env):
        state.conditions = state.assume(bound)
    asked = facts.again or facts.goes_on
    sides = None if asked is None else iteration.condition(asked, state.env)
    if sides is None:
        return atoms, terms.const(1, 1)
    # A rotated loop tests at its end what its guard tested before the first iteration: a condition
    # that holds on entry and on the way back holds in every iteration.
    first, again = sides
    if first is terms.const(1, 1) or first in state.conditions:
        state.conditions = state.assume(again)
    return atoms, again


def _unfollowed(facts: LoopFacts, reg: Reg, level: Mapping[Reg, Variance], terms: Terms) -> Term:
    """What stands for a register of which it is not known how it changes."""
    name, width = f"loop({facts.label}, {named(reg)})", facts.entry[reg].width
    of = (facts.label, named(reg))
    return terms.atom(name, width, level[reg], None, Origin.LOOP_VALUE, of)


def _iterations(
    facts: LoopFacts, entered: Sequence[Mapping[Reg, Term]], level: Mapping[Reg, Variance],
    terms: Terms,
) -> dict[Term, Iterations]:  # fmt: skip
    """The first iterations of each register that follows from itself and from what stays, such as
    `s *= 2`, by the atom that stands for it. The same however the loop is entered."""
    iterations: dict[Term, Iterations] = {}
    changing = {facts.entry[reg] for reg in facts.modified}
    for reg, after in facts.after.items():
        if level[reg] is not Variance.UNIFORM or after.size > _LARGEST_ITERATION:
            continue
        if not invariant(after, changing - {facts.entry[reg]}) or facts.again is None:
            continue
        several = {_unrolled(facts, reg, before, terms) for before in entered}
        if len(several) == 1:
            iterations[_unfollowed(facts, reg, level, terms)] = several.pop()
    return iterations


def _unrolled(facts: LoopFacts, reg: Reg, before: Mapping[Reg, Term], terms: Terms) -> Iterations:
    assert facts.again is not None
    values = {atom: before[r] for r, atom in facts.entry.items() if r not in facts.modified}
    value = before[reg]
    iterations: list[IterationValue] = []
    while len(iterations) < _MOST_ITERATIONS:
        now = {**values, facts.entry[reg]: value}.get
        again = substitute(terms, facts.again, now)
        iterations.append(IterationValue(value, again))
        if again.kind is op.CONST and not again.value:
            break
        value = substitute(terms, facts.after[reg], now)
    return tuple(iterations)


class _Iteration:
    """Any one iteration of a loop that was entered with the values `before`."""

    def __init__(
        self, facts: LoopFacts, before: Mapping[Reg, Term], count: Term, terms: Terms
    ) -> None:
        self._facts, self._before, self._count, self._terms = facts, before, count, terms
        self._unstable = {facts.entry[r] for r in facts.modified if r not in facts.steps}
        # A term taken behind an iteration speaks of the entry atoms of that iteration. So what it
        # was before the loop is its value behind the iteration before the first, were there one: a
        # step back.
        self._first: dict[Term, Term] = {}  # the iteration before the first
        self._last: dict[Term, Term] = {}  # the iteration before this one
        self._now: dict[Term, Term] = {}
        actual = {atom: before[reg] for reg, atom in facts.entry.items()}
        memo: dict[Term, Term] = {}
        for reg, atom in facts.entry.items():
            value = before[reg]
            self._first[atom] = self._last[atom] = self._now[atom] = value
            if reg in facts.steps:
                step = substitute(terms, facts.steps[reg], actual.get, memo)
                iterations = terms.extract(count, 0, atom.width)
                now = terms.add(value, terms.mul(step, iterations))
                self._first[atom] = terms.sub(value, step)
                self._last[atom] = terms.sub(now, step)
                self._now[atom] = now

    def now(self, atom: Term) -> Term:
        """The value of an induction variable in this iteration."""
        return self._now[atom]

    def before_and_now(self, after: Term) -> tuple[Term, Term] | None:
        """What a term over one iteration's entry atoms, taken behind the iteration, would have been
        before the loop, and is at the start of this iteration; None where it is not known to follow
        the induction variables."""
        if not invariant(after, self._unstable):
            return None
        before = substitute(self._terms, after, self._first.get)
        return before, substitute(self._terms, after, self._last.get)

    def condition(self, again: Term, now: Mapping[Reg, Term]) -> tuple[Term, Term] | None:
        """The same of the condition on which the loop goes round. It may ask about values with
        which the next iteration begins: `s *= 2; if (s < n) goto LOOP`. `now` has this one's."""
        terms, first, last = self._terms, dict[Term, Term](), dict[Term, Term]()
        for reg, after in self._facts.after.items():
            # As comparisons with numbers see what was extended, too.
            of = after.args[0] if after.kind is op.ZEXT else after
            if of.kind is not op.CONST:
                first[of] = terms.extract(self._before[reg], 0, of.width)
                last[of] = terms.extract(now[reg], 0, of.width)
        numbers = {of: terms.const(0, of.width) for of in first}
        if not invariant(substitute(terms, again, numbers.get), self._unstable):
            return None
        return (
            substitute(terms, again, {**self._first, **first}.get),
            substitute(terms, again, {**self._last, **last}.get),
        )

    def falling(self, now: Mapping[Reg, Term]) -> Iterator[Term]:
        """That registers which only fall, such as in `s /= 2`, are no more than they began with."""
        for reg, after in self._facts.after.items():
            if _falls(after, self._facts.entry[reg]):
                yield self._terms.ule(now[reg], self._before[reg])

    def follow(self, reg: Reg) -> Term | None:
        """The value of a register that is a function of induction variables on entry, and is
        made the same function of them in every iteration: `i - 2` kept beside `i`."""
        after = self._facts.after.get(reg)
        sides = None if after is None else self.before_and_now(after)
        # By induction: the first iteration has to begin with the value that all others are left
        # with.
        if sides is None or sides[0] is not self._before[reg]:
            return None
        return sides[1]


def _falls(after: Term, before: Term) -> bool:
    """Is a value surely no more than another one, read as unsigned?"""
    if after.kind is op.UDIV:
        value, by = after.args
        return value is before and by.kind is op.CONST and by.value > 0
    high = after.args[0] if after.kind is op.ZEXT else after
    return high.kind is op.EXTRACT and high.args[0] is before


def _variances(facts: LoopFacts, before: Mapping[Reg, Term]) -> dict[Reg, Variance]:
    """How much each changing register varies in an iteration: the least solution of `as much as its
    first value and all that one iteration mixes in`."""
    by_atom = {atom: reg for reg, atom in facts.entry.items()}
    level = {reg: before[reg].variance for reg in facts.modified}
    # Registers may mix each other in, round and round: so it starts low, and only rises.
    mixes: dict[Reg, list[Reg]] = {}
    for reg in facts.modified:
        value = facts.steps.get(reg) or facts.after.get(reg)
        if value is None:
            level[reg] = Variance.LANE
            continue
        for node in walk(value):
            other = by_atom.get(node)
            if other in facts.modified:
                mixes.setdefault(reg, []).append(other)
            elif other is not None:
                level[reg] = max(level[reg], before[other].variance)
            elif node.kind is op.APPLY:
                level[reg] = max(level[reg], node.value[1])
            elif node.kind is op.ATOM:
                level[reg] = max(level[reg], node.variance)
    changed = True
    while changed:
        changed = False
        for reg, sources in mixes.items():
            most = max(level[s] for s in sources)
            if most > level[reg]:
                level[reg] = most
                changed = True
    return level


def _uniform(facts: LoopFacts, state: State, terms: Terms) -> bool:
    if facts.exits is None:
        return False
    now = {atom: state.env.get(reg, atom) for reg, atom in facts.entry.items()}
    return all(substitute(terms, p, now.get).variance == Variance.UNIFORM for p in facts.exits)
