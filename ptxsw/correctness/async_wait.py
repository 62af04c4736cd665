"""What `cp.async` copies is there once the thread that copies has waited for it (PTX ISA 9.7.9.25):
until then nobody may use its destination, nor write its source.

    cp.async.ca.shared.global [%r1], [%rd1], 4;
    cp.async.commit_group;
    ld.shared.f32 %f1, [%r1];           before `cp.async.wait_group 0`: whatever was there

Followed here is the thread itself: from each copy along all paths to the waits that cover it. What
other threads do with the bytes is a question of order, as for any write: `data-race` answers it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.analysis.traffic import lane_bytes
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Assumption, Proof, Suspect
from ptxsw.emulator.memory import Aliasing
from ptxsw.emulator.trace import Access
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Int
from ptxsw.ptx.isa import Effect
from ptxsw.report.reuse import Stable
from ptxsw.terms import op
from ptxsw.terms.node import Term, split, unknowns
from ptxsw.terms.origin import Origin
from ptxsw.terms.substitution import substitute

_NAME = "async-wait"
_MOST_GROUPS = 9  # behind a copy's own that are told apart; no pipeline has more stages


def occurs(subject: Subject) -> bool:
    return any(map(_is_asynchronous, subject.cfg.instructions))


def _is_asynchronous(instruction: Instruction) -> bool:
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    return bool(effects & Effect.ASYNC) and bool(effects & (Effect.READ | Effect.WRITE))


def is_copy(instruction: Instruction) -> bool:
    """Is it a `cp.async` of each lane by itself?"""
    modifiers = instruction.modifiers
    if (
        instruction.opcode != "cp"
        or "async" not in modifiers
        or "shared" not in " ".join(modifiers)
    ):
        return False
    return "bulk" not in modifiers and "mbarrier" not in modifiers


def prove(subject: Subject) -> Proof:
    cfg = subject.cfg
    for index, one in enumerate(cfg.instructions):
        if _is_asynchronous(one) and not is_copy(one):
            return Proof(unknown=f"{one.name} at line {subject.line(index)} is not followed")
    copies = [index for index, one in enumerate(cfg.instructions) if is_copy(one)]
    accesses = {access.index: access for access in subject.trace.accesses}
    open_ = []
    for copy in copies:
        for index, rounds in _while_pending(cfg, copy):
            if index in accesses and not _misses(subject, accesses[copy], accesses[index], rounds):
                line = subject.line(index)
                why = f"line {line} may touch what line {subject.line(copy)} copies"
                open_.append(Suspect(_NAME, index, copy, why=why))
    assumptions = frozenset({Assumption.NO_ALIAS})
    return Proof(tuple(open_), assumptions=assumptions, needs=frozenset({"data-race"}))


def _while_pending(cfg: Cfg, copy: int) -> Iterator[tuple[int, int | None]]:
    """What the thread executes before a wait that covers a copy: the instruction, and how many
    times the innermost loop around the copy has gone round since; None where that is not known, or
    another has gone round."""
    header = cfg.loop_of.get(cfg.block_of[copy])
    work: list[tuple[int, int, int, int | None]] = [(copy + 1, cfg.block_of[copy], 0, 0)]
    seen: set[tuple[int, int, int | None]] = set()
    told: set[tuple[int, int | None]] = set()
    while work:
        index, number, groups, rounds = work.pop()
        if (index, groups, rounds) in seen:
            continue
        seen.add((index, groups, rounds))
        if index >= cfg.blocks[number].end:
            for after in cfg.blocks[number].successors:
                work.append((cfg.blocks[after].start, after, groups, rounds))
                if (number, after) in cfg.retreating:
                    more = rounds is not None and after == header and rounds < _MOST_GROUPS
                    onward = (rounds or 0) + 1 if more else None
                    work[-1] = (cfg.blocks[after].start, after, groups, onward)
            continue
        instruction = cfg.instructions[index]
        if _covers(instruction, groups):
            continue
        if (index, rounds) not in told:
            told.add((index, rounds))
            yield index, rounds
        if "commit_group" in instruction.modifiers and instruction.opcode == "cp":
            groups = min(groups + 1, _MOST_GROUPS)
        work.append((index + 1, number, groups, rounds))


def _covers(instruction: Instruction, groups: int) -> bool:
    """Does it wait for a copy, since which so many groups were committed?"""
    if (
        instruction.opcode != "cp"
        or instruction.guard is not None
        or "bulk" in instruction.modifiers
    ):
        return False
    if "wait_all" in instruction.modifiers:
        return True
    if "wait_group" not in instruction.modifiers or not instruction.operands:
        return False
    left = instruction.operands[0]
    return isinstance(left, Int) and groups > left.value


def _misses(subject: Subject, copy: Access, other: Access, rounds: int | None) -> bool:
    """Does an access, so many rounds later, leave the bytes alone that the same thread copies, and
    those from where?"""
    if other.space in ("shared", "generic") and not _apart(subject, copy, other, rounds, False):
        return False
    writes = other.kind != "load" and not is_copy(other.instruction)
    if writes and other.space in ("global", "generic"):
        return _apart(subject, copy, other, rounds, True)
    return True


def _apart(subject: Subject, copy: Access, other: Access, rounds: int | None, source: bool) -> bool:
    terms = subject.trace.terms
    aliasing = Aliasing(terms)
    if source and _other_array(subject, copy, other):
        return True
    if not (_bytes(copy) and _bytes(other)):
        return False
    for one in copy.variants:
        at = one.copied if source else one.address
        for two in other.variants:
            if at is None or at.width != two.address.width:
                return False
            later = _later(subject, copy.index, two.address, rounds)
            distance = terms.sub(two.address if later is None else later, at)
            claim = aliasing.apart(distance, _bytes(copy), _bytes(other))
            if later is None and distance.kind is not op.CONST:
                return False
            given = (*one.conditions, *(two.conditions if rounds == 0 else ()))
            if claim.kind is op.CONST:
                if not claim.value:
                    return False
            elif not subject.solver.proves(claim, given):
                return False
    return True


def _bytes(access: Access) -> int:
    return lane_bytes(access) or access.bytes


def _other_array(subject: Subject, copy: Access, other: Access) -> bool:
    """Is another pointer written through than the one that is copied from?"""
    sources = {_pointer(view.copied) for view in copy.variants if view.copied is not None}
    written = {_pointer(view.address) for view in other.variants}
    apart = None not in sources | written and sources.isdisjoint(written)
    return apart and subject.assumes(Assumption.NO_ALIAS)


def _pointer(address: Term) -> Term | None:
    """The one parameter of 64 bits that stands unscaled in an address."""
    pointers = [
        term
        for term, factor in split(address)[1]
        if factor == 1 and term.width == 64 and term.origin is Origin.PARAMETER
    ]
    return pointers[0] if len(pointers) == 1 else None


def _later(subject: Subject, copy: int, address: Term, rounds: int | None) -> Term | None:
    """An address as it is so many rounds of the innermost loop around a copy later; None where that
    is not known."""
    cfg, terms = subject.cfg, subject.trace.terms
    header = cfg.loop_of.get(cfg.block_of[copy])
    if rounds == 0:
        return address
    if rounds is None or header is None:
        return None
    stable, own = Stable(subject.trace, header), (cfg.name(header),)

    def counts(node: Term) -> bool:
        return node.origin is Origin.ITERATION and node.of == own

    def leaf(node: Term) -> Term | None:
        return terms.add(node, terms.const(rounds, node.width)) if counts(node) else None

    if not all(counts(node) or stable.holds(node) for node in unknowns(address)):
        return None

    return substitute(terms, address, leaf)
