"""Values in the words of the next place.

    ld.global.f32 %f1, [%rd4+8];    a value over what is known where the comparison began:
    mov.b32 %keep, %f1;             what memory held then, 8 bytes behind %rd4 as it was then
    add.s64 %rd4, %rd4, 8;
    NEXT:                           %keep is what memory holds, right at %rd4

Where two paths end, their values become values over what is known at the next place. What means the
same at all times stays. What memory held is what it holds now, if no store of the path has hit it.
Anything else is said by a register of the first text that holds it, or holds it but for a number.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxsw.facts.loads import CONSTANT
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, arguments, bottom_up, split
from ptxsw.terms.origin import OF_LOOPS
from ptxsw.terms.substitution import rebuild
from ptxsw.terms.terms import Terms
from ptxsw.validate.memory import Memory
from ptxsw.validate.memory_ssa import Bytes
from ptxsw.validate.path import Path
from ptxsw.validate.text import MAX_KNOWN, Text

Arrival = tuple[frozenset[Term], Term | None]
"""What was decided, and the value; None for one that may change."""

_Items = tuple[int, tuple[tuple[Term, int], ...]]
"""A sum without its constant: its width, and each term with its coefficient."""


class PhiTranslation:
    """Expresses values at the end of a path of the first text in the terms of the place where it
    ends. `loops` are those that may have gone on in some lane. `steady`: is memory the same in both
    texts, so that values may be expressed as loads?"""

    def __init__(
        self,
        memory: Memory,
        text: Text,
        old: Path,
        live: Sequence[Reg],
        given: Sequence[Term],
        *,
        loops: frozenset[str] | None,
        steady: bool,
    ) -> None:
        """`loops`: None where it is not known which ones may have gone on."""
        self._memory, self._text, self._old = memory, text, old
        self._loops = loops
        self._terms: Terms = memory.terms
        self._given, self._steady = given, steady
        self._last = len(old.stores) - 1
        self._said: dict[Term, Term | None] = {}
        self._words: dict[_Items, tuple[int, Term]] = {}
        self.registers: dict[Term, Reg] = {}  # by the unknowns that bear their names
        self._holding: dict[Term, set[Term]] = {}
        for reg in live:
            value = old.get(reg)
            constant, items = split(value)
            word = text.unknown(reg)
            self.registers[word] = reg
            self._holding.setdefault(value, set()).add(word)
            if items:
                self._words.setdefault((value.width, items), (constant, word))

    def holding(self, value: Term) -> frozenset[Term]:
        """The registers that hold a value, by the unknowns that bear their names."""
        return frozenset(self._holding.get(value, ()))

    def value(self, value: Term) -> Term | None:
        """The value in the terms of the next place; None if it cannot be expressed there."""
        if value.size > MAX_KNOWN:
            return None
        said = self._said
        if value not in said:
            for node in bottom_up(said, arguments, value):
                said[node] = self._node(node)
        return said[value]

    def _node(self, node: Term) -> Term | None:
        if node.kind is op.CONST:
            return node
        if node.kind is op.ATOM:
            return node if self._lasts(node) else self._word(node)
        args = [self._said[arg] for arg in node.args]
        if None not in args:
            parts = tuple(arg for arg in args if arg is not None)
            load = node.kind is op.APPLY and node.value[0][0] == "load"
            value = self._load(node, parts) if load else rebuild(self._terms, node, parts)
            if value is not None:
                return value
        return self._word(node)

    def _lasts(self, node: Term) -> bool:
        """Does an unknown mean the same at the next place? How often a loop was gone round, and
        what a register held in its last iteration, stays so until the loop is gone round again."""
        if node.origin in OF_LOOPS:
            return self._loops is not None and node.of[0] not in self._loops
        return self._text.lasts(node)

    def _word(self, node: Term) -> Term | None:
        """The register that holds a value, or another one that is some number away."""
        constant, items = split(node)
        base = self._words.get((node.width, items))
        if base is None:
            return None
        distance = wrapped(constant - base[0], node.width)
        return self._terms.add(base[1], self._terms.const(distance, node.width))

    def _load(self, node: Term, args: tuple[Term, ...]) -> Term | None:
        """A load, if its bytes are never written or still hold the same value."""
        name = node.value[0]
        if len(name) != 4:
            return None
        space, epoch = name[1], name[2]
        if epoch == CONSTANT:
            return rebuild(self._terms, node, args)
        if not self._steady or epoch != self._last:
            return None
        # Load again after all stores of the path: if that gives the same term, none of them has hit
        # the bytes, and memory still holds the value at the next place.
        size = node.width // 8
        before = Bytes(space, node.args[0], size)
        if self._memory.load(self._old.stores[-1], epoch, before, self._given) is not node:
            return None
        return self._memory.load((), 0, Bytes(space, args[0], size), ())


def chosen_by_condition(terms: Terms, arrivals: Sequence[Arrival], name: str) -> Term | None:
    """One value for several arrivals: a choice by the conditions in which they differ. `name` is
    the unknown that stands for values that are not known."""
    (decided, value), *others = arrivals
    if all(other is value for _, other in others):
        return value
    for condition in sorted(decided, key=lambda c: c.id):
        never = terms.not_(condition)
        there = [arrival for arrival in arrivals if condition in arrival[0]]
        elsewhere = [arrival for arrival in arrivals if never in arrival[0]]
        if elsewhere and len(there) + len(elsewhere) == len(arrivals):
            sides = [chosen_by_condition(terms, side, name) for side in (there, elsewhere)]
            width = next((s.width for s in sides if s is not None), 0)
            if not width:
                return None
            unknown = terms.atom(name, width, Variance.LANE)
            yes, no = (unknown if side is None else side for side in sides)
            return terms.ite(condition, yes, no)
    return None
