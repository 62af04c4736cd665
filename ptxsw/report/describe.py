"""From a trace to the accesses and rows of a report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.address_text import AddressWriter, cause
from ptxsw.analysis.coalescing import common_step, is_uniform
from ptxsw.analysis.path_choice import with_one_path
from ptxsw.analysis.traffic import Traffic
from ptxsw.analysis.warps import Block, Warps
from ptxsw.emulator.trace import Access, Trace
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Loc, Module
from ptxsw.ptx.patterns import pattern
from ptxsw.report import model
from ptxsw.report.iterations import iterations
from ptxsw.report.reuse import Along, OpenRow, Rows, Writes, calls, carried
from ptxsw.terms.affine import constant
from ptxsw.terms.show import show


def describe(
    trace: Trace, outlooks: model.Kernel, block: Block | None = None
) -> tuple[tuple[model.Access, ...], tuple[model.Row, ...]]:
    """The accesses to memory in program order, parameters left out, and their rows.

    `outlooks` is what the optimizer reports of this kernel; `block` the shape of the block, where
    `.reqntid` does not fix it.
    """
    affine = trace.affine
    warps = Warps(trace.function.block_shape or block)
    scene = _Scene(
        trace,
        AddressWriter(affine, trace.function.name),
        warps,
        {at: f"{place.file}:{place.line}" for at, place in source_places(trace).items()},
        _outlooks(outlooks),
        carried(trace, affine, warps.width),
        Writes(calls(trace)),
    )
    rows = Rows()
    accesses = tuple(
        _access(scene, access, rows) for access in trace.accesses if access.space != "param"
    )
    return accesses, tuple(_finished(row, scene.writer) for row in rows.rows.values())


class _Scene(Struct, frozen=True):
    """What is known of a kernel beside its accesses, and of those before the one looked at."""

    trace: Trace
    writer: AddressWriter
    warps: Warps
    sources: Mapping[int, str]
    outlooks: Mapping[int, model.Outlook]
    carried: Mapping[int, tuple[model.Carried, ...]]
    writes: Writes


def _access(scene: _Scene, access: Access, rows: Rows) -> model.Access:
    writer = scene.writer
    line = scene.trace.module.source.line(access.instruction.span.start)
    addresses = {v.address for v in access.variants}
    address = addresses.pop() if len(addresses) == 1 else None
    alone = with_one_path(scene.trace.terms, access)
    asked = Traffic.of(alone, writer.affine, scene.warps)
    turning = iterations(scene.trace, access, scene.warps)
    offsets = asked.offsets if alone is access else asked.usual_offsets
    stride = None if offsets is None else common_step(offsets)
    sectors, efficiency = asked.sectors()
    conflicts = asked.banks(writer.affine)
    if turning is not None:
        _, efficiency = turning.worst.sectors()
        sectors, conflicts = turning.sectors, turning.bank_conflicts
    shown = model.Access(
        line,
        scene.sources.get(access.index),
        access.kind,
        access.space,
        access.instruction.name,
        asked.size,
        None if address is None else show(address),
        stride,
        sectors,
        is_uniform(access),
        type=isa.access_type(access.instruction),
        elements=access.elements or None,
        index=None if address is None else writer.address(address, access.bits // 8),
        lane_step=_symbolic_step(access, writer),
        efficiency=efficiency,
        phase=asked.phase,
        bank_conflicts=conflicts,
        contention=asked.contention(),
        lanes=offsets if stride is None else None,
        optimizer=_outlook(access, line, scene.outlooks),
        changing=None if turning is None else turning.register,
        iterations=turning.figures if turning is not None else (),
        loop_depth=_loop_depth(scene.trace, access.index),
        hidden=_hidden(scene.trace, access, sectors),
    )
    scene.writes.note(access, [writer.affine.polynomial(v.address) for v in access.variants])
    if address is None:
        return shown
    polynomial = writer.affine.polynomial(address)
    row, offset = rows.row(access.space, polynomial, access.bits // 8)
    row.lines.append(line)
    if access.kind != "load":
        row.stores[offset] = access.index
        return replace(shown, row=row.name, offset=offset)
    step, width = writer.affine.lane_step(address), scene.warps.width
    reuse = row.load(
        access.index, Along((stride if step is None else constant(step)) or 0, width),
        line=line, offset=offset, since=scene.writes.since(access, polynomial),
    )  # fmt: skip
    again = scene.carried.get(access.index, ())
    return replace(shown, row=row.name, offset=offset, reuse=reuse, carried=again)


def _hidden(trace: Trace, access: Access, sectors: int | None) -> str | None:
    if sectors is not None or access.space not in ("global", "generic"):
        return None
    return cause(trace, access)


def _loop_depth(trace: Trace, index: int) -> int:
    block = trace.cfg.block_of[index]
    return len(trace.cfg.loops_around(block)) if block in trace.cfg.rank else 0


def _symbolic_step(access: Access, writer: AddressWriter) -> str | None:
    """What the address grows by from lane to lane, where that is one sum on all paths."""
    texts = set()
    for variant in access.variants:
        step = writer.affine.lane_step(variant.address)
        texts.add(None if step is None else writer.sum(step) or "0")
    return texts.pop() if len(texts) == 1 else None


def _finished(row: OpenRow, writer: AddressWriter) -> model.Row:
    text = writer.polynomial(row.start, row.size)
    return model.Row(row.name, text, tuple(dict.fromkeys(row.lines)))


def _outlooks(kernel: model.Kernel) -> dict[int, model.Outlook]:
    """What becomes of the loads, by line."""
    outlooks: dict[int, model.Outlook] = {}
    for refusal in kernel.refusals or ():
        outlooks[refusal.line] = model.Outlook(
            "keep", refusal.source_line, refusal.delta, None, refusal.reason
        )
    nothing = model.Outlook("keep", None, None, None, None)
    served = [rewrite for rewrite in kernel.rewrites or () if rewrite.source_line is not None]
    for source in (rewrite.source_line for rewrite in served):
        assert source is not None
        outlooks[source] = replace(outlooks.get(source, nothing), action="source")
    for rewrite in served:
        outlooks[rewrite.line] = model.Outlook(
            "shuffle" if rewrite.delta else "copy",
            rewrite.source_line,
            rewrite.delta,
            rewrite.proof.status,
            None,
        )
    return outlooks


def _outlook(
    access: Access, line: int, outlooks: Mapping[int, model.Outlook]
) -> model.Outlook | None:
    if access.kind != "load" or access.space not in ("global", "generic"):
        return None
    return outlooks.get(line) or model.Outlook("keep", None, None, None, None)


class SourcePlace(Struct, frozen=True):
    """Where in the source an instruction is from; the column is 0 where it is not known."""

    file: str
    line: int
    column: int


def source_places(trace: Trace) -> Mapping[int, SourcePlace]:
    """The place of each instruction behind a `.loc`. What was inlined from a header of the CUDA
    toolkit is placed where it was called."""
    return dict(_located(trace))


def _located(trace: Trace) -> Iterator[tuple[int, SourcePlace]]:
    instructions = trace.cfg.instructions
    current: SourcePlace | None = None
    index = 0
    for statement in trace.function.body.statements:
        if isinstance(statement, Loc):
            if statement.line > 0:  # 0: the compiler's own
                current = place_of(trace.module, statement)
        elif index < len(instructions) and statement is instructions[index]:
            if current is not None:
                yield index, current
            index += 1


_TOOLKIT = pattern(r"(?:^|/)(?:cuda|nvidia|targets)\b")
_INLINED = pattern(r"inlined_at\s+(\d{1,18})\s+([1-9]\d{0,17})\s+(\d{1,18})(?!\d)", re.ASCII)


def place_of(module: Module, loc: Loc) -> SourcePlace:
    """The place that a `.loc` names; for what comes from a header of the toolkit, its caller's."""
    name = module.files.get(loc.file, f"file {loc.file}")
    toolkit = _TOOLKIT.search(name)
    if toolkit is not None and "/include/" in name[toolkit.end() :]:
        outer = _INLINED.search(module.source.text, loc.span.start, loc.span.end)
        if outer is not None:
            file, line, column = map(int, outer.groups())
            return SourcePlace(module.files.get(file, f"file {file}"), line, column)
    return SourcePlace(name, loc.line, loc.column)
