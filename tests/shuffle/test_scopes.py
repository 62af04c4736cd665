"""Texts that are easily misread: nested scopes in which names stand for other registers, operands
with comments or without blanks, switches. The lines that are added name the right registers, and
the check follows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.codegen.emit import emit
from ptxsw.codegen.splice import apply
from ptxsw.validate import Proved
from tests.codegen.drafts import made
from tests.command_line import ptxsw
from tests.shuffle.pairs import Pair
from tests.shuffle.random_kernels import in_scopes
from tests.shuffle.test_pairs import BLOCKS, WAYS
from tests.shuffle.test_random import compared, kernel, rewritten
from tests.validate.test_warp import judged

NESTED = Path(__file__).parent / "ptx" / "nested_scopes.ptx"


@pytest.mark.parametrize("scheme", ["auto", "paper", "early", "halo"])
@pytest.mark.parametrize("form", ["auto", "keep", "versioned"])
def test_a_kernel_with_nested_scopes(scheme: str, form: str, tmp_path: Path) -> None:
    """As asm blocks with registers of their own leave it: `{ .reg .f32 %x; ... }`."""
    out = tmp_path / "out.ptx"
    ways = ("--mode", "force", "--scheme", scheme, "--form", form)
    done = ptxsw("optimize", NESTED, "-o", out, *ways)
    assert done.returncode == 0 and b"bug" not in done.stdout
    assert done.stdout.startswith(b"k: 3 global loads, 2 shuffles")
    same = ptxsw("verify", NESTED, out)
    assert same.returncode == 0 and same.stdout.startswith(b"proved")


KERNELS = {
    "a scope in the stretch": """
	ld.global.nc.f32 %f4, [%rd4+4];
	{
	.reg .f32 %x;
	ld.global.nc.f32 %x, [%rd4];
	fma.rn.f32 %f1, %x, 0f40000000, %f1;
	}
	ld.global.nc.f32 %f5, [%rd4+8];
	fma.rn.f32 %f2, %f4, %f5, %f2;
	{
	.reg .b32 %x;
	mov.b32 %x, %f2;
	add.u32 %x, %x, 1;
	mov.b32 %f2, %x;
	}
""",
    "a scope that remembers": """
	mov.u32 %r10, 0;
LOOP:
	ld.global.nc.f32 %f4, [%rd4+4];
	{
	.reg .f32 %x;
	setp.eq.u32 %p1, %r10, 0;
	@%p1 mov.f32 %x, 0f40000000;
	fma.rn.f32 %f1, %x, %f4, %f1;
	ld.global.nc.f32 %x, [%rd4];
	}
	ld.global.nc.f32 %f4, [%rd4+8];
	add.f32 %f1, %f1, %f4;
	add.u32 %r10, %r10, 1;
	setp.lt.u32 %p2, %r10, 3;
	@%p2 bra LOOP;
""",
    "a declaration in the stretch": """
	ld.global.nc.f32 %f4, [%rd4+4];
	.reg .f32 %q;
	ld.global.nc.f32 %q, [%rd4];
	ld.global.nc.f32 %f5, [%rd4+8];
	fma.rn.f32 %f1, %f4, %f5, %q;
""",
    "shared memory of a scope": """
	ld.global.nc.f32 %f4, [%rd4+4];
	ld.global.nc.f32 %f5, [%rd4];
	{
	.shared .f32 here[1024];
	.reg .b32 %a;
	mov.u32 %a, here;
	mad.lo.u32 %a, %r3, 4, %a;
	st.shared.f32 [%a], %f5;
	ld.shared.f32 %f6, [%a];
	}
	ld.global.nc.f32 %f5, [%rd4+8];
	fma.rn.f32 %f1, %f4, %f5, %f6;
""",
    "an index from a scope": """
	ld.global.nc.f32 %f4, [%rd4+4];
	mov.u32 %r12, 1;
	{
	.reg .b32 %r12;
	mov.u32 %r12, 7;
	add.s32 %r13, %r12, %r2;
	}
	add.s32 %r13, %r13, %r12;
	add.s32 %r13, %r13, %r3;
	mul.wide.s32 %rd10, %r13, 4;
	add.s64 %rd10, %rd1, %rd10;
	ld.global.nc.f32 %f5, [%rd10];
	ld.global.nc.f32 %f6, [%rd10+4];
	fma.rn.f32 %f1, %f4, %f5, %f6;
""",
    "a base that is hidden": """
	ld.global.nc.f32 %f4, [%rd4+4];
	ld.global.nc.f32 %f5, [%rd4+8];
	{
	.reg .b32 %i;
	.reg .b64 %rd4;
	add.s32 %i, %r2, %r3;
	mul.wide.s32 %rd4, %i, 4;
	add.s64 %rd4, %rd1, %rd4;
	ld.global.nc.f32 %f6, [%rd4];
	ld.global.nc.f32 %f7, [%rd4+4];
	}
	ld.global.nc.f32 %f8, [%rd4];
	fma.rn.f32 %f1, %f4, %f5, %f6;
	fma.rn.f32 %f2, %f7, %f8, %f2;
""",
    "an index that is hidden where it could be tested": """
	add.s32 %r12, %r2, %r3;
	mov.u32 %r10, 0;
	{
	.reg .b32 %r12;
	mov.u32 %r12, 2147483647;
	bra INSIDE;
INSIDE:
	}
LOOP:
	mul.wide.s32 %rd10, %r12, 4;
	add.s64 %rd10, %rd1, %rd10;
	ld.global.nc.f32 %f5, [%rd10];
	ld.global.nc.f32 %f6, [%rd10+4];
	fma.rn.f32 %f1, %f5, %f6, %f1;
	add.u32 %r10, %r10, 1;
	setp.lt.u32 %p2, %r10, 3;
	@%p2 bra LOOP;
""",
    "an index from a vector": """
	ld.global.nc.f32 %f4, [%rd4+4];
	ld.global.nc.f32 %f5, [%rd4+8];
	mov.b64 %rd10, {%r2, %r3};
	mov.b64 {%r12, %r13}, %rd10;
	add.s32 %r13, %r12, %r13;
	mul.wide.s32 %rd10, %r13, 4;
	add.s64 %rd10, %rd1, %rd10;
	ld.global.nc.f32 %f6, [%rd10];
	ld.global.nc.f32 %f7, [%rd10+4];
	fma.rn.f32 %f1, %f4, %f5, %f6;
	add.f32 %f2, %f2, %f7;
""",
    "no blanks": """
	mul.wide.u32 %rd10,%r3,8;
	add.s64 %rd10,%rd1,%rd10;
	ld.global.nc.v2.f32{%f4,%f5},[%rd10+8];
	ld.global.nc.v2.f32{%f6,%f7},[%rd10];
	ld.global.nc.v2.f32{%f6,%f8},[%rd10+16];
	fma.rn.f32 %f1,%f4,%f5,%f6;
	fma.rn.f32 %f2,%f7,%f8,%f2;
""",
    "comments": """
	ld.global.nc.f32 /* to, here */ %f4, [%rd4+8];
	ld.global.nc.f32 /* to, here */ %f5, [%rd4] /* , */;
	add.s32 /* one, two */ %r12, %r3, %r2;
	mul.wide.s32 %rd10, %r12, 4;
	add.s64 %rd10, %rd1, %rd10;
	ld.global.nc.f32 %f6, [%rd10];
	ld.global.nc.f32 // x, y
		%f7, [%rd10+8];
	fma.rn.f32 %f1, %f4, %f5, %f6;
	add.f32 %f2, %f2, %f7;
""",
    "a switch before a loop that lanes leave apart": """
	and.b32 %r12, %r2, 1;
	CASES: .branchtargets ZERO, ONE;
	brx.idx %r12, CASES;
ZERO:
	mov.f32 %f1, 0f3F800000;
ONE:
	mov.u32 %r10, 0;
	add.u32 %r12, %r3, %r1;
	min.u32 %r12, %r12, 5;
LOOP:
	ld.global.nc.f32 %f4, [%rd4];
	ld.global.nc.f32 %f5, [%rd4+4];
	fma.rn.f32 %f1, %f4, %f5, %f1;
	add.u32 %r10, %r10, 1;
	setp.lt.u32 %p2, %r10, %r12;
	@%p2 bra LOOP;
""",
    "a comment in a guard": """
	mov.u32 %r10, 0;
	add.u32 %r12, %r3, %r1;
	min.u32 %r12, %r12, 5;
LOOP:
	setp.eq.u32 %p1, %r10, 1;
	@ /* c, d */ ! /* ; */ %p1 /* x */ add.f32 %f1, %f1, 0f40000000;
	ld.global.nc.f32 %f4, [%rd4];
	ld.global.nc.f32 %f5, [%rd4+4];
	fma.rn.f32 %f1, %f4, %f5, %f1;
	add.u32 %r10, %r10, 1;
	setp.lt.u32 %p2, %r10, %r12;
	@%p2 bra LOOP;
""",
}


def text_of(name: str) -> str:
    return Pair("", KERNELS[name], "", "", "").text("right")


@pytest.mark.parametrize("name", KERNELS)
def test_the_right_registers_are_named(name: str) -> None:
    text = text_of(name)
    assert any(rewritten(text, *way).text != text for way in WAYS)
    compared(text, len(name), WAYS, [BLOCKS[0], BLOCKS[2], BLOCKS[7]])


def test_a_loop_behind_a_switch_becomes_uniform() -> None:
    text = text_of("a switch before a loop that lanes leave apart")
    (done,) = rewritten(text, "paper", "uniform").report.kernels
    assert [loop.form for loop in done.loops or ()] == ["uniform"]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a scope in the stretch", "versioned"),
        ("a scope that remembers", "keep"),
        ("a declaration in the stretch", "keep"),
        ("shared memory of a scope", "keep"),
    ],
)
def test_what_is_written_twice(name: str, form: str) -> None:
    """A stretch is there twice only if neither copy needs what the other has."""
    (done,) = rewritten(text_of(name), "halo", "versioned").report.kernels
    assert {rewrite.form for rewrite in done.rewrites or ()} == {form}


def twice() -> tuple[str, str]:
    """A stretch with a scope in it, and a text in which it is there twice."""
    text = text_of("a scope in the stretch")
    plan = made(text, "halo", "versioned")[1].plan
    return text, apply(text, emit(text, plan))


def test_both_copies_of_a_scope_are_followed() -> None:
    original, text = twice()
    assert text.count(".reg .f32 %x;") == 2 and isinstance(judged(original, text), Proved)


@pytest.mark.parametrize("copy", [0, 1])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (".reg .f32 %x;", ".reg .f64 %x;"),
        (".reg .f32 %x;", ".reg .f32 %x, %y;"),
        (".reg .f32 %x;", ".reg .f32 %x;\nHERE:"),
        ("fma.rn.f32 %f1, %x,", "fma.rn.f32 %f1, %f4,"),
        ("fma.rn.f32 %f1, %x, 0f40000000, %f1;\n\t}", "}\n\tfma.rn.f32 %f1, %f9, 0f40000000, %f1;"),
    ],
)
def test_a_copy_that_is_not_like_the_other_is_found(old: str, new: str, copy: int) -> None:
    original, text = twice()
    before, between, after = text.split(old)
    wrong = (between.join((old, new) if copy else (new, old))).join((before, after))
    assert not isinstance(judged(original, wrong), Proved)


def test_a_declaration_in_front_of_a_copy_is_another_register() -> None:
    """All that follows sees it. In front of the last copy it does what the one of the scope did,
    whatever it is called; in front of the first it is not what the scopes behind it have."""
    original, text = twice()
    inside, outside = "{\n\t.reg .f32 %x;", "\n\t.reg .f32 %x;{"
    before, between, after = text.split(inside)
    last = f"{before}{inside}{between}{outside}{after}"
    assert isinstance(judged(original, last), Proved)
    start, end = last.split(outside)
    for right, wrong in (
        ("[%rd4]", "[%rd4+4]"),
        ("0f40000000", "0f40400000"),
        ("%x, %f2", "%x, %f1"),
    ):
        assert not isinstance(
            judged(original, start + outside + end.replace(right, wrong, 1)), Proved
        )
    first = f"{before}{outside}{between}{inside}{after}"
    assert not isinstance(judged(original, first), Proved)


SAMPLE = range(8)
MANY = range(100, 300)


@pytest.mark.parametrize("seed", SAMPLE)
def test_random_kernels_with_scopes(seed: int) -> None:
    ways = [WAYS[(seed + step) % len(WAYS)] for step in (3, 7, 10)]
    compared(in_scopes(kernel(seed), seed), seed, ways, [BLOCKS[seed % len(BLOCKS)]])


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_many_random_kernels_with_scopes(seed: int) -> None:
    blocks = [BLOCKS[(seed + step) % len(BLOCKS)] for step in (0, 4)]
    compared(in_scopes(kernel(seed), seed), seed, WAYS, blocks)
