"""Pipelines with too few stages: the share of the time that tensor cores can work, as a closed
form; and nothing where it may be near 1."""

from __future__ import annotations

from math import ceil

import pytest

from ptxsw.cost.gpu import find
from ptxsw.driver.checking import check
from ptxsw.report.model import Finding
from tests.specialised import BY_WARP, specialised

L2 = find("h100").of("l2_latency").low
SHARED = 233_472  # bytes of a multiprocessor; 1 KiB of each block is the system's
WGMMA = 64 * 8 * 16 / 2048  # cycles of one with 8 columns


def found(text: str) -> list[Finding]:
    report = check(text, select=("exposed-copies",), ptxas=False)
    assert report.kernels[0].failed is None
    return list(report.kernels[0].findings or ())


@pytest.mark.parametrize(
    ("stages", "size", "wgmma"), [(1, 65536, 4), (2, 32768, 4), (1, 100_000, 8), (4, 49152, 2)]
)
def test_the_share_is_a_closed_form(stages: int, size: int, wgmma: int) -> None:
    text = specialised(stages=stages, size=str(size), wgmma=wgmma, n=8)
    work, blocks = wgmma * WGMMA, min(8, SHARED // (stages * size + 1024))
    share = blocks * stages * work / (L2 + work)
    [finding] = found(text)
    assert finding.figures["share"] == pytest.approx(share, abs=0.006)
    assert finding.figures["needed"] == ceil((L2 + work) / (blocks * work)) > stages
    assert finding.measure == f"{stages} stage{'s' * (stages > 1)}"


def test_what_it_says() -> None:
    [finding] = found(specialised(stages=2, size="32768", n=8))
    assert finding.what == (
        "The pipeline has 2 stages: its copies take at least 219 cycles to arrive, and the tensor "
        "cores 16 for a tile, so with 3 blocks at a time they work at most 41% of the time."
    )
    assert finding.advice == "Give the pipeline 5 stages or more, or make the tiles larger."


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (specialised(stages=3), "enough work"),
        (specialised(stages=1, n=256, wgmma=16, size="100000"), "a tile takes long"),
        (specialised(stages=12, size="16384", n=8), "enough stages"),
        (specialised(stages=1, size="24576", n=8, wgmma=8), "many blocks"),
        (specialised(next_stage="add.s32 %stage, %stage, 1;", size="65536", n=8), "no known ring"),
        (specialised(stages=1, size="65536", n=8, arch="sm_90a").replace("f16.f16 {", "x {"),
         "no known shape"),
        (specialised(stages=1, size="65536", wgmma=0, n=8), "no tensor work"),
        (specialised("@%p8 bra MULTIPLY; bra.uni LOAD;", 1, "65536", n=8), "no known roles"),
    ],
)  # fmt: skip
def test_nothing_where_it_is_not_certain(text: str, why: str) -> None:
    assert found(text) == [], why


def test_a_loop_that_loads_and_multiplies_is_a_pipeline_too() -> None:
    """It waits for the tile of the stage before: a copy goes on meanwhile."""
    text = specialised("", stages=2, size="65536", n=8)
    start, end = text.index("WAIT2:"), text.index("mbarrier.arrive.shared::cta.b64 _, [%r13+64];")
    work = text[start:end].replace("[%r13]", "[%r15]")
    before = "xor.b32 %r16, %r11, 8; add.u32 %r15, %r12, %r16;"
    at = text.index("    add.s32 %stage0")
    whole = text[:at] + before + work + text[at:]
    one = whole[: whole.index("MULTIPLIES:")] + "DONE:\n    ret;\n}\n"
    [finding] = found(
        one.replace("MULTIPLY:", "").replace(
            "TABLE: .branchtargets MULTIPLY, LOAD, DONE, DONE;", ""
        )
    )
    # Eight warps execute it: two groups of four.
    share = 2 * 2 * WGMMA * 4 / (L2 + 2 * WGMMA * 4)
    assert finding.figures["share"] == pytest.approx(share, abs=0.006)


def test_another_role_of_the_same_ring_adds_its_work() -> None:
    """Warps 5 to 7 and warp 0 to 3 multiply: of the former there is less than a group."""
    both = BY_WARP.replace("@%p3 bra DONE;", "@%p3 bra MULTIPLY;")
    [one] = found(specialised(stages=1, size="65536", n=8))
    [other] = found(specialised(both, stages=1, size="65536", n=8))
    assert other.figures["share"] > one.figures["share"]
