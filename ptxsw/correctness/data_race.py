"""Two threads touch one byte, one of them writes it, and nothing orders them.

    st.shared.f32 [%r1], %f1;         tile[tid]
    ld.shared.f32 %f2, [%r2+4];       tile[tid + 1], which another thread may not have written

`may_happen_in_parallel` tells which accesses of a block nothing orders, `facts.two_threads` whether
two threads may touch one byte there. Between blocks nothing orders plain accesses at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, islice

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.coalescing import LANES
from ptxsw.correctness.barriers import BlockBarriers
from ptxsw.correctness.block_roles import Roles, roles_of
from ptxsw.correctness.may_happen_in_parallel import (
    AHEAD,
    FIRST,
    SECOND,
    Intervals,
    IterationFact,
    TooMany,
)
from ptxsw.correctness.reasons import limits_of, proved_for, without_weaker
from ptxsw.correctness.schedule_order import decides, in_step, in_step_before
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.touches import Touch, beyond_touches, conflict, constant_stored, touches
from ptxsw.correctness.verdict import Assumption, Proof, Suspect
from ptxsw.correctness.warp_order import orders
from ptxsw.emulator.trace import Access, AccessView
from ptxsw.facts.thread_views import Dimensions
from ptxsw.facts.two_threads import Apart, Meet, Meeting
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction
from ptxsw.ptx.isa import Effect
from ptxsw.terms.node import Term
from ptxsw.terms.substitution import substitute

RULE = "data-race"
_MOST_SUSPECTS = 20
_MOST_ASKED = 24  # about strong accesses
_OWN = ("local", "param")
_ORDERING = frozenset({"acquire", "release", "acq_rel", "sc"})


def occurs(subject: Subject) -> bool:
    """Is there anything that other threads see and that is written?"""
    code = subject.cfg.instructions
    return any(
        isa.effects(code[at].opcode, code[at].modifiers) & (Effect.WRITE | Effect.CALL)
        and isa.space(code[at]) not in _OWN
        for at in subject.cfg.indices(subject.cfg.order)
    )


def prove(subject: Subject) -> Proof:
    for _, reason in beyond_touches(subject):
        return Proof(unknown=reason)
    found = touches(subject)
    question = _Question(subject)
    question.constants(found)
    question.by_turns(found)
    proof = question.proof(unordered(subject, found))
    copied = {"async-wait"} if any(touch.lasting for touch in found) else frozenset()
    proof = replace(proof, needs=proof.needs | copied)
    return proof if proof.open or proof.unknown else _with_order(subject, found, proof)


def _with_order(subject: Subject, found: tuple[Touch, ...], proof: Proof) -> Proof:
    """The proof, with what is left to the schedule."""
    for pair in islice(within(subject, found, subject.barriers, decides), _MOST_ASKED):
        subject.budget.check()
        answer = subject.two_threads.ask(meeting(subject, pair))
        if isinstance(answer, Apart):
            continue
        one, two = pair.first.index, pair.second.index
        lines = " and ".join(map(str, sorted({subject.line(one), subject.line(two)})))
        reason = f"{proof.reason}; what lines {lines} leave may depend on the schedule"
        certain = isinstance(answer, Meet) and answer.certain and in_step_before(subject)
        return replace(proof, reason=reason, faults=(in_step(subject, one, two),) * certain)
    return proof


class Unordered(Struct, frozen=True):
    """Two touches that nothing orders, of one block or of two; or of one thread, while a copy
    lasts."""

    first: Touch
    second: Touch
    same_block: bool
    facts: tuple[IterationFact, ...] = ()
    differs: tuple[Term, ...] = ()  # one of these is another one in the second thread
    same_thread: bool = False


def unordered(
    subject: Subject, found: tuple[Touch, ...], barriers: BlockBarriers | None = None
) -> Iterator[Unordered]:
    """The touches that would race if they met."""
    yield from within(subject, found, barriers or subject.barriers, _races)
    seen = [touch for touch in found if not touch.is_shared]
    for a, b in combinations_with_replacement(seen, 2):
        if conflict(a, b, same_block=False):
            yield Unordered(a, b, False)


def within(
    subject: Subject,
    found: tuple[Touch, ...],
    barriers: BlockBarriers,
    wanted: Callable[[Touch, Touch], bool],
) -> Iterator[Unordered]:
    """Those of one block that are `wanted`. Where threads may part at barriers, these order
    nothing, but for threads with roles."""
    roles = roles_of(subject) if barriers is subject.barriers else None
    if roles is not None and not roles.problem and not any(t.lasting for t in found):
        yield from _by_roles(roles, found, wanted)
        return
    if barriers.parting:
        barriers = barriers.less(barriers.meeting)
    by_index: dict[int, list[Touch]] = {}
    for touch in found:
        by_index.setdefault(touch.index, []).append(touch)

    def pairs(a: int, b: int) -> Iterator[tuple[Touch, Touch]]:
        for one in by_index[a]:
            for two in by_index[b]:
                if wanted(one, two):
                    yield one, two

    seen: set[Unordered] = set()
    for of, differs in orders(subject, barriers):
        for pair in Intervals(of, subject.budget.check).pairs(
            by_index, lambda a, b: any(True for _ in pairs(a, b))
        ):
            for one, two in pairs(pair.first, pair.second):
                found_pair = Unordered(one, two, True, pair.facts)
                if found_pair not in seen:
                    seen.add(found_pair)
                    yield replace(found_pair, differs=differs)


def _by_roles(
    roles: Roles, found: tuple[Touch, ...], wanted: Callable[[Touch, Touch], bool]
) -> Iterator[Unordered]:
    by_index: dict[int, list[Touch]] = {}
    for touch in found:
        by_index.setdefault(touch.index, []).append(touch)

    def pairs(a: int, b: int) -> list[tuple[Touch, Touch]]:
        return [(one, two) for one in by_index[a] for two in by_index[b] if wanted(one, two)]

    for pair, apart in roles.pairs(tuple(by_index), lambda a, b: bool(pairs(a, b))):
        for one, two in pairs(pair.first, pair.second):
            yield Unordered(one, two, True, pair.facts, roles.computed if apart else ())


def answered(subject: Subject, pairs: Iterator[Unordered]) -> Proof:
    """Can any of some touches meet that nothing orders? The suspects are of this rule."""
    return _Question(subject).proof(pairs)


def _races(one: Touch, two: Touch) -> bool:
    return conflict(one, two, same_block=True)


def _is_order(instruction: Instruction) -> bool:
    """Does it order other accesses of its thread for those who see it?"""
    fence = isa.has(instruction, isa.Trait.FENCE)
    return fence or not _ORDERING.isdisjoint(instruction.modifiers)


def meeting(subject: Subject, pair: Unordered) -> Meeting:
    """The question about two touches, with what is known of the iterations they are in."""

    def told(kind: str) -> dict[int, int]:
        return {header: count for fact, header, count in pair.facts if fact == kind}

    mine, theirs = told(FIRST), told(SECOND)
    return Meeting(
        _in_iterations(subject, pair.first.access, mine),
        _in_iterations(subject, pair.second.access, theirs),
        pair.same_block,
        dict(told(AHEAD)),
        (*mine.items(), *((header, -1 - count) for header, count in theirs.items())),
        pair.differs,
        pair.same_thread,
    )


def _in_iterations(subject: Subject, access: Access, counts: Mapping[int, int]) -> Access:
    """An access in iterations of given numbers."""
    if not counts:
        return access
    trace, terms = subject.trace, subject.trace.terms
    labels = {f.label: counts[h] for h, f in trace.loop_facts.items() if h in counts}
    numbers: dict[Term, Term] = {}
    for label, number in labels.items():
        count = terms.iteration(label)
        numbers[count] = terms.const(number, count.width)
    for atom, listed in trace.iterations.items():
        number = labels.get(atom.of[0], len(listed))
        if number < len(listed):
            numbers[atom] = listed[number].value

    def now(term: Term) -> Term:
        return substitute(terms, term, numbers.get)

    views = tuple(
        AccessView(now(v.address), now(v.guard), frozenset(map(now, v.conditions)))
        for v in access.variants
    )
    return replace(access, variants=views)


class _Question:
    """Can any of the touches meet?"""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._assumptions: set[str] = set()
        self._conditions: dict[str, None] = {}
        self._needs: set[str] = set()
        self._same: set[int] = set()
        self._suspects: list[Suspect] = []
        self._unknown = self._remarks = self._by_fences = ""

    def constants(self, found: Sequence[Touch]) -> None:
        """What is loaded by `.nc` may not be written while the kernel runs, in any order and by
        any thread."""
        for load in (touch for touch in found if touch.constant):
            for store in (touch for touch in found if touch.write and not touch.is_shared):
                if self._subject.two_threads.one_object(load.access, store.access):
                    one, two = (self._subject.line(t.index) for t in (load, store))
                    why = f"what line {one} loads by .nc may be written at line {two}"
                    self._suspects.append(Suspect(RULE, load.index, store.index, None, why))

    def by_turns(self, found: Sequence[Touch]) -> None:
        """Strong accesses do not race, but who comes first may decide what they do. Others may be
        in order by them."""
        strong = [t.index for t in found if t.strong and t.wide and not t.is_shared]
        code = self._subject.cfg.instructions
        if strong and any(_is_order(one) for one in code):
            line = self._subject.line(strong[0])
            self._by_fences = f"; whether fences and line {line} order them is not followed"
        turns = [t.index for t in found if t.strong and t.write and not t.commutes]
        if turns:
            line = self._subject.line(turns[0])
            self._remarks = f"; what line {line} does may depend on who comes first"

    def proof(self, pairs: Iterator[Unordered]) -> Proof:
        try:
            for pair in pairs:
                self._subject.budget.check()
                self._ask(pair)
                if len(self._suspects) >= _MOST_SUSPECTS:
                    break
        except TooMany:
            return Proof(unknown="there are too many paths between its barriers")
        reason = proved_for(self._subject) + self._remarks
        if self._same:
            line = self._subject.line(min(self._same))
            reason += f"; several threads may write one value at line {line}"
        return Proof(
            tuple(self._suspects),
            self._unknown,
            reason,
            without_weaker(self._conditions),
            frozenset(map(Assumption, self._assumptions)),
            frozenset(self._needs),
        )

    def _ask(self, pair: Unordered) -> None:
        first, second = pair.first, pair.second
        answer = self._subject.two_threads.ask(meeting(self._subject, pair))
        most = self._fits_no_warp(answer) if isinstance(answer, Apart) else None
        if isinstance(answer, Apart) and most is None:
            self._assumptions |= answer.assumptions
            self._conditions.update(dict.fromkeys(answer.conditions))
            self._needs |= answer.needs
            return
        if self._one_value(first, second):
            self._same.add(first.index)
            return
        if isinstance(answer, Meet):
            self._suspects.append(
                Suspect(RULE, first.index, second.index, answer.values, self._words(pair))
            )
        elif isinstance(answer, Apart):
            why = f"{self._words(pair)} in blocks of more than {most} threads"
            self._suspects.append(Suspect(RULE, first.index, second.index, None, why))
        elif not self._unknown:
            self._unknown = f"{self._words(pair)}: {answer.reason}"

    def _fits_no_warp(self, answer: Apart) -> int | None:
        """The most threads of a block for which an answer holds, if those are fewer than a warp in
        a kernel whose blocks are rows: nobody launches that, so the answer would hide a race."""
        most = limits_of(answer.conditions).get("blockDim.x", LANES)
        rows = Dimensions(self._subject.trace, self._subject.shape).block == ("x",)
        return most if rows and most < LANES else None

    def _one_value(self, first: Touch, second: Touch) -> bool:
        """Do both write one constant? Whoever reads it unordered makes another pair."""
        value = constant_stored(self._subject, first)
        sizes = {first.access.bits, second.access.bits}
        return (
            value is not None
            and len(sizes) == 1
            and value == constant_stored(self._subject, second)
        )

    def _words(self, pair: Unordered) -> str:
        one, two = (self._subject.line(t.index) for t in (pair.first, pair.second))
        if pair.same_thread:
            return f"line {two} may touch what line {one} copies"
        where = "" if pair.same_block else " of two blocks"
        more = "" if pair.same_block else self._by_fences
        if one == two:
            return f"two threads{where} may access the same byte at line {one}{more}"
        return f"threads{where} may access the same byte at lines {one} and {two}{more}"
