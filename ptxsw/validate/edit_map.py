"""Which places of the first text are which of the second.

Only places where blocks of the first text begin matter. A label corresponds to itself if both texts
have it, and the places behind a branch that both texts have correspond. Branches are found by
aligning everything that decides the flow: first the labels outside scopes, then what lies between
them. Copies of code in the second text are aligned in a second round, in which labels inside scopes
match by name: with the code beside them if that is what they copy, otherwise with any. A wrong map
cannot make a wrong proof: it only makes the proof fail.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise

from msgspec import Struct

from ptxsw.flow.cfg import ends_block
from ptxsw.ptx.ir import Body, Instruction, Label, Symbol

Pair = tuple[int, int]
"""A place in each text, as positions in `Body.instructions`."""

_Key = tuple[Hashable, ...]
_Skeleton = Sequence[tuple[_Key, int | None]]


class EditMap(Struct, frozen=True, dict=True):
    """Pairs of places: control before the one in the first text corresponds to control before the
    other in the second. A place may have several
    images, where code of the first text stands more than once in the second. Those `inside` are
    not where a block of the first text begins."""

    places: tuple[Pair, ...]
    inside: tuple[Pair, ...] = ()

    @cached_property
    def images(self) -> Mapping[int, frozenset[int]]:
        images: defaultdict[int, set[int]] = defaultdict(set)
        for old, new in (*self.places, *self.inside):
            images[old].add(new)
        return {old: frozenset(new) for old, new in images.items()}


def infer(old: Body, new: Body, more: Iterable[Pair] = ()) -> EditMap:
    """The map that the two texts suggest, and `more` places that somebody knows."""
    # Alignment maps the second text onto the first, since a place of the first may have several
    # images and a place of the second has one origin.
    first, second = _skeleton(old), _skeleton(new)
    both = dict(_between_labels([k for k, _ in second], [k for k, _ in first]))
    pairs = list(both.items())
    anywhere: list[int] = []
    for run in _runs(both, len(second)):
        begin = both.get(run[-1] + 1, len(first))
        beside = range(max(begin - len(run), 0), min(begin + len(run), len(first)))
        by_name = list(_by_name(second, run, first, beside))
        pairs += by_name
        if not any(second[b][0][0] == "label" for b, _ in by_name):
            anywhere += run
    pairs += _by_name(second, anywhere, first, range(len(first)))
    places = {(first[a][1], second[b][1]) for b, a in pairs} | _same_labels(first, second)
    positions = {(p, q) for p, q in places if p is not None and q is not None}
    return EditMap(tuple(sorted(positions | set(more))))


def _runs(both: Mapping[int, int], count: int) -> Iterator[list[int]]:
    """Positions, up to `count`, that stand together and are no keys."""
    run: list[int] = []
    for at in range(count):
        if at not in both:
            run.append(at)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _by_name(
    second: _Skeleton, run: Sequence[int], first: _Skeleton, beside: range
) -> Iterator[tuple[int, int]]:
    """What in a part of the second text is a copy of a part of the first."""
    names = [_without_scope(second[at][0]) for at in run]
    for a, b in _aligned(names, [_without_scope(first[at][0]) for at in beside]):
        yield run[a], beside[b]


def _same_labels(first: _Skeleton, second: _Skeleton) -> set[tuple[int | None, int | None]]:
    """The places of labels outside scopes, which both texts have."""
    labels = {key: at for key, at in second if _is_outside(key)}
    return {(at, labels[key]) for key, at in first if key in labels}


def _between_labels(second: Sequence[_Key], first: Sequence[_Key]) -> Iterator[tuple[int, int]]:
    """Positions that correspond. Labels outside scopes, each of which stands once, are found first:
    a copy in a scope could be aligned with one far away, across what stands between."""
    places = [[at for at, key in enumerate(keys) if _is_outside(key)] for keys in (second, first)]
    names = [[keys[at] for at in own] for keys, own in zip((second, first), places, strict=True)]
    anchors = [(places[0][b], places[1][a]) for b, a in _aligned(*names)]
    for (b, a), (c, d) in pairwise([(-1, -1), *anchors, (len(second), len(first))]):
        if b >= 0:
            yield b, a
        for at, other in _aligned(second[b + 1 : c], first[a + 1 : d]):
            yield b + 1 + at, a + 1 + other


def _is_outside(key: _Key) -> bool:
    return key[0] == "label" and not key[2]


def _aligned(first: Sequence[_Key], second: Sequence[_Key]) -> Iterator[tuple[int, int]]:
    """Positions in two sequences that correspond."""
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for block in matcher.get_matching_blocks():
        yield from ((block.a + at, block.b + at) for at in range(block.size))


def _without_scope(key: _Key) -> _Key:
    return key[:2] if key[0] == "label" else key


def _skeleton(body: Body) -> list[tuple[_Key, int | None]]:
    """Labels and what ends blocks, each with the place that follows, if control goes there. Guards
    are left out: a rewrite may have found a better condition."""
    entries: list[tuple[_Key, int | None]] = []
    position = 0
    for statement in body.statements:
        if isinstance(statement, Label):
            entries.append((("label", statement.name, statement.scope > 0), position))
        elif isinstance(statement, Instruction):
            position += 1
            if ends_block(statement):
                target = tuple(o.name for o in statement.operands if isinstance(o, Symbol))
                guarded = statement.guard is not None
                behind = position if guarded else None
                entries.append(((statement.opcode, target, guarded), behind))
    return entries
