"""What rules say of places and values, in words."""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.correctness.subject import Subject
from ptxsw.terms.node import Term, walk
from ptxsw.terms.origin import Origin

_WORDS = {
    Origin.LOAD: "is loaded from memory",
    Origin.ITERATION: "depends on the count of a loop that threads may leave at different times",
    Origin.LAST_ITERATION: "depends on the count of a loop that threads leave at different times",
    Origin.LOOP_VALUE: "changes in a loop in a way that is not followed",
    Origin.LAST_LOOP_VALUE: "changes in a loop in a way that is not followed",
    Origin.MERGED: "depends on the path that a thread took",
    Origin.UNDEFINED: "was never written",
}


_PLACES = frozenset({"%tid.x", "%tid.y", "%tid.z", "%laneid"})


def without_weaker(conditions: Iterable[str]) -> str:
    """Conditions together; of two limits of one size the smaller: "n <= 5" and not "n <= 7"."""
    limits = limits_of(conditions)
    kept: dict[str, None] = {}
    for condition in conditions:
        size = condition.partition(" <= ")[0]
        kept[f"{size} <= {limits[size]:,}" if size in limits else condition] = None
    return " and ".join(kept)


def limits_of(conditions: Iterable[str]) -> dict[str, int]:
    """The most that each size may be where conditions bind it by a number."""
    limits: dict[str, int] = {}
    for condition in conditions:
        size, relation, number = condition.partition(" <= ")
        plain = number.replace(",", "")
        if relation and plain.isdecimal():
            limits[size] = min(int(plain), limits.get(size, int(plain)))
    return limits


def proved_for(subject: Subject) -> str:
    """Of which launches a proof speaks."""
    if subject.shape is None:
        return "proved for all blocks"
    return f"proved for blocks of {' x '.join(map(str, subject.shape))}"


def why_not_shared(subject: Subject, branch: int) -> str:
    """Why the threads of a block may part at a branch."""
    values = [v for d in subject.trace.decisions.get(branch, ()) for v in d.values]
    terms = [value for value in values if isinstance(value, Term)]
    return f"the condition at line {subject.line(branch)} {_of(terms)}"


def _of(terms: list[Term]) -> str:
    nodes = list(walk(*terms))
    if any(node.origin is Origin.LOAD for node in nodes):
        return _WORDS[Origin.LOAD]
    lanes = sorted({str(node.value) for node in nodes} & _PLACES)
    if lanes:
        return f"depends on {' and '.join(lanes)}"
    for origin, words in _WORDS.items():
        if any(node.origin is origin for node in nodes):
            return words
    return "is not followed"
