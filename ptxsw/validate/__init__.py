"""Proofs that two versions of a kernel are equal, from these and a map of corresponding places.

`validate(old, new)` asks no rewrite why it is right: it runs both texts symbolically over one
table of terms, from each place where a block of the first begins to the next, and compares what
they do. Imports nothing of what rewrites kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ptxsw.changes.array_move import Arrangement, names_of
from ptxsw.changes.assumptions import ASSUMPTIONS, DEFAULT_ASSUME
from ptxsw.changes.claim import Claim
from ptxsw.changes.permutation import Permutation
from ptxsw.emulator.budget import Budget, OutOfTime
from ptxsw.ptx.garbage import no_collection
from ptxsw.ptx.ir import Function, Instruction, Module
from ptxsw.validate.called_functions import Text, both_in_one_piece, with_calls_inlined
from ptxsw.validate.edit_map import EditMap, infer
from ptxsw.validate.operand_types import ill_typed
from ptxsw.validate.outcome import Differ, GiveUp, Mismatch, Outcome, Proved, Unproved
from ptxsw.validate.scopes import renumbered
from ptxsw.validate.signature_check import NOTHING, difference

if TYPE_CHECKING:
    from ptxsw.validate.basis import Lost
    from ptxsw.validate.proof import Validation

__all__ = [
    "ASSUMPTIONS", "Claim", "EditMap", "Mismatch", "Outcome", "Proved", "Unproved",
    "infer", "validate",
]  # fmt: skip


_MAX_BEGUN = 24
"""Times that a proof is begun, each without more registers."""


def validate(
    old: tuple[Module, Function],
    new: tuple[Module, Function],
    edit_map: EditMap | None = None,
    claims: Sequence[Claim] = (),
    assume: Iterable[str] = DEFAULT_ASSUME,
    shared_layout: Arrangement | None = None,
    budget: Budget | None = None,
    renamed: Mapping[str, str] = NOTHING,
) -> Outcome:
    """Is the second kernel equal to the first, wherever the first is defined?

    `edit_map` says which places correspond (None: inferred from the texts), `claims` what a
    rewrite says of its own registers, `assume` which assumptions a proof may rest on,
    `shared_layout` how the second text's shared memory is that of the first, permuted, `renamed`
    what functions the second kernel calls by the first module's names (`spelling.py`). A wrong
    map, claim or layout makes no wrong proof. Where the second module has added functions, or
    nothing is proved otherwise, both kernels are compared in one piece. Raises ParseError;
    ValueError for a claim that is no readable PTX or an assumption nobody knows; OutOfTime where
    `budget` (None: no end) runs out.
    """
    allowed = frozenset(assume)
    if not allowed <= ASSUMPTIONS.keys():
        raise ValueError(f"unknown assumption: {', '.join(sorted(allowed - ASSUMPTIONS.keys()))}")
    written = new[1]
    try:
        old, new = with_calls_inlined(old, new)
    except GiveUp as problem:
        return Unproved(str(problem))
    compared = partial(
        _compared,
        claims=claims, allowed=allowed, shared_layout=shared_layout, budget=budget, renamed=renamed,
    )  # fmt: skip
    inlined = new[1] is not written
    outcome = compared(old, new, None if inlined else edit_map)  # that is one of other bodies
    if isinstance(outcome, Proved) or claims or shared_layout is not None or inlined:
        return outcome
    # The names that the second kernel calls are those of its own module's functions only where
    # none was renamed.
    same_names = all(name == other for name, other in renamed.items())
    whole = both_in_one_piece(old, new) if same_names else None
    if whole is not None:
        with suppress(OutOfTime):
            other = compared(*whole, None)
            return other if isinstance(other, Proved) else outcome
    return outcome


def _compared(
    old: Text,
    new: Text,
    edit_map: EditMap | None,
    *,
    claims: Sequence[Claim],
    allowed: frozenset[str],
    shared_layout: Arrangement | None,
    budget: Budget | None,
    renamed: Mapping[str, str],
) -> Outcome:
    """The same of the kernels as they stand in these bodies."""
    (first, kernel), (second, other) = old, new
    other = renumbered(kernel.body, other) or other
    new = second, other
    permuted = isinstance(shared_layout, Permutation)
    moved = names_of(shared_layout) if isinstance(shared_layout, tuple) else ()
    differs = difference(
        first, second, kernel, other, permuted=permuted, moved=moved, renamed=renamed
    )
    if differs is not None:
        return Unproved(differs)
    wrong = ill_typed(kernel, other)
    if wrong is not None:
        instruction, reason = wrong
        line = second.source.line(instruction.start)
        return Mismatch(f"ptxas rejects it: {reason}", None, line, {})
    # Here, since kernels of which nothing is made need no proof.
    from ptxsw.validate.claims import read_claim
    from ptxsw.validate.finer_cuts import finer
    from ptxsw.validate.proof import Validation
    from ptxsw.validate.proof_context import ProofContext

    read = [read_claim(claim, first, kernel, other) for claim in claims]
    edits = edit_map if edit_map is not None else infer(kernel.body, other.body)

    def begin(edits: EditMap, thorough: bool, lost: Lost) -> Validation:
        limit = budget or Budget()
        context = ProofContext(
            old, new, edits, read, allowed, shared_layout, limit, thorough=thorough, lost=lost
        )
        return Validation(context, limit)

    with no_collection():
        outcome = _outcome(partial(begin, edits))
        if isinstance(outcome, Proved) or claims or shared_layout is not None:
            return outcome
        # Cuts inside blocks tell less of what was computed before, and cost time.
        inside = finer(kernel.body, other.body, edits)
        finest = outcome if inside is None else _outcome(partial(begin, inside))
        return finest if isinstance(finest, Proved) else outcome


def _outcome(begin: Callable[[bool, Lost], Validation]) -> Outcome:
    """The cheap proof nearly always suffices. Where it lost track of a register's value, the second
    one runs the whole first kernel symbolically."""
    outcome, may_tell_more = _once(begin, thorough=False)
    if may_tell_more:
        thorough, _ = _once(begin, thorough=True)
        outcome = thorough if isinstance(thorough, Proved) else outcome
    return outcome


def _once(begin: Callable[[bool, Lost], Validation], *, thorough: bool) -> tuple[Outcome, bool]:
    """The outcome of one proof, and whether a thorough one could succeed where it failed. Where
    registers differ that the second text does not need, it is begun anew without them."""
    lost: Lost = {}
    for _ in range(_MAX_BEGUN):
        outcome, may_tell_more, without = _begun(begin, thorough, lost)
        if not without:
            break
        lost = {
            pair: lost.get(pair, frozenset()) | without.get(pair, frozenset())
            for pair in (*lost, *without)
        }
    return outcome, may_tell_more


def _begun(
    begin: Callable[[bool, Lost], Validation], thorough: bool, lost: Lost
) -> tuple[Outcome, bool, Lost]:
    """The same without some registers, and which others a proof might leave out."""
    validation: Validation | None = None
    try:
        validation = begin(thorough, lost)
        validation.run()
    except GiveUp as reason:
        return Unproved(str(reason)), False, {}
    except Differ as differ:
        assert validation is not None
        context = validation.context
        texts = (context.basis.old, differ.old), (context.basis.new, differ.new)
        lines = [_line(t.module, t.cfg.instructions, index) for t, index in texts]
        mismatch = Mismatch(differ.reason, lines[0], lines[1], differ.example)
        return mismatch, validation.may_tell_more, differ.without
    finally:
        if validation is not None:
            validation.context.basis.solver.rest()
    context = validation.context
    return Proved(tuple(context.basis.assumptions), context.waiting_lanes.loops), False, {}


def _line(module: Module, instructions: Sequence[Instruction], index: int | None) -> int | None:
    if index is None or not 0 <= index < len(instructions):
        return None
    return module.source.line(instructions[index].start)
