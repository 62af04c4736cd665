"""The form `versioned`: a stretch of code twice, under one branch of the whole warp.

activemask.b32 %sw_mask1;
setp.ne.or.b32 %sw_part1, %sw_mask1, -1, %sw_rows;
@%sw_part1 bra $sw_slow1;
...                             the stretch with its rewrites; all lanes are here
bra.uni $sw_done1;
$sw_slow1:
...                             the stretch as it was
$sw_done1:
"""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from ptxsw.changes.plan import Plan, ServedLoad, WrapGuard
from ptxsw.codegen.builder import Insertions
from ptxsw.codegen.overflow_checks import backward_slice
from ptxsw.codegen.versioning import obstacle_to_copy, stretch
from ptxsw.flow.dataflow import read_first
from ptxsw.ptx.ir import Open


class Region(Struct):
    """Instructions `start` to `end`, the last included, that are written twice. `fast` are the
    lines of the first copy alone."""

    start: int
    end: int
    rewrites: list[ServedLoad]
    fast: Insertions = field(default_factory=Insertions)

    def __contains__(self, index: int) -> bool:
        return self.start <= index <= self.end

    @property
    def guards(self) -> tuple[WrapGuard, ...]:
        """What is to be tested before the branch."""
        guards = (guard for rewrite in self.rewrites for guard in rewrite.proof.guards)
        return tuple(dict.fromkeys(guards))

    @property
    def block_shape(self) -> bool:
        """Must rows not wrap inside the warp?"""
        return any(rewrite.proof.block_shape for rewrite in self.rewrites)


def regions(plan: Plan) -> list[Region]:
    """The stretches to be written twice: in each segment, from the first rewritten load to the
    last. A stretch is left out if lanes have to be compared in it, if a test cannot be made before
    it, if a scope begins or ends inside, or if a value loaded in it is used elsewhere."""
    by_start: dict[int, Region] = {}
    for rewrite in plan.rewrites:
        # Tests that compare lanes shuffle a register just before the load; the branch comes too
        # early for them.
        if rewrite.form != "versioned" or rewrite.is_copy or rewrite.proof.steps:
            continue
        touched, segment = _touched(plan, rewrite), plan.segments[rewrite.dest]
        region = by_start.setdefault(segment, Region(rewrite.dest, rewrite.dest, []))
        region.start = min(region.start, *touched)
        region.end = max(region.end, *touched)
        region.rewrites.append(rewrite)
    return [
        region
        for region in by_start.values()
        if _is_whole(plan, region) and _is_ready(plan, region) and _is_closed(plan, region)
    ]


def as_written(plan: Plan) -> Plan:
    """The plan with the forms as they will be written: rewrites in stretches that cannot be written
    twice get form `keep`."""
    twice = {id(rewrite) for region in regions(plan) for rewrite in region.rewrites}
    return replace(
        plan,
        rewrites=tuple(
            replace(rewrite, form="keep")
            if rewrite.form == "versioned" and not rewrite.is_copy and id(rewrite) not in twice
            else rewrite
            for rewrite in plan.rewrites
        ),
    )


def _is_ready(plan: Plan, region: Region) -> bool:
    """Can all indices be tested before the branch?"""
    return all(
        backward_slice(plan, guard.reg, guard.index, region.start) is not None
        for guard in region.guards
    )


def _is_closed(plan: Plan, region: Region) -> bool:
    """Is no value that is loaded inside the region used by a rewrite outside it?"""
    own = {id(rewrite) for rewrite in region.rewrites}
    for rewrite in plan.rewrites:
        if id(rewrite) in own or rewrite.dest in region:
            continue
        for part in rewrite.parts:
            hoist = plan.hoisted.get(part.source)
            if (part.source if hoist is None else hoist.at) in region:
                return False
    return True


def _touched(plan: Plan, rewrite: ServedLoad) -> list[int]:
    """The instructions of its stretch that a rewrite has to do with."""
    positions = [rewrite.dest]
    for part in rewrite.parts:
        hoist = plan.hoisted.get(part.source)
        if hoist is not None and plan.segments[hoist.at] == plan.segments[rewrite.dest]:
            positions += [hoist.at, hoist.load]
    if rewrite.scheme == "halo":
        positions.append(rewrite.source)
    return positions


def _is_whole(plan: Plan, region: Region) -> bool:
    """May the text of a region be written twice? Its scopes must be closed, declare nothing but
    registers, and set these before they read them; otherwise one copy could read what the other has
    set."""
    body = plan.function.body
    start, end = stretch(body, region.start, region.end)
    inside = [s for s in body.statements if start <= s.span.start < end]
    if obstacle_to_copy(inside) is not None:
        return False
    scopes = {statement.scope for statement in inside if isinstance(statement, Open)}
    read = read_first(plan.instructions[region.start : region.end + 1]) if scopes else frozenset()
    return all(reg.scope not in scopes for reg in read)
