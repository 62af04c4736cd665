"""What is said of a fault that a launch showed: what happens, who does it, and what to write."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.correctness.address_provenance import Slices
from ptxsw.correctness.drawing import between, line_of
from ptxsw.correctness.evidence import ShownFault
from ptxsw.correctness.schedule_order import INDEPENDENT, in_step_before
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Fault
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Mem, Special, type_width
from ptxsw.ptx.isa import Trait
from ptxsw.ptx.patterns import pattern
from ptxsw.simt.state import Poisoned, ThreadPlace
from ptxsw.verify.launches import Launch

_BYTE = pattern(r"byte (\d+) of (.+)")


def fault_of(subject: Subject, evidence: ShownFault, launch: Launch, condition: str) -> Fault:
    if not condition and _needs_a_block(subject, evidence):
        condition = "more than one thread"
    level = "note" if evidence.same else "warning" if condition else "error"
    what, advice = _said(subject, evidence)
    in_step = not evidence.same and _runs_in_step(subject, evidence, launch)
    if in_step:
        level = "warning"
        what += ": correct if the lanes of a warp run in lockstep, as before "
        what += f"sm_{INDEPENDENT}, and not since"
        advice = f"put `__syncwarp()` {between(subject, *_in_order(evidence))}"
    if condition:
        what += f", in blocks of {condition}"
    return Fault(
        evidence.rule, level, evidence.index, what, advice, evidence.other,
        tuple(map(_thread, evidence.places)), condition, launch,
        acts=tuple(_acts(subject, evidence)), in_step=in_step,
    )  # fmt: skip


def _needs_a_block(subject: Subject, evidence: ShownFault) -> bool:
    """Is it a fault of several threads of a block, where neither anybody declares the block nor the
    kernel shows that it is written for several?"""
    if subject.shape is not None or evidence.other is None:
        return False
    code = subject.cfg.instructions
    several = (subject.function.most_threads or 1) > 1 or any(
        isa.has(one, Trait.BARRIER)
        or isa.has(one, Trait.COLLECTIVE)
        or isa.space(one) == "shared"
        or any(isinstance(r, Special) and r.name.startswith("%ntid") for r in isa.uses(one))
        for one in code
    )
    one, two = evidence.places
    return one.block == two.block and not several


def _in_order(evidence: ShownFault) -> tuple[int, int]:
    assert evidence.other is not None
    return evidence.other, evidence.index


def _runs_in_step(subject: Subject, evidence: ShownFault, launch: Launch) -> bool:
    """Do two lanes of one warp race in code for a target on which they run in step?"""
    if not in_step_before(subject) or evidence.rule != "data-race" or evidence.other is None:
        return False
    one, two = evidence.places
    x, y, _ = launch.block
    warps = {(p.thread[0] + x * (p.thread[1] + y * p.thread[2])) // 32 for p in (one, two)}
    return one.block == two.block and len(warps) == 1


def _acts(subject: Subject, evidence: ShownFault) -> Iterator[str]:
    """What each of two threads does."""
    if evidence.other is not None:
        for writes in evidence.writes:
            yield f"{'writes' if writes else 'reads'} {_element(subject, evidence)}"


def _element(subject: Subject, evidence: ShownFault) -> str:
    """What both touch: `s[32]`, where the byte begins an element of the size that is accessed, or
    "byte 130 of s"."""
    byte = _BYTE.fullmatch(evidence.byte)
    if byte is None:
        return evidence.byte
    at, name = int(byte[1]), byte[2].rpartition("::")[2]
    type_ = isa.access_type(subject.cfg.instructions[evidence.index])
    size = type_width(type_ or "") // 8
    return f"{name}[{at // size}]" if size and at % size == 0 else f"byte {at} of {name}"


def _thread(place: ThreadPlace) -> str:
    at, of = (",".join(map(str, three)) for three in (place.thread, place.block))
    return f"thread ({at}) of block ({of})"


def _said(subject: Subject, evidence: ShownFault) -> tuple[str, str]:
    if evidence.rule in ("data-race", "async-wait"):
        return _race(subject, evidence)
    what = evidence.said
    if isinstance(evidence.error, Poisoned) and evidence.rule == "warp-mask":
        what = (
            f"{_thread(evidence.places[0])} reads from a lane that does not take part, and uses "
            f"the value"
        )
    return what, _ADVICE[evidence.rule]


_ADVICE = {
    "divergent-barrier": "move the barrier to a place that all threads of the block reach",
    "warp-mask": "let exactly the lanes named by the mask reach it",
    "out-of-bounds": "guard the access, or enlarge the array",
    "misaligned-access": "use narrower accesses, or align the address of every lane",
    "undefined-value": "initialize the value on all paths, for all sizes",
    "deadlock": "let all awaited threads arrive, and write what the others wait for",
}


def _race(subject: Subject, evidence: ShownFault) -> tuple[str, str]:
    assert evidence.other is not None
    later, earlier = evidence.places
    here, there = (line_of(subject, i) for i in (evidence.index, evidence.other))
    does = ["writes" if writes else "reads" for writes in evidence.writes]
    where = "the same instruction" if evidence.index == evidence.other else there
    element = _element(subject, evidence)
    what = f"{_thread(later)} {does[0]} {element}, which {_thread(earlier)} {does[1]} at {where}"
    if evidence.rule == "async-wait":
        return (
            f"{what} by a copy that it has not waited for",
            f"wait for the copy before {here}: `__pipeline_wait_prior(0)`, "
            "and then for the other threads: `__syncthreads()`",
        )
    if evidence.same:
        return f"{what}: both write the same value", "let one thread write it"
    return f"{what}, and nothing orders them", _mend(subject, evidence)


def _mend(subject: Subject, evidence: ShownFault) -> str:
    later, earlier = evidence.places
    if evidence.other is not None and _updates(subject, evidence.index, evidence.other):
        same = _memory(subject, evidence.index) == _memory(subject, evidence.other)
        if same:
            return "update it with an atomic operation"
        if not evidence.shared:
            return "write the results to another array"
    if later.block != earlier.block:
        return (
            "let each block write its own elements, use an atomic operation, or "
            "move the later part to another launch"
        )
    if evidence.other is None or evidence.index == evidence.other:
        return "let one thread write it, or use an atomic operation"
    return f"put `__syncthreads()` {between(subject, evidence.other, evidence.index)}"


def _updates(subject: Subject, one: int, two: int) -> bool:
    """Is what one of two instructions stores made of what the other loads?"""
    slices, (load, store) = Slices(subject.cfg, frozenset()), sorted((one, two))
    return load in slices.stored_from(store)


def _memory(subject: Subject, index: int) -> list[Mem]:
    return [o for o in subject.cfg.instructions[index].operands if isinstance(o, Mem)]
