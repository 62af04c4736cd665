"""What no rule follows, in words: the reasons of verdicts that are unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from ptxsw.correctness.callees import circular, outside
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Proof
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function, Instruction
from ptxsw.terms import op
from ptxsw.terms.node import Term, unknowns
from ptxsw.terms.origin import Origin

_BY_DESCRIPTOR = frozenset({"wgmma", "tcgen05"})
_LOOPS = frozenset({Origin.LOOP_VALUE, Origin.LAST_LOOP_VALUE})


def through_calls(
    subject: Subject, prove: Callable[[Subject], Proof], *, descriptors: bool = True
) -> Proof:
    """The proof of a rule for all that is followed of a kernel: what is not, is unknown. Functions
    that call themselves are looked at one by one, whatever they are given. `descriptors`: memory
    that they name counts."""
    proof = prove(subject)
    unknown = unfollowed(subject, descriptors) or proof.unknown
    for callee in () if unknown else circular(subject.module, subject.cfg):
        inner = _in_circle(subject, callee, prove, descriptors)
        if inner:
            unknown = f"in {callee.name}: {inner}"
            break
    return replace(proof, unknown=unknown)


def _in_circle(
    subject: Subject, callee: Function, prove: Callable[[Subject], Proof], descriptors: bool
) -> str:
    """What is not shown of a function that calls itself, whatever it is given."""
    own = Subject(subject.module, callee, subject.budget, subject.shape, None, subject.without)
    proof = prove(own)
    why = unfollowed(own, descriptors) or proof.unknown or proof.condition
    why = why or next((s.why or "not shown" for s in proof.open), "")
    return why or next((fault.what for fault in proof.faults), "")


def unfollowed(subject: Subject, descriptors: bool = True) -> str:
    """Why not all that a kernel does to memory is seen; "" where it is."""
    cfg = subject.cfg
    for index, name in outside(subject.module, cfg):
        return f"it calls {name}, which is not followed (line {subject.line(index)})"
    for index in cfg.indices(cfg.order):
        why = _unfollowed(cfg.instructions[index], descriptors)
        if why:
            return f"{why} (line {subject.line(index)})"
    if cfg.irreducible:
        return "its branches form no loops that can be followed"
    return ""


def _unfollowed(instruction: Instruction, descriptors: bool) -> str:
    if not isa.known(instruction):
        return f"the instruction {instruction.opcode} is not known"
    if descriptors and instruction.opcode in _BY_DESCRIPTOR:
        return f"{instruction.opcode} names memory by descriptors, which are not followed"
    return ""


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
        return "depends on a register that nothing wrote"
    if any(atom.kind is op.FLOAT for atom in atoms):
        return "is computed from floating-point numbers"
    return "was not shown to be in bounds"
