"""A fault of ptxsw in one kernel of a file: the others are done, and it is told what is needed to
find the fault."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ptxsw.cli.commands import app
from ptxsw.driver import kernel_tasks, pipeline
from ptxsw.driver.batches import batched
from ptxsw.driver.checking import check
from ptxsw.driver.prediction import predict
from ptxsw.emulator.emulation import Emulation
from ptxsw.emulator.trace import Trace
from ptxsw.report import from_json, to_json
from ptxsw.rewrites import base, vectorize
from ptxsw.verify.verdict import Undecided, verify
from tests.heads import head

KERNEL = """
.visible .entry {name}(.param .u64 p)
{{
	.reg .f32 %f<4>;
	.reg .b32 %r<2>;
	.reg .b64 %rd<4>;
	.loc 1 {line} 3
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 8;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.f32 %f1, [%rd3];
	ld.global.f32 %f2, [%rd3+4];
	add.f32 %f3, %f1, %f2;
	st.global.f32 [%rd3], %f3;
	ret;
}}
"""
NAMES = ("one", "bad", "two")
TEXT = (
    head()
    + "".join(KERNEL.format(name=name, line=10 * n + 7) for n, name in enumerate(NAMES))
    + '.file 1 "sums.cu"\n'
)
LINE = TEXT[: TEXT.index(".visible .entry bad")].count("\n") + 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sums.ptx"
    path.write_text(TEXT)
    return path


def in_bad(method: Callable[..., Trace], error: Exception) -> Callable[..., Trace]:
    def failing(self: Emulation) -> Trace:
        if self.function.name == "bad":
            raise error
        return method(self)

    return failing


@pytest.fixture(params=[RecursionError("too deep"), KeyError("%r9"), MemoryError()], ids=repr)
def fault(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Exception:
    """The symbolic execution of kernel `bad` fails."""
    error: Exception = request.param
    monkeypatch.setattr(Emulation, "trace", in_bad(Emulation.trace, error))
    return error


def ptxsw(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def told(result: Result, file: Path) -> list[str]:
    """The command that the message names, if the message is the one that it has to be."""
    assert result.exit_code == 2
    where, why, command = result.stderr.splitlines()[-3:]
    assert where.startswith(f"{file}:{LINE}: bad (sums.cu:17): failed in symbolic execution: ")
    assert where.endswith(")") and "(ptxsw/emulator/run.py:" in where
    assert why == "  This is a bug in ptxsw. The kernel is left as it was. To reproduce it:"
    return shlex.split(command)


COMMANDS = {
    "analyze": ("analyze", "{}"),
    "check": ("check", "{}", "--no-ptxas"),
    "report": ("report", "{}"),
    "predict": ("predict", "{}"),
    "optimize": ("optimize", "{}", "-o", "{}.out", "--mode", "force"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_each_command_does_the_others(
    words: Sequence[str], fault: Exception, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = ptxsw(*(word.format(file) for word in words))
    command = told(result, file)
    assert command[0] == "ptxsw"
    assert type(fault).__name__ in result.stderr
    if words[0] != "check":  # which names no kernel of which there is nothing to say
        assert "one" in result.stdout and "two" in result.stdout
    again = ptxsw(*command[1:])
    told(again, file)
    monkeypatch.undo()
    assert ptxsw(*command[1:]).exit_code in (0, 1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_text_of_the_others_is_written(
    fault: Exception, file: Path, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_tasks, "LONG", 0)
    report = file.with_suffix(".json")
    out = file.with_suffix(".out")
    result = ptxsw(
        "optimize", file, "-o", out, "--mode", "force", "--report", report, "--jobs", jobs
    )
    told(result, file)
    written = dict(zip(NAMES, out.read_text().split(".visible")[1:], strict=True))
    assert written["bad"] == TEXT.split(".visible")[2]
    assert all("ld.global.v2.f32" in written[name] for name in ("one", "two"))
    kernels = {kernel["name"]: kernel for kernel in json.loads(report.read_text())["kernels"]}
    assert {name for name, kernel in kernels.items() if "failed" in kernel} == {"bad"}
    failed = kernels["bad"]["failed"]
    assert failed["at"] == "symbolic execution" and failed["error"].startswith(type(fault).__name__)
    assert (failed["line"], failed["source"]) == (LINE, "sums.cu:17")


def test_in_python(fault: Exception) -> None:
    for report in (
        pipeline.optimize(TEXT).report, pipeline.analyze(TEXT), check(TEXT, ptxas=False),
    ):  # fmt: skip
        assert [kernel.failed is not None for kernel in report.kernels] == [False, True, False]
        assert from_json(to_json(report)) == report
        assert "bad: failed in symbolic execution: " in str(report)
    predicted = predict(TEXT).kernels
    assert [kernel.failed is not None for kernel in predicted] == [False, True, False]


def test_a_page_tells_it(fault: Exception, file: Path) -> None:
    page = file.with_suffix(".html")
    told(ptxsw("report", file, "--html", page), file)
    assert "failed in symbolic execution" in page.read_text()


def test_texts_are_compared_but_for_it(fault: Exception, file: Path) -> None:
    other = file.with_name("other.ptx")
    other.write_text(TEXT.replace("ld.global.f32 %f2", "ld.volatile.global.f32 %f2"))
    result = ptxsw("verify", file, other)
    assert result.exit_code == 2
    assert (
        result.stdout.startswith("not decided: ")
        and "\nbad  not decided  failed in " in result.stdout
    )
    assert f"ptxsw verify {file} {other} --kernel bad" in result.stderr
    verdict = verify(TEXT, other.read_text())
    assert isinstance(verdict, Undecided) and [one.kernel for one in verdict.failures] == ["bad"]
    assert ptxsw("verify", file, other, "--kernel", "one").exit_code != 2


def test_a_rewrite_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    init = vectorize._Search.__init__

    def failing(self: vectorize._Search, kernel: base.Kernel) -> None:
        assert kernel.function.name != "bad", "not here"
        init(self, kernel)

    monkeypatch.setattr(vectorize._Search, "__init__", failing)
    result = ptxsw("optimize", file, "-o", "-", "--mode", "force", "--rewrites", "vectorize")
    assert f"{file}:{LINE}: bad (sums.cu:17): failed in vectorize: AssertionError" in result.stderr
    assert "--mode force --rewrites vectorize" in result.stderr
    assert result.stdout.count("ld.global.v2.f32") == 2


def test_wrong_input_is_no_fault(file: Path) -> None:
    file.write_text(TEXT.replace("add.f32", "add .f32;", 1))
    for words in COMMANDS.values():
        result = CliRunner().invoke(app, [word.format(file) for word in words])
        assert "bug in ptxsw" not in result.output


def test_only_tasks_whose_questions_cannot_be_answered_fail() -> None:
    def task(question: int):  # type: ignore[no-untyped-def]
        try:
            return (yield question)
        except ZeroDivisionError:
            return "failed"

    def answer(questions: Sequence[int]) -> list[int]:
        return [6 // question for question in questions]

    results = dict(batched(((n, task(n)) for n in range(4)), answer, 4))
    assert results == {0: "failed", 1: 6, 2: 3, 3: 2}


def test_an_answer_may_be_an_exception() -> None:
    """ptxas may have no code for a target: that is an answer, and no fault of the kernel."""

    def task() -> Generator[str, Exception, str]:
        return str((yield "sm_70"))

    assert dict(batched([(0, task())], lambda _: [ValueError("no code")], 4)) == {0: "no code"}
