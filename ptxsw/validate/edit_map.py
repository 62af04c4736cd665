"""Which places of the first text are which of the second.

Only places where blocks of the first text begin matter. A label stands for itself where both texts
have it; behind a branch that both texts have, control is at the same place in both. Branches are
found by aligning what decides the flow: labels, branches and exits. Code that stands twice
in the second text is aligned in a second round, where the labels of scopes count by name. A wrong
map proves nothing wrong: it only makes the proof fail.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property

from msgspec import Struct

from ptxsw.flow.cfg import ends_block
from ptxsw.ir import Body, Instruction, Label, Symbol

_Key = tuple[Hashable, ...]


class EditMap(Struct, frozen=True, dict=True):
    """Pairs of places, as positions in `Body.instructions`: control before the one in the first
    text corresponds to control before the other in the second. A place may have several
    images, where code of the first text stands more than once in the second."""

    places: tuple[tuple[int, int], ...]

    @cached_property
    def images(self) -> Mapping[int, frozenset[int]]:
        found: defaultdict[int, set[int]] = defaultdict(set)
        for old, new in self.places:
            found[old].add(new)
        return {old: frozenset(new) for old, new in found.items()}


def infer(old: Body, new: Body, more: Iterable[tuple[int, int]] = ()) -> EditMap:
    """The map that the two texts suggest, and `more` places that somebody knows."""
    first, second = _skeleton(old), _skeleton(new)
    places = set(more)
    seen: set[int] = set()
    for a, b in _aligned([k for k, _ in first], [k for k, _ in second]):
        places.add((first[a][1], second[b][1]))
        seen.add(b)
    copied = [item for at, item in enumerate(second) if at not in seen]
    names = [[_without_scope(k) for k, _ in items] for items in (first, copied)]
    places.update((first[a][1], copied[b][1]) for a, b in _aligned(*names))
    labels = {k: at for k, at in second if k[0] == "label"}
    places.update((at, labels[k]) for k, at in first if k[0] == "label" and k in labels)
    return EditMap(tuple(sorted(places)))


def _aligned(first: Sequence[_Key], second: Sequence[_Key]) -> Iterator[tuple[int, int]]:
    """Positions in two sequences that correspond."""
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for block in matcher.get_matching_blocks():
        yield from ((block.a + at, block.b + at) for at in range(block.size))


def _without_scope(key: _Key) -> _Key:
    return key[:2] if key[0] == "label" else key


def _skeleton(body: Body) -> list[tuple[_Key, int]]:
    """Labels and what ends blocks, each with the place that follows. Guards are left out: a
    rewrite may have found a better condition."""
    found: list[tuple[_Key, int]] = []
    position = 0
    for statement in body.statements:
        if isinstance(statement, Label):
            found.append((("label", statement.name, statement.scope), position))
        elif isinstance(statement, Instruction):
            position += 1
            if ends_block(statement):
                target = tuple(o.name for o in statement.operands if isinstance(o, Symbol))
                guarded = statement.guard is not None
                found.append(((statement.opcode, target, guarded), position))
    return found
