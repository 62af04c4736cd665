"""Registers that live on in the second text alone, and what they hold from place to place.

    @%p bra JOIN;                  %keep is what was there before, where %p is true
    ld.global.nc.f32 %f1, [%rd4];
    mov.b32 %keep, %f1;            and what the load gives, where it is not
    JOIN:

Their values follow from the text, or are taken along from where control comes: a value that can be
said at a place (`phi_translation.py`) is known where control arrives with it. Where it arrives with
several, what was decided on the path tells them apart, if that can be said, too. Where it cannot, a
register of the first text may hold the same on all paths; and the first text's register of the same
name may still hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property

from msgspec import Struct

from ptxsw.flow.dataflow import in_order
from ptxsw.ptx.ir import Instruction, Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms
from ptxsw.validate.basis import Basis
from ptxsw.validate.claims import ClaimChecker
from ptxsw.validate.cuts import Cut, Registers
from ptxsw.validate.edit_map import Pair
from ptxsw.validate.lanes import KernelLanes
from ptxsw.validate.path import Path
from ptxsw.validate.phi_translation import Arrival, PhiTranslation, chosen_by_condition

_MAX_ARRIVALS = 6
_MAX_DEPTH = 100  # equations, one in another


class _Held(Struct):
    """What control has come with in a register: the arrivals, the registers of the first text that
    have held the same on all of them, and what follows of the value."""

    arrivals: list[Arrival]
    holding: frozenset[Term]
    value: Term | None


def unknown_at(pair: Pair, reg: Reg) -> str:
    """The name of the unknown for what a register holds at a pair if nothing is known of it."""
    return f"unknown {pair} {reg.name}@{reg.scope}"


class LiveThrough:
    """What registers of the second text alone hold at pairs of places. `tells`: does the
    result of an instruction of the second follow from its operands at any time?"""

    def __init__(
        self,
        basis: Basis,
        lanes: KernelLanes,
        claims: ClaimChecker,
        tells: Callable[[Instruction], bool],
    ) -> None:
        self._basis = basis
        self._old, self._new, self._terms = basis.old, basis.new, basis.terms
        self._equality, self._memory, self._lanes = basis.equality, basis.memory, lanes
        self._claims, self._tells = claims, tells
        self._held: dict[Pair, dict[Reg, _Held]] = {}
        self._registers: dict[Term, Reg] = {}  # of the first text, by unknowns in the values
        self._differing: set[tuple[Pair, Reg]] = set()  # not always the same in both texts
        self._extra: dict[Pair, list[Reg]] = {}

    def at(self, pair: Pair) -> list[Reg]:
        """Registers that are live in the second text alone, and whose values no equation there
        expresses by registers of the first, or lanes vote on: a path may tell more of these."""
        registers = self._extra.get(pair)
        if registers is None:
            _, q = pair
            extra = self._new.live(q) - self._basis.common(pair)
            held = self._new.equations.at(q) if extra else 0
            derivable = dict.fromkeys(self._basis.common(pair), True)
            asked = self._asked
            registers = [r for r in extra if r in asked or not self._told(r, held, derivable)]
            self._extra[pair] = registers
        return registers

    @cached_property
    def _asked(self) -> frozenset[Reg]:
        """The predicates that all lanes vote on."""
        merged = self._lanes.merged
        return frozenset() if merged is None else merged.asked

    def _told(self, reg: Reg, held: int, derivable: dict[Reg, bool], depth: int = 0) -> bool:
        """Do equations express a register by registers whose values are known?"""
        if reg not in derivable and depth < _MAX_DEPTH:
            derivable[reg] = False  # while it is asked: an equation in a cycle tells nothing
            writer = self._new.equations.writer(held, reg)
            if writer is not None and self._tells(self._new.cfg.instructions[writer]):
                read = self._new.cfg.read[writer]
                derivable[reg] = all(self._told(r, held, derivable, depth + 1) for r in read)
        return derivable.get(reg, False)

    def kept_at(self, pair: Pair) -> list[Reg]:
        """Registers of the second text alone that the first has set, too, but does not need. They
        are believed to be the same in both until control comes with another value:

            ld.u64 %rd1, [%rd9];         the last use of %rd1 in the first text is the sum below
            add.s64 %rd2, %rd1, %rd3;
            LOOP:
            ld.f32 %f1, [%rd2];
            mov.b64 {%lo, %hi}, %rd1;    but the second compares it between lanes

        What %rd1 was loaded from may have changed since. But the first text's %rd1 holds what it
        held, used or not: so it tells what the second's holds."""
        widths = self._old.evaluator.width, self._new.evaluator.width
        return [
            r
            for r in self.at(pair)
            if r in self._named
            and widths[0](r) == widths[1](r)
            and (pair, r) not in self._differing
        ]

    @cached_property
    def _named(self) -> frozenset[Reg]:
        return frozenset(r for registers in self._old.cfg.written for r in registers)

    def values(self, pair: Pair, old: Registers) -> Mapping[Reg, Term | None]:
        """What registers of the second text alone hold, by those of the first."""
        memo: dict[Term, Term] = {}

        def leaf(node: Term) -> Term | None:
            reg = self._registers.get(node)
            return None if reg is None else old.get(reg)

        return {
            reg: held.value and substitute(self._terms, held.value, leaf, memo)
            for reg, held in self._held.get(pair, {}).items()
        }

    @property
    def lost(self) -> bool:
        """Is nothing known of a register that control has come with?"""
        return any(held.value is None for regs in self._held.values() for held in regs.values())

    # ------------------------------------------------------------ where control comes to a pair

    def carry(
        self, pair: Pair, cut: Cut, old: Path, new: Path, joint: tuple[Term, ...]
    ) -> Iterator[Pair]:
        """Hand the values of registers over to the next pair. Yields the pairs about which less is
        known than before."""
        extra = self.at(pair)
        if not extra:
            return
        for reg in self.kept_at(pair):
            if old.get(reg) is not new.get(reg):
                self._differing.add((pair, reg))
                yield pair
        live = in_order(self._old.live(pair[0]))
        # If stores are deferred, the memories of the two texts differ, and a value expressed as a
        # load would mean two things.
        steady = not cut.stores and not self._claims.puts_off(pair[0])
        loops = self._old.loops_gone_on(cut.old_position, pair[0], self._lanes.images)
        there = PhiTranslation(
            self._memory, self._old, old, live, joint, loops=loops, steady=steady
        )
        self._registers.update(there.registers)

        @cache  # expressing conditions in terms of the next place is slow
        def given() -> frozenset[Term]:
            said = map(there.value, joint)
            return frozenset(c for c in said if c is not None and c.kind is not op.CONST)

        for reg in extra:
            held = new.get(reg)
            if reg in self._asked:
                held = self._decided(held, joint)
            held = self._as_first(there, held, old, new, joint)
            value = _partly(self._terms, there, held, unknown_at(pair, reg))
            if self._arrive(pair, reg, value, there.holding(held), given()):
                yield pair

    def _arrive(
        self,
        pair: Pair,
        reg: Reg,
        value: Term | None,
        holding: frozenset[Term],
        given: frozenset[Term],
    ) -> bool:
        """Record that control arrives at a pair with a value, expressed in the terms of that place,
        under the conditions `given`. `holding` are the registers of the first text that hold the
        same value. Returns whether less is known now than before."""
        arrival = given, value
        held = self._held.setdefault(pair, {}).setdefault(reg, _Held([arrival], holding, value))
        before, arrivals = held.value, held.arrivals
        few = len(arrivals) <= _MAX_ARRIVALS
        # Even one with a known value counts: what was decided on it tells it apart.
        if arrival not in arrivals and (few or all(value is not other for _, other in arrivals)):
            arrivals.append(arrival)
        held.holding &= holding
        held.value = self._joined(held, unknown_at(pair, reg))
        return before is not None and held.value is not before

    def _joined(self, held: _Held, name: str) -> Term | None:
        """The value for several arrivals."""
        (_, value), *others = held.arrivals
        if any(other is not value for _, other in others):
            few = len(others) < _MAX_ARRIVALS
            value = chosen_by_condition(self._terms, held.arrivals, name) if few else None
        if not held.holding:
            return value
        # A register of the first text that held the same on every arrival: exact, where the choice
        # by conditions has an unknown or could not be made.
        word = min(held.holding, key=lambda word: word.id)
        if value is None:
            return word
        unknown = self._terms.atom(name, word.width, Variance.LANE)
        return substitute(self._terms, value, lambda node: word if node is unknown else None)

    def _decided(self, value: Term, joint: tuple[Term, ...]) -> Term:
        """A value, or the truth of a predicate that is known on the path."""
        known = self._equality.simplifier.facts(joint).truth(value)
        return value if known is None else self._terms.const(int(known), 1)

    def _as_first(
        self, there: PhiTranslation, held: Term, old: Path, new: Path, joint: tuple[Term, ...]
    ) -> Term:
        """A value of the second text as the first computed it, if only that form can be expressed
        at the next place: the second got it by a shuffle, the first from memory."""
        if there.value(held) is None:
            for reg, value in new.written.items():
                if value is held and reg in old.written:
                    first = old.written[reg]
                    sayable = first is not held and there.value(first) is not None
                    if sayable and self._equality.same(first, held, joint):
                        return first
        return held


def _partly(terms: Terms, there: PhiTranslation, value: Term, name: str) -> Term | None:
    """A value in the terms of the next place. Sides of a choice that cannot be expressed there
    become an unknown. Only one side counts at a time, so one unknown serves for all of them."""
    said = there.value(value)
    if said is not None or value.kind is not op.ITE:
        return said
    condition = there.value(value.args[0])
    arms = [_partly(terms, there, arm, name) for arm in value.args[1:]]
    if condition is None or not any(arms):
        return None
    unknown = terms.atom(name, value.width, Variance.LANE)
    yes, no = (unknown if arm is None else arm for arm in arms)
    return terms.ite(condition, yes, no)
