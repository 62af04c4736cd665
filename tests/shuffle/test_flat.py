"""Loads around a flat index that is taken apart into row and column: inside a row the neighbour is
the next lane, and a comparison of quotients tells where a row ends."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks.kernelgen import operators
from benchmarks.programs.flat import FLAT
from ptxsw.driver import checked_texts
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.report.model import Kernel
from ptxsw.rewrites.base import UNIFORM_LOOPS, Attempt
from ptxsw.simt import launch
from ptxsw.validate import Proved, validate

PTX = Path(operators.__file__).parent / "ptx"
FOUND = {
    "collapsed-nvcc": (-2,),
    "collapsed-clang": (2,),
    "wavelet-nvcc": (-1,),
    "wavelet-clang": (1,),
    "wavelet-nvcc-constant": (-1,),
    "wavelet-clang-constant": (1,),
    "collapsed-gcc": (2,),
    "wavelet-gcc": (1,),
}
"""The lanes that values come from."""


@cache
def rewritten(name: str, scheme: str = "paper", assume: bool = False) -> tuple[str, Kernel]:
    options = Options("force", scheme=scheme, rewrites=("shuffle",))
    if assume:
        options = replace(options, assume=options.assume | {"no-index-wrap"})
    result = optimize(FLAT[name].path.read_text(), options)
    return result.text, result.report.kernels[0]


def wrong(name: str, text: str) -> list[str]:
    """What launches leave that numpy does not."""
    module, program = parse(text), FLAT[name]
    runs = [make() for make in program.launches]
    found = (
        run.wrong(launch(module, program.entry, run.grid, run.block, run.args, memory=run.memory))
        for run in runs
    )
    return [str(one) for one in found if one is not None]


@pytest.mark.parametrize("name", sorted(FOUND))
def test_neighbours_in_a_row_become_shuffles(name: str) -> None:
    """They are right for rows longer and shorter than a warp, and proved from the texts."""
    text, kernel = rewritten(name)
    made = [r for r in kernel.rewrites or () if r.delta]
    assert tuple(r.delta for r in made) == FOUND[name]
    assert all(any("in lane i" in guard for guard in r.proof.guards) for r in made)
    assert not wrong(name, text)
    old, new = parse(FLAT[name].path.read_text()), parse(text)
    assert isinstance(validate((old, old.kernels[0]), (new, new.kernels[0])), Proved)


@pytest.mark.parametrize("name", sorted(FOUND))
def test_beside_all_other_rewrites_they_are_made_too(name: str) -> None:
    result = optimize(FLAT[name].path.read_text(), Options("force"))
    (kernel,) = result.report.kernels
    assert tuple(r.delta for r in kernel.rewrites or () if r.delta) == FOUND[name]
    assert not wrong(name, result.text)


@pytest.mark.parametrize("name", ["collapsed-gcc", "wavelet-gcc"])
def test_shuffles_stay_where_the_loop_does_not_become_uniform(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if `validate`, which alone decides about uniform loops, could not prove the loop."""
    problem = checked_texts.problem

    def unproved(made: Attempt, text: Module, share: float = 1.0) -> str | None:
        loops = any(change.rewrite == UNIFORM_LOOPS for change in made.changes)
        return checked_texts.UNCHECKED if loops else problem(made, text, share)

    monkeypatch.setattr(checked_texts, "problem", unproved)
    result = optimize(FLAT[name].path.read_text(), Options("force"))
    (kernel,) = result.report.kernels
    assert tuple(r.delta for r in kernel.rewrites or () if r.delta) == FOUND[name]
    assert not wrong(name, result.text)
    (loop,) = kernel.loops or ()
    assert loop.reason == checked_texts.UNCHECKED


@pytest.mark.parametrize("form", ["keep", "versioned"])
@pytest.mark.parametrize("name", ["gameoflife", "gaussblur", "jacobi"])
def test_no_halo_is_made_where_registers_are_asked_of_other_lanes(name: str, form: str) -> None:
    """GCC's loops over flat indices: it would be loaded before the answers are there."""
    text = (PTX / "gcc" / f"{name}.ptx").read_text()
    made = {
        scheme: optimize(text, Options("force", scheme=scheme, form=form)).report.kernels[0]
        for scheme in ("paper", "halo")
    }
    assert made["paper"].shuffles and made["halo"].shuffles == made["paper"].shuffles
    assert not made["halo"].refusals


def test_of_indices_that_clang_extends_in_parts_each_part_is_tested() -> None:
    """`sext(row) + sext(column)` is `sext(row + column)` only if that does not overflow."""
    _, kernel = rewritten("collapsed-clang")
    (made,) = kernel.rewrites or ()
    small = [guard for guard in made.proof.guards if "±" in guard]
    assert small == [
        "%r14 ± 1073741826 does not wrap (line 48)",
        "%r12 ± 1073741826 does not wrap (line 49)",
    ]
    text, kernel = rewritten("collapsed-clang", assume=True)
    (made,) = kernel.rewrites or ()
    assert made.delta == 2
    assert "no-index-wrap" in made.proof.assumptions
    assert not any("±" in guard for guard in made.proof.guards)
    assert not wrong("collapsed-clang", text)


@pytest.mark.parametrize("part", (1, 2))
@pytest.mark.parametrize("wider", (("1073741822", "0"), ("2147483643", "2147483647")))
def test_a_part_that_is_not_tested_narrowly_enough_is_caught(
    part: int, wider: tuple[str, str]
) -> None:
    """Whichever of the parts it is. No launch of a test has so large an array."""
    text, _ = rewritten("collapsed-clang")
    at = text.index(wider[0], text.index(f"%sw_idx{part},"))
    mutant = text[:at] + wider[1] + text[at + len(wider[0]) :]
    old, new = parse(FLAT["collapsed-clang"].path.read_text()), parse(mutant)
    assert not isinstance(validate((old, old.kernels[0]), (new, new.kernels[0])), Proved)


def test_parts_without_a_sign_still_may_wrap() -> None:
    text = FLAT["collapsed-clang"].path.read_text().replace("cvt.s64.s32", "cvt.u64.u32")
    (kernel,) = optimize(text, Options("force", rewrites=("shuffle",))).report.kernels
    assert not kernel.rewrites


NOT_USED = ("or.pred %sw_own3, %sw_own2, %sw_jump1;", "mov.pred %sw_own3, %sw_own2;")
MUTANTS = {
    "the comparison is not used": (NOT_USED,),
    "another lane is compared": (("%sw_there1, %r8, 2", "%sw_there1, %r8, 1"),),
    "another register is compared": (
        ("%sw_there1, %r8, 2", "%sw_there1, %r2, 2"),
        ("%sw_there1, %r8;", "%sw_there1, %r2;"),
    ),
    "lanes in another row take values": (("setp.ne.b32 %sw_jump1", "setp.eq.b32 %sw_jump1"),),
}


@pytest.mark.parametrize("what", MUTANTS)
def test_a_wrong_test_is_caught(what: str) -> None:
    """By what launches leave, and by the proof."""
    name = "collapsed-nvcc"
    text, _ = rewritten(name)
    for line, instead in MUTANTS[what]:
        assert text.count(line) == 1
        text = text.replace(line, instead)
    assert wrong(name, text)
    old, new = parse(FLAT[name].path.read_text()), parse(text)
    assert not isinstance(validate((old, old.kernels[0]), (new, new.kernels[0])), Proved)


def test_a_quotient_whose_register_is_used_again_is_not_compared() -> None:
    text = FLAT["wavelet-nvcc"].path.read_text()
    quotient = "div.u32 \t%r8, %r1, %r2;"
    assert quotient in text
    last = text.index("ld.global")
    again = text[:last] + "mov.u32 %r8, 0;\n\t" + text[last:]
    (kernel,) = optimize(again, Options("force", rewrites=("shuffle",))).report.kernels
    assert not kernel.rewrites
    reasons = {r.reason for r in kernel.refusals or ()}
    assert "the addresses are not provably equal" in reasons


REMAINDER = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)
{
	.reg .b32 %r<6>;
	.reg .f32 %f<4>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [in];
	ld.param.u64 %rd2, [out];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x;
	rem.u32 %r3, %r2, %r1;
	mul.wide.u32 %rd3, %r3, 4;
	add.s64 %rd4, %rd1, %rd3;
	mul.wide.u32 %rd5, %r2, 4;
	add.s64 %rd6, %rd2, %rd5;
	ld.global.f32 %f1, [%rd4];
	ld.global.f32 %f2, [%rd4+4];
	sub.f32 %f3, %f2, %f1;
	st.global.f32 [%rd6], %f3;
	ret;
}
"""


def test_a_remainder_alone_must_have_grown() -> None:
    """No quotient tells the row: the remainder of the next lane must be one more, which it is not
    where all are the same, as by a division by zero."""
    result = optimize(REMAINDER, Options("force", scheme="paper", rewrites=("shuffle",)))
    (rewrite,) = result.report.kernels[0].rewrites or ()
    assert "%r3 in lane i+1 is %r3 + 1" in rewrite.proof.guards
    assert "add.s32 %sw_next1, %r3, 1;" in result.text
    old, new = parse(REMAINDER), parse(result.text)
    assert isinstance(validate((old, old.kernel("k")), (new, new.kernel("k"))), Proved)
