"""What all parts of a proof work with: two texts, what compares values, what is known of lanes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf

from ptxsw.changes.assumptions import NO_WRAP
from ptxsw.changes.permutation import Permutation
from ptxsw.emulator.budget import Budget
from ptxsw.facts.equality import Equality
from ptxsw.facts.prover import Prover
from ptxsw.facts.simplifier import Simplifier
from ptxsw.ptx.ir import Function, Module
from ptxsw.terms.solver import Solver
from ptxsw.terms.terms import Terms
from ptxsw.validate.barrier_pairs import BarrierPairs
from ptxsw.validate.claims import ReadClaim, is_inequality
from ptxsw.validate.cut_point_map import CutPointMap, Worklist
from ptxsw.validate.edit_map import EditMap
from ptxsw.validate.evaluate import Computed
from ptxsw.validate.indices import Indices
from ptxsw.validate.lanes import KernelLanes
from ptxsw.validate.layout import SharedLayout
from ptxsw.validate.memory import Memory
from ptxsw.validate.questions import Questions
from ptxsw.validate.relation import Relation
from ptxsw.validate.spaces import Declared
from ptxsw.validate.text import Text
from ptxsw.validate.waiting_lanes import WaitingLanes

MOST_WORK = 16_000_000
"""What the solver may do for one proof, in its own units of work."""


class ProofContext:
    """The parts of a proof. `assumptions` collects what it rests on, of what is `allowed`."""

    def __init__(
        self,
        old: tuple[Module, Function],
        new: tuple[Module, Function],
        edits: EditMap,
        claims: Sequence[ReadClaim],
        assume: frozenset[str],
        permutation: Permutation | None,
        budget: Budget,
        *,
        thorough: bool = False,
    ) -> None:
        """With `thorough`, what a symbolic run of the first kernel knows counts everywhere."""
        self.allowed = assume
        self.assumptions: dict[str, None] = {}
        self.worklist = Worklist()
        self.terms = terms = Terms()
        self.solver = Solver(inf, units=MOST_WORK)
        self.prover = Prover(
            Simplifier(terms), self.solver, exact=any(map(is_inequality, claims)),
            check=budget.check,
        )  # fmt: skip
        # Nothing here may hold what holds it: a proof's terms are freed when it ends.
        noted = partial(self.assumptions.setdefault, NO_WRAP, None)
        self.equality = Equality(self.prover, noted if NO_WRAP in assume else None)
        self.memory = Memory(terms, self.solver, self.prover.ordered, budget.check)
        computed: Computed = {}
        texts = Text(terms, *old, computed=computed), Text(terms, *new, "new register ", computed)
        self.old, self.new = texts
        self.images = images = CutPointMap(texts, edits.images, claims)
        self.barrier_pairs = BarrierPairs(*texts)
        self.layout = self._layout(permutation, *new)
        declared = Declared(terms, self.memory, self.old, self.new if permutation is None else None)
        self.lanes = lanes = KernelLanes(
            terms, texts, declared, images.places, assume, self.solver, thorough=thorough
        )
        self.relation = Relation(
            self.equality, self.memory, texts, declared, self.lanes, claims, self.layout, assume,
            self.assumptions,
        )  # fmt: skip
        self.waiting_lanes = WaitingLanes(
            self.prover.simplifier, texts, lambda: lanes.merged, images.of
        )
        self.indices = Indices(self.lanes, self.prover, self.memory.aliases)
        self.questions = Questions(
            self.equality,
            self.memory,
            self.old,
            images,
            self.waiting_lanes,
            declared,
            lanes,
            assume,
            self.assumptions,
        )

    def _layout(
        self, permutation: Permutation | None, module: Module, function: Function
    ) -> SharedLayout | None:
        """How the second text's shared memory is that of the first."""
        if permutation is None:
            return None
        layout = SharedLayout(permutation, self.old.evaluator, self.equality, module, function)
        layout.check((*self.old.cfg.instructions, *self.new.cfg.instructions))
        return layout
