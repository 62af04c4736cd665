"""What all parts of a proof stand on: two texts, what compares values, and assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import inf

from ptxsw.changes.assumptions import NO_WRAP
from ptxsw.emulator.budget import Budget
from ptxsw.facts.equality import Equality
from ptxsw.facts.prover import Prover
from ptxsw.facts.simplifier import Simplifier
from ptxsw.ptx.ir import Function, Module, Reg
from ptxsw.terms.solver import Solver
from ptxsw.terms.terms import Terms
from ptxsw.validate.edit_map import Pair
from ptxsw.validate.evaluate import Computed
from ptxsw.validate.memory import Memory
from ptxsw.validate.text import Text

Lost = Mapping[Pair, frozenset[Reg]]
"""Registers that differ at pairs of places, where the second text does not need them."""
NOTHING: Lost = {}
MOST_WORK = 16_000_000
"""What the solver may do for one proof, in its own units of work."""


class Basis:
    """Two texts over one table of terms and one memory. `assumptions` collects what a proof rests
    on, of what is `allowed`."""

    def __init__(
        self,
        old: tuple[Module, Function],
        new: tuple[Module, Function],
        allowed: frozenset[str],
        budget: Budget,
        *,
        exact: bool,
        lost: Lost,
    ) -> None:
        """`exact`: read values as whole numbers, too, as claims about inequalities want it."""
        self.lost = lost
        self.allowed = allowed
        self.assumptions: dict[str, None] = {}
        self.terms = terms = Terms()
        self.solver = Solver(inf, units=MOST_WORK)
        self.prover = Prover(Simplifier(terms), self.solver, exact=exact, check=budget.check)
        # Nothing here may hold what holds it: a proof's terms are freed when it ends.
        noted = partial(self.assumptions.setdefault, NO_WRAP, None)
        self.equality = Equality(self.prover, noted if NO_WRAP in allowed else None)
        self.memory = Memory(terms, self.solver, self.prover.ordered, budget.check)
        computed: Computed = {}
        self.old = Text(terms, *old, computed=computed)
        self.new = Text(terms, *new, "new register ", computed)
        self._common: dict[Pair, frozenset[Reg]] = {}

    def common(self, pair: Pair) -> frozenset[Reg]:
        """The registers that hold the same in both texts where they are at a pair of places: those
        that live on in the first and that the second names, too, but for what was lost there."""
        common = self._common.get(pair)
        if common is None:
            named = self.old.live(pair[0]) & self.new.named
            common = self._common[pair] = named - self.lost.get(pair, frozenset())
        return common

    def rest_on(self, name: str) -> bool:
        """May the proof rest on an assumption? Then it does."""
        if name in self.allowed:
            self.assumptions[name] = None
        return name in self.allowed
