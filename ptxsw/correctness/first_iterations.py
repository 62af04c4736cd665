"""What registers hold in the first iterations of a loop in which each follows from the others.

    while (low < high) { middle = (low + high) / 2;  a[middle] < key ? low = middle + 1
                                                                     : high = middle }
    (low, high) is (0, n), and then (n / 2 + 1, n) or (0, n / 2)

What is read from memory that nobody writes may be anything: both ways are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from ptxsw.correctness.subject import Subject
from ptxsw.emulator.recurrences import LoopFacts
from ptxsw.emulator.state import named
from ptxsw.terms import op
from ptxsw.terms.node import Term, unknowns, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.substitution import substitute

_ROUNDS = 2  # behind the first
_MOST_CHOICES = 2  # of one iteration
_LARGEST = 200  # nodes of what a register holds

Round = tuple[Mapping[Term, Term], tuple[Term, ...]]
"""What registers hold, by the atoms that stand for them in the loop, and what holds then."""


def first_rounds(subject: Subject, atoms: Sequence[Term]) -> Iterator[Round]:
    """The first iterations of the one loop in which some registers change, as far as they are
    known."""
    trace = subject.trace
    labels = {atom.of[0] for atom in atoms if atom.origin is Origin.LOOP_VALUE}
    found = [(h, f) for h, f in trace.loop_facts.items() if {f.label} == labels]
    if len(found) != 1 or any(atom.origin is not Origin.LOOP_VALUE for atom in atoms):
        return
    ((header, facts),) = found
    begins = trace.begins.get(header, {})
    one_exit = len({source for source, _ in subject.cfg.loops[header].exits}) == 1
    if facts.again is None or not one_exit or set(facts.entry.values()) - begins.keys():
        return
    rounds: list[Round] = [(begins, ())]
    for _ in range(_ROUNDS):
        rounds = [later for one in rounds for later in _next(subject, facts, *one)]
        for values, given in rounds:
            yield _in_loop(subject, facts, values), given


def _in_loop(subject: Subject, facts: LoopFacts, values: Mapping[Term, Term]) -> dict[Term, Term]:
    names = {(facts.label, named(reg)): values[atom] for reg, atom in facts.entry.items()}
    met = (a for access in subject.trace.accesses for v in access.variants
           for a in unknowns(v.address, v.guard, *v.conditions))  # fmt: skip
    return {
        atom: names[atom.of] for atom in met
        if atom.origin is Origin.LOOP_VALUE and atom.of in names
    }  # fmt: skip


def _next(
    subject: Subject, facts: LoopFacts, values: Mapping[Term, Term], given: tuple[Term, ...]
) -> Iterator[Round]:
    """The iterations that may follow one."""
    terms = subject.trace.terms

    def now(term: Term) -> Term:
        return substitute(terms, term, values.get)

    assert facts.again is not None
    after = dict(values)
    for reg, atom in facts.entry.items():
        if reg in facts.steps:
            after[atom] = terms.add(values[atom], now(facts.steps[reg]))
        elif reg in facts.after:
            after[atom] = now(facts.after[reg])
        elif reg in facts.modified:
            return
    again = now(facts.again)
    if max(again.size, *(value.size for value in after.values())) > _LARGEST:
        return
    chosen = [c for c in _choices(again, *after.values()) if _is_free(subject, c)]
    if len(chosen) > _MOST_CHOICES:
        return
    for truths in product((0, 1), repeat=len(chosen)):
        told = {c: terms.const(t, 1) for c, t in zip(chosen, truths, strict=True)}
        yield (
            {atom: substitute(terms, value, told.get) for atom, value in after.items()},
            (*given, substitute(terms, again, told.get)),
        )


def _choices(*values: Term) -> dict[Term, None]:
    """The conditions on which values are chosen."""
    return dict.fromkeys(node.args[0] for node in walk(*values) if node.kind is op.ITE)


def _is_free(subject: Subject, condition: Term) -> bool:
    """May memory that nobody writes decide a condition either way?"""
    loads = [node for node in walk(condition) if node.origin is Origin.LOAD]
    return bool(loads) and all(map(subject.two_threads.views.is_read_only, loads))
