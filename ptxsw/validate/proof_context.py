"""The parts of a proof, each of which works on the same two texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ptxsw.changes.array_move import Arrangement
from ptxsw.changes.assumptions import IN_ARRAYS
from ptxsw.changes.permutation import Permutation
from ptxsw.emulator.budget import Budget
from ptxsw.ptx.ir import Function, Module
from ptxsw.validate.barrier_pairs import BarrierPairs
from ptxsw.validate.basis import NOTHING, Basis, Lost
from ptxsw.validate.claims import ReadClaim, is_inequality
from ptxsw.validate.cut_point_map import CutPointMap, Worklist
from ptxsw.validate.edit_map import EditMap
from ptxsw.validate.indices import Indices
from ptxsw.validate.lanes import KernelLanes
from ptxsw.validate.layout import SharedLayout, shared_arrays
from ptxsw.validate.moved_arrays import Layout, MovedArrays
from ptxsw.validate.outcome import GiveUp
from ptxsw.validate.questions import Questions
from ptxsw.validate.relation import Relation
from ptxsw.validate.spaces import Declared
from ptxsw.validate.waiting_lanes import WaitingLanes


class ProofContext:
    """The parts of a proof."""

    def __init__(
        self,
        old: tuple[Module, Function],
        new: tuple[Module, Function],
        edits: EditMap,
        claims: Sequence[ReadClaim],
        assume: frozenset[str],
        arrangement: Arrangement | None,
        budget: Budget,
        *,
        thorough: bool = False,
        lost: Lost = NOTHING,
    ) -> None:
        """With `thorough`, what a symbolic run of the first kernel knows counts everywhere."""
        exact = any(map(is_inequality, claims))
        self.basis = basis = Basis(old, new, assume, budget, exact=exact, lost=lost)
        self.worklist = Worklist()
        self.images = images = CutPointMap((basis.old, basis.new), edits, claims)
        self.barrier_pairs = BarrierPairs(basis.old, basis.new)
        self.layout = None if arrangement is None else _layout(basis, arrangement, *new)
        second = basis.new if arrangement is None else None
        declared = Declared(basis.terms, basis.memory, basis.old, second)
        self.lanes = lanes = KernelLanes(basis, declared, images.places, thorough=thorough)
        self.relation = Relation(basis, declared, lanes, claims, self.layout)
        self.waiting_lanes = WaitingLanes(basis, lanes, images.of)
        self.questions = Questions(basis, images, self.waiting_lanes, declared, lanes)

    @cached_property
    def indices(self) -> Indices:
        return Indices(self.lanes, self.basis.prover, self.basis.memory.aliases)


def _layout(basis: Basis, arrangement: Arrangement, module: Module, function: Function) -> Layout:
    """How the second text's shared memory is that of the first."""
    old, texts = basis.old, (basis.old.cfg, basis.new.cfg)
    before = shared_arrays(old.module, old.function)
    layout: Layout
    if isinstance(arrangement, Permutation):
        layout = SharedLayout(arrangement, old.evaluator, basis.equality, module, function, before)
        one_by_one = bool(arrangement.arrays)
    else:
        after = shared_arrays(module, function)
        layout = MovedArrays(arrangement, old.evaluator, basis.equality, before, after)
        one_by_one = True
    layout.check(*texts)
    if one_by_one and not layout.is_whole(*texts) and not basis.rest_on(IN_ARRAYS):
        raise GiveUp(f"{IN_ARRAYS} is not assumed, and arrays are laid out one by one")
    return layout
