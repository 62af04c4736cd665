"""What loops make of their registers, iteration by iteration, where these are few.

    for (d = 64, s = 1; d > 0; d /= 2, s *= 2)      (d, s) is (64, 1), (32, 2), … (1, 64)
    for (…; …; buffer ^= 1)                         0, 1, and so on without end

Registers of one loop are taken together, in the same iteration: what relates them holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ptxsw.correctness.kernel_values import KernelValues
from ptxsw.emulator.recurrences import Iterations
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, unknowns
from ptxsw.terms.origin import OF_LOOPS, Origin

_MOST_LOOPS = 3

Round = Mapping[Term, int]


class LoopRounds:
    """The loops of one kernel."""

    def __init__(self, values: KernelValues) -> None:
        self._values = values
        self._fixed: dict[Term, int] = {}  # sizes that are known

    def of(self, terms: Sequence[Term], most: int) -> list[Round] | None:
        """The values that what loops change in some terms may have together, at most so many; None
        where that is not known."""
        atoms = self._all([a for a in unknowns(*terms) if a.origin in OF_LOOPS])
        if atoms is None:
            return None
        loops: dict[tuple[str, bool], list[Term]] = {}
        for atom in atoms:  # what others start from comes first
            loops.setdefault((atom.of[0], _is_last(atom)), []).append(atom)
        if len(loops) > _MOST_LOOPS:
            return None
        rounds: list[Round] = [dict(self._fixed)]
        for inside in loops.values():
            following: list[Round] = []
            for before in rounds:
                added = self._rounds(inside, before, most)
                if added is None or len(following) + len(added) > most:
                    return None
                following += [{**before, **one} for one in added]
            rounds = following
        return rounds

    def _all(self, atoms: Sequence[Term]) -> list[Term] | None:
        """With those that their values are made of, these first."""
        found: dict[Term, None] = {}

        def add(atom: Term, around: tuple[Term, ...]) -> bool:
            if atom in found:
                return True
            if atom in around or len(around) > _MOST_LOOPS:
                return False
            for one in self._values.iterations(atom) or ():
                for inner in unknowns(one.value):
                    looped = inner.origin in OF_LOOPS
                    if not (add(inner, (*around, atom)) if looped else self._is_fixed(inner)):
                        return False
            found[atom] = None
            return True

        return list(found) if all(add(atom, ()) for atom in atoms) else None

    def _is_fixed(self, atom: Term) -> bool:
        limits = self._values.limits(atom)
        if limits is not None and limits[0] == limits[1]:
            self._fixed[atom] = limits[0]
        return atom in self._fixed

    def _rounds(self, atoms: Sequence[Term], before: Round, most: int) -> list[Round] | None:
        """The values of the registers of one loop, whose first ones are made of others."""
        lists = {atom: self._values.iterations(atom) for atom in atoms if not _is_count(atom)}
        counts = [atom for atom in atoms if _is_count(atom)]
        if any(listed is None for listed in lists.values()):
            return None
        rounds: list[Round] = []
        met: set[tuple[int, ...]] = set()
        end = self._end(atoms[0].of[0], before)
        for number, one in enumerate(self._zipped(lists, before, most + 1)):
            if end is not None and number == end:
                return rounds
            state = tuple(one.values())
            if end is None and (counts or number >= most):
                return None
            if end is None and state in met:
                return rounds  # it goes round in a circle
            met.add(state)
            rounds.append({**one, **dict.fromkeys(counts, number)})
        return rounds if end is not None and len(rounds) == end else None

    def _zipped(
        self, lists: Mapping[Term, Iterations | None], before: Round, most: int
    ) -> Iterator[Round]:
        for number in range(most):
            one: dict[Term, int] = {}
            for atom, listed in lists.items():
                if listed is None or number >= len(listed):
                    return
                if not before.keys() >= {*unknowns(listed[number].value)}:
                    return  # two loops that begin with what the other one leaves
                one[atom] = int(evaluate(listed[number].value, before))
            yield one

    def _end(self, label: str, before: Round) -> int | None:
        """How many iterations a loop makes at most."""
        ends = []
        for atom, listed in self._values.trace.iterations.items():
            if atom.of[0] == label:
                for number, one in enumerate(listed):
                    again = one.again
                    if set(unknowns(again)) <= before.keys() and not evaluate(again, before):
                        ends.append(number + 1)
                        break
        limits = self._values.limits(self._values.terms.iteration(label))
        if limits is not None:
            ends.append(limits[1] + 1)
        return min(ends, default=None)


def _is_last(atom: Term) -> bool:
    return atom.origin in (Origin.LAST_ITERATION, Origin.LAST_LOOP_VALUE)


def _is_count(atom: Term) -> bool:
    return atom.origin in (Origin.ITERATION, Origin.LAST_ITERATION)
