"""The roles of warps as reports and predictions give them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ptxsw.report.cost_model import Role, RoleLoop
from ptxsw.report.tables import Table

if TYPE_CHECKING:
    from ptxsw.cost import roles as cost

TITLE = "Warp roles, running concurrently"


def shown_roles(
    roles: Iterable[cost.RoleWork], times: Mapping[int, float], tiles: Mapping[int, int]
) -> tuple[Role, ...]:
    """With the least cycles of loops and the tiles that pass them, by headers, where known."""
    return tuple(
        Role(role.warps, tuple(_loop(one, times, tiles) for one in role.loops), role.work)
        for role in roles
    )


def _loop(loop: cost.RoleLoop, times: Mapping[int, float], tiles: Mapping[int, int]) -> RoleLoop:
    moved = None if loop.bytes is None else (loop.bytes.low, loop.bytes.high)
    least = times.get(loop.header)
    return RoleLoop(
        loop.label, loop.line, loop.work, moved, loop.barriers, loop.stages, loop.on_the_way,
        loop.registers, None if least is None else round(least, 2), tiles.get(loop.header),
    )  # fmt: skip


def role_table(roles: Iterable[Role]) -> Table:
    """Who does what."""
    rows = tuple((named(role.warps), sentence) for role in roles for sentence in _sentences(role))
    return Table(("warps", "what they do"), rows)


def role_lines(roles: Iterable[Role]) -> Iterator[str]:
    """The same as lines, and which loop is the longest."""
    roles = tuple(roles)
    for warps, sentence in role_table(roles).rows:
        yield f"warp{'s' * (not warps.isdigit())} {warps}: {sentence}"
    known = [(loop.at_least / loop.tiles, loop.label) for role in roles for loop in role.loops
             if loop.at_least is not None and loop.tiles]  # fmt: skip
    if len(known) > 1:
        least, label = max(known)
        yield (
            f"for each tile that passes their mbarriers, a block takes as long as the longest: "
            f"at least {least:.4g} cycles, the loop {label}"
        )


def named(warps: tuple[int, ...]) -> str:
    """ "0", "0, 1", "0 to 3, 7"."""
    runs: list[list[int]] = []
    for warp in warps:
        if runs and runs[-1][-1] == warp - 1:
            runs[-1].append(warp)
        else:
            runs.append([warp])
    long = 3  # from which on a run is named by its ends
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) >= long else ", ".join(map(str, run)) for run in runs
    )


def _sentences(role: Role) -> Iterator[str]:
    if not role.loops:
        yield f"no loop of their own{': ' * bool(role.work)}{', '.join(role.work)}"
    for loop in role.loops:
        work = ", ".join(loop.work) or "computes"
        yield ", ".join((f"loop {loop.label} in line {loop.line}: {work}", *_figures(loop)))


def _figures(loop: RoleLoop) -> Iterator[str]:
    if loop.bytes is not None:
        least, most = loop.bytes
        yield f"{least:,.0f} bytes{f' to {most:,.0f}' * (most > least)} an iteration"
    if loop.tiles is not None and loop.tiles > 1:
        yield f"{loop.tiles} tiles an iteration"
    if loop.barriers is not None:
        yield f"waits for {loop.barriers} mbarrier{'s' * (loop.barriers > 1)}"
    if loop.stages is not None:
        yield f"{loop.stages} stage{'s' * (loop.stages > 1)}"
    if loop.on_the_way is not None:
        yield f"at most {loop.on_the_way:,} bytes on the way"
    if loop.registers is not None:
        yield f"{loop.registers} registers a thread"
    if loop.at_least is not None:
        yield f"at least {loop.at_least:.4g} cycles a block"
