"""Launches large enough to be timed, invented from a kernel's parameters.

Which parameters are pointers the emulator's trace says, and which axis of the grid runs along the
lanes. Integers get sizes as of arrays in one, two or three dimensions, the first along the lanes.
The original is then run in the interpreter on some blocks: where it leaves its buffers they grow.
Whether such a launch is typical of the program nobody can tell; `--launch` gives real ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec.structs import replace

from ptxsw.emulator.trace import Trace
from ptxsw.gpu.driver import Device, Shape
from ptxsw.ptx.errors import Unsupported
from ptxsw.ptx.ir import type_width
from ptxsw.simt import MemoryFault
from ptxsw.terms import op
from ptxsw.terms.node import factors, walk
from ptxsw.verify.differential import roomier
from ptxsw.verify.invented import arguments
from ptxsw.verify.launches import Launch, repaired
from ptxsw.verify.parameters import Parameter, flat, parameters
from ptxsw.verify.runs import run

BLOCKS = tuple((threads, 1, 1) for threads in (32, 64, 128, 256, 512, 1024))
SIZES = {1: (1 << 20,), 2: (1024, 1024), 3: (128, 128, 64)}
_ATTEMPTS = 8
_LARGEST = 1 << 27  # elements of a buffer


class NoLaunch(Exception):
    """No launch was found; the message says why, and what to do."""


def invent(trace: Trace, device: Device, blocks: Sequence[Shape] = BLOCKS) -> list[Launch]:
    """A launch for each shape of block, or the one that `.reqntid` asks for. The smallest takes
    twice the second-level cache, where the sizes are the kernel's to choose. Raises NoLaunch."""
    inferred = parameters(trace)
    fixed = trace.function.block_shape
    launches: list[Launch] = []
    why = ""
    for block in [fixed] if fixed else blocks:
        launch = _launch(trace, inferred, device, block)
        try:
            launches.append(_in_bounds(trace, launch))
        except NoLaunch as error:
            why = str(error)
    if not launches:
        raise NoLaunch(f"{trace.function.name}: {why}; use --launch")
    return launches


def _launch(trace: Trace, inferred: Sequence[Parameter], device: Device, block: Shape) -> Launch:
    dims = min(max(sum(map(_is_size, inferred)), 1), 3)
    pointers = [p for p in flat(inferred) if p.pointee is not None]
    width = max((type_width(p.pointee or "b32") // 8 for p in pointers), default=4)
    sizes = list(SIZES[dims])
    while (
        prod(sizes) * width * max(len(pointers), 1) < 2 * device.l2 and 2 * prod(sizes) <= _LARGEST
    ):
        sizes[sizes.index(min(sizes))] *= 2
    plane = prod(sizes) // sizes[-1] if dims > 1 else 1 << 10
    count = prod(sizes) + 8 * plane + (1 << 12)
    values = arguments(inferred, sizes, count, 4 * plane + (1 << 10))
    return Launch(_grid(trace, sizes, block, device), block, values, fuzz=False)


def _is_size(parameter: Parameter) -> bool:
    return parameter.pointee is None and not parameter.fields and parameter.type[0] in "us"


def _grid(trace: Trace, sizes: Sequence[int], block: Shape, device: Device) -> Shape:
    """As many blocks as cover all points once: the axis that is multiplied by `%ntid.x` runs
    along the lanes, and so along the first size; y takes the second, the one left the third."""
    lanes, used = _axes(trace)
    others = [axis for axis in (1, 0, 2) if axis != lanes]
    # One axis for all: it takes everything, row by row.
    rest = list(sizes[1:]) if len(used - {lanes}) else []
    first = sizes[0] if rest or len(sizes) == 1 else prod(sizes)
    counts = [1, 1, 1]
    counts[lanes] = -(-first // block[0])
    wanted = [axis for axis in others if axis in used]
    for axis, size in zip(wanted, rest, strict=False):
        counts[axis] = -(-size // block[axis]) if axis else size
    x, y, z = (min(count, most) for count, most in zip(counts, device.grid, strict=True))
    return x, y, z


def _axes(trace: Trace) -> tuple[int, set[int]]:
    """The axis of the grid along the lanes, and all that the kernel's addresses and conditions
    depend on, as numbers of x, y and z."""
    names = {f"%ctaid.{axis}": number for number, axis in enumerate("xyz")}
    used: set[int] = set()
    lanes: set[int] = set()
    variants = [v for access in trace.accesses for v in access.variants]
    for node in walk(*(t for v in variants for t in (v.address, v.guard, *v.conditions))):
        if node.kind is op.ATOM and node.value in names:
            used.add(names[node.value])
        elif node.kind is op.MUL:
            atoms = {f.value for f in factors(node) if f.kind is op.ATOM}
            if "%ntid.x" in atoms:
                lanes |= {names[atom] for atom in atoms & names.keys()}
    return min(lanes, default=min(used, default=0)), used


# ---------------------------------------------------------------- staying in bounds


def _in_bounds(trace: Trace, launch: Launch) -> Launch:
    """The launch, repaired until the first, middle and last blocks stay within their buffers."""
    for _ in range(_ATTEMPTS):
        blocks = prod(launch.grid)
        problem, worked, shared = None, False, 0
        for at in sorted({0, blocks // 2, blocks - 1}):
            try:
                outcome = run(trace.module, trace.function.name, replace(launch, only=(at, at + 1)))
            except Unsupported as error:
                raise NoLaunch(f"the interpreter cannot check a launch: {error.message}") from error
            worked = worked or not outcome.idle
            shared = max(shared, outcome.dynamic_shared)
            problem = problem or outcome.error
        if problem is None:
            if not worked:
                raise NoLaunch("in the invented launches, the kernel does nothing")
            return replace(launch, shared=shared)
        changed = None
        if isinstance(problem, MemoryFault):
            fits = roomier(trace.module, launch, problem)
            changed = fits or repaired(launch, problem.message)
        if changed is None:
            raise NoLaunch(f"in the invented launches, {problem.message}")
        launch = changed
    raise NoLaunch("it leaves the buffers of all invented launches")
