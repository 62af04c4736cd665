"""A prediction as data, for the terminal, and as tables of the page: a bar for each resource, and
how sure it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import to_builtins

from ptxsw.ptx.documented import Documented
from ptxsw.ptx.printable import InNotebooks
from ptxsw.report.prediction import (
    Kernel,
    Load,
    Occupancy,
    Range,
    RegisterCandidate,
    RewriteEffect,
    Stretch,
)
from ptxsw.report.tables import Table
from ptxsw.report.warp_roles import TITLE, role_lines

SCHEMA: Final = 2

_BAR: Final = 32  # characters of the longest bar
_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


class Prediction(InNotebooks, Documented, frozen=True):
    """All kernels of a text on one GPU."""

    file: str
    """The name of the PTX file."""
    gpu: str
    """That was predicted for: a name of `ptxsw predict --gpu`."""
    arch: str
    """The target, as in sm_90."""
    kernels: tuple[Kernel, ...]
    """In the order of the text."""
    notes: tuple[str, ...] = ()
    """What holds for all of them."""
    schema: int = SCHEMA
    """Of the JSON."""

    def __str__(self) -> str:
        """What `ptxsw predict` prints."""
        return prediction_text(self)


def to_json(prediction: Prediction) -> dict[str, Any]:
    """Objects and lists of the same fields."""
    data: dict[str, Any] = to_builtins(prediction)
    return data


def prediction_text(prediction: Prediction) -> str:
    """All kernels, one below the other."""
    lines = [f"{prediction.gpu} ({prediction.arch})"]
    lines += [f"note: {note}" for note in prediction.notes]
    for kernel in prediction.kernels:
        lines += ["", *_kernel(kernel)]
    return "\n".join(lines) + "\n"


def _kernel(kernel: Kernel) -> Iterator[str]:
    yield kernel.readable or kernel.name
    if kernel.failed is not None:
        yield f"  {kernel.failed}"
    for stretch in kernel.stretches:
        yield from _stretch(stretch)
    for other in kernel.against:
        yield "  the other version"
        yield from _stretch(other)
    for number, counterpart in kernel.pairs:
        yield f"  {_compared(kernel.stretches[number], kernel.against[counterpart])}"
    if len(kernel.pairs) < len(kernel.against):
        yield "  the other version: not all of its loops could be paired with one here"
    if kernel.roles:
        yield f"  {TITLE[0].lower()}{TITLE[1:]}"
        yield from (f"    {line}" for line in role_lines(kernel.roles))
    if kernel.occupancy is not None:
        yield from _occupancy(kernel.occupancy)
    if kernel.effects:
        yield "  rewrites, if they are proved, and the time of the slowest part, before -> after"
        yield from (f"    {line}" for line in _effects(kernel.effects))
    if kernel.candidates:
        yield "  limits of registers (--rewrites registers), with stalls relative to the first"
        yield from (f"    {line}" for line in _candidates(kernel.candidates))
    yield from (f"  note: {note}" for note in kernel.notes)


def _stretch(stretch: Stretch) -> Iterator[str]:
    if stretch.unit == "s":
        what = "the launch"
    elif stretch.label is None:
        what = "one pass of a warp through the kernel"
    else:
        what = f"one iteration of a warp through the loop {stretch.label}, line {stretch.line}"
    if stretch.expected is None:
        yield f"  {what}: {whole_time(stretch)}"
    else:
        low, high = (shown_time(t, stretch.unit) for t in (stretch.time.low, stretch.time.limit))
        likely = shown_range(stretch.likely, stretch.unit)
        yield f"  {what}: {shown_time(stretch.expected, stretch.unit)} expected, {likely} likely"
        yield f"    at least {low}, if all resources overlap; at most {high}, if none do"
    most = max((load.time.limit for load in stretch.resources), default=0.0)
    ranges = [shown_range(load.time, stretch.unit) for load in stretch.resources]
    width = max(map(len, ranges), default=0)
    for load in stretch.resources:
        if load.time.high:
            times = shown_range(load.time, stretch.unit).ljust(width)
            yield f"    {load.name:8} {bar(load, most)} {times}  {load.busy_with}"
    if stretch.unknown:
        lines = ", ".join(map(str, stretch.unknown[:8]))
        more = ", ..." if len(stretch.unknown) > 8 else ""
        yield f"    unknown addresses: line {lines}{more}"


def bar(load: Load, most: float) -> str:
    """Full up to the least time, dotted up to the most."""
    full = round(_BAR * load.time.low / most)
    dotted = round(_BAR * load.time.limit / most) - full
    return ("#" * full + "." * dotted).ljust(_BAR)


def whole_time(stretch: Stretch) -> str:
    """ "2 to 5 cycles"; where that is open the end that there is, and what is not modelled."""
    shown = shown_range(stretch.time, stretch.unit)
    return shown if stretch.time.high is not None else f"{shown}; {_open_for(stretch)}"


def _open_for(*stretches: Stretch) -> str:
    names = dict.fromkeys(name for stretch in stretches for name in stretch.unmodelled)
    return f"not modelled: {', '.join(names)}"


def shown_range(time: Range, unit: str) -> str:
    """ "2 to 5 cycles"; of an open one the end that there is."""
    if time.high is None:
        return f"at least {shown_time(time.low, unit)}"
    if time.low == time.high:
        return shown_time(time.high, unit)
    return f"{shown_time(time.low, unit)} to {shown_time(time.high, unit)}"


def shown_time(value: float, unit: str) -> str:
    """Seconds in a unit that fits, or cycles."""
    if unit == "cycles":
        return f"{value:.4g} cycles"
    for size, name in _UNITS:
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value * 1e6:.3g} us"


def _compared(stretch: Stretch, other: Stretch) -> str:
    """In words; what is not known may be the same for both, which the bounds do not use."""
    if other.time.limit < stretch.time.low:
        verdict = "it is faster"
    elif stretch.time.limit < other.time.low:
        verdict = "it is slower"
    else:
        verdict = "but the bounds overlap"
    where = "" if stretch.label is None else f" in the loop {stretch.label}"
    if (stretch.time, stretch.resources) == (other.time, other.resources):
        return f"the other version takes 1.00 times as long{where}: all figures are the same"
    if stretch.time.high is None or other.time.high is None:
        return f"the other version{where}: {verdict}; {_open_for(stretch, other)}"
    ratio = _one(other) / (_one(stretch) or 1.0)
    what = "expected" if stretch.expected is not None else "middle of the bounds"
    return f"the other version takes {ratio:.2f} times as long{where} ({what}), {verdict}"


def _one(stretch: Stretch) -> float:
    """One time for a stretch."""
    middle: float = (stretch.time.low * stretch.time.limit) ** 0.5
    return middle if stretch.expected is None else stretch.expected


def _occupancy(occupancy: Occupancy) -> Iterator[str]:
    yield (
        f"  occupancy {100 * occupancy.fraction:.0f} %: {occupancy.blocks} blocks of "
        f"{occupancy.threads} threads, limited by {occupancy.limiter} "
        f"({occupancy.registers} registers a thread, "
        f"{occupancy.shared} bytes of shared memory a block)"
    )
    for step in occupancy.next_steps:
        what = "registers" if step.resource == "registers" else "bytes of shared memory"
        yield f"    with {step.at} {what}: {step.blocks} blocks, {100 * step.fraction:.0f} %"


def _effects(effects: tuple[RewriteEffect, ...]) -> Iterator[str]:
    width = max(len(effect.rewrite) for effect in effects)
    for effect in effects:
        low = f"{effect.low[0]:.4g} -> {effect.low[1]:.4g}"
        high = " -> ".join("open" if end is None else f"{end:.4g}" for end in effect.high)
        before, after = effect.registers
        registers = "" if before is None or after is None else f", registers {before} -> {after}"
        yield (
            f"{effect.rewrite:{width}}  {_changes(effect.changes)}: at least {low}, "
            f"at most {high} {effect.unit}{registers}"
        )


def _candidates(candidates: tuple[RegisterCandidate, ...]) -> Iterator[str]:
    most_local, own = candidates[0].local, candidates[0].pace
    least = min(one.pace for one in candidates if one.local <= most_local)
    for one in candidates:
        name = "as it is" if one.limit is None else f"at most {one.limit}"
        spilled = f", {one.local} bytes spilled" if one.local else ""
        to = ", spills to shared memory" if one.spills_to_shared else ""
        best = "  <- best" if one.pace == least and one.local <= most_local else ""
        yield (
            f"{name:12} {one.registers} registers, {100 * one.fraction:.0f} % of the warps"
            f"{spilled}{to}, stalls {one.pace / own:.2f}{best}"
        )


def _changes(count: int) -> str:
    return "1 change" if count == 1 else f"{count} changes"


# ---------------------------------------------------------------- tables

_SHARED: Final = "bytes of shared memory"
_TIMES: Final = frozenset({"at least", "at most"})


def prediction_tables(prediction: Prediction) -> Mapping[str, tuple[tuple[str, Table], ...]]:
    """By the names of kernels: titles, and what keeps which resource busy for how long."""
    return {
        kernel.name: tuple(_kernel_tables(kernel, prediction.gpu)) for kernel in prediction.kernels
    }


def _kernel_tables(kernel: Kernel, gpu: str) -> Iterator[tuple[str, Table]]:
    for stretch in kernel.stretches:
        most = max((load.time.limit for load in stretch.resources), default=0.0)
        rows = tuple(_row(load, most, stretch) for load in stretch.resources if load.time.high)
        header = ("resource", "", "at least", "at most", "busy with")
        whole = whole_time(stretch)
        title = f"Predicted for {gpu}: {_stretch_title(stretch)}, {whole}"
        yield title, Table(header, rows, _TIMES)
    if kernel.occupancy is not None:
        yield f"Predicted for {gpu}: occupancy", _occupancy_table(kernel.occupancy)


def _stretch_title(stretch: Stretch) -> str:
    if stretch.unit == "s":
        return "the launch"
    return "one pass of a warp" if stretch.label is None else f"one iteration of {stretch.label}"


def _row(load: Load, most: float, stretch: Stretch) -> tuple[str, ...]:
    ends = (shown_time(time, stretch.unit) for time in (load.time.low, load.time.limit))
    return (load.name, bar(load, most), *ends, load.busy_with)


def _occupancy_table(occupancy: Occupancy) -> Table:
    """The kernel as it is, then its next steps."""
    now = (
        f"{occupancy.registers} registers, {occupancy.shared} {_SHARED}",
        str(occupancy.blocks), f"{100 * occupancy.fraction:.0f} %",
    )  # fmt: skip
    steps = (
        (
            f"{step.at} {step.resource if step.resource == 'registers' else _SHARED}",
            str(step.blocks), f"{100 * step.fraction:.0f} %",
        )
        for step in occupancy.next_steps
    )  # fmt: skip
    header = ("with", f"blocks of {occupancy.threads}", "warps")
    return Table(header, (now, *steps), frozenset(header[1:]))
