"""How values of the first text differ from lane to lane, and what it accesses.

Both are read off a symbolic run of the whole first kernel, which is made when the first question
comes: where the second text shuffles, or reads by `.nc` what it did not, or where a segment cannot
be compared with what its surroundings tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import combinations

from ptxsw.emulator.run import emulate_blocks
from ptxsw.emulator.state import State
from ptxsw.emulator.trace import Trace
from ptxsw.facts.loads import CONSTANT
from ptxsw.flow.dataflow import defs, uses
from ptxsw.ptx.ir import Instruction, Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, walk
from ptxsw.terms.substitution import rebuild, substitute
from ptxsw.validate.basis import Basis
from ptxsw.validate.evaluate import BY_ZERO
from ptxsw.validate.memory_ssa import Bytes
from ptxsw.validate.merged_paths import MergedPaths, names_all
from ptxsw.validate.phi_translation import chosen_by_condition
from ptxsw.validate.shared_views import SharedViews
from ptxsw.validate.spaces import Declared
from ptxsw.validate.text import MAX_KNOWN
from ptxsw.validate.warp import WARP_QUESTIONS, WarpView

_MAX_STATES = 8
_WORD = 32
_QUOTIENTS = {
    op.UDIV: ("div", ("u32",)),
    op.UREM: ("rem", ("u32",)),
    op.SDIV: ("div", ("s32",)),
    op.SREM: ("rem", ("s32",)),
}
"""The instructions of 32 bits that give these terms."""


class KernelLanes:
    """The lanes of the first text. `images` are the places of its blocks in the second."""

    def __init__(
        self,
        basis: Basis,
        declared: Declared,
        images: Mapping[int, frozenset[int]],
        *,
        thorough: bool = False,
    ) -> None:
        self._thorough = thorough
        self.terms, self.declared, self.solver = basis.terms, declared, basis.solver
        self.old, self.new = basis.old, basis.new
        self.images, self.allowed = images, basis.allowed
        self._said: dict[Term, Term | None] = {}
        self._memo: dict[Term, Term] = {}

    @cached_property
    def _shuffles(self) -> bool:
        """Does the second text ask other lanes what the first does not?"""
        return any(map(self.asks, self.new.cfg.instructions))

    @property
    def looks(self) -> bool:
        """Does what a symbolic run of the first text knows count at each place?"""
        return self._thorough or self._shuffles

    def asks(self, instruction: Instruction) -> bool:
        """Is it a question to other lanes with a register that only the second text uses?"""
        if instruction.opcode not in WARP_QUESTIONS:
            return False
        return not self.old.named >= {*defs(instruction), *uses(instruction)}

    @cached_property
    def _run(self) -> tuple[Trace, Mapping[int, tuple[State, ...]]]:
        """The symbolic run of the first text."""
        names = frozenset(i.name for i in self.old.cfg.instructions)
        return emulate_blocks(self.old.module, self.old.function, self.terms, track=names)

    @cached_property
    def _states(self) -> Mapping[int, tuple[State, ...]]:
        """What the symbolic run of the first text knows where its blocks begin. It tells how a
        register differs from lane to lane, and from iteration to iteration of a loop."""
        trace, states = self._run
        return {} if trace.statistics.timed_out else states

    def _at(self, position: int, whole: bool) -> tuple[State, ...]:
        if not (whole or self.looks) or not self.old.begins(position):
            return ()
        return self._states.get(self.old.block(position), ())

    def common_terms(self, position: int, *, whole: bool) -> Mapping[Reg, Term]:
        """Registers that hold one term in all states of a block: where lanes are asked, or the
        `whole` run is to be looked at. Where all lanes of a warp are in the same state, one that is
        uniform in each is uniform."""
        states = self._at(position, whole)
        if not states:
            return {}
        first = states[0].env
        held = {r: [s.env.get(r) for s in states] for r in first}
        common = ((r, t) for r, t in first.items() if all(h is t for h in held[r]))
        values = {r: told for r, t in common if (told := self._told(t)) is not None}
        if 1 < len(states) <= _MAX_STATES:
            values = {**self._choices(position, states), **values}
        # A register that is uniform in each state may still differ between lanes in different
        # states. If the whole warp is in one, it is uniform, though nothing else is known of it.
        if len(states) > 1 and self._same_state(states):
            for reg, terms in held.items():
                if all(t is not None and t.variance is Variance.UNIFORM for t in terms):
                    name = f"uniform register {reg.name}@{reg.scope}"
                    shared = self.terms.atom(name, first[reg].width, Variance.UNIFORM)
                    values.setdefault(reg, shared)
        return values

    def pointer(self, position: int, reg: Reg) -> Term | None:
        """What a register holds where a block begins, if it is a pointer that one instruction has
        loaded, for the last time in this iteration of every loop: whether it is needed there or
        not."""
        if not self.looks or not self.old.begins(position) or self.trace.statistics.timed_out:
            return None
        cfg = self.old.cfg
        writer, block = self.old.cfg.sole_writers.get(reg), self.old.block(position)
        loads = [one for one in self.trace.pointers if one.reg == reg and one.index == writer]
        if writer is None or len(loads) != 1 or len(set(loads[0].terms)) != 1:
            return None
        # Loaded on every path here, and in this iteration: else the pointer could be an older one.
        own = cfg.block_of[writer]
        if own == block or not cfg.dominates(own, block) or cfg.irreducible:
            return None
        if not {*cfg.loops_around(block)}.issuperset(cfg.loops_around(own)):
            return None
        return self._told(loads[0].terms[0])

    def _choices(self, position: int, states: Sequence[State]) -> Mapping[Reg, Term]:
        """Registers that hold different terms in different states, as a choice by the conditions
        of the paths."""
        told = [
            frozenset(c for condition in s.conditions if (c := self._told(condition)) is not None)
            for s in states
        ]
        choices = {}
        for reg in self.old.live(position):
            held = [state.env.get(reg) for state in states]
            values = [value and self._told(value) for value in held]
            if None not in values:
                value = chosen_by_condition(self.terms, [*zip(told, values, strict=True)], "")
                if value is not None and value.size <= MAX_KNOWN:
                    choices[reg] = value
        return choices

    def _same_state(self, states: Sequence[State]) -> bool:
        """Are all lanes that come to a block in the same one of its states? They are if conditions
        that are uniform in a warp tell each two states apart."""
        told = [{c for c in state.conditions if c.variance is Variance.UNIFORM} for state in states]
        return len(states) <= _MAX_STATES and all(
            any(self.terms.not_(condition) in other for condition in one)
            for one, other in combinations(told, 2)
        )

    def conditions(self, position: int, *, whole: bool) -> list[Term]:
        """Conditions that hold in all states of a block."""
        states = self._at(position, whole)
        if not states:
            return []
        common = [c for c in states[0].conditions if all(c in s.conditions for s in states)]
        return [told for c in common if (told := self._told(c)) is not None]

    def _told(self, term: Term) -> Term | None:
        """A value of the symbolic run, made fit for the comparison. The run fixes what a division
        by zero gives; here that is left open. Values with 64-bit divisions are not used, since the
        run has made some of these from narrow ones."""
        if term not in self._said:
            fits = term.size <= MAX_KNOWN and not any(
                node.kind in _QUOTIENTS
                and node.width != _WORD
                and node.args[1].kind is not op.CONST
                for node in walk(term)
            )
            self._said[term] = self._reread(term) if fits else None
        return self._said[term]

    def _reread(self, term: Term) -> Term:
        """The same value, with the terms that the comparison has for the run's loads of unwritten
        memory, which give the same at all times, and for its divisions."""
        return substitute(self.terms, term, self._leaf, self._memo)

    def _leaf(self, node: Term) -> Term | None:
        if _divides(node):
            dividend, divisor = map(self._reread, node.args)
            return self._divided(node, dividend, divisor)
        # The symbolic run names a load of unwritten memory by its space alone; a comparison names
        # the epoch and the stores before, too.
        name: tuple[str, ...] = node.value[0] if node.kind is op.APPLY else ()
        if len(name) != 2 or name[0] != "load" or name[1] not in ("global", "const"):
            return None
        read = Bytes(name[1], self._reread(node.args[0]), node.width // 8)
        return self.declared.memory.load((), CONSTANT, read, ())

    def _divided(self, node: Term, dividend: Term, divisor: Term) -> Term:
        """A quotient or remainder of 32 bits as an instruction gives it."""
        terms, (opcode, modifiers) = self.terms, _QUOTIENTS[node.kind]
        sources = dividend, divisor
        open_ = terms.apply((BY_ZERO, opcode, modifiers), _WORD, sources, Variance.LANE)
        zero = terms.eq(divisor, terms.const(0, _WORD))
        return terms.ite(zero, open_, rebuild(terms, node, (dividend, divisor)))

    @cached_property
    def merged(self) -> MergedPaths | None:
        """Where all lanes come together in the second text; None where it does not vote so."""
        cfg = self.new.cfg
        if not self._shuffles or not any(map(names_all, cfg.instructions)):
            return None
        return self._merged

    @cached_property
    def _merged(self) -> MergedPaths:
        parameters = frozenset(p.name for p in self.old.function.params)
        return MergedPaths(self.new.cfg, parameters)

    def view(self, pair: tuple[int, int], *, lane_waits: bool = False) -> WarpView | None:
        """The other lanes of a warp that begins a segment here, or waits here for others."""
        if not self._shuffles:
            return None
        p, q = pair
        if not self.old.begins(p):
            return None
        at_end = q >= len(self.new.cfg.instructions)
        alone = [o for o, n in self.images.items() if q in n] == [p]
        return WarpView(
            self.declared.memory,
            self.new.cfg,
            self.new.cfg.block_of[q] if alone and not at_end else None,
            self._is_shared,
            rests_on=partial(self.views.rest_on, p),
            looping=self.old.in_cycle(p),
            allowed=self.allowed,
            asks=self.asks,
            merged=self._merged,
            lane_waits=lane_waits,
        )

    @cached_property
    def views(self) -> SharedViews:
        """Where two lanes find the same bytes in memory."""
        return SharedViews(self.declared.memory.terms, self.solver, self.trace)

    def _is_shared(self, atom: Term) -> bool:
        """Is it an address that is the same for all lanes?"""
        return self.declared.spaces.get(atom) in ("global", "const", "shared", "param")

    @property
    def trace(self) -> Trace:
        """The accesses of the first text, over the same terms as the comparison."""
        return self._run[0]


def _divides(node: Term) -> bool:
    """Is it a quotient or remainder by what may be zero?"""
    return node.kind in _QUOTIENTS and node.args[1].kind is not op.CONST
