"""Two kernels proved equal, cut by cut.

Control of the two texts is followed in step from the entry. Where it comes to a place where a
block of the first text begins, and to that place's image in the second, the comparison ends, and
is begun anew from what is always known there. So each pair of places is looked at once, and loops
are proved by induction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import product
from math import inf

from ptxsw.analysis.instruction_kinds import Kind, asks_convergence, kind, meets, uniform_registers
from ptxsw.emulator.budget import Budget
from ptxsw.emulator.node import Term, walk
from ptxsw.emulator.solver import Solver
from ptxsw.emulator.terms import Terms
from ptxsw.flow.dataflow import defs, uses
from ptxsw.ir import Function, Module, Reg
from ptxsw.permutation import Permutation
from ptxsw.validate.chain import Bytes
from ptxsw.validate.claims import ReadClaim, is_inequality
from ptxsw.validate.compare import PathComparison
from ptxsw.validate.cuts import Cut
from ptxsw.validate.declared import Declared
from ptxsw.validate.edit_map import EditMap
from ptxsw.validate.equality import Ask, Equality
from ptxsw.validate.identical import are_alike, successors
from ptxsw.validate.images import Images
from ptxsw.validate.indices import Indices
from ptxsw.validate.lanes import KernelLanes
from ptxsw.validate.layout import SharedLayout, shared_places
from ptxsw.validate.meetings import Meetings
from ptxsw.validate.memory import Memory, uncovered
from ptxsw.validate.narrowing import readings
from ptxsw.validate.outcome import (
    NO_WRAP,
    PARAMETERS_ARE_GLOBAL,
    Differ,
    GiveUp,
)
from ptxsw.validate.path import Constant, End, Event, Path, Runner, Touch
from ptxsw.validate.questions import Questions
from ptxsw.validate.starts import Pair, Starts
from ptxsw.validate.text import Text
from ptxsw.validate.touches import TouchesBySum
from ptxsw.validate.versions import Versions
from ptxsw.validate.waiting import Waiting

MOST_WORK = 16_000_000
"""What the solver may do for one proof, in its own units of work."""


class Validation:
    """A proof in the making. Raises Differ, GiveUp and OutOfTime out of `run`."""

    def __init__(
        self,
        old: tuple[Module, Function],
        new: tuple[Module, Function],
        edits: EditMap,
        claims: Sequence[ReadClaim],
        assume: frozenset[str],
        permutation: Permutation | None,
        budget: Budget,
        *,
        thorough: bool = False,
        bold: bool = False,
    ) -> None:
        """With `thorough`, what a symbolic run of the first kernel knows counts everywhere; with
        `bold`, what a register holds where a loop is entered is believed to stay at first."""
        self._budget = budget
        self.terms = Terms()
        self.solver = Solver(inf, units=MOST_WORK)
        self.allowed = assume
        self.assumptions: dict[str, None] = {}
        self.equality = Equality(
            self.terms, self.solver, exact=any(map(is_inequality, claims)),
            unwraps=self._unwraps if NO_WRAP in assume else None, check=budget.check,
        )  # fmt: skip
        self.memory = Memory(self.terms, self.solver, self.equality.ordered, budget.check)
        self.old, self.new = Text(self.terms, *old), Text(self.terms, *new)
        self.images = Images((self.old, self.new), edits.images, claims)
        self.meetings = Meetings(lambda: self.versions)
        self.work: dict[Pair, None] = {}
        self.done: set[Pair] = set()
        self.layout: SharedLayout | None = None
        if permutation is not None:
            evaluator = self.old.evaluator
            self.layout = SharedLayout(permutation, evaluator, self.equality, *new)
            self.layout.check((*self.old.cfg.instructions, *self.new.cfg.instructions))
        declared, texts = Declared(self.terms, self.memory, self.old), (self.old, self.new)
        images = self.images
        self.lanes = KernelLanes(
            self.terms, texts, declared, images.places, assume, self.solver, thorough=thorough
        )
        self.starts = Starts(
            self.equality, self.memory, texts, declared, self.lanes, claims, self.layout, assume,
            self.assumptions, bold=bold,
        )  # fmt: skip
        self.waiting = Waiting(
            self.terms, self.equality, texts, lambda: self.lanes.gathered, images.of
        )
        self.starts.predicates = self.waiting.told
        self.indices = Indices(self.lanes, self.equality, self.memory)
        self._whole = False
        self.questions = Questions(
            self.equality, self.memory, self.old, declared, self.lanes, assume, self.assumptions
        )

    def _unwraps(self) -> None:
        self.assumptions[NO_WRAP] = None

    # ------------------------------------------------------------ the whole

    def run(self) -> None:
        """Prove all pairs of places that control comes to. A segment's proof takes for true what
        is known of its first pair, and shows the same of the pairs at its ends: all together are
        an induction over the segments that a thread runs. Where an end knows less than its pair
        was proved with, that pair is open again."""
        self._check_questions()
        self._begin()
        while self.work:
            self._budget.check()
            pair = next(reversed(self.work))
            del self.work[pair]
            self.done.add(pair)
            self.starts.kept.begin(pair)
            if self.waiting.waits(pair):
                self._wait(pair)
            elif not self._identical(pair):
                self._segment(pair)
        self.waiting.check(self.done)
        self.meetings.check(self.old.cfg.instructions.__getitem__)

    @property
    def may_tell_more(self) -> bool:
        """Might a thorough proof say what a register of the second text alone holds, where this
        one could not?"""
        return self.starts.carried.lost and not self.lanes.looks

    @property
    def was_cautious(self) -> bool:
        """Might a bold proof say more?"""
        return self.starts.expected

    def _check_questions(self) -> None:
        """Which lanes are together is not followed: where the first text asks, branches must be
        the same, but for new ones that all threads of the grid decide alike."""
        bodies = [text.cfg.instructions for text in (self.old, self.new)]
        if any(map(asks_convergence, bodies[0])):
            alike = self._alike - {r for i in bodies[0] for r in (*uses(i), *defs(i))}
            guarded = [
                [
                    i.opcode
                    for i in body
                    if kind(i) is Kind.CONTROL and i.guard is not None and i.guard.reg not in alike
                ]
                for body in bodies
            ]
            if guarded[0] != guarded[1]:
                raise GiveUp("the kernel asks which lanes are active, and branches were added")

    @cached_property
    def _alike(self) -> frozenset[Reg]:
        """Registers of the second text that are the same for all threads of a grid."""
        names = frozenset(p.name for p in self.old.function.params)
        alike = frozenset(uniform_registers(self.new.cfg.instructions, names))
        return alike if alike.isdisjoint(self.new.live(0)) else frozenset()

    @cached_property
    def versions(self) -> Versions:
        """Copies of code in the second text of which a grid runs one."""
        return Versions(self.new.cfg, self._alike)

    def _begin(self) -> None:
        """The entry. Where the second text runs something before the image of the first block,
        the first text stands still for it."""
        if self.starts.needs_proof((0, 0)):
            raise GiveUp("a claim stands where the kernel begins")
        if self.images.begin_together():
            self._come_to((0, 0))
            return
        cut = self.starts.cut((0, 0))
        old = self._still(cut)
        for new in self._news(cut, (), cut.conditions, lambda _, __: False):
            self._pair(cut, [old], new)

    def _come_to(self, pair: Pair) -> None:
        if pair not in self.done:
            self.work[pair] = None

    def _again(self, pair: Pair) -> None:
        """Less is known of a pair than when it was proved."""
        if pair in self.done:
            self.done.discard(pair)
            self.work[pair] = None

    # ------------------------------------------------------------ blocks left alone

    def _identical(self, pair: Pair) -> bool:
        """Is the block the same in both texts, and does it go to places that correspond? Then
        equal registers and equal memory make equal registers and memory."""
        p, q = pair
        if not are_alike(self.old, self.new, p, q):
            return False
        run = self.old.cfg.instructions[p : self.old.cfg.blocks[self.old.block(p)].end]
        if any(q < stop < q + len(run) for stop in self.images.stops):
            return False
        if self.layout is not None and any(map(self.layout.touches, run)):
            return False
        if self.starts.puts_off(p):
            return False
        ends = successors(self.old, self.new, self.images, p, q)
        if ends is None:
            return False
        false = self.starts.false_at(q)
        if false:
            false = false.difference(r.name for i in run for r in defs(i))
        if any(self.starts.needs_proof(end, false) for end in ends):
            return False
        if any(self.starts.extra(end) for end in ends):
            return False  # what they hold there has to be said anew
        told = self.starts.cut(pair) if self.lanes.gathered is not None else None
        for end in ends:
            if told is not None and self.waiting.arrive(end, told.new.get, told.conditions):
                self._again(end)
        for at, instruction in enumerate(run):
            if meets(instruction):
                self.meetings.meet(p + at, q + at, whole=False)
        for end in ends:
            self._come_to(end)
        return True

    # ------------------------------------------------------------ segments

    def _segment(self, pair: Pair) -> None:
        """Compare the texts from one pair of places to the next ones."""
        first: Differ | None = None
        claimed = self.starts.claims_memory(pair[0])
        for whole, lenient in product((claimed, not claimed), (False, True)):
            if lenient and PARAMETERS_ARE_GLOBAL not in self.allowed:
                continue
            try:
                cut = self._attempt(pair, lenient, whole)
            except Differ as differ:
                first = first or differ
                continue
            if cut.old.runner.windows.assumed:
                self.assumptions[PARAMETERS_ARE_GLOBAL] = None
            self.assumptions.update(cut.view.assumptions if cut.view is not None else {})
            return
        assert first is not None
        raise first

    def _attempt(self, pair: Pair, lenient: bool, whole: bool) -> Cut:
        self._whole = whole
        self._compare_by_bounds(None)
        cut = self.starts.cut(pair, lenient=lenient, whole=whole)
        cut.view = self.lanes.view(pair)
        if cut.view is not None:
            cut.view.given = cut.conditions
        olds = cut.old.runner.paths(cut.start(pair[0], cut.conditions), self.images.places)
        try:
            for new in self._news(cut, olds, cut.conditions):
                self._pair(cut, olds, new)
        except Differ:
            ends = [o.end for o in olds if o.end is not None]
            empty = all(
                e.kind == "cut" and e.position > pair[0] and pair[1] in self.images.of(e.position)
                for e in ends
            )
            if empty:
                self._pair(cut, olds, self._still(cut, pair[1]))
            elif not self._comes_to_itself(cut):
                raise
        return cut

    def _compare_by_bounds(self, header: int | None) -> None:
        """Let bounds tell of addresses from here on, where the whole run of the first text counts;
        where the loop with this header surely goes round once more."""
        within = self.indices.within(header) if self._whole else None
        self.equality.alike = self.memory.bounds = within

    def _wait(self, pair: Pair) -> None:
        """The second text runs on where the first stands still: nothing that lasts is done. Where
        the first only has to jump to where the second is, the waiting is over."""
        cut = self.starts.cut(pair)
        cut.view = self.lanes.view(pair, waiting=True)
        if self._jumps_to(pair[0], pair[1]):
            (old,) = cut.old.runner.paths(cut.start(pair[0], cut.conditions), self.images.places)
            self._compare(cut, old, self._still(cut, pair[1]))
            return
        for new in self._news(cut, (), cut.conditions):
            self._compare(cut, self._still(cut), new)

    def _jumps_to(self, place: int, image: int) -> bool:
        """Do nothing but jumps lead from a place of the first text to one with this image?"""
        cfg, seen = self.old.cfg, set[int]()
        while place not in seen and self.old.begins(place):
            seen.add(place)
            block = cfg.blocks[self.old.block(place)]
            jump = cfg.instructions[place]
            if block.end != place + 1 or jump.opcode != "bra" or jump.guard is not None:
                return False
            place = cfg.blocks[block.successors[0]].start
            if image in self.images.of(place):
                return True
        return False

    def _comes_to_itself(self, cut: Cut) -> bool:
        """Does the second text only go on to another image of the place, further down, while the
        first stands still? Behind a loop that stands twice it does."""
        images = self.images.of(cut.old_position)
        if not any(place > cut.new_position for place in images):
            return False
        news = self._news(cut, (), cut.conditions)
        for new in news:
            end = new.end
            assert end is not None
            if end.kind != "cut" or end.position not in images or end.position <= cut.new_position:
                return False
        for new in news:
            self._pair(cut, [self._still(cut)], new)
        return True

    def _still(self, cut: Cut, position: int | None = None) -> Path:
        """A path of no steps: of the first text, or at a position of the second."""
        if position is None:
            at = cut.old_position
            return cut.start(at, cut.conditions, End("cut", at, at))
        return Path(cut.new.get, cut.conditions, position, end=End("cut", position, position))

    def _news(
        self,
        cut: Cut,
        olds: Sequence[Path],
        given: tuple[Term, ...],
        constant: Constant | None = None,
    ) -> list[Path]:
        """The paths of the second text."""
        runner = cut.new.runner
        if cut.view is not None:
            cut.view.follow(olds)
        known = Runner(
            runner.cfg, runner.evaluator, self.memory, runner.windows,
            witness=False, constant=constant or self._constant(cut, olds), warp=cut.view,
            origin=self._origin(olds), written=runner.written,
        )  # fmt: skip
        return known.paths(Path(cut.new.get, given, cut.new_position), self.images.stops)

    def _constant(self, cut: Cut, olds: Sequence[Path]) -> Constant:
        """Which bytes does the first text read by `.nc` whichever path it takes, in this lane or
        in another one of a whole warp, or right behind the path?"""
        true = self.terms.const(1, 1)

        def distance(a: Bytes, b: Bytes) -> int | None:
            return self.memory.distance(a.place, b.place) if a.space == b.space else None

        # Only what lies at a known distance counts, which is what has the same sum in its address.
        by_sum = {id(path): TouchesBySum(t for t in path.touches if t.nc) for path in olds}

        def read(path: Path, load: Touch, given: Sequence[Term]) -> bool:
            near = by_sum[id(path)].overlapping(load.target)
            own = ((t.target, t.guard) for t in near)
            if near and not uncovered(load.target, own, distance, (true, *given).__contains__):
                return True
            asks = load.nc or (self._has_nc and load.mask is not None)
            lent = self.questions.others_read(cut, path, load, given) if asks else None
            if lent is not None and lent.nc:
                return True
            return load.nc and self._has_nc and self._later(cut, path, load, given)

        return lambda load, given: bool(olds) and all(read(path, load, given) for path in olds)

    @cached_property
    def _has_nc(self) -> bool:
        """Does the first text read anything by `.nc`?"""
        return any("nc" in i.modifiers for i in self.old.cfg.instructions if i.opcode == "ld")

    def _later(self, cut: Cut, path: Path, load: Touch, given: Sequence[Term]) -> bool:
        """Does a path of the first text go on to read these bytes by `.nc`, if it is taken?"""
        if self.equality.contradictory(given, path.conditions):
            return True
        return self.questions.reads_later(cut, path, load, given)

    def _origin(
        self, olds: Sequence[Path]
    ) -> Callable[[Bytes, Sequence[Term], int, int], Bytes] | None:
        """Where what the second text accesses lies in the first one's memory."""
        layout = self.layout
        if layout is None:
            return None
        places = shared_places(olds)
        return lambda target, given, index, size: layout.origin(target, places, given, index, size)

    def _pair(self, cut: Cut, olds: Sequence[Path], new: Path) -> None:
        """One path of the second text beside all of the first."""
        try:
            for old in olds:
                self._compare(cut, old, new)
        except Differ as differ:
            joint = _together(cut.conditions, new.conditions)
            several = [readings(self.terms, self.equality, old, joint) for old in olds]
            if not any(self._reads(cut, olds, read, new) for read in zip(*several, strict=True)):
                raise differ from None

    def _reads(
        self, cut: Cut, olds: Sequence[Path], read: Sequence[Path | None], new: Path
    ) -> bool:
        """Do the first text's paths, read in another way, do what one of the second does?"""
        if not any(read):
            return False
        try:
            for old, other in zip(olds, read, strict=True):
                self._compare(cut, other or old, new)
        except Differ:
            return False
        return True

    def _compare(self, cut: Cut, old: Path, new: Path, *, again: bool = True) -> None:
        more = (*old.conditions, *new.conditions)
        ask: Ask = "none" if self._go_together(old, new) else "plain"
        if self.equality.contradictory(cut.conditions, more, ask=ask):
            return
        joint = _together(cut.conditions, more)
        try:
            rules = self.questions.rules(cut, self.images.of, self.waiting.may_wait)
            parts = self.terms, self.memory, self.equality, rules
            pending = self.starts.put_off(cut, old, new, joint)
            self._compare_by_bounds(None)
            met = PathComparison(*parts, old, new, joint, pending).compare()
            self._compare_by_bounds(self._iteration(cut, old))
            for pair in self.starts.check(cut, old, new, joint):
                self._again(pair)
            if old.end is not None and new.end is not None and old.end.kind == "cut":
                pair = old.end.position, new.end.position
                if self.waiting.arrive(pair, new.get, joint):
                    self._again(pair)
        except Differ as differ:
            if self.equality.contradictory(cut.conditions, more) or self._opposed(cut, old, new):
                return
            if again and joint != cut.conditions:
                self._compare_closer(cut, joint, old, new, differ)
                return
            if self._impossible(joint):
                return
            raise
        for a, b in met:
            if meets(a.instruction):
                self.meetings.meet(a.index, b.index, whole=self._is_whole(cut, b, joint))
        self._follow(cut, old, new)

    def _is_whole(self, cut: Cut, event: Event, given: tuple[Term, ...]) -> bool:
        """Do all lanes of the warp come together to an event of the second text?"""
        if cut.view is None or event.mask is None:
            return False
        return self.equality.known(given).truth(cut.view.whole(event.mask)) is True

    def _go_together(self, old: Path, new: Path) -> bool:
        """Do two paths come to corresponding places of which nothing has to be known? Then they are
        likely taken together, and little is lost if they are compared and never are."""
        assert old.end is not None and new.end is not None
        if old.end.kind != new.end.kind or old.end.kind != "cut":
            return old.end.kind == new.end.kind != "brx"
        pair = old.end.position, new.end.position
        if self.waiting.waits(pair) or self.starts.needs_proof(pair):
            return False
        return not self.starts.extra(pair)

    def _iteration(self, cut: Cut, old: Path) -> int | None:
        """The loop of which a path is one iteration, that is followed by another."""
        assert old.end is not None
        if old.end.kind != "cut" or old.end.position != cut.old_position:
            return None
        return self.old.block(cut.old_position) if self.old.begins(cut.old_position) else None

    def _compare_closer(
        self, cut: Cut, joint: tuple[Term, ...], old: Path, new: Path, differ: Differ
    ) -> None:
        """The same paths again, run with the conditions of both: they may tell stores apart."""
        assert old.end is not None and new.end is not None
        if old.position == cut.old_position and old.end.kind == "cut" and not old.touches:
            raise differ
        olds = cut.old.runner.paths(cut.start(cut.old_position, joint), self.images.places)
        news = self._news(cut, olds, joint)
        for a in olds:
            for b in news:
                try:
                    self._compare(cut, a, b, again=False)
                except Differ:
                    raise differ from None

    def _impossible(self, joint: tuple[Term, ...]) -> bool:
        """Is it proved that no thread takes these two paths?"""
        return bool(joint) and self.equality.holds(self.terms.not_(joint[-1]), joint[:-1])

    def _opposed(self, cut: Cut, old: Path, new: Path) -> bool:
        """Have the two texts decided the same, one this way and one that way? Of floating-point
        numbers, and of what memory holds at an address, the solver knows nothing."""
        both = _together(old.conditions, new.conditions)
        for condition in new.conditions:
            never = self.terms.not_(condition)
            if condition in cut.conditions or not _is_opaque(condition):
                continue
            for other in old.conditions:
                if other.kind == never.kind and other not in cut.conditions:
                    given = tuple(c for c in both if c not in (condition, other))
                    if self.equality.same(other, never, given):
                        return True
        return False

    def _follow(self, cut: Cut, old: Path, new: Path) -> None:
        """The comparison goes on from where two paths end."""
        assert old.end is not None and new.end is not None
        if old.end.kind == "cut":
            pair = old.end.position, new.end.position
            self.waiting.goes_on((cut.old_position, cut.new_position), pair)
            self._come_to(pair)
        for pair in zip(old.end.targets, new.end.targets, strict=True):
            self._come_to(pair)


def _is_opaque(condition: Term) -> bool:
    """Is it about values of which the solver knows nothing?"""
    return any(node.kind in ("float", "apply") for node in walk(condition))


def _together(conditions: Iterable[Term], more: Iterable[Term]) -> tuple[Term, ...]:
    return tuple(dict.fromkeys((*conditions, *more)))
