"""Is there a proof that two kernels are equal? By `ptxsw.validate`, from the two texts."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ptxsw.emulator.budget import Budget, OutOfTime
from ptxsw.ptx.ir import Function, Instruction, Module
from ptxsw.validate import Outcome, Proved, validate
from ptxsw.verify.inferred_layout import layouts

SECONDS = 60.0
"""CPU time of a proof: real kernels take a few seconds, and past a minute few proofs succeed."""


class Proof(Struct, frozen=True):
    """The kernels are equal on some assumptions. `unchanged`: they are the same instructions;
    `loops` were found to be gone round by all lanes together."""

    assumptions: tuple[str, ...] = ()
    unchanged: bool = False
    loops: int = 0


class Unproved(Struct, frozen=True):
    """Nothing is proved."""

    reason: str


def prove(first: Module, second: Module, name: str) -> Proof | Unproved:
    """Is a kernel of `second` equal to that of `first`? Raises ParseError."""
    old, new = _kernel(first, name), _kernel(second, name)
    reasons: list[str] = []
    try:
        for outcome in _outcomes((first, old), (second, new)):
            if isinstance(outcome, Proved):
                same = [*map(_said, old.body.instructions)] == [*map(_said, new.body.instructions)]
                return Proof(outcome.assumptions, unchanged=same, loops=outcome.loops)
            reasons.append(str(outcome))
    except OutOfTime:
        return Unproved(f"a proof would take more than {SECONDS:.0f} s")
    return Unproved(reasons[0])


def _outcomes(old: tuple[Module, Function], new: tuple[Module, Function]) -> Iterator[Outcome]:
    """What the two texts alone tell, and what they tell of shared memory that was permuted."""
    with Budget(SECONDS) as budget:
        for layout in (None, *layouts(new[0], old[1], new[1])):
            yield validate(old, new, shared_layout=layout, budget=budget)


def _kernel(module: Module, name: str) -> Function:
    return next(f for f in module.functions if f.name == name and f.body_span is not None)


def _said(instruction: Instruction) -> tuple[object, ...]:
    return (
        instruction.opcode, instruction.modifiers, instruction.operands, instruction.guard,
    )  # fmt: skip
