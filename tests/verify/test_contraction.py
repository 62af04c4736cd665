"""What ptxas made of products and sums decides about texts of which it may fuse some."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ptxsw.cli.commands import app
from ptxsw.cli.files import CommandError
from ptxsw.cost.fused import assembled
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.parser import parse
from ptxsw.ptx.isa import defs
from ptxsw.toolchain.ptxas import assemble
from ptxsw.verify import Proved, Undecided, verify
from ptxsw.verify.contraction import (
    SEPARATE,
    Arithmetic,
    Choice,
    MachineCode,
    Role,
    chosen,
    fused,
    open_sums,
    written,
)
from tests.heads import head

KERNELGEN = Path(__file__).parents[2] / "benchmarks" / "kernelgen" / "ptx"
MUL, ADD = "mul.f32 %f4, %f1, %f2;", "add.f32 %f5, %f4, %f3;"
FMA = "fma.rn.f32 %f5, %f1, %f2, %f3;"


def kernel(*lines: str) -> str:
    """One that loads %f1 to %f3, computes, and stores %f5."""
    begin = """
.visible .entry k(.param .u64 a)
{
.reg .pred %p<3>;
.reg .f32 %f<9>;
.reg .b64 %rd<9>;
ld.param.u64 %rd1, [a];
setp.eq.s64 %p1, %rd1, 0;
ld.global.f32 %f1, [%rd1];
ld.global.f32 %f2, [%rd1+4];
ld.global.f32 %f3, [%rd1+8];
"""
    return head("8.3") + begin + "\n".join(lines) + "\nst.global.f32 [%rd1+12], %f5;\nret;\n}\n"


OPEN, FUSED = kernel(MUL, ADD), kernel(MUL, FMA)
RENAMED = OPEN.replace("%f4", "%f8")


@pytest.mark.parametrize(("lines", "stands"), [
    ([MUL, ADD], FMA),
    ([MUL, "add.f32 %f5, %f3, %f4;"], FMA),
    ([MUL, "add.sat.f32 %f5, %f4, %f3;"], "fma.rn.sat.f32 %f5, %f1, %f2, %f3;"),
    ([MUL, "@!%p1 add.f32 %f5, %f4, %f3;"], "@!%p1 " + FMA),
    ([MUL, "sub.f32 %f5, %f4, %f3;"],
     "neg.f32 %ptxsw1_1, %f3; fma.rn.f32 %f5, %f1, %f2, %ptxsw1_1;"),
    ([MUL, "sub.f32 %f5, %f3, %f4;"],
     "neg.f32 %ptxsw1_0, %f1; fma.rn.f32 %f5, %ptxsw1_0, %f2, %f3;"),
    ([MUL, "neg.f32 %f6, %f4;", "sub.f32 %f5, %f3, %f6;"], FMA),
    ([MUL, "neg.f32 %f6, %f4;", "mov.f32 %f7, %f6;", "add.f32 %f5, %f7, %f3;"],
     "neg.f32 %ptxsw1_0, %f1; fma.rn.f32 %f5, %ptxsw1_0, %f2, %f3;"),
    (["mul.f32 %f4, %f1, 0f40400000;", ADD], "fma.rn.f32 %f5, %f1, 0f40400000, %f3;"),
])  # fmt: skip
def test_a_fused_sum_is_written_as_one_instruction(lines: list[str], stands: str) -> None:
    text = kernel(*lines)
    each = written(parse(text), "k", fused)
    assert f"\n{stands}\n" in each.text and (each.fused, each.sums, each.open) == (1, 1, "")
    alone = written(parse(text), "k", lambda _: SEPARATE)
    assert "mul.rn.f32 %f4" in alone.text and (alone.fused, alone.sums) == (0, 1)
    assert ".rn" in alone.text.splitlines()[len(text[: text.index(lines[-1])].splitlines())]


def test_fused_and_written_as_fma_is_the_same_to_the_last_bit() -> None:
    """Signs are right: what is written differs in no launch from what the hand writes."""
    for lines, by_hand in [
        ([MUL, "sub.f32 %f5, %f4, %f3;"], ["neg.f32 %f6, %f3;", "fma.rn.f32 %f5, %f1, %f2, %f6;"]),
        ([MUL, "sub.f32 %f5, %f3, %f4;"], ["neg.f32 %f6, %f2;", "fma.rn.f32 %f5, %f1, %f6, %f3;"]),
    ]:
        text = written(parse(kernel(*lines)), "k", fused).text
        same = verify(text, kernel(*by_hand), symbolic=False)
        assert isinstance(same, Undecided) and same.launches > 9
        assert str(verify(text, kernel(*lines[:-1], FMA), symbolic=False)).startswith("different")


@pytest.mark.parametrize("lines", [
    [MUL, "mov.f32 %f1, %f3;", ADD],  # a factor is another one by then
    ["mul.f32 %f1, %f1, %f2;", "add.f32 %f5, %f1, %f3;"],
    ["mov.f32 %f4, %f3;", "@%p1 " + MUL, ADD],
    [MUL, "NEXT:", ADD, "@%p1 bra NEXT;"],
    ["mul.ftz.f32 %f4, %f1, %f2;", ADD],
    [MUL, "neg.ftz.f32 %f6, %f4;", "add.f32 %f5, %f6, %f3;"],
    ["{", ".reg .f32 %f1;", "mov.f32 %f1, %f3;", MUL, "}", ADD],
])  # fmt: skip
def test_products_that_are_elsewhere_are_not_written_in(lines: list[str]) -> None:
    text = kernel(*lines)
    (each,) = open_sums(parse(text).kernels[0])
    assert any(s.maybe for s in each.summands) and not any(s.product for s in each.summands)
    assert fused(each) == SEPARATE


@pytest.mark.parametrize("lines", [
    ["mul.rn.f32 %f4, %f1, %f2;", ADD],
    [MUL, "add.rn.f32 %f5, %f4, %f3;"],
    [MUL, "mov.f32 %f4, %f3;", ADD],
])  # fmt: skip
def test_other_sums_are_not_open(lines: list[str]) -> None:
    assert not list(open_sums(parse(kernel(*lines)).kernels[0]))


def made(text: str, **roles: Sequence[Role]) -> Arithmetic:
    """Machine code in which the instructions that set these registers compute this."""
    instructions = parse(text).kernels[0].body.instructions
    places = {r.name: i.start for i in instructions for r in defs(i)}
    return {places[f"%{name}"]: frozenset(some) for name, some in roles.items()}


TWO = kernel(MUL, "mul.f32 %f6, %f1, %f3;", "add.f32 %f5, %f4, %f6;")


@pytest.mark.parametrize(("text", "roles", "choice"), [
    (OPEN, {"f5": ["fused"]}, 0),
    (OPEN, {"f4": ["product"], "f5": ["sum"]}, SEPARATE),
    (OPEN, {"f4": ["product"], "f5": ["fused"]}, "it is unclear with which product it is fused"),
    (OPEN, {"f5": ["sum", "fused"]}, "ptxas has fused it in some places only"),
    (OPEN, {"f4": ["product"]}, "ptxas made nothing of it"),
    (TWO, {"f4": ["product"], "f5": ["fused"]}, 1),
    (TWO, {"f6": ["product"], "f5": ["fused"]}, 0),
    (TWO, {"f5": ["fused"]}, "it is unclear with which product it is fused"),
])  # fmt: skip
def test_machine_code_shows_what_was_chosen_or_why_not(
    text: str, roles: dict[str, list[Role]], choice: Choice
) -> None:
    (each,) = open_sums(parse(text).kernels[0])
    assert chosen(made(text, **roles))(each) == choice


def code(text: str, **roles: Sequence[Role]) -> MachineCode:
    return {"k": made(text, **roles)}


def test_the_same_choice_takes_the_place_of_the_assumption() -> None:
    one, other = code(OPEN, f5=["fused"]), code(RENAMED, f5=["fused"])
    verdict = verify(OPEN, RENAMED, machine_code=(one, other))
    assert isinstance(verdict, Proved) and verdict.assumptions == ()
    assert verdict.contraction is not None and verdict.contraction.alike
    assert str(verdict) == (
        "proved; ptxas chose alike: it fused 1 of 1 products with sums in the first kernel, 1 of 1 "
        "in the second"
    )
    assert str(verify(OPEN, RENAMED)) == "proved, assuming same-contraction"


def test_what_may_be_assumed_stays_the_same() -> None:
    """A proof of the texts as ptxas has fused them takes no assumption that was not allowed."""
    other = RENAMED.replace("ld.global.f32", "ld.global.nc.f32")
    assert other != RENAMED
    codes = code(OPEN, f5=["fused"]), code(other, f5=["fused"])
    verdict = verify(OPEN, other, machine_code=codes)
    assert isinstance(verdict, Proved) and verdict.assumptions == ("no-outside-writer",)
    verdict = verify(OPEN, other, machine_code=codes, assume=["same-contraction"])
    assert isinstance(verdict, Undecided)


def test_another_choice_takes_the_proof_away() -> None:
    one, other = code(OPEN, f5=["fused"]), code(RENAMED, f8=["product"], f5=["sum"])
    verdict = verify(OPEN, RENAMED, machine_code=(one, other))
    assert isinstance(verdict, Undecided) and not verdict.runs_tell
    assert verdict.contraction is not None and verdict.contraction.alike is False
    assert str(verdict).endswith(
        "ptxas chose differently: it fused 1 of 1 products with sums in the first kernel, 0 of 1 "
        "in "
        "the second"
    )


def test_what_is_not_known_leaves_the_assumption() -> None:
    verdict = verify(OPEN, RENAMED, machine_code=(code(OPEN, f5=["fused"]), {}))
    assert isinstance(verdict, Proved) and verdict.assumptions == ("same-contraction",)
    assert str(verdict).endswith(
        "it is not shown that ptxas chose alike: it fused 1 of 1 products with sums in the first "
        "kernel, 0 of 1 in the second; line 16: add.f32: the machine code has no such kernel "
        "(second "
        "text)"
    )


def test_an_fma_equals_a_product_and_a_sum_that_were_fused() -> None:
    open_bits = verify(OPEN, FUSED)
    assert isinstance(open_bits, Undecided) and not open_bits.runs_tell  # --accept-runs is no 0
    assert "launches differ, but not if ptxas fuses products and sums" in open_bits.reason
    assert isinstance(
        verify(OPEN, FUSED, machine_code=(code(OPEN, f5=["fused"]), {"k": {}})), Proved
    )
    apart = kernel("mul.rn.f32 %f4, %f1, %f2;", "add.rn.f32 %f5, %f4, %f3;")
    separate = code(OPEN, f4=["product"], f5=["sum"]), code(apart, f4=["product"], f5=["sum"])
    assert isinstance(verify(OPEN, apart, machine_code=separate), Proved)
    unknown = verify(OPEN, apart)
    assert isinstance(unknown, Undecided) and unknown.launches and not unknown.runs_tell


def test_a_difference_that_no_choice_explains_is_one() -> None:
    other = OPEN.replace("%f4, %f3;", "%f4, %f1;")
    assert str(verify(OPEN, other)).startswith("different")
    assert str(verify(OPEN, FUSED.replace("%f2, %f3;", "%f2, %f1;"))).startswith("different")


# ---------------------------------------------------------------- real machine code


def said(folder: Path, texts: Sequence[str], *options: str) -> tuple[int, str]:
    files = [folder / "a.ptx", folder / "b.ptx"]
    for path, text in zip(files, texts, strict=True):
        path.write_text(text)
    done = CliRunner().invoke(app, ["verify", *map(str, files), *options])
    if isinstance(done.exception, CommandError):
        return 2, str(done.exception)
    return done.exit_code, done.stdout


@pytest.mark.usefixtures("needs_ptxas")
def test_ptxas_fuses_alike_what_compilers_write_and_what_optimize_makes_of_it() -> None:
    for name in ("gcc/matvec.ptx", "nvhpc/wave13pt.ptx"):
        text = (KERNELGEN / name).read_text()
        other = optimize(text, Options(mode="force")).text_with_steps
        codes = assembled(text, "a", "sm_80"), assembled(other, "b", "sm_80")
        verdict = verify(text, other, machine_code=codes)
        assert isinstance(verdict, Proved) and "same-contraction" not in verdict.assumptions
        assert verdict.contraction is not None and verdict.contraction.alike
        assert verdict.contraction.fused == verdict.contraction.sums > (0, 0)
        assert "same-contraction" in str(verify(text, other))


@pytest.mark.usefixtures("needs_ptxas")
def test_both_are_assembled_for_an_architecture(tmp_path: Path) -> None:
    assert said(tmp_path, (OPEN, RENAMED), "--arch", "sm_80")[1].startswith("proved; ptxas chose")
    status, text = said(tmp_path, (OPEN, FUSED), "--arch", "sm_90", "--format", "json")
    told = json.loads(text)
    assert (status, told["verdict"], told["contraction"]) == (0, "proved", {
        "alike": True, "fused": [1, 0], "sums": [1, 0], "reason": "",
    })  # fmt: skip
    assert told["kernels"][0]["contraction"] == told["contraction"]
    assert said(tmp_path, (OPEN, RENAMED), "--arch", "sm_79") == (2, (
        f"{tmp_path}/a.ptx: ptxas does not support sm_79: name one that does in "
        "PTXSW_REAL_PTXAS, or another target with --arch"
    ))  # fmt: skip


def cubin(path: Path, text: str, *options: str) -> str:
    path.write_bytes(assemble(text, "sm_80", options=options).cubin)
    return str(path)


@pytest.mark.usefixtures("needs_ptxas")
def test_cubins_tell_what_ptxas_chose(tmp_path: Path) -> None:
    one, other = (cubin(tmp_path / n, t) for n, t in (("a", OPEN), ("b", RENAMED)))
    apart = cubin(tmp_path / "c", RENAMED, "--fmad=false")
    both = OPEN, RENAMED
    assert said(tmp_path, both, "--cubins", one, other)[1].startswith("proved; ptxas chose alike")
    status, text = said(tmp_path, both, "--cubins", one, apart)
    assert status == 3 and "ptxas chose differently: it fused 1 of 1" in text
    two = cubin(tmp_path / "d", OPEN.replace("+12", "+16"))
    status, text = said(tmp_path, both, "--cubins", two, other)
    assert status == 0 and text.startswith("proved, assuming same-contraction; it is not shown")
    assert "this ptxas generates different code for sm_80 than the cubin contains" in text
    bad = str(tmp_path / "a.ptx")
    assert said(tmp_path, both, "--cubins", bad, other) == (
        2, f"{bad}: this is not a 64-bit ELF file",
    )  # fmt: skip
    assert said(tmp_path, both, "--arch", "sm_80", "--cubins", one, other) == (
        2, "--arch and --cubins exclude each other: use one of them",
    )  # fmt: skip
