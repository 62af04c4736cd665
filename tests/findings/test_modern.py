"""What the rules that ask ptxas say of kernels for Hopper and Blackwell: texts of a later version,
registers that warps hand each other, and dynamic shared memory of which nothing says how much."""

from __future__ import annotations

import re

import pytest

from ptxsw.cost.counted import cannot_count
from ptxsw.driver.checking import check
from ptxsw.findings import measured
from ptxsw.findings.base import KernelResources
from ptxsw.parser import parse
from ptxsw.report.model import Finding
from tests.cost.test_copies import DYNAMIC
from tests.cost.test_tensor import LOOP, kernel
from tests.specialised import specialised

needs_ptxas = pytest.mark.skipif(bool(cannot_count("sm_80")), reason="no ptxas")


def dynamic(work: str = "") -> str:
    text = kernel(DYNAMIC + work)
    return text.replace(".visible", ".extern .shared .align 16 .b8 dynamic[];\n.visible", 1)


def occupancy(text: str, *, ptxas: bool = True) -> list[Finding]:
    report = check(text, select=("occupancy",), ptxas=ptxas)
    return list(report.kernels[0].findings or ())


def test_dynamic_shared_memory_that_nothing_says_is_at_least_what_accesses_show() -> None:
    """128 threads read up to byte 40,000 + 512: a multiprocessor holds 4 such blocks, or fewer."""
    [finding] = occupancy(dynamic(), ptxas=False)
    assert (
        "holds at most 4 at a time, 16 of 64 warps: shared memory runs out first (the size of its "
        "dynamic shared memory is unknown: at least 40,512 bytes, judging by its accesses)."
    ) in finding.what
    assert "if dynamic" not in finding.advice


def wide() -> str:
    """Some 100 registers, and as little dynamic shared memory as lets more blocks in."""
    numbers = range(100)
    fused = "".join(f"fma.rn.f32 %g{n}, %g{n}, %g{n}, %g{(n + 7) % 100};" for n in numbers)
    work = "".join(f"ld.global.f32 %g{n}, [%rd1+{4 * n}];" for n in numbers)
    work += LOOP.format(work=fused)
    work += "".join(f"st.global.f32 [%rd1+{4 * n}], %g{n};" for n in numbers)
    return dynamic(work).replace("+40000", "").replace(".reg .f32", ".reg .f32 %g<100>;\n.reg .f32")


@needs_ptxas
def test_registers_are_not_all_that_may_run_out() -> None:
    [finding] = occupancy(wide())
    assert re.search(r"holds at most \d at a time, .*: registers allow no more \(the", finding.what)
    assert finding.advice.endswith("of the warps), if dynamic shared memory allows it.")


@needs_ptxas
def test_a_text_for_a_later_ptxas_has_registers() -> None:
    later = re.sub(r"\.version \d+\.\d+", ".version 9.9", wide(), count=1)
    assert [one.what for one in occupancy(later)] == [one.what for one in occupancy(wide())] != []


def test_bounds_that_setmaxnreg_needs_are_not_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them ptxas ignores it, so that it spills less or more for another reason."""
    asked: list[str] = []

    def assembled(text: str, arch: str) -> dict[str, KernelResources]:
        del arch
        asked.append(text)
        spills = 8 if ".maxntid" in text else 0
        return {
            "k": KernelResources(
                registers=168, stack=0, spill_stores=spills, spill_loads=spills, shared=0
            )
        }

    monkeypatch.setattr(measured, "_assembled", assembled)
    text = specialised().replace(".reqntid 256, 1, 1", ".maxntid 256, 1, 1\n.minnctapersm 2")
    [used] = measured.measured(parse(text), "sm_90a").values()
    assert used.unbounded is None and len(asked) == 1
    [used] = measured.measured(parse(re.sub("setmaxnreg[^;]*;", "", text)), "sm_90a").values()
    assert used.unbounded is not None and used.unbounded.spill_stores == 0


def test_a_ceiling_of_a_launch_is_none_of_its_warps() -> None:
    """Where warps hand each other registers, those of the launch are nobody's."""
    full = KernelResources(registers=255, stack=0, spill_stores=0, spill_loads=0, shared=0)

    def rules(text: str) -> list[str]:
        from ptxsw.findings.judge import Judge

        module = parse(text)
        judge = Judge(module, "sm_90a", None, ["ptxsw-register-ceiling"], False)
        judge._resources = {"k": full}
        return [finding.rule for finding in judge.kernel(module.kernels[0]).findings or ()]

    assert rules(specialised()) == []
    assert rules(re.sub("setmaxnreg[^;]*;", "", specialised())) == ["ptxsw-register-ceiling"]
