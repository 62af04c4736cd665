"""Mode auto: what holds values longer is not tried on a kernel that has no register left."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ptxsw.cost import sass
from ptxsw.cost.occupancy import no_room
from ptxsw.pipeline import Options, optimize
from ptxsw.report.text import optimization_text
from ptxsw.rewrites import REWRITES
from ptxsw.rewrites.weighing import cannot_count
from ptxsw.toolchain import ptxas
from tests.crowded import SUMS, crowded

AUTO = Options(arch="sm_80")
REASON = (
    "ptxas takes 254 registers for it, of 255 that a thread can have: none is left to hold values "
    "longer"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = cannot_count("sm_80")
    if reason is not None:
        pytest.skip(reason)
    monkeypatch.setenv("PTXSW_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many kernels each text had that ptxas was given."""
    kernels: list[int] = []
    assemble = ptxas.assemble

    def counting(text: str, *args: Any, **more: Any) -> Any:
        kernels.append(text.count(".entry"))
        return assemble(text, *args, **more)

    monkeypatch.setattr(sass, "assemble", counting)
    return kernels


def test_it_is_left_alone(asked: list[int]) -> None:
    """Only the kernel as it is goes to ptxas, and the reason is told."""
    result = optimize(crowded(), AUTO)
    assert result.text == crowded() and asked == [1]
    (kernel,) = result.report.kernels
    assert kernel.decision is not None and not kernel.decision.kept
    assert kernel.decision.reason == REASON
    assert f"left as it is: {REASON}" in optimization_text(result.report)


def test_that_is_right(asked: list[int]) -> None:
    """Weighed nevertheless, it does not pay: ptxas spills."""
    result = optimize(crowded(), AUTO, registers={"crowded0": 128})
    (kernel,) = result.report.kernels
    assert result.text == crowded() and asked == [2]
    assert kernel.decision is not None and kernel.decision.reason.startswith("ptxas spills ")


def test_what_is_known_is_not_asked(asked: list[int]) -> None:
    result = optimize(crowded(3), AUTO, registers=dict.fromkeys(("crowded0", "crowded1"), 254))
    assert result.text == crowded(3) and asked == [1]
    decisions = [kernel.decision for kernel in result.report.kernels]
    assert [each and each.reason for each in decisions] == [REASON] * 3


def test_less_is_weighed(asked: list[int]) -> None:
    """A kernel for which ptxas takes as many registers but that holds less may gain."""
    text = crowded(sums=SUMS - 2)
    result = optimize(text, AUTO)
    (kernel,) = result.report.kernels
    assert kernel.decision is not None and kernel.decision.kept and asked == [2]
    assert kernel.decision.before is not None and kernel.decision.before.registers == 254


def test_force_makes_it(asked: list[int]) -> None:
    result = optimize(crowded(), Options(mode="force", arch="sm_80"))
    assert result.text != crowded() and asked == []


def test_what_holds_nothing_is_tried() -> None:
    """`narrowing` needs no register more."""
    narrow = "".join(
        f"\tand.b64 %rd190, %rd3, {mask};\n\tdiv.u64 %rd191, %rd190, 24;\n"
        "\tst.global.u64 [%rd1], %rd191;\n"
        for mask in range(4088, 4000, -8)
    )
    text = crowded().replace("\tret;", f"{narrow}\tret;")
    result = optimize(text, AUTO, registers={"crowded0": 254})
    made = Counter(each.rewrite for k in result.report.kernels for each in k.rewrites or ())
    assert set(made) == {"narrowing"}


def test_which_hold_values_longer() -> None:
    names = {one.name for one in REWRITES if one.requires.holds_longer}
    assert names == {
        "scalar-replacement", "load-elimination", "uniform-loops", "shuffle", "vectorize",
        "strength-reduction",
    }  # fmt: skip


@pytest.mark.parametrize("registers", [249, 254, 255])
def test_no_room(registers: int) -> None:
    assert (no_room("sm_90a", registers) or "").startswith(f"ptxas takes {registers} registers")


@pytest.mark.parametrize("registers", [32, 128, 240, 248])
def test_room(registers: int) -> None:
    """Registers are given to a warp eight a thread at a time."""
    assert no_room("sm_80", registers) is None
    assert no_room("sm_120", registers) is None
