"""Instructions of an iteration before and after strength reduction, in programs of real
compilers."""

from __future__ import annotations

import pytest

from benchmarks.rewrites import ARCHS
from benchmarks.strength_reduction import REWRITE, Row, Subject, operators, programs, rows
from ptxsw.cost import sass
from ptxsw.driver.pipeline import Options, optimize
from tests.cost.conftest import Tools, tools

__all__ = ["tools"]  # fixtures

# What an iteration takes at least before, and at most after.
ITERATIONS = [
    ("neighbours-nvcc", 22.5, 17),
    ("neighbours-clang-O3", 22, 17),
    ("box-nvcc-rolled", 40, 38),
    ("box-nvcc", 28, 26),  # unrolled by four
    ("stencil-clang-O3", 48, 38),
    ("edges-nvcc", 40, 36),
    ("edges-clang-O3", 40, 37),
    ("column-nvcc", 7.5, 6),
    ("rows-nvcc", 32, 29),
]
FEW = {"neighbours-nvcc", "stencil-clang-O3", "column-nvcc", "rows-nvcc"}


def made(subject: Subject, arch: str) -> Row:
    (row,) = rows(subject, [arch], [REWRITE], "force")
    return row


def check(name: str, arch: str, before: float, after: float) -> None:
    row = made(programs()[name], arch)
    assert row.verdict == "proved, numpy's"
    assert row.before.instructions is not None and row.before.instructions >= before
    assert row.after.instructions is not None and row.after.instructions <= after


@pytest.mark.parametrize(("name", "before", "after"), [one for one in ITERATIONS if one[0] in FEW])
def test_a_iteration_takes_less(tools: Tools, name: str, before: float, after: float) -> None:
    check(name, "sm_80", before, after)


BOTH = ["neighbours-nvcc", "edges-nvcc", "edges-clang-O3", "column-nvcc", "stencil-clang-O3"]


@pytest.mark.parametrize("name", BOTH)
def test_both_copies_of_a_kernel_have_it(name: str) -> None:
    """`read-only-loads` goes first: the loop stands in two scopes then, under one label. Its loads
    by `.nc` have other addresses then, and its test knows more of the numbers in them."""
    options = Options("force", rewrites=("read-only-loads", REWRITE))
    (kernel,) = optimize(programs()[name].path.read_text(), options).report.kernels
    made = [change for change in kernel.rewrites or () if change.rewrite == REWRITE]
    assert len(made) == 2


def test_pointers_that_clang_has_made_stay() -> None:
    """It carries sums of 64 bits itself: no product is left in the loop."""
    text = programs()["rows-clang-O3"].path.read_text()
    result = optimize(text, Options("force", rewrites=(REWRITE,)))
    assert result.text == text


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("name", "before", "after"), ITERATIONS)
def test_for_each_target(tools: Tools, name: str, arch: str, before: float, after: float) -> None:
    check(name, arch, before, after)


def _reasons(name: str, arch: str, mode: str = "force") -> list[str]:
    options = Options(mode, rewrites=(REWRITE,), arch=arch)
    (kernel,) = optimize(operators()[name].path.read_text(), options).report.kernels
    return [r.reason for r in kernel.refusals or () if r.rewrite == REWRITE]


def test_what_ptxas_makes_longer_is_put_back(tools: Tools) -> None:
    """For sm_120 it computes in every iteration what was to be computed once, to save registers."""
    (reason,) = _reasons("tricubic-clang", "sm_120")
    assert reason.startswith("ptxas's output gets longer for sm_120: ")


def test_auto_makes_it_where_it_pays(tools: Tools) -> None:
    """What ptxas makes of both texts decides, as for all rewrites."""
    options = Options("auto", arch="sm_80")
    text = programs()["neighbours-nvcc"].path.read_text()
    (kernel,) = optimize(text, options).report.kernels
    assert [r.rewrite for r in kernel.rewrites or ()] == [REWRITE]
    assert kernel.decision is not None and kernel.decision.by == "ptxas"
    text = programs()["column-clang-O1"].path.read_text()
    (kernel,) = optimize(text, options).report.kernels
    assert not kernel.rewrites


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", operators())
def test_no_operator_takes_more(tools: Tools, name: str, arch: str) -> None:
    """Of nvcc, clang and GCC, where everything is made that is proved and that ptxas does not make
    longer."""
    assert made(operators()[name], arch).good


# ---------------------------------------------------------------- straight-line code

# nvcc's of `out[i] = a[i - 2] + … + a[i + 2]` with unsigned `i`, once for each thread.
STRAIGHT = """.version 8.7
.target {arch}
.address_size 64
.visible .entry k(.param .u32 n, .param .u64 a, .param .u64 out)
{{
	.reg .pred %p<3>;
	.reg .f32 %f<10>;
	.reg .b32 %r<11>;
	.reg .b64 %rd<17>;
	ld.param.u32 %r3, [n];
	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [out];
	mov.u32 %r4, %ntid.x;
	mov.u32 %r5, %ctaid.x;
	mov.u32 %r6, %tid.x;
	mad.lo.s32 %r1, %r5, %r4, %r6;
	add.s32 %r2, %r1, 2;
	add.s32 %r7, %r3, -2;
	setp.ge.u32 %p1, %r2, %r7;
	@%p1 bra DONE;
	mul.wide.u32 %rd5, %r1, 4;
	add.s64 %rd6, %rd1, %rd5;
	{body}
DONE:
	ret;
}}
"""
SUM = "\n\t".join(f"add.f32 %f1, %f1, %f{n};" for n in range(2, 6))
EACH = "\n\t".join([
    "ld.global.f32 %f1, [%rd6];",
    *(f"add.s32 %r8, %r1, {n};\n\tmul.wide.u32 %rd7, %r8, 4;\n\tadd.s64 %rd8, %rd1, %rd7;\n\t"
      f"ld.global.f32 %f{n + 1}, [%rd8];" for n in range(1, 5)),
    SUM, "mul.wide.u32 %rd9, %r2, 4;\n\tadd.s64 %rd10, %rd2, %rd9;",
    "st.global.f32 [%rd10], %f1;",
])  # fmt: skip
SHARED = "\n\t".join([
    *(f"ld.global.f32 %f{n + 1}, [%rd6+{4 * n}];" for n in range(5)),
    SUM, "add.s64 %rd11, %rd2, %rd5;\n\tst.global.f32 [%rd11+8], %f1;",
])  # fmt: skip
TESTED = f"setp.gt.u32 %p2, %r1, 1073741824;\n\t@%p2 bra SLOW;\n\t{SHARED}\n\tret;\nSLOW:\n\t{EACH}"


@pytest.mark.parametrize(
    ("arch", "each", "shared", "fast"), [("sm_80", 31, 24, 26), ("sm_120", 33, 26, 28)]
)
def test_what_straight_line_code_gains(
    tools: Tools, arch: str, each: int, shared: int, fast: int
) -> None:
    """As the page of the rewrite says: two of seven instructions go into the test."""

    def instructions(body: str) -> list[int]:
        (kernel,) = sass.read(STRAIGHT.format(arch=arch, body=body), arch).kernels
        return [block.end - block.start for block in kernel.routines[0].flow.blocks]

    assert sum(instructions(EACH)) == each
    assert sum(instructions(SHARED)) == shared
    assert sum(instructions(TESTED)[:3]) == fast
    text = STRAIGHT.format(arch=arch, body=EACH)
    result = optimize(text, Options("auto", rewrites=(REWRITE,), arch=arch))
    (told,) = result.report.kernels
    assert told.decision is not None and f"instructions {each} to {fast}" in told.decision.reason
