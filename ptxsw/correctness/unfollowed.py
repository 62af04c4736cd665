"""What no rule follows, in words: the reasons of verdicts that are unknown."""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.correctness.subject import Subject
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Args, Instruction, Symbol
from ptxsw.terms import op
from ptxsw.terms.node import Term, unknowns
from ptxsw.terms.origin import Origin

_KNOWN_CALLS = frozenset({"vprintf", "malloc", "free", "__assertfail", "__nv_assertfail"})
"""Functions of CUDA's run time: of memory that a kernel names they touch what they are given."""
_BY_DESCRIPTOR = frozenset({"wgmma", "tcgen05"})
_LOOPS = frozenset({Origin.LOOP_VALUE, Origin.LAST_LOOP_VALUE})


def unfollowed(subject: Subject) -> str:
    """Why not all that the kernel does to memory is seen; "" where it is."""
    for index, instruction in enumerate(subject.cfg.instructions):
        why = _unfollowed(instruction)
        if why:
            return f"{why} (line {subject.line(index)})"
    if subject.cfg.irreducible:
        return "its branches make no loops that can be followed"
    return ""


def _unfollowed(instruction: Instruction) -> str:
    if not isa.known(instruction):
        return f"the instruction {instruction.opcode} is not known"
    if instruction.opcode in _BY_DESCRIPTOR:
        return f"{instruction.opcode} names memory by descriptors, which are not followed"
    if instruction.opcode == "call":
        name = called(instruction)
        if name not in _KNOWN_CALLS:
            return f"it calls {name or 'a function by its address'}, which is not followed"
    return ""


def called(instruction: Instruction) -> str | None:
    """The function that a call names."""
    plain = [o for o in instruction.operands if not isinstance(o, Args)]
    return plain[0].name if plain and isinstance(plain[0], Symbol) else None


def why_unbounded(subject: Subject, index: int, value: Term) -> str:
    """Why the bounds of an index could not be shown, by what it is made of."""
    line = subject.line(index)
    return f"the index at line {line} {_made_of(unknowns(value))}"


def _made_of(atoms: Iterable[Term]) -> str:
    origins = {atom.origin for atom in atoms}
    if Origin.LOAD in origins:
        return "is loaded from memory"
    if origins & _LOOPS:
        return "changes in a loop in a way that is not followed"
    if origins & {Origin.ITERATION, Origin.LAST_ITERATION}:
        return "grows in a loop of which the last iteration is not known"
    if origins & {Origin.UNKNOWN, Origin.OTHER_LANE, Origin.VOLATILE, Origin.ELECTED}:
        return "comes from an instruction that is not followed"
    if origins & {Origin.MERGED, Origin.ENTRY}:
        return "comes by several paths"
    if Origin.UNDEFINED in origins:
        return "is made of a register that nothing wrote"
    if any(atom.kind is op.FLOAT for atom in atoms):
        return "is computed from floating-point numbers"
    return "was not shown to be in bounds"
