"""Registers: limits, spills to shared memory, and the choice among what ptxas made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ptxsw.cost import disassembly
from ptxsw.driver.pipeline import Options, Result, optimize
from ptxsw.rewrites import named
from ptxsw.rewrites.registers import candidate_steps
from ptxsw.toolchain import ptxas
from tests.rewrites.pair import is_proved, new_lines, reasons

PTX = Path(__file__).parents[2] / "benchmarks" / "kernelgen" / "ptx"
GOLDEN = Path(__file__).parent / "golden" / "registers.txt"
BLOCK = ".reqntid 256, 1, 1"


def with_header(text: str, *directives: str) -> str:
    """The text with directives behind the parameters of each kernel."""
    return re.sub(r"(?m)^\)$", "\n".join((")", *directives)), text)


def operator(name: str, *directives: str) -> str:
    return with_header((PTX / f"{name}.ptx").read_text(), *directives)


def limited(text: str, arch: str = "sm_80", **more: object) -> Result:
    options = Options(rewrites=("registers",), arch=arch, **more)  # type: ignore[arg-type]
    return optimize(text, options)


@pytest.fixture
def programs() -> str:
    """The path of ptxas; skips where it or nvdisasm is missing."""
    try:
        disassembly.locate()
        return ptxas.locate()
    except (ptxas.NoPtxas, disassembly.NoNvdisasm) as error:
        pytest.skip(str(error))


def test_tricubic_spills_to_shared_memory(programs: str) -> None:
    text = operator("tricubic", BLOCK)
    made = limited(text)
    assert new_lines(text, made) == [".maxnreg 32", '.pragma "enable_smem_spilling";']
    (kernel,) = made.report.kernels
    (rewrite,) = kernel.rewrites or ()
    outcomes = {(o["maxnreg"], o["spills_to_shared"]): o for o in rewrite.detail["outcomes"]}
    assert outcomes[32, False]["local"] > 0
    chosen = outcomes[32, True]
    assert (chosen["registers"], chosen["local"], chosen["occupancy"]) == (32, 0, 1.0)
    assert rewrite.detail["registers"] == [40, 32]
    assert rewrite.detail["occupancy"] == [0.75, 1.0]
    (used,) = ptxas.assemble(made.text, "sm_80", ptxas=programs).resources
    assert (used.registers, used.spill_stores, used.spill_loads) == (32, 0, 0)


def test_without_it_registers_go_to_local_memory(programs: str) -> None:
    """And the option of ptxas does nothing at all where `.maxntid` stands."""
    spilled, ignored = (
        ptxas.assemble(operator("tricubic", *header), "sm_80", ptxas=programs, options=options)
        for header, options in (
            ((BLOCK, ".maxnreg 32"), ()),
            ((".maxntid 256, 1, 1",), ("-maxrregcount=32",)),
        )
    )
    assert spilled.resources[0].registers == 32 and spilled.resources[0].spill_stores > 0
    assert ignored.resources[0].registers == 40


def test_a_limit_that_is_there_gives_way(programs: str) -> None:
    text = operator("tricubic", BLOCK, ".maxnreg 40 // as tuned for Kepler")
    made = limited(text)
    assert ".maxnreg 32 // as tuned for Kepler" in made.text
    assert made.text.count(".maxnreg") == 1


@pytest.mark.parametrize(
    ("header", "change", "reason"),
    [
        ((), ("", ""), "block size unknown: add __launch_bounds__ (.maxntid or "
                       ".reqntid)"),
        ((BLOCK,), (".version 9.0", ".version 8.6"),
         "PTX 8.6 has no spills to shared memory; .version 8.7 is needed"),
        ((BLOCK,), (".visible", ".extern .shared .align 16 .b8 smem[];\n.visible"),
         "the kernel uses dynamic shared memory, whose size is known only at launch"),
        ((".maxntid 256, 1, 1", ".minnctapersm 8"), ("", ""),
         "the kernel itself sets the number of resident blocks (.minnctapersm)"),
        ((BLOCK,), ("\tret;", "\tmov.u32 %r1, %dynamic_smem_size;\n\tret;"),
         "the kernel asks how much shared memory it has"),
        ((BLOCK,), (".visible", ".func f() { ret; }\n.visible"), None),
    ],
)  # fmt: skip
def test_what_is_left_alone(
    header: tuple[str, ...], change: tuple[str, str], reason: str | None, programs: str
) -> None:
    text = operator("tricubic", *header).replace(*change, 1)
    made = limited(text)
    assert (made.text == text) is (reason is not None)
    assert reasons(made) == ([] if reason is None else [reason])


def test_calls_have_registers_of_their_own() -> None:
    text = operator("tricubic", BLOCK).replace(".visible", ".func f() { ret; }\n.visible", 1)
    made = limited(text.replace("\tret;\n\n}", "\tcall.uni f;\n\tret;\n\n}"))
    assert reasons(made) == ["the kernel calls functions, which use their own registers"]


def test_a_kernel_that_is_at_its_best(programs: str) -> None:
    """All warps are resident, and more registers would not make up for fewer of them."""
    (reason,) = reasons(limited(operator("vecadd", BLOCK)))
    assert reason.startswith("it has ") and "100 % of the warps" in reason


def test_without_ptxas_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembly, "locate", lambda: "/nowhere/nvdisasm")
    monkeypatch.setenv("PTXSW_REAL_PTXAS", "/nowhere/ptxas")
    (reason,) = reasons(limited(operator("tricubic", BLOCK)))
    assert reason == (
        "no ptxas found: /nowhere/ptxas (PTXSW_REAL_PTXAS) does not exist. Set PTXSW_REAL_PTXAS, "
        "or install nvidia-cuda-nvcc with pip."
    )


def test_only_by_its_name() -> None:
    """Neither force nor "all" makes it: a launch could fail that passes dynamic memory."""
    text = operator("tricubic", BLOCK)
    for options in (Options(), Options(mode="force"), Options(rewrites=("all",))):
        assert ".maxnreg" not in optimize(text, options).text
    assert "registers" not in named(["all"])


def test_beside_other_rewrites_it_chooses_for_what_they_left(programs: str) -> None:
    """Mode auto weighs all others; registers have a predictor of their own."""
    text = operator("tricubic", BLOCK)
    made = optimize(text, Options(rewrites=("vectorize", "registers"), arch="sm_80"))
    assert ".maxnreg 32" in made.text


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "steps"),
    [
        ("sm_80", 256, 40, [32, 48]),  # 6 blocks: at 8 all warps are there; 5 as a fail-safe
        ("sm_80", 256, 128, [80, 64, 48, 255]),  # three of the nearest
        ("sm_80", 256, 24, [40, 48, 64]),  # all are resident: fewer blocks
        ("sm_80", 1024, 40, [32]),
        ("sm_86", 256, 48, [40, 64]),
        ("sm_75", 256, 72, [64, 128]),
    ],
)
def test_steps(arch: str, threads: int, registers: int, steps: list[int]) -> None:
    found = candidate_steps(arch, threads=threads, registers=registers, shared=0)
    assert [step.at for step in found] == steps


# ---------------------------------------------------------------- the check of the text


def test_resources_may_change_and_nothing_else() -> None:
    text = operator("vecadd", BLOCK)
    assert is_proved(text, operator("vecadd", BLOCK, ".maxnreg 32"))
    assert is_proved(text, text.replace("\n{", '\n{\n.pragma "enable_smem_spilling";', 1))
    assert not is_proved(text, text.replace("\n{", '\n{\n.pragma "used_bytes_mask 1";', 1))
    assert not is_proved(text, operator("vecadd", ".reqntid 128, 1, 1"))
    assert not is_proved(text, operator("vecadd", BLOCK, ".minnctapersm 4"))


def test_a_limit_must_leave_registers_for_the_block() -> None:
    """A launch of 1024 threads with 255 registers each fails."""
    assert is_proved(operator("vecadd"), operator("vecadd", ".maxnreg 64"))
    assert not is_proved(operator("vecadd"), operator("vecadd", ".maxnreg 255"))
    assert is_proved(operator("vecadd", BLOCK), operator("vecadd", BLOCK, ".maxnreg 255"))
    assert not is_proved(operator("vecadd", ".maxnreg 32"), operator("vecadd"))


# ---------------------------------------------------------------- twelve kernels

TWELVE = (
    "divergence", "gameoflife", "gaussblur", "gradient", "jacobi", "lapgsrb", "laplacian",
    "matmul", "tricubic", "uxx1", "wave13pt", "double/tricubic",
)  # fmt: skip


@pytest.mark.slow
def test_candidates_of_twelve_kernels(
    programs: str, golden: Callable[[Path, str], None], request: pytest.FixtureRequest
) -> None:
    """The golden file is of one version of ptxas, which stands in its first line."""
    head = f"ptxas {ptxas.version(programs)}, sm_80, blocks of 256 threads\n"
    if not request.config.getoption("--update-golden") and not GOLDEN.read_text().startswith(head):
        pytest.skip(f"{GOLDEN.name} is of {GOLDEN.read_text().partition(chr(10))[0]}")
    lines = [head]
    for name in TWELVE:
        (kernel,) = limited(operator(name, BLOCK)).report.kernels
        lines.append(f"\n{name}\n")
        for rewrite in kernel.rewrites or ():
            lines += [*map(_shown, rewrite.detail["outcomes"]), _chosen(rewrite.detail)]
        for refusal in kernel.refusals or ():
            lines += [*map(_shown, refusal.detail["outcomes"]), f"  {refusal.reason}\n"]
    golden(GOLDEN, "".join(lines))


def _shown(outcome: Mapping[str, object]) -> str:
    return "  " + ", ".join(f"{name} {value}" for name, value in outcome.items()) + "\n"


def _chosen(detail: Mapping[str, object]) -> str:
    spills = ", spills to shared memory" if detail["spills_to_shared"] else ""
    return f"  chosen: .maxnreg {detail['maxnreg']}{spills}\n"
