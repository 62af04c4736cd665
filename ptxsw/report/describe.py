"""From a trace to the accesses and rows of a report."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.address_text import AddressWriter, cause
from ptxsw.analysis.banks import bank_ways
from ptxsw.analysis.coalescing import common_step, is_uniform
from ptxsw.analysis.path_choice import with_one_path
from ptxsw.analysis.shared_banks import inside_array
from ptxsw.analysis.traffic import Traffic, read_by_copy
from ptxsw.analysis.trip_count import values_in
from ptxsw.analysis.warps import Block, Warps
from ptxsw.cost.accesses import AccessFigures, access_figures
from ptxsw.emulator.trace import Access, Trace
from ptxsw.ptx import isa
from ptxsw.report import model
from ptxsw.report.reuse import Along, OpenRow, Rows, Writes, calls, carried
from ptxsw.report.source_places import source_places
from ptxsw.terms.node import Term, walk
from ptxsw.terms.readings import UnwrappedReading
from ptxsw.terms.show import show
from ptxsw.terms.substitution import substitute


def describe(
    trace: Trace,
    outlooks: model.Kernel,
    block: Block | None = None,
    figures: Mapping[int, AccessFigures] | None = None,
    warps: Warps | None = None,
) -> tuple[tuple[model.Access, ...], tuple[model.Row, ...]]:
    """The accesses to memory in program order, parameters left out, and their rows.

    `outlooks` is what the optimizer reports of this kernel; `block` the shape of the block, where
    `.reqntid` does not fix it; `figures` are what the accesses move in such blocks, `warps` the
    warps of one.
    """
    unwrapped = trace.unwrapped
    warps = warps or Warps(trace.function.block_shape or block)
    scene = _Scene(
        trace,
        AddressWriter(unwrapped, trace.function.name),
        warps,
        {at: f"{place.file}:{place.line}" for at, place in source_places(trace).items()},
        _outlooks(outlooks),
        carried(trace, unwrapped, warps.width),
        Writes(calls(trace)),
        figures if figures is not None else access_figures(trace, warps.block, warps=warps),
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
    figures: Mapping[int, AccessFigures]


def _access(scene: _Scene, access: Access, rows: Rows) -> model.Access:
    writer = scene.writer
    line = scene.trace.module.source.line(access.instruction.span.start)
    addresses = {v.address for v in access.variants}
    address = addresses.pop() if len(addresses) == 1 else None
    alone = with_one_path(scene.trace.terms, access)
    asked = Traffic.of(alone, writer.unwrapped, scene.warps)
    turning = _turning(scene.trace, access, scene.warps)
    offsets = asked.offsets if alone is access else asked.usual_offsets
    stride = None if offsets is None else common_step(offsets)
    reading = read_by_copy(access)
    in_memory = asked if reading is None else Traffic.of(reading, writer.unwrapped, scene.warps)
    sectors, efficiency = in_memory.sectors()
    conflicts = asked.banks(writer.unwrapped)
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
        wavefronts=_wavefronts(scene.figures.get(access.index)),
        hidden=_hidden(scene.trace, access, sectors),
    )
    scene.writes.note(access, [writer.unwrapped.polynomial(v.address) for v in access.variants])
    if address is None:
        return shown
    polynomial = writer.unwrapped.polynomial(address)
    row, offset = rows.row(access.space, polynomial, access.bits // 8)
    row.lines.append(line)
    if access.kind != "load":
        row.stores[offset] = access.index
        return replace(shown, row=row.name, offset=offset)
    step, width = writer.unwrapped.lane_step(address), scene.warps.width
    reuse = row.load(
        access.index, Along((stride if step is None else step.number) or 0, width),
        line=line, offset=offset, since=scene.writes.since(access, polynomial),
    )  # fmt: skip
    again = scene.carried.get(access.index, ())
    return replace(shown, row=row.name, offset=offset, reuse=reuse, carried=again)


def _wavefronts(figures: AccessFigures | None) -> float | None:
    if figures is None or not figures.wavefronts.is_exact:
        return None
    return round(figures.wavefronts.low, 2)


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
        step = writer.unwrapped.lane_step(variant.address)
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


# ---------------------------------------------------------------- strides that change by iteration


class _Turning(Struct, frozen=True):
    """The iterations of one access. `register` is the one whose value they tell apart."""

    register: str
    figures: tuple[model.Iteration, ...]
    worst: Traffic  # of the iteration with most sectors

    @property
    def sectors(self) -> int | None:
        return _most([iteration.sectors for iteration in self.figures])

    @property
    def bank_conflicts(self) -> int | None:
        return _most([iteration.bank_conflicts for iteration in self.figures])


def _turning(trace: Trace, access: Access, warps: Warps) -> _Turning | None:
    """The figures of each iteration, where one register decides how far lanes are apart and its
    values are known; None for any other access."""
    terms = [v.address for v in access.variants]
    changing = [node for node in walk(*terms) if node in trace.iterations]
    if len(changing) != 1:
        return None
    [atom] = changing
    values, ends = values_in(trace.iterations[atom], warps.sizes)
    if not ends and access.space != "shared":
        return None
    cases: list[Traffic] = []
    figured: list[model.Iteration] = []
    for value in values:
        one = _at_value(trace, access, atom, value)
        asked = Traffic.of(one, UnwrappedReading(), warps)
        figure = _iteration(asked, value) if ends else _iteration_inside(trace, asked, value, warps)
        if figure is None:
            break
        cases.append(asked)
        figured.append(figure)
    if len({iteration.lane_stride for iteration in figured}) < 2:
        return None  # it moves the whole warp, or nothing is known
    figures = tuple(figured)
    worst = max(cases, key=lambda one: one.sectors()[0] or 0)
    name = str(atom.value).rpartition(", ")[2].rstrip(")").lstrip("%")
    return _Turning(name, figures, worst)


def _at_value(trace: Trace, access: Access, atom: Term, value: int) -> Access:
    """The access in the iteration in which an atom has this value."""
    held = {atom: trace.terms.const(value, atom.width)}.get
    variants = tuple(
        replace(v, address=substitute(trace.terms, v.address, held)) for v in access.variants
    )
    return replace(access, variants=variants)


def _iteration(asked: Traffic, value: int) -> model.Iteration:
    offsets = asked.offsets
    stride = None if offsets is None else common_step(offsets)
    return model.Iteration(value, stride, asked.sectors()[0], asked.banks(UnwrappedReading()))


def _iteration_inside(
    trace: Trace, asked: Traffic, value: int, warps: Warps
) -> model.Iteration | None:
    """The same of an iteration of a loop that goes on for no one knows how long, of the lanes that
    stay inside their array; None where no lane does, as behind the last iteration."""
    lanes = inside_array(trace, asked.access, warps.block)
    if not lanes or not asked.size:
        return None
    ways = max(bank_ways(one, asked.size) for one in lanes)
    return replace(_iteration(asked, value), bank_conflicts=ways)


def _most(counts: list[int | None]) -> int | None:
    certain = [count for count in counts if count is not None]
    return max(certain) if len(certain) == len(counts) else None
