"""The paths of the second text between two cuts, each compared with every path of the first that a
thread may take.

The second text is run with what the first text's paths show: what the first reads by `.nc` is known
to be constant for the second, too; where the second text's shared memory is laid out anew, its
accesses are those of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

from msgspec.structs import replace

from ptxsw.analysis.instruction_kinds import meets
from ptxsw.facts.conditions import together
from ptxsw.facts.prover import Ask
from ptxsw.ptx.ir import Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term, walk
from ptxsw.terms.op import Op
from ptxsw.validate.compare import PathComparison
from ptxsw.validate.cuts import Cut
from ptxsw.validate.layout import Origin
from ptxsw.validate.memory_ssa import known_distance
from ptxsw.validate.narrowing import Divisions
from ptxsw.validate.outcome import Differ
from ptxsw.validate.path import End, Event, Path, Touch, TouchesBySum, uncovered
from ptxsw.validate.proof_context import ProofContext
from ptxsw.validate.runner import Constant, Runner

_OPAQUE = frozenset({op.FLOAT, op.APPLY, op.MUL})


class PathPairs:
    """Compares paths, and has the proof go on from where they end. `whole`: does all count that a
    symbolic run of the first kernel knows?"""

    def __init__(self, context: ProofContext) -> None:
        basis = context.basis
        self._context, self._terms, self._memory = context, basis.terms, basis.memory
        self._equality, self._prover, self._old = basis.equality, basis.prover, basis.old
        self._relation, self._waiting_lanes = context.relation, context.waiting_lanes
        self._worklist, self._questions = context.worklist, context.questions
        self._true = basis.terms.const(1, 1)
        self.whole = False

    # ------------------------------------------------------------ paths of the second text

    def second_paths(
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
        informed = Runner(
            runner.cfg, runner.evaluator, self._memory, runner.windows,
            witness=False, constant=constant or self._constant(cut, olds), warp=cut.view,
            origin=self._origin(olds), written=runner.written,
        )  # fmt: skip
        start = Path(cut.new.get, given, cut.new_position)
        return informed.paths(start, self._context.images.stops)

    def _constant(self, cut: Cut, olds: Sequence[Path]) -> Constant:
        """Which bytes does the first text read by `.nc` whichever path it takes, in this lane or
        in another one of a whole warp, or right behind the path?"""

        # Only what lies at a known distance counts, which is what has the same sum in its address.
        by_sum = {id(path): TouchesBySum(t for t in path.touches if t.nc) for path in olds}

        def read(path: Path, load: Touch, given: Sequence[Term]) -> bool:
            near = by_sum[id(path)].overlapping(load.target)
            own = ((t.target, t.guard) for t in near)
            sure = (self._true, *given).__contains__
            if near and not uncovered(load.target, own, known_distance, sure):
                return True
            asks = load.nc or (self._has_nc and load.mask is not None)
            lent = self._questions.others_read(cut, path, load, given) if asks else None
            if lent is not None and lent.nc:
                return True
            return load.nc and self._has_nc and self._later(cut, path, load, given)

        # On all paths of the first text: when a load of the second is run, it is not yet known
        # which of them it will be compared with.
        return lambda load, given: bool(olds) and all(read(path, load, given) for path in olds)

    @cached_property
    def _has_nc(self) -> bool:
        """Does the first text read anything by `.nc`?"""
        return any("nc" in i.modifiers for i in self._old.cfg.instructions if i.opcode == "ld")

    def _later(self, cut: Cut, path: Path, load: Touch, given: Sequence[Term]) -> bool:
        """Does a path of the first text go on to read these bytes by `.nc`, if it is taken?"""
        if self._prover.contradictory(given, path.conditions):
            return True
        return self._questions.reads_later(cut, path, load, given)

    def _origin(self, olds: Sequence[Path]) -> Origin | None:
        """Where what the second text accesses lies in the first one's memory."""
        layout = self._context.layout
        return None if layout is None else layout.origins(olds)

    # ------------------------------------------------------------ comparing them

    def compare_all(self, cut: Cut, olds: Sequence[Path], new: Path) -> None:
        """Compare one path of the second text with all of the first. Raises Differ."""
        try:
            for old in olds:
                self.compare(cut, old, new)
        except Differ as differ:
            joint = together(cut.conditions, new.conditions)
            live = frozenset[Reg]().union(*map(self._context.basis.new.live, new.places))
            divisions = Divisions(self._terms, self._prover, new, live, joint)
            read = [divisions.read(old) for old in olds]
            if not any(read):
                raise
            try:
                for old, other in zip(olds, read, strict=True):
                    self.compare(cut, other or old, new)
            except Differ:
                raise differ from None

    def compare(self, cut: Cut, old: Path, new: Path, *, again: bool = True) -> None:
        """One path of each text: they do the same, or are never taken together. Raises Differ."""
        # Most pairs of paths are never taken together, so there is nothing to compare. Paths that
        # look alike are compared at once, and the solver is asked only if they differ.
        more = (*old.conditions, *new.conditions)
        ask: Ask = "none" if self._go_together(old, new) else "plain"
        if self._prover.contradictory(cut.conditions, more, ask=ask):
            return
        joint = together(cut.conditions, more)
        try:
            pending = self._relation.claims.store_difference(cut, old, new, joint)
            # The path itself is compared without the bounds of the next iteration. Claims at the
            # header where it ends speak of that one, which surely comes.
            self.compare_by_bounds(None)
            comparison = PathComparison(self._questions, cut, old, new, joint, pending)
            self._equality.accessed = comparison.accessed
            met = comparison.compare()
            self.compare_by_bounds(self._iterated(cut, old))
            for pair in self._relation.check(cut, old, new, joint):
                self._worklist.reopen(pair)
        except Differ as differ:
            if self._prover.contradictory(cut.conditions, more) or self._opposed(cut, old, new):
                return
            if again and joint != cut.conditions:
                self._compare_closer(cut, joint, old, new, differ)
                return
            if self._impossible(joint):
                return
            raise
        finally:
            self._equality.accessed = frozenset()
        for a, b in met:
            if meets(a.instruction):
                self._context.barrier_pairs.meet(
                    a.index, b.index, whole=self._is_whole(cut, b, joint)
                )
        self._follow(cut, old, new)

    def compare_by_bounds(self, header: int | None) -> None:
        """Use bounds of indices from here on, if the symbolic run of the whole first text is used
        at all. `header` is the loop that is certain to go round once more, if there is one."""
        within = self._context.indices.within(header) if self.whole else None
        self._equality.by_bounds = self._memory.aliases.bounds = within

    def _is_whole(self, cut: Cut, event: Event, given: tuple[Term, ...]) -> bool:
        """Do all lanes of the warp come together to an event of the second text?"""
        if cut.view is None or event.mask is None:
            return False
        return self._equality.simplifier.facts(given).truth(cut.view.whole(event.mask)) is True

    def _go_together(self, old: Path, new: Path) -> bool:
        """Do two paths end at corresponding places where nothing has to be proved? Then they are
        probably taken together, and comparing them costs little even if they are not."""
        if old.ended.kind != new.ended.kind or old.ended.kind != "cut":
            return old.ended.kind == new.ended.kind != "brx"
        pair = old.ended.position, new.ended.position
        if self._waiting_lanes.waits(pair) or self._relation.needs_proof(pair):
            return False
        return not self._relation.extra.at(pair)

    def _iterated(self, cut: Cut, old: Path) -> int | None:
        """The loop of which a path is one iteration, that is followed by another."""
        if old.places != (cut.old_position,):
            return None
        return self._old.block(cut.old_position) if self._old.begins(cut.old_position) else None

    def _compare_closer(
        self, cut: Cut, joint: tuple[Term, ...], old: Path, new: Path, differ: Differ
    ) -> None:
        """Compare the same paths again, run under the conditions of both: these may show that
        stores lie apart, and that indices do not wrap. Raises Differ."""
        # A path that stands still was not run, so there is nothing to run again.
        if old.position == cut.old_position and old.ended.kind == "cut" and not old.touches:
            raise differ
        with _written_alike(cut, self._prover.numbers(joint)):
            start = cut.start(cut.old_position, joint)
            olds = cut.old.runner.paths(start, self._context.images.places)
            news = self.second_paths(cut, olds, joint)
            for a in olds:
                for b in news:
                    try:
                        self.compare(cut, a, b, again=False)
                    except Differ:
                        raise differ from None

    def _impossible(self, joint: tuple[Term, ...]) -> bool:
        """Is it proved that no thread takes these two paths?"""
        return bool(joint) and self._prover.holds(self._terms.not_(joint[-1]), joint[:-1])

    def _opposed(self, cut: Cut, old: Path, new: Path) -> bool:
        """Have the two texts decided the same, one this way and one that way? Of floating-point
        numbers, and of what memory holds at an address, the solver knows nothing, and products of
        unknown values it gives up."""
        both = together(old.conditions, new.conditions)
        for condition in new.conditions:
            never, opaque = self._terms.not_(condition), _opaque(condition)
            if condition in cut.conditions or not opaque:
                continue
            for other in old.conditions:
                if other.kind != never.kind or other in cut.conditions:
                    continue
                if opaque == {op.MUL} and op.MUL not in _opaque(other):
                    continue  # products are in many conditions, and to compare all takes long
                given = tuple(c for c in both if c not in (condition, other))
                if self._equality.same(other, never, given):
                    return True
        return False

    def _follow(self, cut: Cut, old: Path, new: Path) -> None:
        """The comparison goes on from where two paths end."""
        for pair in zip(old.places, new.places, strict=True):
            self._waiting_lanes.goes_on((cut.old_position, cut.new_position), pair)
            self._worklist.come_to(pair)


@contextmanager
def _written_alike(cut: Cut, written: Callable[[Term], Term] | None) -> Iterator[None]:
    """Both texts run from a cut with their places in the same form, where one is given."""
    runners = cut.old.runner, cut.new.runner
    before, stores = [runner.written for runner in runners], cut.stores
    if written is not None:
        for runner in runners:
            runner.written = written
        cut.stores = tuple(
            replace(s, target=replace(s.target, place=written(s.target.place))) for s in stores
        )
    try:
        yield
    finally:
        cut.stores = stores
        for runner, form in zip(runners, before, strict=True):
            runner.written = form


def _opaque(condition: Term) -> set[Op]:
    """What it is about of which the solver can tell nothing."""
    return {node.kind for node in walk(condition) if node.kind in _OPAQUE}


def no_steps(cut: Cut, position: int | None = None) -> Path:
    """A path of no steps: of the first text, or at a position of the second."""
    if position is None:
        at = cut.old_position
        return cut.start(at, cut.conditions, End("cut", at, at))
    return Path(cut.new.get, cut.conditions, position, end=End("cut", position, position))
