"""What no rule follows, in words: the reasons of verdicts that are unknown."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from msgspec.structs import replace

from ptxsw.correctness.callees import KNOWN_CALLS, called
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Proof
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction
from ptxsw.ptx.patterns import pattern
from ptxsw.terms import op
from ptxsw.terms.node import Term, unknowns
from ptxsw.terms.origin import Origin

_PURE = pattern(
    r"(__nv_\w+|(a?(sin|cos|tan)h?|atan2|exp[12m]*0?|expm1|log(2|10|1p|b)?|pow|sqrt|cbrt|hypot|fmod"
    r"|floor|ceil|round|trunc|fabs|erfc?|[tl]gamma|fmin|fmax|remainder)f?"
    r"|_Z\d+get_(global|local|num|group)_\w+j)"
)
"""Functions of numbers alone, in C, in libdevice, and of OpenCL."""
_BY_DESCRIPTOR = frozenset({"wgmma", "tcgen05"})
_LOOPS = frozenset({Origin.LOOP_VALUE, Origin.LAST_LOOP_VALUE})


def through_calls(
    subject: Subject, prove: Callable[[Subject], Proof], *, descriptors: bool = True
) -> Proof:
    """The proof of a rule for a kernel and all that it calls, whatever that is given. What is not
    shown of a function is unknown of the kernel. `descriptors`: memory that they name counts."""
    proof = prove(subject)
    unknown = unfollowed(subject, descriptors) or proof.unknown
    for callee in () if unknown else _callees(subject):
        inner = prove(callee)
        why = unfollowed(callee, descriptors) or inner.unknown or inner.condition
        why = why or next((s.why or "not shown" for s in inner.open), "")
        if why or inner.faults:
            unknown = f"in {callee.function.name}: {why or inner.faults[0].what}"
            break
    return replace(proof, unknown=unknown)


def _callees(subject: Subject) -> Iterator[Subject]:
    """The functions that a kernel may call, each once."""
    bodies = {f.name: f for f in subject.module.functions if f.body_span is not None}
    work, met = [subject.function], {subject.function.name}
    while work:
        for instruction in work.pop().body.instructions:
            name = called(instruction) if instruction.opcode == "call" else None
            if name in bodies and name not in met:
                met.add(name)
                work.append(bodies[name])
                yield Subject(
                    subject.module, bodies[name], subject.budget, subject.shape, None,
                    subject.without,
                )  # fmt: skip


def unfollowed(subject: Subject, descriptors: bool = True) -> str:
    """Why not all that a function does to memory is seen; "" where it is."""
    bodies = {f.name for f in subject.module.functions if f.body_span is not None}
    for index, instruction in enumerate(subject.cfg.instructions):
        why = _unfollowed(instruction, bodies, descriptors)
        if why:
            return f"{why} (line {subject.line(index)})"
    if subject.cfg.irreducible:
        return "its branches make no loops that can be followed"
    return ""


def _unfollowed(instruction: Instruction, bodies: Container[str], descriptors: bool) -> str:
    if not isa.known(instruction):
        return f"the instruction {instruction.opcode} is not known"
    if descriptors and instruction.opcode in _BY_DESCRIPTOR:
        return f"{instruction.opcode} names memory by descriptors, which are not followed"
    if instruction.opcode == "call":
        name = called(instruction)
        if name is None:
            return "it calls a function by its address, which is not followed"
        if name not in KNOWN_CALLS and name not in bodies and not _PURE.fullmatch(name):
            return f"it calls {name}, which is not followed"
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
        return "is made of a register that nothing wrote"
    if any(atom.kind is op.FLOAT for atom in atoms):
        return "is computed from floating-point numbers"
    return "was not shown to be in bounds"
