"""What `ptxsw verify` and `ptxsw run` do, without the command line around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import to_builtins

from ptxsw.cli.files import BAD_INPUT
from ptxsw.parser import parse
from ptxsw.ptx.cxx_names import chosen, readable
from ptxsw.ptx.errors import naming
from ptxsw.ptx.ir import Function, Module
from ptxsw.simt import Counters, LaunchResult, launch
from ptxsw.simt.run import LIMIT, entry
from ptxsw.verify.arguments import Data, parse_argument
from ptxsw.verify.launches import Launch, Shape
from ptxsw.verify.verdict import Different, Proved, Undecided, Verdict, verify

PROVED, DIFFERENT, UNDECIDED = 0, 1, 3


def compare(
    texts: tuple[str, str],
    names: tuple[str, str],
    kernel: str | None,
    launches: tuple[Launch, ...] | None,
    seeds: int,
    step: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """The verdict on two texts; `step` is told each kernel when its turn comes. Raises ParseError;
    ValueError where there is no such kernel."""
    if kernel is not None:
        kernel = in_ptx(parse(texts[0], names[0]), kernel)
    return verify(
        *texts, kernel=kernel, launches=launches, seeds=range(1, seeds + 1), names=names, step=step
    )


def exit_code(verdict: Verdict, *, accept_runs: bool) -> int:
    """The status to exit with; with `accept_runs` launches without a difference are enough where
    they could have shown one."""
    if isinstance(verdict, Different):
        return DIFFERENT
    if isinstance(verdict, Proved):
        return PROVED
    if verdict.failures:
        return BAD_INPUT
    return PROVED if accept_runs and verdict.runs_tell else UNDECIDED


def to_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict as an object: a witness is a launch, as `--launch` takes it."""
    told: dict[str, Any] = {
        "verdict": type(verdict).__name__.lower(), "level": "bits", "assumptions": [],
        "witness": None, "reason": None,
    }  # fmt: skip
    if isinstance(verdict, Proved):
        told["assumptions"] = list(verdict.assumptions)
    else:
        told["reason"] = verdict.reason
    if isinstance(verdict, Different):
        shown = verdict.difference
        told["kernel"] = verdict.kernel
        told["witness"] = None if shown is None else shown.launch.json()
        told["schedule"] = None if shown is None else shown.seed
    else:
        told |= {"launches": verdict.launches, "runs": verdict.runs}
    if isinstance(verdict, Undecided) and verdict.failures:
        told["failed"] = to_builtins(verdict.failures)
    return told


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
    kernel: str | None,
    grid: Shape,
    block: Shape,
    arguments: Sequence[str],
    *,
    shared: int,
    seed: int | None,
    races: bool,
    out: Path | None,
    steps: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> str:
    """Runs a kernel; what it counted and printed. Writes its buffers as `.npy` below `out`. `steps`
    bounds the instructions of groups of threads that are executed; `progress` is told how many.

    Raises ParseError, Unsupported, RunError; ValueError for what makes no sense.
    """
    module = parse(text, name)
    function = entry(module, None if kernel is None else in_ptx(module, kernel))
    values = [_value(word) for word in arguments]
    result = launch(
        module, function.name, grid, block, values, shared=shared, seed=seed,
        races=races, limit=LIMIT if steps is None else steps, progress=progress,
    )  # fmt: skip
    if out is not None:
        _write(module, function, values, result, out)
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


def _write(
    module: Module, function: Function, values: Sequence[Any], result: LaunchResult, out: Path
) -> None:
    """Array arguments under the names of their parameters."""
    out.mkdir(parents=True, exist_ok=True)
    names = [
        p.name for p, v in zip(function.params, values, strict=True) if isinstance(v, np.ndarray)
    ]
    for name, array in zip(names, result.buffers, strict=True):
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
