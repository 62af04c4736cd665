"""From copied loads, shuffled loads and uniform loops to edits. The schemes and forms have files of
their own (`shuffled`, `halo`, `version_region`, `uniform_loop`); `emit` puts them together."""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.changes.change import Change
from ptxsw.changes.plan import Halo, HoistedLoad, Plan, ServedLoad, UniformLoop
from ptxsw.codegen.emit import emit
from ptxsw.codegen.splice import Edit
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.segments import segments
from ptxsw.ptx.ir import Function


def lower(text: str, function: Function, cfg: Cfg, changes: Iterable[Change]) -> tuple[Edit, ...]:
    """The edits that make the changes."""
    return emit(text, as_plan(function, cfg, changes))


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
