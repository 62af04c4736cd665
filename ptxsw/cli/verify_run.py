"""What `ptxsw verify` does, without the command line around it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from ptxsw.changes.assumptions import DEFAULT_ASSUME
from ptxsw.cli.files import BAD_INPUT, CommandError
from ptxsw.cli.kernel_run import in_ptx
from ptxsw.cost.cubin import BadCubin
from ptxsw.driver.workers import Workers, spread
from ptxsw.parser import parse
from ptxsw.ptx.cxx_names import readable
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.printable import one_line
from ptxsw.toolchain.ptxas import AssemblyError, NoCodeForTarget, NoPtxas, assemble
from ptxsw.verify.contraction import MachineCode, fuses
from ptxsw.verify.launches import Launch, Shape
from ptxsw.verify.verdict import (
    Different,
    Proved,
    Question,
    Undecided,
    Verdict,
    question,
    together,
)

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
    block: Shape | None = None,
    assume: frozenset[str] = DEFAULT_ASSUME,
    made: Made | None = None,
    jobs: Workers = 1,
    step: Callable[[str], None] = lambda _: None,
) -> list[Named]:
    """The verdict on each kernel of two texts, in `jobs` processes; `step` is told how far it is.
    `made` says what ptxas made of both, which is looked at if anything hangs on it. Raises
    ParseError; ValueError where there is no such kernel, or one does not run in blocks of a shape;
    CommandError for a text that ptxas
    refuses."""
    if kernel is not None:
        kernel = in_ptx(parse(texts[0], names[0]), kernel)
    asked = question(
        *texts, names, launches=launches, seeds=range(1, seeds + 1), also_run=also_run, block=block,
        assume=assume,
    )  # fmt: skip
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
                raise CommandError(f"{place}: ptxas rejects this PTX: {one_line(wrong[1])}")


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
        told["branch_coverage"] = list(verdict.branch_coverage)
        if verdict.failures:
            told["failed"] = to_builtins(verdict.failures)
    return told
