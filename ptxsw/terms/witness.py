"""A search for values of all unknowns under which some conditions hold together.

It begins with values that are at hand and repairs what does not hold: the value that a condition
should have is followed down, through one argument of each operation, to an unknown that can give
it. So the last iteration of a loop, where a sum comes to the number that it is compared with, is
met in a few steps, which values drawn blindly hardly ever meet. Where nothing is met nothing is
known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ptxsw.terms import op
from ptxsw.terms.evaluate import operation
from ptxsw.terms.node import Term, bottom_up, ones

_MOST_WORK = 4_000  # nodes evaluated in one search, as often as they are
_MOST_REPAIRS = 12  # from one start


def witness(
    wanted: Sequence[tuple[Term, bool]], starts: Sequence[Callable[[Term], int]]
) -> Mapping[Term, int] | None:
    """Values of the unknowns, each within its bits, under which each condition has the truth that
    is wanted of it. Begins from each of `starts`, which gives values of unknowns."""
    nodes = _nodes([condition for condition, _ in wanted])
    repairs = min(_MOST_REPAIRS, _MOST_WORK // (len(nodes) * max(len(starts), 1)))
    for start in starts if repairs > 1 else ():
        search = _Search(nodes, wanted, start)
        if search.run(repairs):
            return search.unknowns
    return None


def _nodes(conditions: Sequence[Term]) -> list[Term]:
    """All that conditions are made of, arguments first. What is inside an unknown does not count:
    it may have any value."""
    seen: dict[Term, None] = {}
    for node in bottom_up(seen, lambda n: () if n.kind in op.OPAQUE else n.args, *conditions):
        seen[node] = None
    return list(seen)


class _Search:
    """Values on the way to a witness. `iteration` says which of several repairs is tried next."""

    def __init__(
        self,
        nodes: Sequence[Term],
        wanted: Sequence[tuple[Term, bool]],
        start: Callable[[Term], int],
    ) -> None:
        self._wanted = wanted
        self.unknowns = {node: start(node) for node in nodes if node.kind in op.OPAQUE}
        self._computed = [(n, operation(n), n.args) for n in nodes if n not in self.unknowns]
        self._values: dict[Term, int] = {}
        self._turn = 0

    def run(self, repairs: int) -> bool:
        """Do all conditions hold after at most so many repairs?"""
        for _ in range(repairs):
            self._evaluate()
            wrong = [each for each in self._wanted if self._values[each[0]] != each[1]]
            if not wrong:
                return True
            self._repair(*wrong[self._turn % len(wrong)])
            self._turn += 1
        return False

    def _evaluate(self) -> None:
        values = self._values = dict(self.unknowns)
        for node, computes, args in self._computed:
            values[node] = computes(*[values[arg] for arg in args])

    def _repair(self, term: Term, wanted: int) -> bool:
        """Set unknowns so that a term, looked at by itself, has another value. Of what stands in
        several places the last repair counts."""
        while term.kind not in op.OPAQUE:
            if self._values[term] == wanted:
                return True
            step = self._step(term, wanted)
            if step is None:
                return False
            term, wanted = step
        fits = wanted & ~ones(term) == 0
        if fits:
            self.unknowns[term] = int(wanted)
        return fits

    def _step(self, term: Term, wanted: int) -> tuple[Term, int] | None:
        """The argument of a term, and its value, by which the term gets the wanted one."""
        value = self._values
        match term.kind:
            case op.NOT:
                return term.args[0], 1 - wanted
            case op.EQ | op.ULT | op.ULE | op.SLT | op.SLE:
                return self._compared(term, wanted)
            case op.SUM:
                return self._summand(term, wanted)
            case op.MUL:
                return self._factor(term, wanted)
            case op.EXTRACT:
                low = int(term.value)
                rest = value[term.args[0]] & ~((1 << term.width) - 1 << low)
                return term.args[0], rest | wanted << low
            case op.CONCAT:
                high, low_part = term.args
                split = wanted >> low_part.width, wanted & (1 << low_part.width) - 1
                if value[high] != split[0] and value[low_part] != split[1]:
                    return (low_part, split[1]) if self._repair(high, split[0]) else None
                return (low_part, split[1]) if value[high] == split[0] else (high, split[0])
            case op.ZEXT:
                inner = term.args[0]
                return (inner, wanted) if wanted >> inner.width == 0 else None
            case op.SEXT:
                inner = term.args[0]
                return inner, wanted & (1 << inner.width) - 1
            case op.AND | op.OR:
                return self._bitwise(term, wanted)
            case op.ITE:
                return term.args[1 if value[term.args[0]] else 2], wanted
        return None

    def _compared(self, term: Term, wanted: int) -> tuple[Term, int] | None:
        """One side of a comparison, just beyond or at the other."""
        sides = [at for at in (0, 1) if term.args[at].kind is not op.CONST]
        at = sides[self._turn % len(sides)]
        side, other = term.args[at], self._values[term.args[1 - at]]
        mask = (1 << side.width) - 1
        if term.kind is op.EQ:
            return side, other if wanted else other + 1 & mask
        # a < b is b = a + 1; its contrary b = a; a <= b is b = a, and its contrary b = a - 1
        beyond = int(term.kind in op.STRICT) if wanted else int(term.kind in op.STRICT) - 1
        return side, (other - beyond if at == 0 else other + beyond) & mask

    def _summand(self, term: Term, wanted: int) -> tuple[Term, int] | None:
        """A term of a sum that can make up for what is missing, unknowns first."""
        size = 1 << term.width
        missing = wanted - self._values[term]
        able = []
        for part, coefficient in zip(term.args, term.value[1], strict=True):
            step = coefficient & -coefficient
            if missing % step == 0:
                more = missing // step * pow(coefficient // step, -1, size // step)
                value = (self._values[part] + more) % (size // step)
                if value & ~ones(part) == 0:
                    able.append((part, value))
        return self._chosen(able)

    def _factor(self, term: Term, wanted: int) -> tuple[Term, int] | None:
        size = 1 << term.width
        able = []
        for number, part in enumerate(term.args):
            others = 1
            for each in (*term.args[:number], *term.args[number + 1 :]):
                others = others * self._values[each] % size
            step = others & -others
            if others and wanted % step == 0:
                exact = wanted % others == 0
                value = (
                    wanted // others
                    if exact
                    else (wanted // step * pow(others // step, -1, size // step) % (size // step))
                )
                if value & ~ones(part) == 0:
                    able.append((part, value))
        return self._chosen(able)

    def _bitwise(self, term: Term, wanted: int) -> tuple[Term, int] | None:
        """An argument changed in those bits that the other does not decide."""
        able = []
        for part, other in (term.args, term.args[::-1]):
            here, there = self._values[part], self._values[other]
            value = wanted | (here & ~there) if term.kind is op.AND else wanted & (here | ~there)
            if part.kind is not op.CONST and value != here:
                able.append((part, value))
        return self._chosen(able)

    def _chosen(self, able: Sequence[tuple[Term, int]]) -> tuple[Term, int] | None:
        plain = [each for each in able if each[0].kind in op.OPAQUE] or able
        return plain[self._turn % len(plain)] if plain else None
