"""What `ptxsw verify` and `ptxsw run` do, without the command line around it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import to_builtins
from msgspec.structs import replace

from ptxsw.cli.files import BAD_INPUT, CommandError
from ptxsw.cost.cubin import BadCubin
from ptxsw.driver.workers import spread
from ptxsw.parser import parse
from ptxsw.ptx.cxx_names import chosen, readable
from ptxsw.ptx.errors import naming
from ptxsw.ptx.ir import Module
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.printable import one_line
from ptxsw.simt import Counters, LaunchResult, launch
from ptxsw.simt.run import LIMIT, entry
from ptxsw.toolchain.ptxas import AssemblyError, NoCodeForTarget, NoPtxas, assemble
from ptxsw.verify.arguments import Data, parse_argument
from ptxsw.verify.contraction import MachineCode, fuses
from ptxsw.verify.launches import Launch, Shape, buffers
from ptxsw.verify.runs import contents_of, placed
from ptxsw.verify.verdict import (
    Different,
    Proved,
    Question,
    Undecided,
    Verdict,
    question,
    together,
)
from ptxsw.verify.witness import shown

PROVED, DIFFERENT, UNDECIDED = 0, 1, 3

Named = tuple[str, Verdict]
"""The name of a kernel, and the verdict on it."""


def compare(
    texts: tuple[str, str],
    names: tuple[str, str],
    kernel: str | None,
    launches: tuple[Launch, ...] | None,
    seeds: int,
    *,
    also_run: bool = False,
    made: Made | None = None,
    jobs: int = 1,
    step: Callable[[str], None] = lambda _: None,
) -> list[Named]:
    """The verdict on each kernel of two texts, in `jobs` processes; `step` is told how far it is.
    `made` says what ptxas made of both, which is looked at if anything hangs on it. Raises
    ParseError; ValueError where there is no such kernel; CommandError for a text that ptxas
    refuses."""
    if kernel is not None:
        kernel = in_ptx(parse(texts[0], names[0]), kernel)
    asked = question(*texts, names, launches=launches, seeds=range(1, seeds + 1), also_run=also_run)
    functions = asked.kernels(kernel)
    _refuse(asked, texts)
    if made is not None and any(map(fuses, (asked.first, asked.second))):
        step("machine code")
        codes = _machine_code(texts, names, made)
        asked = replace(asked, machine_code=codes)
    step(functions[0].name)
    verdicts: list[Verdict | None] = [None] * len(functions)
    order = range(len(functions))
    for done, (number, verdict) in enumerate(
        spread(order, lambda n: asked.verdict(functions[n]), jobs), 1
    ):
        verdicts[number] = verdict
        if len(functions) > 1:
            step(f"{done} of {len(functions)} kernels")
    return [(f.name, v) for f, v in zip(functions, verdicts, strict=True) if v is not None]


# ---------------------------------------------------------------- machine code

Made = str | tuple[str, str]
"""An architecture for which ptxas makes machine code of two texts, or the paths of two cubins."""


def _machine_code(
    texts: tuple[str, str], names: tuple[str, str], made: Made
) -> tuple[MachineCode, MachineCode]:
    """What ptxas made of products and sums of both. Raises CommandError where nothing is made of a
    text, or a file is no cubin."""
    from ptxsw.cost.fused import assembled, given

    codes = []
    for which, (text, name) in enumerate(zip(texts, names, strict=True)):
        if isinstance(made, str):
            try:
                codes.append(assembled(text, name, made))
            except (NoPtxas, AssemblyError) as error:
                raise CommandError(f"{name}: {str(error).splitlines()[0]}") from error
        else:
            path = Path(made[which])
            try:
                codes.append(given(text, name, path.read_bytes()))
            except BadCubin as error:
                raise CommandError(f"{path}: {error}") from error
    return codes[0], codes[1]


# ---------------------------------------------------------------- what ptxas refuses

_LINE = pattern(r"\bline (\d+); (?:error|fatal)\s*: ([^\n]*)")
_TARGET = pattern(r"^[ \t]*\.target\s+(sm_\d+\w?)", re.MULTILINE)
_OLDEST = "sm_75"  # for which ptxas 13 makes code


def _refuse(asked: Question, texts: tuple[str, str]) -> None:
    """Raises CommandError for a text of which ptxas names a line that it refuses, or the ParseError
    that draws what is wrong with it, if the reader of bodies finds that. Where there is no ptxas,
    or one that is older than the text, nothing is said."""
    both = dict(zip(texts, (asked.first, asked.second), strict=True))
    with ThreadPoolExecutor(2) as pool:
        for module, wrong in zip(both.values(), pool.map(refusal, both), strict=True):
            if wrong is not None:
                for function in module.kernels:
                    function.load_body(function)
                place = f"{module.source.name}:{wrong[0]}"
                raise CommandError(f"{place}: ptxas refuses this text: {one_line(wrong[1])}")


def refusal(text: str) -> tuple[int, str] | None:
    """The first line that ptxas refuses of a text, and what it says."""
    target = _TARGET.search(text)
    for arch in (target[1] if target else _OLDEST, _OLDEST):
        try:
            assemble(text, arch, options=("-O0", "-c"))
        except NoCodeForTarget:
            continue
        except AssemblyError as error:
            found = _LINE.search(str(error))
            if found is None or "version" in found[2]:
                return None
            return int(found[1]), found[2].strip()
        except (NoPtxas, OSError):
            return None
        return None
    return None


# ---------------------------------------------------------------- what is said


def exit_code(named: Iterable[Named], *, accept_runs: bool) -> int:
    """The status to exit with; with `accept_runs` launches without a difference are enough where
    they could have shown one."""
    verdict = together([verdict for _, verdict in named])
    if isinstance(verdict, Different):
        return DIFFERENT
    if isinstance(verdict, Proved):
        return PROVED
    if verdict.failures:
        return BAD_INPUT
    return PROVED if accept_runs and verdict.runs_tell else UNDECIDED


_WORDS: Mapping[Any, str] = {  # the worst first
    Different: "different", Undecided: "not decided", Proved: "proved",
}  # fmt: skip


def to_text(named: Sequence[Named]) -> str:
    """The verdict in words; of several kernels a table, the worst first, and what differs."""
    if len(named) == 1:
        return str(named[0][1])
    ranks = {kind: rank for rank, kind in enumerate(_WORDS)}
    worst_first = sorted(named, key=lambda one: ranks[type(one[1])])
    counts = [(word, sum(type(v) is kind for _, v in named)) for kind, word in _WORDS.items()]
    told = ", ".join(f"{count} {word}" for word, count in counts if count)
    different = [verdict for _, verdict in worst_first if isinstance(verdict, Different)]
    overall = str(together([verdict for _, verdict in named])).partition("\n")[0]
    lines = ["different" if different else overall, f"{len(named)} kernels: {told}"]
    width = max(len(_shown(name)) for name, _ in named)
    lines += [_row(name, verdict, width) for name, verdict in worst_first]
    return "\n".join([*lines, *(f"\n{verdict}" for verdict in different)])


def _shown(name: str) -> str:
    return readable(name) or name


def _row(name: str, verdict: Verdict, width: int) -> str:
    why = ", ".join(verdict.assumptions) if isinstance(verdict, Proved) else verdict.reason
    why = why.partition("\n")[0].removeprefix(f"{name}: ")
    return f"{_shown(name).ljust(width)}  {_WORDS[type(verdict)]:11}  {why}".rstrip()


def to_json(named: Sequence[Named]) -> dict[str, Any]:
    """The verdict as an object, and that on each kernel: a witness is a launch, as `--launch` takes
    it."""
    told = _to_json(together([verdict for _, verdict in named]))
    told["kernels"] = [{"kernel": name, **_to_json(verdict)} for name, verdict in named]
    return told


def _to_json(verdict: Verdict) -> dict[str, Any]:
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
        told["condition"] = None if shown is None else shown.condition or None
    else:
        contraction = None if verdict.contraction is None else to_builtins(verdict.contraction)
        told |= {
            "launches": verdict.launches, "runs": verdict.runs, "contraction": contraction,
        }  # fmt: skip
    if isinstance(verdict, Undecided):
        told["sides"] = list(verdict.sides)
        if verdict.failures:
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
        arrays = [isinstance(value, np.ndarray) for value in values]
        names = [p.name for p, array in zip(function.params, arrays, strict=True) if array]
        _write(dict(zip(names, result.buffers, strict=True)), out)
    return _told(result)


def replay(
    text: str,
    name: str,
    kernel: str | None,
    given: Launch,
    *,
    seed: int | None,
    races: bool,
    out: Path | None,
    steps: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> str:
    """Runs a kernel as `verify` does, with buffers at the same addresses: what changed in each
    buffer, what it counted and printed. What the launch says of seed and races holds, too. As `run`
    otherwise."""
    module = parse(text, name)
    function = entry(module, None if kernel is None else in_ptx(module, kernel))
    values, memory, names = placed(module, function.name, given)
    result = launch(
        module, function.name, given.grid, given.block, values, shared=given.shared, memory=memory,
        variables=contents_of(given), seed=given.seed if seed is None else seed,
        races=races or given.races, progress=progress,
        limit=LIMIT if steps is None else steps,
        only=None if given.only is None else range(*given.only),
    )  # fmt: skip
    if out is not None:
        _write({names[at].replace(" ", "_"): array for at, array in result.memory.items()}, out)
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
