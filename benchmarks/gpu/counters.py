"""Is what is counted what a GPU counts? Sectors of global memory and wavefronts of shared memory,
by the interpreter and by the counters of an H100 under Nsight Compute.

    ncu --csv --metrics $(python -m benchmarks.gpu.counters --metrics) \
        python -m benchmarks.gpu.counters PREPARED > ncu.csv            with a GPU
    python -m benchmarks.gpu.counters PREPARED --compare ncu.csv --out DIR       without

Each kernel is launched once, in all its versions: what was prepared, on its first usual launch.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from benchmarks.gpu.correct import load
from benchmarks.gpu.prepared import Kernel, Prepared, Version
from benchmarks.gpu.trials import USUAL
from benchmarks.wavefronts import Executed, execute, wavefronts
from ptxsw.analysis.coalescing import sectors
from ptxsw.cost import sass
from ptxsw.parser import parse

TABLE = "counters.csv"
SECTORS, LOADS, STORES = "sectors", "wavefronts of shared loads", "wavefronts of shared stores"
METRICS: Mapping[str, tuple[str, ...]] = {
    SECTORS: (
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    ),
    LOADS: ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",),
    STORES: ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",),
}
"""The hardware's counters of each quantity; their sum is it."""


class Row(Struct, frozen=True):
    """A quantity of one launch."""

    kernel: str
    version: str
    quantity: str
    counted: float
    hardware: float

    @property
    def equal(self) -> bool:
        return abs(self.counted - self.hardware) < 0.5


def launches(prepared: Prepared) -> Iterator[tuple[Kernel, Version]]:
    """What is launched, in this order: kernels that are timed, equal texts once."""
    for kernel in prepared.manifest.kernels:
        if kernel.timed is not None and any(trial.change == USUAL for trial in kernel.trials):
            yield from ((kernel, v) for v in {v.text: v for v in kernel.versions[::-1]}.values())


def run(prepared: Prepared) -> None:
    """Launches all, under whatever counts. Raises NoGpu."""
    from ptxsw.gpu.cuda import open_device
    from ptxsw.gpu.problem import Stage

    driver = open_device()
    for kernel, version in launches(prepared):
        trial = next(trial for trial in kernel.trials if trial.change == USUAL)
        function = next(f for f in parse(prepared.text(version)).functions
                        if f.name == kernel.entry)  # fmt: skip
        loaded, _ = load(driver, prepared, version, function)
        with Stage(driver, function, kernel.launch(trial)) as stage:
            stage.results(loaded)


def compared(prepared: Prepared, table: Path) -> Iterator[Row]:
    """The rows of all launches. Raises ValueError where the table is of others."""
    from benchmarks.gpu.subjects import subjects

    hardware = _read(table)
    order = list(launches(prepared))
    if len(order) != len(hardware):
        raise ValueError(f"{table}: {len(hardware)} launches, and {len(order)} were prepared")
    for (kernel, version), told in zip(order, hardware, strict=True):
        module = parse(prepared.text(version))
        executed = execute(module, kernel.entry, subjects()[kernel.name].runs[0]())
        counted = _counted(prepared, kernel, version, executed)
        for quantity, names in METRICS.items():
            yield Row(kernel.name, version.name, quantity, counted[quantity],
                      sum(told[name] for name in names))  # fmt: skip


def _counted(
    prepared: Prepared, kernel: Kernel, version: Version, executed: Executed
) -> Counter[str]:
    """Each quantity, in the widths that ptxas chose."""
    text = prepared.text(version)
    made = sass.read(text, prepared.manifest.arch).kernel(kernel.entry).instructions
    found: Counter[str] = Counter()
    for at, count in wavefronts(executed, made).items():
        for request in executed.requests[at]:
            if not request.shared:
                found[SECTORS] += sectors(request.addresses, request.size)
        if executed.requests[at] and executed.requests[at][0].shared:
            loads = executed.opcodes[at] == "ld"
            found[LOADS if loads else STORES] += count  # type: ignore[assignment]
    return found


def _read(table: Path) -> Sequence[Mapping[str, float]]:
    """The counters of each launch of a CSV of ncu, in order."""
    found: defaultdict[int, dict[str, float]] = defaultdict(dict)
    with table.open(encoding="utf-8") as lines:
        for row in csv.DictReader(line for line in lines if line.startswith('"')):
            if row["Metric Value"] not in ("", "n/a"):
                value = float(row["Metric Value"].replace(",", ""))
                found[int(row["ID"])][row["Metric Name"]] = value
    return [found[number] for number in sorted(found)]


def write(folder: Path, rows: Sequence[Row], device: str) -> None:
    """The table, what differs first, and above it what `said` tells."""
    with (folder / TABLE).open("w", encoding="utf-8") as out:
        print(f"# device: {device}", *(f"# {line}" for line in said(rows)), sep="\n", file=out)
        table = csv.writer(out, lineterminator="\n")
        table.writerow(("kernel", "version", "quantity", "counted", "hardware"))
        for row in sorted(rows, key=lambda row: row.equal):
            table.writerow((row.kernel, row.version, row.quantity, f"{row.counted:g}",
                            f"{row.hardware:g}"))  # fmt: skip


def said(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each quantity; launches that have none of it are not counted."""
    for quantity in METRICS:
        own = [row for row in rows if row.quantity == quantity and (row.counted or row.hardware)]
        equal = sum(row.equal for row in own)
        yield f"{quantity}: {equal} of {len(own)} launches as the hardware counts"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.counters")
    parser.add_argument("prepared", type=Path, nargs="?", default=Path("gpu-experiment"))
    parser.add_argument("--metrics", action="store_true", help="print the names for ncu")
    parser.add_argument("--compare", type=Path, metavar="CSV", help="what ncu has printed")
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR")
    parser.add_argument("--device", default="", help="its name, for the table")
    asked = parser.parse_args()
    if asked.metrics:
        print(",".join(name for names in METRICS.values() for name in names))
    elif asked.compare is None:
        run(Prepared(asked.prepared.resolve()))
    else:
        rows = list(compared(Prepared(asked.prepared.resolve()), asked.compare))
        write(asked.out, rows, asked.device)
        print(*said(rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
