"""What is kept of a text for other targets changes no answer, and serves for nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from ptxsw import checking, other_targets, validate
from ptxsw.emulator import run as runs
from ptxsw.emulator.budget import Budget
from ptxsw.emulator.run import emulate
from ptxsw.emulator.solver import Solver
from ptxsw.excerpt import Excerpts
from ptxsw.ir import Module
from ptxsw.options import Options
from ptxsw.parser import parse
from ptxsw.pipeline import Result, optimize
from ptxsw.report import to_json
from ptxsw.rewrites import REWRITES
from ptxsw.rewrites.base import Kernel

FOLDER = Path(__file__).parents[1] / "benchmarks"
PROGRAMS = FOLDER / "programs" / "ptx"
TEXTS = [
    *(PROGRAMS / f"{name}.ptx" for name in ("alignment", "complex", "dynamic")),
    FOLDER / "kernelgen" / "ptx" / "jacobi.ptx",
]
MORE = [PROGRAMS / f"{name}.ptx" for name in ("dct", "column-nvcc", "gather", "fdtd2d", "chunks")]
TARGETS = ("sm_75", "sm_80", "sm_120", "sm_80")


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    other_targets.remember(wanted=False)


def for_target(text: str, target: str) -> str:
    return re.sub(r"\.target sm_\d+", f".target {target}", text)


def answer(text: str, options: Options) -> tuple[str, object]:
    """The text and the report, without the time it took."""
    result: Result = optimize(text, replace(options, arch=None))
    report: dict[str, Any] = to_json(result.report)
    return result.text, _without_times(report)


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_times(v) for k, v in value.items() if "second" not in k}
    return [_without_times(one) for one in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("mode", ["auto", "force"])
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_the_same_answers(path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXSW_CACHE", "off")
    options, text = Options(mode=mode), path.read_text()
    texts = [for_target(text, target) for target in TARGETS]
    without = [answer(one, options) for one in texts]
    other_targets.remember()
    assert [answer(one, options) for one in texts] == without


def _kernel(module: Module, options: Options, arch: str = "sm_80") -> Kernel:
    function, solver = module.kernels[0], Solver()
    trace = emulate(module, function, solver=solver)
    names = frozenset(one.name for one in REWRITES)
    return Kernel(module, function, trace, solver, options, arch, names, Budget())


class _Asked(Exception):
    pass


class _NoTarget(Module):  # type: ignore[misc]
    """A module whose target nobody may read."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("targets", "sm"):
            raise _Asked
        return super().__getattribute__(name)


class _NoArch(Kernel):  # type: ignore[misc]
    """A kernel whose target nobody may read."""

    def __getattribute__(self, name: str) -> Any:
        if name == "arch":
            raise _Asked
        return super().__getattribute__(name)


@pytest.mark.parametrize("path", [*TEXTS, *MORE], ids=lambda path: path.stem)
def test_who_says_so_asks_for_no_target(path: Path) -> None:
    """The rewrites that say that they do not; the others would be told."""
    module = parse(for_target(path.read_text(), "sm_100"))
    for mode in ("auto", "force"):
        kernel = _kernel(module, Options(mode=mode))
        hidden = _NoTarget(**{name: getattr(module, name) for name in module.__struct_fields__})
        trace = replace(kernel.trace, module=hidden)
        given = {**asdict(kernel), "module": hidden, "trace": trace}
        for one in REWRITES:
            if not getattr(one, "asks_target", True):
                list(one.find(_NoArch(**given)))
        joint = next(one for one in REWRITES if one.name == "shuffle")
        with pytest.raises(_Asked):
            list(joint.find(_NoArch(**given)))


# ---------------------------------------------------------------- what is shared


class Count:
    """How often rewrites have looked at a kernel, it was run, and a proof was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs = self.proofs = 0
        real, proof = runs.emulate, validate.validate

        def run(*given: Any, **named: Any) -> Any:
            self.runs += 1
            return real(*given, **named)

        def prove(*given: Any, **named: Any) -> Any:
            self.proofs += 1
            return proof(*given, **named)

        monkeypatch.setattr(other_targets, "emulate", run)
        monkeypatch.setattr(checking, "validate", prove)

    def taken(self) -> tuple[int, int]:
        """Since the last time."""
        both = self.runs, self.proofs
        self.runs = self.proofs = 0
        return both


FORCE = Options(mode="force", rewrites=("read-only-loads", "bank-conflicts"))
TEXT = (PROGRAMS / "alignment.ptx").read_text()


def test_other_targets_are_neither_run_nor_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    other_targets.remember()
    count = Count(monkeypatch)
    optimize(for_target(TEXT, "sm_80"), FORCE)
    assert min(count.taken()) > 0
    optimize(for_target(TEXT, "sm_90"), FORCE)
    assert count.taken() == (0, 0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"\.version 9\.0", ".version 8.8"),
        (r"\.target sm_\d+", ".target sm_90a"),
        (r"\.entry (\w+)", r".entry x\1"),
        (r"(ld\.global\S*\s+%r\w+, \[%rd\d+)\]", r"\1+4]"),
        (r"\bret;", "bar.sync 0;\n ret;"),
    ],
)
def test_another_text_is_another_one(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = for_target(TEXT, "sm_80")
    changed = re.sub(old, new, text, count=1)
    assert changed != text
    other_targets.remember()
    count = Count(monkeypatch)
    optimize(text, FORCE)
    count.taken()
    optimize(changed, FORCE)
    assert min(count.taken()) > 0


@pytest.mark.parametrize(
    "options",
    [replace(FORCE, assume=frozenset()), replace(FORCE, block=(64, 2, 1)), Options(mode="auto")],
)
def test_what_is_asked_for_decides(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run serves for all; what rewrites say is asked again."""
    monkeypatch.setenv("PTXSW_CACHE", "off")
    without = answer(TEXT, options)
    other_targets.remember()
    answer(TEXT, FORCE)
    assert answer(TEXT, options) == without


def test_lines_are_those_of_the_text() -> None:
    """The same kernel further below: reports name other lines."""
    options = Options(mode="force")
    head, kernel = TEXT.split("\t// .globl", 1)
    below = f"{head}.visible .entry first()\n{{\nret;\n}}\n\t// .globl{kernel}"
    without = answer(below, options)
    other_targets.remember()
    answer(TEXT, options)
    assert answer(below, options) == without


def test_what_did_not_end_in_time_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    other_targets.remember()
    module = Excerpts(parse(TEXT)).of(parse(TEXT).kernels[0])
    excerpt = other_targets.shared(module)
    one = other_targets.traced(excerpt.module, excerpt.function, budget_s=1e-9)
    assert one.statistics.timed_out
    two = other_targets.traced(excerpt.module, excerpt.function, budget_s=60.0)
    assert not two.statistics.timed_out


def test_nothing_is_kept_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    count = Count(monkeypatch)
    for _ in range(2):
        optimize(TEXT, FORCE)
        assert min(count.taken()) > 0


def test_no_more_than_some_texts_are_kept() -> None:
    other_targets.remember()
    for number in range(2 * other_targets._MOST):
        other_targets.parsed(parse(f".version 8.0\n.target sm_80\n// {number}\n").source)
    assert other_targets._kept is not None and len(other_targets._kept) == other_targets._MOST
