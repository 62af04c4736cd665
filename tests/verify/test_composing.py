"""What `optimize` proved step by step, `verify` proves again from the comments behind the text."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from ptxsw.driver.pipeline import Options, Result, optimize
from ptxsw.parser import parse
from ptxsw.verify.proving import Proof, Unproved, prove

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MATMUL = (BENCHMARKS / "kernelgen" / "ptx" / "clang" / "matmul.ptx").read_text()
SPMV = (BENCHMARKS / "programs" / "ptx" / "spmv.ptx").read_text()
TRANSPOSE = (BENCHMARKS / "programs" / "ptx" / "transpose-float.ptx").read_text()


@cache
def rewritten(text: str) -> Result:
    return optimize(text, Options(mode="force"))


def judged(before: str, after: str) -> Proof | Unproved:
    first = parse(before)
    return prove(first, parse(after), first.kernels[0].name)


def slow(*values: str) -> ParameterSet:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize("text", [MATMUL, TRANSPOSE])
def test_all_steps_together_are_a_proof(text: str) -> None:
    result = rewritten(text)
    assert result.steps and result.text != text
    assert isinstance(judged(text, result.text_with_steps), Proof)


ZERO = """.func zero(.param .b64 p)
{
	.reg .b64 %d<2>;
	ld.param.u64 %d1, [p];
	st.b32 [%d1], 0;
	ret;
}
"""
CALL = """	{
	.param .b64 p0;
	st.param.b64 [p0], %rd22;
	call.uni zero, (p0);
	}
"""


def test_a_copy_of_a_function_behind_the_kernel() -> None:
    """The steps tell of what was put in outside of the kernel."""
    place = MATMUL.index("\tcvta.to.global.u64 \t%rd1, %rd22;")
    text = MATMUL[:place] + CALL + MATMUL[place:] + ZERO
    text = text.replace(".visible .entry", ".func zero(.param .b64 p);\n.visible .entry")
    result = rewritten(text)
    assert "st.global.b32 [%d1], 0;" in result.text
    length = text.index(ZERO) - text.index(".visible .entry")
    assert any(start > length for s in result.steps["matmul"] for start, *_ in s.edits)
    assert isinstance(judged(text, result.text_with_steps), Proof)
    wrong = result.text_with_steps.replace("st.global.b32 [%d1]", "st.shared.b32 [%d1]")
    assert isinstance(judged(text, wrong), Unproved)


def test_kernels_in_blocks_of_different_shapes() -> None:
    """The texts between two steps have the other kernels, too, in their own blocks."""
    start, body = SPMV.index(".visible .entry"), SPMV.index("{")
    one, other = (f"{SPMV[start:body]}.reqntid {n}\n{SPMV[body:]}" for n in (128, 64))
    text = SPMV[:start] + one + other.replace("spmv", "second")
    result = rewritten(text)
    assert len(result.steps["spmv"]) > 1
    assert isinstance(judged(text, result.text_with_steps), Proof)


def test_without_the_steps_it_is_open() -> None:
    assert isinstance(judged(MATMUL, rewritten(MATMUL).text), Unproved)


def test_the_comments_are_all_that_is_added() -> None:
    result = rewritten(MATMUL)
    added = result.text_with_steps.removeprefix(result.text)
    assert all(line.startswith("// ptxsw step of ") for line in added.strip().splitlines())


@pytest.mark.parametrize(("old", "new"), [
    ("mul.rn.f32", "mul.rz.f32"),
    slow("st.global.f32", "st.volatile.global.f32"),
    slow("+4]", "+8]"),
    slow("ld.global", "ld.volatile.global"),
])  # fmt: skip
def test_steps_do_not_help_another_text(old: str, new: str) -> None:
    text, steps = rewritten(MATMUL).text, rewritten(MATMUL).text_with_steps
    assert old in text
    assert isinstance(judged(MATMUL, steps.replace(text, text.replace(old, new, 1))), Unproved)


@pytest.mark.parametrize(("pattern", "new"), [
    slow(r'"code":"[^"]*"', r'"code":""'),
    slow(r'"code":"[^"]*"', r'"code":"} .entry k() { ret;"'),
    (r'"register":"%\w+"', r'"register":"%nothing"'),
    slow(r'"label":"[^"]*"', r'"label":"NOWHERE"'),
    slow(r'"edits":\[\[\d+', r'"edits":[[99999999'),
    slow(r'"edits":\[\[\d+', r'"edits":[[-5'),
    slow(r'(?<=: )\{"claims".*', r'{"claims":7}'),
    slow(r'(?<=: )\{"claims".*', r"{"),
    slow(r'(?<=: )\{"claims".*', r'{"layout":{"shifts":[],"mask":0}}'),
])  # fmt: skip
def test_a_wrong_step_proves_nothing_and_is_no_fault(pattern: str, new: str) -> None:
    result = rewritten(MATMUL)
    spoiled = re.sub(pattern, new, result.text_with_steps)
    assert isinstance(judged(MATMUL, spoiled), Unproved)
    # A wrong step does not keep away what the texts alone tell.
    assert isinstance(judged(MATMUL, spoiled.replace(result.text, MATMUL)), Proof)
