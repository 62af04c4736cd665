"""What registers hold in the iterations of loops, where that is known: `for (s = 64; s; s /= 2)`.

Registers of one loop go together, iteration by iteration; those of an inner loop may follow from
what those of the outer one hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from ptxsw.facts.thread_views import ThreadViews
from ptxsw.terms import op
from ptxsw.terms.node import Term, unknowns
from ptxsw.terms.origin import Origin
from ptxsw.terms.substitution import substitute

Assignment = Mapping[Term, int]
Other = Callable[[Term], Term]
"""What thread u has in the place of a term of thread t."""

_MOST = 128  # assignments


def loop_assignments(
    views: ThreadViews, other: Other, terms: Iterable[Term]
) -> list[Assignment] | None:
    """The values that loops give to registers in some terms, in every iteration that threads t and
    u can be in together; one assignment of nothing where no loop is known. None: they are too
    many."""
    found: list[Assignment] = []
    wanted = {a for a in unknowns(*terms) if _is_followed(views, other, a)}
    for assignment in _assigned(views, other, wanted, {}):
        found.append(assignment)
        if len(found) > _MOST:
            return None
    return found


def _is_followed(views: ThreadViews, other: Other, atom: Term) -> bool:
    known = atom.origin is Origin.LOOP_VALUE and atom in views.trace.iterations
    return known and other(atom) is atom


def _assigned(
    views: ThreadViews, other: Other, wanted: set[Term], known: dict[Term, int]
) -> Iterator[Assignment]:
    labels = dict.fromkeys(atom.of[0] for atom in sorted(wanted, key=lambda a: a.id))
    for label in labels:
        atoms = [atom for atom in wanted if atom.of[0] == label]
        columns = [_values(views, atom, known)[0] for atom in atoms]
        count = _iterations(views, label, known)
        if count is not None and all(len(column) >= count for column in columns):
            rest = wanted.difference(atoms)
            for values in islice(zip(*columns, strict=False), count):
                more = {**known, **dict(zip(atoms, values, strict=True))}
                yield from _assigned(views, other, rest, more)
            return
    # What follows from a loop that nobody asked for is known once that loop is.
    outer = {a for atom in wanted for a in _outer(views, atom) if a not in known} - wanted
    outer = {a for a in outer if _is_followed(views, other, a)}
    if outer:
        yield from _assigned(views, other, wanted | outer, known)
    else:
        yield known


def _iterations(views: ThreadViews, label: str, known: Mapping[Term, int]) -> int | None:
    """How many iterations of a loop there are at most, by any register that tells; None where none
    does."""
    told = [_values(views, a, known) for a in views.trace.iterations if a.of[0] == label]
    return min((len(values) for values, ends in told if ends), default=None)


def _outer(views: ThreadViews, atom: Term) -> Iterator[Term]:
    for each in views.trace.iterations[atom]:
        yield from unknowns(views.own(each.value))


def _values(views: ThreadViews, atom: Term, known: Mapping[Term, int]) -> tuple[list[int], bool]:
    """What a register holds in each iteration, as far as that is known; and whether there are no
    others."""
    terms = views.terms

    def leaf(node: Term) -> Term | None:
        value = known.get(node)
        return None if value is None else terms.const(value, node.width)

    def told(term: Term) -> Term:
        return substitute(terms, views.own(term), leaf)

    values: list[int] = []
    for each in views.trace.iterations[atom]:
        value = told(each.value)
        if value.kind is not op.CONST:
            return values, False
        values.append(int(value.value))
        again = told(each.again)
        if again.kind is op.CONST and not again.value:
            return values, True
    return values, False
