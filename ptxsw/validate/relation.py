"""The relation of two texts: assumed where a comparison begins, proved where one ends.

Registers that live on in both texts are equal. Registers of the second text alone hold what a
claim says (`claims.py`), what a load gave (`available_loads.py`), or what control has brought
(`live_through.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import IntEnum

from ptxsw.changes.assumptions import PARAMETERS_ARE_GLOBAL
from ptxsw.ptx.ir import Reg
from ptxsw.terms.node import Term
from ptxsw.validate.available_loads import AvailableLoads
from ptxsw.validate.basis import Basis
from ptxsw.validate.claims import ClaimChecker, ReadClaim, is_inequality
from ptxsw.validate.cuts import Cut, Registers
from ptxsw.validate.edit_map import Pair
from ptxsw.validate.lanes import KernelLanes
from ptxsw.validate.live_through import LiveThrough
from ptxsw.validate.moved_arrays import Layout
from ptxsw.validate.outcome import Forgets, GiveUp
from ptxsw.validate.path import Path
from ptxsw.validate.runner import Runner
from ptxsw.validate.spaces import Declared, Windows


class Trust(IntEnum):
    """What tells the space of a generic address, each what those before it do: the terms that it
    is made of; that parameters point to global memory, where that may be assumed; the data flow of
    the first text."""

    TERMS = 0
    PARAMETERS = 1
    DATA_FLOW = 2


class Relation:
    """What holds at pairs of places."""

    def __init__(
        self,
        basis: Basis,
        declared: Declared,
        lanes: KernelLanes,
        claims: Sequence[ReadClaim],
        layout: Layout | None,
    ) -> None:
        self._terms, self._prover, self._memory = basis.terms, basis.prover, basis.memory
        self._old, self._new, self._common = basis.old, basis.new, basis.common
        self._declared, self._lanes, self._allowed = declared, lanes, basis.allowed
        self.claims = ClaimChecker(basis, claims)
        self.loads = AvailableLoads(basis, self.claims, layout)
        tells = self._runners(Trust.TERMS)[1].tells
        self.extra = LiveThrough(basis, lanes, self.claims, tells)
        self.keeps_loads = False  # is a proof begun anew that would forget what a load gave?
        self.would_forget = False  # has one been, for that?

    def _runners(self, trust: Trust) -> tuple[Runner, Runner]:
        lenient = trust >= Trust.PARAMETERS and PARAMETERS_ARE_GLOBAL in self._allowed
        parameters = frozenset(self._declared.parameters) if lenient else frozenset()
        windows = Windows(self._terms, self._declared.spaces, self._declared.windows, parameters)
        points = self._old.points_at if trust is Trust.DATA_FLOW else None
        old, new = self._old, self._new
        return (
            Runner(old.cfg, old.evaluator, self._memory, windows, witness=True, points=points),
            Runner(new.cfg, new.evaluator, self._memory, windows, witness=False),
        )

    def cut(self, pair: Pair, *, trust: Trust = Trust.TERMS, whole: bool = False) -> Cut:
        """What is known at a pair of places. With `whole`, all that a symbolic run of the first
        kernel knows counts."""
        p, q = pair
        self._memory.aliases.forget_accesses()
        old_runner, new_runner = self._runners(trust)
        live = self._common(pair)
        terms = self._lanes.common_terms(p, whole=whole)
        points = self._old.points(p)
        old = Registers(old_runner, self._old, p, terms.get, points=points)
        told: dict[Reg, Term] = {}
        carried = self.extra.values(pair, old)

        def given(reg: Reg) -> Term | None:
            if reg not in live:
                return told.get(reg) or carried.get(reg)
            if self._old.evaluator.width(reg) != self._new.evaluator.width(reg):
                raise GiveUp(f"register {reg.name} has a different width in the second kernel")
            return old.get(reg)

        new = Registers(new_runner, self._new, q, given)
        cut = Cut(p, q, old, new)
        old.note_conversions()
        for condition in (*self._declared.facts, *self._lanes.conditions(p, whole=whole)):
            cut.assume(condition)
        for registers in (old, new):
            for condition in registers.conditions(self._terms):
                cut.assume(condition)
        self.claims.assume(cut, told, live)
        for reg, loaded in self.loads.at(pair):
            # What control has come with is said in words of the first text. What the load would
            # give here may be at an address of which nothing is known any more.
            value, known = self.loads.value(cut, loaded), carried.get(reg)
            if value is not None and known is not None:
                cut.assume(self._terms.eq(value, known))
            elif value is not None:
                told[reg] = value
                new.values.pop(reg, None)  # an unknown, if it was asked for before it was told
        for reg in self.extra.kept_at(pair):
            pointer = self._lanes.pointer(p, reg)
            if pointer is not None:
                old.values[reg] = told[reg] = pointer
                new.values.pop(reg, None)
        if any(map(is_inequality, self.claims.at(p))):
            old_runner.written = new_runner.written = self._prover.numbers(cut.conditions)
        return cut

    def needs_proof(self, pair: Pair, false: Collection[str] = ()) -> bool:
        """Is anything claimed where the texts arrive? Nothing by claims that hold where one of the
        `false` predicates is true."""
        claims = self.claims.at(pair[0])
        return any(c.claim.where not in false for c in claims) or bool(self.loads.at(pair))

    def check(self, cut: Cut, old: Path, new: Path, joint: tuple[Term, ...]) -> Iterator[Pair]:
        """Prove what is claimed where two paths end. Raises Differ. Yields the pairs about which
        less is known than before."""
        for pair in zip(old.places, new.places, strict=True):
            yield from self.extra.carry(pair, cut, old, new, joint)
            self.claims.check(pair[0], cut, old, new, joint)
            for reg, loaded in self.loads.at(pair):
                if not self.loads.still_holds(cut, reg, loaded, new, joint):
                    self.would_forget |= self.keeps_loads
                    if self.keeps_loads:
                        reason = f"{reg.name} may no longer hold what was loaded"
                        raise Forgets(reason, old.ended.index, new.ended.index)
                    self.loads.lose(pair, reg)
                    yield pair
