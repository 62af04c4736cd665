"""From a trace to the accesses and rows of a report."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace

from ptxsw import isa
from ptxsw.emulator.affine import Affine, Polynomial, without_constant
from ptxsw.emulator.coalescing import is_uniform
from ptxsw.emulator.node import Variance
from ptxsw.emulator.show import show
from ptxsw.emulator.trace import Access, Trace
from ptxsw.ir import Loc
from ptxsw.report import lanes, model
from ptxsw.report.address import Writer

_REUSES = 8  # named for one load
_SECTOR_SPACES = ("global", "generic", "local")


@dataclass
class _Row:
    """A row while it is filled: loads by their offset, in program order."""

    name: str
    start: Polynomial
    size: int
    lines: list[int] = field(default_factory=list)
    loads: dict[int, list[int]] = field(default_factory=dict)


@dataclass
class _Rows:
    """Rows by their key, in the order of their first access."""

    found: dict[Hashable, _Row] = field(default_factory=dict)

    def row(self, space: str, polynomial: Polynomial, size: int) -> tuple[_Row, int]:
        """The row of an address, and the bytes from its start."""
        key = (space, size, without_constant(polynomial))
        row = self.found.get(key)
        if row is None:
            name = _letters(len(self.found))
            row = self.found[key] = _Row(name, polynomial, size)
        return row, polynomial.get((), 0) - row.start.get((), 0)


def describe(
    trace: Trace, outlooks: model.Kernel
) -> tuple[tuple[model.Access, ...], tuple[model.Row, ...]]:
    """The accesses to memory in program order, parameters left out, and their rows.

    `outlooks` is what the optimizer reports of this kernel.
    """
    writer = Writer(Affine(), trace.function.name)
    sources = _source_lines(trace)
    block = block_shape(trace)
    wanted = _outlooks(outlooks)
    rows = _Rows()
    accesses = tuple(
        _access(trace, access, writer, rows, sources.get(access.index), block, wanted)
        for access in trace.accesses
        if access.space != "param"
    )
    return accesses, tuple(_finished(row, writer) for row in rows.found.values())


def _access(
    trace: Trace,
    access: Access,
    writer: Writer,
    rows: _Rows,
    source: str | None,
    block: lanes.Block | None,
    outlooks: dict[int, model.Outlook],
) -> model.Access:
    line = trace.module.source.line(access.instruction.span.start)
    addresses = {v.address for v in access.variants}
    address = addresses.pop() if len(addresses) == 1 else None
    offsets = _offsets(access, writer.affine, block)
    stride = None if offsets is None else lanes.stride(offsets)
    sectors, efficiency, ways = _traffic(access, offsets)
    found = model.Access(
        line,
        source,
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
        bank_conflicts=ways,
        lanes=offsets if stride is None else None,
        optimizer=_outlook(access, line, outlooks),
    )
    if address is None:
        return found
    row, offset = rows.row(access.space, writer.affine.polynomial(address), access.bits // 8)
    return _placed(found, row, offset)


def _placed(access: model.Access, row: _Row, offset: int) -> model.Access:
    """The access with its place in a row, which from now on holds it."""
    reuse: tuple[model.Reuse, ...] = ()
    row.lines.append(access.line)
    if access.kind == "load":
        reuse = _reuse(row, offset, access.lane_stride)
        row.loads.setdefault(offset, []).append(access.line)
    return replace(access, row=row.name, offset=offset, reuse=reuse)


def _traffic(
    access: Access, offsets: lanes.Offsets | None
) -> tuple[int | None, float | None, int | None]:
    """Sectors, the share of their bytes that is asked for, and passes through the banks."""
    size = access.bytes
    if offsets is None or not size:
        return None, None, None
    if access.space == "shared":
        return None, None, lanes.bank_ways(offsets, size)
    if access.space not in _SECTOR_SPACES:
        return None, None, None
    sectors = lanes.sectors(offsets, size)
    return sectors, round(lanes.used(offsets, size) / (sectors * lanes.SECTOR), 4), None


def _offsets(access: Access, affine: Affine, block: lanes.Block | None) -> lanes.Offsets | None:
    """Where the lanes point, if that is the same on all paths, and lanes on different paths do
    not point to different places."""
    if len({v.address for v in access.variants}) > 1 and access.ways is not Variance.UNIFORM:
        return None
    found = {lanes.offsets(affine, v.address, block) for v in access.variants}
    return found.pop() if len(found) == 1 else None


def _symbolic_step(access: Access, writer: Writer) -> str | None:
    """What the address grows by from lane to lane, where that is one sum on all paths."""
    texts = set()
    for variant in access.variants:
        step = writer.affine.lane_step(variant.address)
        texts.add(None if step is None else writer.sum(step) or "0")
    return texts.pop() if len(texts) == 1 else None


def _reuse(row: _Row, offset: int, stride: int | None) -> tuple[model.Reuse, ...]:
    """Earlier loads of the same bytes."""
    found = [model.Reuse(line, 0) for line in reversed(row.loads.get(offset, ()))]
    if stride:
        near: list[model.Reuse] = []
        for other, lines in row.loads.items():
            delta, rest = divmod(offset - other, stride)
            if delta and not rest and abs(delta) < lanes.WARP:
                near.extend(model.Reuse(line, delta) for line in lines)
        found.extend(sorted(near, key=lambda reuse: (abs(reuse.delta), -reuse.line)))
    return tuple(found[:_REUSES])


def _finished(row: _Row, writer: Writer) -> model.Row:
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


def _outlook(access: Access, line: int, known: dict[int, model.Outlook]) -> model.Outlook | None:
    if access.kind != "load" or access.space not in ("global", "generic"):
        return None
    return known.get(line) or model.Outlook("keep", None, None, None, None)


def block_shape(trace: Trace) -> lanes.Block | None:
    """The shape of the block, from `.reqntid`."""
    return trace.function.block_shape


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


def _letters(number: int) -> str:
    """A to Z, then AA, AB, …"""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text
