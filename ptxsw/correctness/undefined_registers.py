"""Registers that may be read before anything wrote them, with an effect.

    @%p1 mov.u32 %r1, 0;  @%p1 st.global.u32 [%rd1], %r1;     both where %p1 holds: nothing is read
    mov.u32 %r2, %r1;  // dead                                no effect

First by the flow graph alone: in most kernels every register is written on all ways to where it is
read. Else by values: what nobody wrote is an unknown of its own, and must not be left in an
address, in what decides a branch, or in what is stored.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from msgspec import Struct

from ptxsw.analysis.coalescing import LANES
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Suspect
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Trace
from ptxsw.facts.conditions import assumed
from ptxsw.facts.simplifier import Simplifier
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import ForwardAnalysis
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Guard, Instruction, Int, Mem, Reg, flatten
from ptxsw.terms import op
from ptxsw.terms.node import Term, walk
from ptxsw.terms.origin import OF_LOOPS, Origin
from ptxsw.terms.terms import Terms

_MOST_CHOICES = 6
_HIDING = OF_LOOPS | {Origin.MERGED, Origin.UNKNOWN, Origin.OTHER_LANE}


class Unwritten(Struct, frozen=True):
    """The reads of registers that may not be written, what stands in the way of a proof, and what
    the block has to be."""

    open: tuple[Suspect, ...] = ()
    unknown: str = ""
    condition: str = ""


def unwritten(subject: Subject, rule: str) -> Unwritten:
    cfg = subject.cfg
    reads = _reads(cfg)
    if not any(_has_effect(cfg, at) for at in reads):
        return Unwritten()
    given = frozenset(at for at in reads if _is_from_lane_0(cfg.instructions[at]))
    names = frozenset(
        cfg.instructions[at].name for at in reads if _has_effect(cfg, at) or at in given
    )
    trace = emulate(
        subject.module, subject.whole, budget_s=subject.budget.seconds / 6, follow=names
    )
    if trace.statistics.timed_out:
        return Unwritten(unknown="limit: the time for this kernel ran out")
    condition = ""
    if given and all(_lane_0_has_written(trace, at) for at in given):
        reads = _reads(cfg, given)
        shape = subject.shape
        if shape is not None and shape[0] != LANES:
            return Unwritten(unknown="lanes may hand over registers that they have not written")
        condition = "" if shape is not None else f"blockDim.x = {LANES}"
    effects = [at for at in reads if _has_effect(cfg, at)]
    open_, unknown = _by_values(subject, rule, trace, effects)
    return Unwritten(open_, unknown, condition)


def _is_from_lane_0(instruction: Instruction) -> bool:
    """Does it hand all lanes of a warp what the first one has?"""
    words = {*instruction.modifiers}
    lane = instruction.operands[2:3] if instruction.opcode == "shfl" else ()
    return bool(lane) and {"idx", "sync"} <= words and lane[0] == Int(0)


def _lane_0_has_written(trace: Trace, at: int) -> bool:
    """Has the first lane of a warp written what it hands over, in blocks of one warp along x?"""
    terms, simplifier = trace.terms, Simplifier(trace.terms)
    is_first = terms.eq(terms.special("%tid.x"), terms.const(0, 32))
    for seen in trace.operands.get(at, ()):
        given = (*sorted(seen.conditions, key=lambda c: c.id), is_first)
        value = seen.values[0]
        if isinstance(value, Term) and not simplifier.facts(given).impossible:
            left = _atoms(simplifier.simplified(value, given))
            if any(a.origin in (Origin.UNDEFINED, Origin.MERGED) for a in left):
                return False
    return True


def _by_values(
    subject: Subject, rule: str, trace: Trace, effects: list[int]
) -> tuple[tuple[Suspect, ...], str]:
    simplifier, unknown = Simplifier(trace.terms), ""
    open_: list[Suspect] = []
    for at in effects:
        for value, given in _values(trace, at):
            left = _atoms(simplifier.simplified(value, given))
            found = [a for a in left if a.origin is Origin.UNDEFINED]
            if found:
                left = _left(trace.terms, simplifier, value, given, 0)
                found = [a for a in left if a.origin is Origin.UNDEFINED]
            line = subject.line(at)
            if found:
                why = f"{_register(found[0])} may be read before it is written (line {line})"
                open_.append(Suspect(rule, at, why=why))
                break
            if any(a.origin in _HIDING for a in left):
                unknown = f"whether a register was written before line {line} is not followed"
    return tuple(open_), unknown


def _left(
    terms: Terms, simplifier: Simplifier, value: Term, given: tuple[Term, ...], depth: int
) -> list[Term]:
    """The unknowns of a value, of each choice in it those of the sides that may be taken."""
    value = simplifier.simplified(value, given)
    choice = next((n for n in walk(value) if n.kind is op.ITE and n.width > 1), None)
    if choice is None or depth > _MOST_CHOICES:
        return _atoms(value)
    found: dict[Term, None] = {}
    for condition in (choice.args[0], terms.not_(choice.args[0])):
        more = assumed(given, condition, terms)
        if not simplifier.facts(more).impossible:
            found.update(dict.fromkeys(_left(terms, simplifier, value, more, depth + 1)))
    return list(found)


def _atoms(value: Term) -> list[Term]:
    """All that a value is made of, inside floating-point operations, too."""
    return [node for node in walk(value) if node.kind is op.ATOM]


def _values(trace: Trace, at: int) -> Iterator[tuple[Term, tuple[Term, ...]]]:
    """What an instruction reads on each way, and what holds there."""
    guards = [v for access in trace.accesses if access.index == at for v in access.variants]
    instruction = trace.cfg.instructions[at]
    sources = tuple(flatten(instruction.operands[isa.destinations(instruction) :]))
    for seen in trace.operands.get(at, ()):
        guard = tuple(view.guard for view in guards) if len(guards) == 1 else ()
        for source, value in zip(sources, seen.values, strict=False):
            if isinstance(value, Term) and not isinstance(source, Mem):
                yield value, (*sorted(seen.conditions, key=lambda c: c.id), *guard)
    for view in guards:
        given = tuple(sorted(view.conditions, key=lambda c: c.id))
        yield view.guard, given
        yield view.address, (*given, view.guard)
    for seen in trace.decisions.get(at, ()):
        for value in seen.values:
            if isinstance(value, Term):
                yield value, tuple(sorted(seen.conditions, key=lambda c: c.id))


def _register(atom: Term) -> str:
    return str(atom.value).removeprefix("undefined(").removesuffix(")")


# ---------------------------------------------------------------- by the flow graph


_Held = frozenset[tuple[Reg, bool]]
"""Registers that some way leaves unwritten, and, with True, those computed from these."""


def _reads(cfg: Cfg, given: Container[int] = ()) -> dict[int, frozenset[Reg]]:
    """Instructions that read registers which some way leaves unwritten, or what is computed from
    these. What the instructions `given` read was written."""

    def through(number: int, held: _Held) -> list[tuple[int, _Held]]:
        unwritten, made = _parted(held)
        for _ in _in_order(cfg, number, unwritten, made, given):
            pass
        after = frozenset({*((r, False) for r in unwritten), *((r, True) for r in made)})
        return [(successor, after) for successor in cfg.blocks[number].successors]

    every = frozenset((reg, False) for at in cfg.indices(cfg.order) for reg in cfg.read[at])
    held = ForwardAnalysis(cfg, every, through, frozenset.union).everywhere()
    return {
        at: found
        for number in cfg.order
        for at, found in _in_order(cfg, number, *_parted(held.get(number, frozenset())), given)
    }


def _parted(held: _Held) -> tuple[set[Reg], set[Reg]]:
    return {reg for reg, made in held if not made}, {reg for reg, made in held if made}


def _in_order(
    cfg: Cfg, number: int, unwritten: set[Reg], made: set[Reg], given: Container[int]
) -> Iterator[tuple[int, frozenset[Reg]]]:
    """Such instructions of a block, with what they read; both sets are those behind them then."""
    for at, early, written in _in_block(cfg, number):
        found = unwritten.intersection(early) | made.intersection(cfg.read[at])
        if found and at not in given:
            made.update(cfg.written[at])
            yield at, frozenset(found)
        else:
            made.difference_update(cfg.surely_written[at])
        unwritten.difference_update(written)


def _in_block(cfg: Cfg, number: int) -> Iterator[tuple[int, Iterable[Reg], Iterable[Reg]]]:
    """Each instruction with the registers that it reads, and those that are written behind it, as
    far as the block tells: `@%p1 mov %r1, 0; @!%p1 mov %r1, 1;` writes %r1."""
    written_if: dict[Reg, set[Guard]] = {}
    for at in range(cfg.blocks[number].start, cfg.blocks[number].end):
        guard = cfg.instructions[at].guard
        read = [reg for reg in cfg.read[at] if guard not in written_if.get(reg, ())]
        surely = {*cfg.surely_written[at]}
        for reg in cfg.written[at]:
            for guards in written_if.values():  # it is another condition from now on
                guards -= {each for each in guards if each.reg == reg}
            if guard is not None and guard.reg != reg:
                guards = written_if.setdefault(reg, set())
                guards.add(guard)
                if Guard(guard.reg, not guard.negated) in guards:
                    surely.add(reg)
        yield at, read, surely


def _has_effect(cfg: Cfg, at: int) -> bool:
    instruction = cfg.instructions[at]
    return bool(isa.effects(instruction.opcode, instruction.modifiers))
