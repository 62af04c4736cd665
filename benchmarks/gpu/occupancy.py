"""Time over occupancy on a GPU: does it have one minimum, and is the lowest occupancy of the
plateau behind it the best (Orion's two findings)?

    python -m benchmarks.gpu.occupancy PREPARED [--minutes 3] [--out DIR] [KERNEL ...]

Each kernel is run on the launch that was prepared for timing, at each number of resident blocks
that can be had without other work: fewer blocks by dynamic shared memory that nobody uses, the code
as it is; more blocks by `.maxnreg`, which lets ptxas spill. Kernels that know how much shared
memory they have are left out, and those with fewer blocks than the device has multiprocessors.
"""

from __future__ import annotations

import argparse
import csv
import re
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.gpu.forecasts import card
from benchmarks.gpu.prepared import Kernel, Prepared, word_launch
from ptxsw.codegen.lower_registers import lower
from ptxsw.codegen.splice import apply
from ptxsw.cost import cubin
from ptxsw.cost.gpu import find
from ptxsw.cost.occupancy import occupancy, register_steps
from ptxsw.gpu.driver import Driver, GpuError, image
from ptxsw.gpu.measure import ORIGINAL, Effort, Measured, Variant, measure
from ptxsw.gpu.padding import steps_down
from ptxsw.gpu.problem import PreparedLaunch
from ptxsw.parser import parse
from ptxsw.toolchain.ptxas import AssemblyError

TABLE = "occupancy.csv"
AS_IT_IS, PADDED, LIMITED = "as it is", "padded", "maxnreg"
_EFFORT = Effort(samples=10, fresh=True)
_SIZES = re.compile(r"%(dynamic|total)_smem_size")


class Point(Struct, frozen=True):
    """A kernel at one occupancy: so many blocks may be resident, and the share of all warps that
    are, which is less where the grid has fewer blocks. `shared` counts static and dynamic bytes of
    a block, `local` is in bytes of a thread, times are in seconds: a median and quartiles. `wrong`
    says why there is no time."""

    kernel: str
    way: str
    blocks: int
    occupancy: float
    registers: int
    local: int
    shared: int
    seconds: float | None
    low: float | None
    high: float | None
    wrong: str | None = None


class Shape(Struct, frozen=True):
    """What decides the occupancy of a kernel: its registers, static and dynamic bytes of shared
    memory of a block, and threads of a block."""

    arch: str
    threads: int
    registers: int
    static: int
    dynamic: int

    def blocks(self, *, registers: int, shared: int) -> tuple[int, float]:
        """Resident blocks of a multiprocessor, and the share of its warps."""
        resident = occupancy(
            self.arch, block_threads=self.threads, registers=registers, shared=shared
        )
        return resident.blocks, resident.fraction

    @property
    def shared(self) -> int:
        return self.static + self.dynamic


def points(driver: Driver, prepared: Prepared, kernel: Kernel, processors: int) -> list[Point]:
    """All that can be measured of a kernel; none where it cannot be varied. Raises GpuError,
    AssemblyError."""
    assert kernel.timed is not None
    text = prepared.text(kernel.versions[0])
    launch = word_launch(kernel.timed.launch)
    shape = _shape(driver, prepared, kernel, launch)
    now, _ = shape.blocks(registers=shape.registers, shared=shape.shared)
    x, y, z = launch.grid
    if _SIZES.search(text) or now == 0 or x * y * z < processors:
        return []
    there = x * y * z / processors
    function = parse(text).kernel(kernel.entry)
    original = Variant(ORIGINAL, "", text, cubin=prepared.cubin(kernel.versions[0]))
    limited = list(limits_of(text, kernel.entry, shape))
    as_it_is, *rows = measure(driver, function, [original, *limited], launch, effort=_EFFORT)
    found = [_point(AS_IT_IS, as_it_is, shape, shape.shared, there)]
    found += [_point(row.scheme, row, shape, shape.shared, there) for row in rows]
    for shared in paddings(shape, there):
        padded = replace(launch, shared=shared - shape.static)
        (row,) = measure(driver, function, [original], padded, effort=_EFFORT)
        found.append(_point(PADDED, row, shape, shared, there))
    return sorted(found, key=lambda point: (point.blocks, point.registers))


def _shape(driver: Driver, prepared: Prepared, kernel: Kernel, launch: PreparedLaunch) -> Shape:
    text, arch = prepared.text(kernel.versions[0]), driver.device.arch
    binary = prepared.cubin(kernel.versions[0])
    if binary is None or arch != prepared.manifest.arch:
        binary = image(text, arch)
    code = next(f for f in cubin.read(binary).functions if f.name == kernel.entry)
    x, y, z = launch.block
    return Shape(arch, x * y * z, code.registers, code.shared, launch.shared)


def limits_of(text: str, entry: str, shape: Shape) -> Iterator[Variant]:
    """The kernel under each limit of registers that lets more blocks in."""
    now, _ = shape.blocks(registers=shape.registers, shared=shape.shared)
    function = parse(text).kernel(entry)
    for step in register_steps(shape.arch, block_threads=shape.threads, shared=shape.shared):
        if step.blocks > now:
            edits = lower(text, function, step.at, spills_to_shared=False)
            yield Variant(f"{LIMITED} {step.at}", "", apply(text, tuple(edits)))


def paddings(shape: Shape, there: float) -> Iterator[int]:
    """Bytes of shared memory of a block with which one block fewer is resident, again and again;
    where that is fewer than the blocks that are `there` for a multiprocessor."""
    steps = steps_down(
        shape.arch, threads=shape.threads, registers=shape.registers, shared=shape.shared
    )
    return (shared for blocks, shared in steps if blocks < there)


def _point(way: str, row: Measured, shape: Shape, shared: int, there: float) -> Point:
    registers = row.registers or shape.registers
    blocks, fraction = shape.blocks(registers=registers, shared=shared)
    low, high = row.quartiles or (None, None)
    used = fraction * min(1.0, there / blocks) if blocks else 0.0
    return Point(
        row.kernel, way, blocks, used, registers, row.local, shared, row.seconds, low, high,
        row.wrong,
    )  # fmt: skip


def write(path: Path, found: Sequence[Point], device: str) -> None:
    """A row for each point."""
    with path.open("w", encoding="utf-8") as out:
        print(f"# device: {device}", file=out)
        table = csv.writer(out, lineterminator="\n")
        table.writerow(Point.__struct_fields__)
        for point in found:
            table.writerow(_shown(getattr(point, name)) for name in Point.__struct_fields__)


def _shown(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def main(argv: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(argv)
    prepared, end = Prepared(asked.prepared.resolve()), time.monotonic() + 60 * asked.minutes
    driver: Driver = import_module(asked.driver).open_device()
    device = driver.device
    known = card(device.name)
    if known is None:
        print(f"{device.name} is no GPU that was prepared for")
        return 2
    processors = int(find(known).of("sms").high)
    found: list[Point] = []
    for kernel in prepared.manifest.kernels:
        if kernel.timed is None or (asked.kernel and kernel.name not in asked.kernel):
            continue
        if time.monotonic() > end:
            print(f"{kernel.name} and those behind it: no time left")
            break
        try:
            own = points(driver, prepared, kernel, processors)
        except (GpuError, AssemblyError, ValueError) as error:
            print(f"{kernel.name}: {error}")
            continue
        found += [replace(point, kernel=kernel.name) for point in own]
        print(f"{kernel.name}: {len(own)} points", flush=True)
        asked.out.mkdir(parents=True, exist_ok=True)
        write(asked.out / TABLE, found, str(device))
    driver.close()
    return 0 if found else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prepared", type=Path)
    parser.add_argument("kernel", nargs="*")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--out", type=Path, default=Path("gpu-results"))
    parser.add_argument("--driver", default="ptxsw.gpu.cuda", metavar="MODULE")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
