"""From a trace to the accesses and rows of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ptxsw import isa
from ptxsw.emulator.affine import Affine, constant
from ptxsw.emulator.coalescing import LANES, SECTOR, is_uniform
from ptxsw.emulator.node import Variance, walk
from ptxsw.emulator.show import show
from ptxsw.emulator.trace import Access, Trace
from ptxsw.ir import Loc
from ptxsw.report import lanes, model
from ptxsw.report.address import Writer
from ptxsw.report.reuse import OpenRow, Rows, carried

_SECTOR_SPACES = ("global", "generic", "local")


def describe(
    trace: Trace, outlooks: model.Kernel, block: lanes.Block | None = None
) -> tuple[tuple[model.Access, ...], tuple[model.Row, ...]]:
    """The accesses to memory in program order, parameters left out, and their rows.

    `outlooks` is what the optimizer reports of this kernel; `block` the shape of the block, where
    `.reqntid` does not fix it.
    """
    affine = Affine()
    scene = _Scene(
        trace,
        Writer(affine, trace.function.name),
        lanes.Warps(trace.function.block_shape or block),
        _source_lines(trace),
        _outlooks(outlooks),
        carried(trace, affine),
    )
    rows = Rows()
    accesses = tuple(
        _access(scene, access, rows) for access in trace.accesses if access.space != "param"
    )
    return accesses, tuple(_finished(row, scene.writer) for row in rows.found.values())


@dataclass(frozen=True)
class _Scene:
    """What is known of a kernel beside its accesses."""

    trace: Trace
    writer: Writer
    warps: lanes.Warps
    sources: Mapping[int, str]
    outlooks: Mapping[int, model.Outlook]
    carried: Mapping[int, tuple[model.Carried, ...]]


def _access(scene: _Scene, access: Access, rows: Rows) -> model.Access:
    writer = scene.writer
    line = scene.trace.module.source.line(access.instruction.span.start)
    addresses = {v.address for v in access.variants}
    address = addresses.pop() if len(addresses) == 1 else None
    requests = _requests(access, writer.affine, scene.warps)
    offsets = _common([r.offsets for r in requests])
    stride = None if offsets is None else lanes.stride(offsets)
    sectors, efficiency = _sectors(access, requests)
    found = model.Access(
        line,
        scene.sources.get(access.index),
        access.kind,
        access.space,
        access.instruction.name,
        access.bytes or None,
        None if address is None else show(address),
        stride,
        sectors,
        is_uniform(access),
        type=isa.access_type(access.instruction),
        elements=access.elements or None,
        index=None if address is None else writer.address(address, access.bits // 8),
        lane_step=_symbolic_step(access, writer),
        efficiency=efficiency,
        phase=_common([r.phase for r in requests]),
        bank_conflicts=_banks(access, requests, writer.affine, scene.warps),
        lanes=offsets if stride is None else None,
        optimizer=_outlook(access, line, scene.outlooks),
    )
    if address is None:
        return found
    row, offset = rows.row(access.space, writer.affine.polynomial(address), access.bits // 8)
    row.lines.append(line)
    if access.kind != "load":
        return replace(found, row=row.name, offset=offset)
    step = writer.affine.lane_step(address)
    reuse = row.reuse(offset, stride if step is None else constant(step))
    row.loads.setdefault(offset, []).append(line)
    again = scene.carried.get(access.index, ())
    return replace(found, row=row.name, offset=offset, reuse=reuse, carried=again)


def _requests(access: Access, affine: Affine, warps: lanes.Warps) -> tuple[lanes.Request, ...]:
    """What full warps ask for on the paths that lead to the access; empty where that is not known,
    as where lanes on different paths may point to different places."""
    addresses = dict.fromkeys(v.address for v in access.variants)
    if len(addresses) > 1 and access.ways is not Variance.UNIFORM:
        return ()
    found = [lanes.requests(affine, address, warps) for address in addresses]
    return tuple(r for each in found for r in each) if all(found) else ()


_T = TypeVar("_T")


def _common(values: Iterable[_T | None]) -> _T | None:
    """The one value of all, if there is one."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _sectors(
    access: Access, requests: tuple[lanes.Request, ...]
) -> tuple[int | None, float | None]:
    """Sectors of the warp that touches most, and the share of their bytes that is asked for."""
    size = access.bytes
    if not requests or not size or access.space not in _SECTOR_SPACES:
        return None, None
    if _is_local(access):
        offsets = _common([r.offsets for r in requests])
        if offsets is None:
            return None, None
        touched = lanes.local_sectors(offsets, size)
        return touched, round(LANES * size / (touched * SECTOR), 4)
    counts = [
        max((lanes.sectors(warp, size), -lanes.used(warp, size)) for warp in request.warps)
        for request in requests
    ]
    if not all(r.exact for r in requests) and len(set(counts)) > 1:
        return None, None  # it depends on what only the run knows
    worst, unused = max(counts)
    return worst, round(-unused / (worst * SECTOR), 4)


def _is_local(access: Access) -> bool:
    """Is local memory touched, also through a generic address?"""
    return access.space == "local" or any(
        term.kind == "atom" and term.value == "window(local)"
        for variant in access.variants
        for term in walk(variant.address)
    )


def _banks(
    access: Access, requests: tuple[lanes.Request, ...], affine: Affine, warps: lanes.Warps
) -> int | None:
    """Passes through the banks of shared memory, of the warp that needs most."""
    size = access.bytes
    if access.space != "shared" or not size:
        return None
    if requests and all(r.exact for r in requests):
        apart = access.kind == "atomic"
        return max(lanes.bank_ways(w, size, apart=apart) for r in requests for w in r.warps)
    addresses = {v.address for v in access.variants}
    separate = all(lanes.separate_banks(affine, address, warps, size) for address in addresses)
    return 1 if separate and len(addresses) == 1 else None


def _symbolic_step(access: Access, writer: Writer) -> str | None:
    """What the address grows by from lane to lane, where that is one sum on all paths."""
    texts = set()
    for variant in access.variants:
        step = writer.affine.lane_step(variant.address)
        texts.add(None if step is None else writer.sum(step) or "0")
    return texts.pop() if len(texts) == 1 else None


def _finished(row: OpenRow, writer: Writer) -> model.Row:
    text = writer.polynomial(row.start, row.size)
    return model.Row(row.name, text, tuple(dict.fromkeys(row.lines)))


def _outlooks(kernel: model.Kernel) -> dict[int, model.Outlook]:
    """What becomes of the loads, by line."""
    found: dict[int, model.Outlook] = {}
    for refusal in kernel.refusals or ():
        found[refusal.line] = model.Outlook(
            "keep", refusal.source_line, refusal.delta, None, refusal.reason
        )
    for rewrite in kernel.rewrites or ():
        found[rewrite.source_line] = model.Outlook("source", None, None, None, None)
    for rewrite in kernel.rewrites or ():
        found[rewrite.line] = model.Outlook(
            "shuffle" if rewrite.delta else "copy",
            rewrite.source_line,
            rewrite.delta,
            rewrite.proof.status,
            None,
        )
    return found


def _outlook(access: Access, line: int, known: Mapping[int, model.Outlook]) -> model.Outlook | None:
    if access.kind != "load" or access.space not in ("global", "generic"):
        return None
    return known.get(line) or model.Outlook("keep", None, None, None, None)


def _source_lines(trace: Trace) -> dict[int, str]:
    """`file:line` of each instruction behind a `.loc`."""
    return dict(_located(trace))


def _located(trace: Trace) -> Iterator[tuple[int, str]]:
    files = trace.module.files
    instructions = trace.cfg.instructions
    current: Loc | None = None
    index = 0
    for statement in trace.function.body.statements:
        if isinstance(statement, Loc):
            current = statement
        elif index < len(instructions) and statement is instructions[index]:
            if current is not None and current.line > 0:
                name = files.get(current.file, f"file {current.file}")
                yield index, f"{name}:{current.line}"
            index += 1
