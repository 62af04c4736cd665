"""From a plan to edits of the text.

The schemes are in `shuffled` and `halo`, the forms in `version_region` and `uniform_loop`; here
they are put together: which lines stand for both copies of a stretch, where a source's value is
kept, and in what order all of it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ptxsw.changes.change import Change
from ptxsw.changes.plan import Halo, HoistedLoad, Plan, ServedLoad, UniformLoop, WrapGuard
from ptxsw.codegen.builder import Builder, Insertions
from ptxsw.codegen.halo import HaloWriter
from ptxsw.codegen.overflow_checks import OverflowChecks, Rematerializer
from ptxsw.codegen.shuffled import SavedValues, Shuffled
from ptxsw.codegen.splice import Edit
from ptxsw.codegen.uniform_loop import Uniform
from ptxsw.codegen.version_region import Region, regions
from ptxsw.codegen.versioning import stretch_twice
from ptxsw.codegen.warp_state import Lane, LaneSteps, SegmentPredicates, WarpState
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.convergence import segments
from ptxsw.ptx.ir import Function


def as_plan(function: Function, cfg: Cfg, changes: Iterable[Change]) -> Plan:
    """The changes as one plan."""
    details = [change.detail for change in changes]
    return Plan(
        function,
        cfg.instructions,
        tuple(one for one in details if isinstance(one, ServedLoad)),
        segments(cfg),
        tuple(one for one in details if isinstance(one, HoistedLoad)),
        tuple(one for one in details if isinstance(one, Halo)),
        tuple(one for one in details if isinstance(one, UniformLoop)),
    )


def emit(text: str, plan: Plan) -> tuple[Edit, ...]:
    """The edits that carry a plan out. Names are new to the whole text."""
    if not plan.rewrites and not plan.loops:
        return ()
    return Emitter(text, plan).edits()


class Emitter:
    """Puts the lines of one plan together."""

    def __init__(self, text: str, plan: Plan) -> None:
        self._builder = Builder(text, plan.function, plan.instructions)
        self._text, self._plan = text, plan
        self._names, self._common = self._builder.names, self._builder.lines
        self._lane = Lane(self._names)
        self._uniform = Uniform(self._names, plan, text)
        self._values = SavedValues(self._names, plan, self._uniform.outlives)
        self._stretches = SegmentPredicates(self._names, self._lane, self._uniform.predicate)
        self._steps_of = LaneSteps(self._names)
        self._shuffled = Shuffled(self._names, self._lane, self._values, text)
        self._rows = HaloWriter(self._names, self._lane, self._values, text)
        self._regions = regions(plan)
        self._region_of = {id(w): region for region in self._regions for w in region.rewrites}
        self._takers: dict[int, list[ServedLoad]] = {}  # of each load's value
        for rewrite in plan.rewrites:
            for source in dict.fromkeys(part.source for part in rewrite.parts):
                self._takers.setdefault(source, []).append(rewrite)

    def edits(self) -> tuple[Edit, ...]:
        """All edits of the body."""
        # Lines at one instruction keep the order in which they are added. Votes come first, since
        # everything in a uniform loop is guarded by their predicate; then index tests and moved
        # loads, which the rewrites use; duplicated stretches last, since they copy the lines that
        # have been added so far.
        plan = self._plan
        self._uniform.write(self._common)
        self._wraps = OverflowChecks(self._names, self._common, self._guards())
        for hoist in plan.hoists:
            self._hoist(hoist)
        for _, step in sorted(self._steps(), key=lambda pair: pair[0]):
            if isinstance(step, Halo):
                self._row(step)
            else:
                self._rewrite(step)
        for region in self._regions:
            whole = self._before_branch(region)
            assert whole.unfit is not None
            stretch_twice(self._builder, (region.start, region.end), region.fast, whole.unfit)
        return self._builder.edits()

    def _guards(self) -> Iterator[WrapGuard]:
        """Those that are tested where their indices are extended."""
        for rewrite in self._plan.rewrites:
            if id(rewrite) not in self._region_of:
                yield from rewrite.proof.guards
                if rewrite.scheme == "halo":
                    yield from self._plan.rows[rewrite.source].proof.guards

    def _steps(self) -> Iterator[tuple[tuple[int, int], Halo | ServedLoad]]:
        """The rows and rewrites to be written, each with the position at which it begins."""
        for row in self._plan.halos:
            yield (self._made_at(row.lead), 0), row
        for rewrite in self._plan.rewrites:
            yield (rewrite.dest, 1), rewrite  # a row's partial load before what takes from it

    def _made_at(self, load: int) -> int:
        """Where a load is made: its own place, or that to which it is moved."""
        hoist = self._plan.hoisted.get(load)
        return hoist.at if hoist is not None else load

    # ------------------------------------------------------------ where lines go

    def _lines(self, rewrite: ServedLoad) -> Insertions:
        """The lines of the code that a rewrite changes."""
        region = self._region_of.get(id(rewrite))
        return self._common if region is None else region.fast

    def _home(self, load: int) -> Insertions:
        """The lines in which a load's value is kept: the fast copy alone if it has all takers."""
        takers = {
            id(self._region_of.get(id(rewrite))): self._region_of.get(id(rewrite))
            for rewrite in self._takers.get(load, ())
        }
        (region, *others) = takers.values() or (None,)
        if region is None or others or self._made_at(load) not in region:
            return self._common
        return region.fast

    # ------------------------------------------------------------ writing

    def _hoist(self, hoist: HoistedLoad) -> None:
        """A load made earlier, into a register of its own."""
        lines = self._home(hoist.load)
        ((register, width),) = self._values.registers(hoist.load)
        name = self._values.moved[hoist.load] = self._names.new("early", f"b{width}")
        load = self._plan.instructions[hoist.load]
        offset = f"+{hoist.offset}" if hoist.offset else ""
        inside = self._uniform.predicate(hoist.load)
        lines.put_before(
            hoist.at, f"{_under(inside)}{load.name} {name}, [{hoist.base.name}{offset}];"
        )
        lasting = self._uniform.lasting(hoist.load)
        lines.replace(hoist.load, f"{_under(lasting)}mov.b{width} {register}, {name};")

    def _row(self, row: Halo) -> None:
        takers = self._takers.get(row.lead, ())
        of_row = (r for r in takers if r.scheme == "halo" and r.source == row.lead)
        members = [r for r in of_row if not r.is_copy]
        if not members:
            return
        whole = self._row_whole(row, members[0])
        self._rows.partial_load(self._lines(members[0]), row, whole)

    def _row_whole(self, row: Halo, member: ServedLoad) -> WarpState:
        """What is known of the warp where the row's lead is loaded."""
        at = self._made_at(row.lead)
        if id(member) in self._region_of:
            return WarpState("-1", None)  # the branch before the stretch has asked all of it
        segment = self._plan.segments[at]
        wraps = self._wraps.of(row.proof.guards)
        return self._stretches.voted(self._common, at, segment, row.proof.block_shape, wraps)

    def _rewrite(self, rewrite: ServedLoad) -> None:
        if rewrite.is_copy:
            self._copy(rewrite)
        else:
            self._shuffle(rewrite)

    def _shuffle(self, rewrite: ServedLoad) -> None:
        lines = self._lines(rewrite)
        if rewrite.scheme == "halo":
            whole = self._row_whole(self._plan.rows[rewrite.source], rewrite)
            self._rows.write(lines, self._home(rewrite.source), rewrite, whole)
            self._merge(lines, rewrite)
        elif lines is not self._common:
            self._shuffled.write(lines, self._home, rewrite, WarpState("-1", None), ())
        else:
            segment = self._plan.segments[rewrite.dest]
            shape = rewrite.proof.block_shape
            whole = self._stretches.whole(lines, rewrite.dest, segment, shape)
            steps = rewrite.proof.steps
            jumps = self._steps_of.of(lines, rewrite.dest, segment, steps, whole.mask)
            tests = (*self._wraps.of(rewrite.proof.guards), *jumps)
            self._shuffled.write(lines, self._home, rewrite, whole, tests)
            self._merge(lines, rewrite)

    def _merge(self, lines: Insertions, rewrite: ServedLoad) -> None:
        """In lanes that have left a uniform loop, registers that are read behind it keep their old
        values."""
        # The shuffle itself must stand under no guard: lanes that have left the loop may be asked
        # for their values, and all 32 have to execute it. So the result is merged behind it.
        inside = self._uniform.lasting(rewrite.dest)
        if inside is None or lines is not self._common:
            return
        for register, width in self._values.registers(rewrite.dest):
            if width:
                old = self._names.new("old", f"b{width}")
                lines.put_before(rewrite.dest, f"mov.b{width} {old}, {register};")
                merged = f"selp.b{width} {register}, {register}, {old}, {inside};"
                lines.replaced[rewrite.dest].append(merged)

    def _copy(self, rewrite: ServedLoad) -> None:
        """A load whose elements this lane has in registers."""
        registers = self._values.registers(rewrite.dest)
        lasting = _under(self._uniform.lasting(rewrite.dest))
        self._common.replace(
            rewrite.dest,
            *(
                f"{lasting}mov.b{width} {register}, "
                f"{self._values.copy(self._home(part.source), part.source, part.element)};"
                for part, (register, width) in zip(rewrite.parts, registers, strict=True)
            ),
        )

    def _before_branch(self, region: Region) -> WarpState:
        """The test of the branch before a stretch that is written twice."""
        stretch = (self._plan.segments[region.start], region.start)
        ahead = Rematerializer(self._text, self._plan, self._names, self._common, region.start)
        wraps = OverflowChecks(self._names, self._common, region.guards, ahead).of(region.guards)
        return self._stretches.voted(self._common, region.start, stretch, region.block_shape, wraps)


def _under(predicate: str | None) -> str:
    return "" if predicate is None else f"@{predicate} "
