"""What `ptxsw run` does, without the command line around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from ptxsw.parser import parse
from ptxsw.ptx.cxx_names import chosen, readable
from ptxsw.ptx.errors import naming
from ptxsw.ptx.ir import Module
from ptxsw.simt import Counters, LaunchResult, launch
from ptxsw.simt.run import LIMIT, entry
from ptxsw.verify.arguments import Data, parse_argument
from ptxsw.verify.launches import Launch, Shape, buffers
from ptxsw.verify.runs import contents_of, placed
from ptxsw.verify.witness import shown


class RunOptions(Struct, frozen=True, kw_only=True):
    """How a kernel is run, whatever the launch."""

    kernel: str | None = None
    """Its name in PTX or C++; None: the only one."""
    seed: int | None = None
    """A fuzzed schedule; None: threads reconverge."""
    races: bool = False
    """Are races looked for?"""
    out: Path | None = None
    """Where the buffers are written, as `.npy`."""
    steps: int = LIMIT
    """The most instructions of groups of threads that are executed."""
    progress: Callable[[int], None] | None = None
    """Is told how many were."""

    def in_module(self, module: Module) -> str:
        """The name in PTX of the kernel to run. Raises ValueError, Unsupported."""
        return entry(module, None if self.kernel is None else in_ptx(module, self.kernel)).name


def in_ptx(module: Module, kernel: str) -> str:
    """The name in the PTX of the kernel that is meant by either of its names. Raises ValueError
    where none or several are meant."""
    meant = [function.name for function in chosen(module, kernel)]
    if kernel in meant:
        return kernel
    if len(meant) > 1:
        several = ", ".join(readable(name) or name for name in meant)
        raise ValueError(f"{kernel!r} may be any of: {several}")
    return meant[0]


def run(
    text: str,
    name: str,
    grid: Shape,
    block: Shape,
    arguments: Sequence[str],
    shared: int,
    options: RunOptions,
) -> str:
    """Runs a kernel; what it counted and printed. Raises ParseError, Unsupported, RunError;
    ValueError for what makes no sense."""
    module = parse(text, name)
    kernel = options.in_module(module)
    values = [_value(word) for word in arguments]
    result = launch(
        module, kernel, grid, block, values, shared=shared, seed=options.seed,
        races=options.races, limit=options.steps, progress=options.progress,
    )  # fmt: skip
    if options.out is not None:
        parameters = next(f for f in module.kernels if f.name == kernel).params
        arrays = [isinstance(value, np.ndarray) for value in values]
        names = [p.name for p, array in zip(parameters, arrays, strict=True) if array]
        _write(dict(zip(names, result.buffers, strict=True)), options.out)
    return _told(result)


def replay(text: str, name: str, given: Launch, options: RunOptions) -> str:
    """Runs a kernel as `verify` does, with buffers at the same addresses: what changed in each
    buffer, what it counted and printed. What the launch says of seed and races holds, too.
    Raises what `run` does."""
    module = parse(text, name)
    kernel = options.in_module(module)
    values, memory, names = placed(module, kernel, given)
    result = launch(
        module, kernel, given.grid, given.block, values, shared=given.shared, memory=memory,
        variables=contents_of(given), seed=given.seed if options.seed is None else options.seed,
        races=options.races or given.races, progress=options.progress, limit=options.steps,
        only=None if given.only is None else range(*given.only),
    )  # fmt: skip
    if options.out is not None:
        arrays = {names[at].replace(" ", "_"): array for at, array in result.memory.items()}
        _write(arrays, options.out)
    starts = {at: _first(at, given, names) for at in memory}
    changes = (
        _changed(names[at], memory[at], array, starts[at]) for at, array in result.memory.items()
    )
    return "".join(change for change in changes if change) + _told(result)


def _first(at: int, given: Launch, names: dict[int, str]) -> int:
    """The element of a buffer that its pointer points to."""
    pointed = [data for _, data in buffers(given)]
    placed_ones = list(names)[: len(pointed)]
    return pointed[placed_ones.index(at)].first if at in placed_ones else 0


_MOST_SHOWN = 8  # elements of a buffer


def _changed(name: str, before: Any, after: Any, first: int) -> str:
    """The elements of a buffer that a run has changed."""
    size = before.itemsize
    x, y = (np.ascontiguousarray(v).reshape(-1).view(np.uint8).reshape(-1, size)
            for v in (before, after))  # fmt: skip
    places = np.flatnonzero((x != y).any(axis=1))
    if not len(places):
        return ""
    values = after.reshape(-1)
    listed = ", ".join(f"[{int(at) - first}] = {shown(values[at])}" for at in places[:_MOST_SHOWN])
    more = f", … ({len(places)} elements changed)" if len(places) > _MOST_SHOWN else ""
    return f"{name}{listed}{more}\n"


def _told(result: LaunchResult) -> str:
    assert result.counters is not None
    printed = "".join(line if line.endswith("\n") else line + "\n" for line in result.printed)
    return printed + _counted(result.counters)


def _value(word: str) -> Any:
    argument = parse_argument(word)
    if not isinstance(argument, Data):
        return argument
    if argument.first:
        raise ValueError(f"{word}: a buffer's pointer is to its first element here")
    return argument.array()


def _write(named: Mapping[str, Any], out: Path) -> None:
    """Arrays under their names."""
    out.mkdir(parents=True, exist_ok=True)
    for name, array in named.items():
        path = out / f"{name}.npy"
        with naming(str(path)):
            np.save(path, array)


def _counted(counters: Counters) -> str:
    rows = [("thread instructions", counters.thread_instructions)]
    rows += [
        (f"warp instructions, {kind}", count) for kind, count in counters.warp_instructions.items()
    ]
    rows += [
        ("global loads by warps", counters.warp_loads),
        ("32-byte sectors loaded", counters.load_sectors),
        ("shuffles", counters.shuffles),
        ("divergent branches", counters.divergent_branches),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name.ljust(width)}  {count}" for name, count in rows]
    if counters.warp_loads:
        per_load = counters.load_sectors / counters.warp_loads
        lines.append(f"{'sectors per warp load'.ljust(width)}  {per_load:.2f}")
    return "\n".join(lines) + "\n"
