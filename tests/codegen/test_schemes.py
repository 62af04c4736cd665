"""What each scheme and form writes: byte for byte, taken by ptxas, and run beside the original."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ptxsw.simt import launch
from ptxsw.toolchain.find import real_ptxas
from tests.codegen.drafts import made
from tests.parsed import parsed

GOLDEN = Path(__file__).parent / "golden"
SCHEMES = GOLDEN / "schemes"

# Input, scheme, form, hoist.
CASES = [
    ("row", "early", "keep", False),
    ("row", "halo", "keep", False),
    ("row", "paper", "versioned", False),
    ("row", "halo", "versioned", False),
    ("widths", "early", "keep", False),
    ("widths", "halo", "keep", False),
    ("unordered", "paper", "keep", True),
    ("unordered", "halo", "keep", True),
    ("unordered", "early", "versioned", True),
    ("interleaved", "halo", "keep", False),
    ("interleaved", "early", "versioned", False),
    ("interleaved", "halo", "versioned", False),
    ("vectors", "paper", "keep", False),
    ("vectors", "early", "keep", False),
    ("mirror", "paper", "keep", False),
    ("mirror", "early", "versioned", False),
]
BLOCKS = [(128, 1, 1), (33, 1, 1), (5, 1, 1), (16, 16, 1), (32, 4, 1), (8, 8, 4)]


def text_of(name: str) -> str:
    beside = GOLDEN / f"{name}.in.ptx"
    return (beside if beside.exists() else SCHEMES / f"{name}.in.ptx").read_text()


def name_of(case: tuple[str, str, str, bool]) -> str:
    name, scheme, form, hoist = case
    return f"{name}.{scheme}.{form}{'.hoist' if hoist else ''}"


each_case = pytest.mark.parametrize("case", CASES, ids=name_of)


@each_case
def test_golden(case: tuple[str, str, str, bool], golden: Callable[[Path, str], None]) -> None:
    name, scheme, form, hoist = case
    golden(SCHEMES / f"{name_of(case)}.out.ptx", made(text_of(name), scheme, form, hoist=hoist)[0])


@each_case
def test_ptxas_takes_it(case: tuple[str, str, str, bool], tmp_path: Path) -> None:
    ptxas = real_ptxas(os.environ)
    if ptxas is None:
        pytest.skip("no ptxas on this machine")
    name, scheme, form, hoist = case
    path = tmp_path / "case.ptx"
    text = made(text_of(name), scheme, form, hoist=hoist)[0].replace("sm_70", "sm_80")
    path.write_bytes(text.encode("ascii", errors="ignore"))
    done = subprocess.run(
        [ptxas.path, "-arch=sm_80", path, "-o", tmp_path / "out"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@each_case
@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: "x".join(map(str, b)))
def test_runs_as_before(case: tuple[str, str, str, bool], block: tuple[int, int, int]) -> None:
    name, scheme, form, hoist = case
    text = text_of(name)
    data = np.random.default_rng(3).random(4096, dtype=np.float32)
    out = np.zeros(4096, np.float32)
    extra = [np.uint32(7), np.uint32(40)] if name == "interleaved" else []
    new = made(text, scheme, form, hoist=hoist)[0]
    for seed in (None, 1, 2):
        before = launch(parsed(text), name, 1, block, [data, out, *extra])
        after = launch(parsed(new), name, 1, block, [data, out, *extra], seed=seed)
        assert before.buffers[1].tobytes() == after.buffers[1].tobytes()


def test_moving_the_middle_up_brings_the_lanes_nearer() -> None:
    text = text_of("unordered")
    means = []
    for hoist in (False, True):
        deltas = [abs(r.delta) for r in made(text, "paper", hoist=hoist)[1].plan.rewrites]
        means.append(sum(deltas) / len(deltas))
    assert means == [2.5, 1.5]


def test_a_halo_row_makes_two_loads() -> None:
    text = text_of("unordered")
    data, out = np.ones(4096, np.float32), np.zeros(4096, np.float32)
    new = made(text, "halo", hoist=True)[0]
    before = launch(parsed(text), "unordered", 1, 128, [data, out]).counters
    after = launch(parsed(new), "unordered", 1, 128, [data, out]).counters
    assert before is not None and after is not None
    assert (before.warp_loads, after.warp_loads) == (4 * 5, 4 * 2)


def test_a_scope_that_opens_in_a_stretch_keeps_it_single() -> None:
    text = text_of("row").replace(
        "	ld.global.nc.f32 %f3, [%rd4+8];", "	{\n	ld.global.nc.f32 %f3, [%rd4+8];"
    ).replace("	ret;", "	}\n	ret;")  # fmt: skip
    new, drafted = made(text, "early", "versioned")
    assert len(drafted.plan.rewrites) == 2
    assert "bra $" not in new and "activemask" in new


def test_an_index_that_is_loaded_keeps_a_stretch_single() -> None:
    """The test of such an index is not made ahead of the branch: loads are not repeated."""
    text = text_of("interleaved").replace("shl.b32 %r5, %r2, 1;", "ld.param.u32 %r5, [pitch];")
    new, _ = made(text, "early", "versioned")
    assert "bra $" not in new


def test_statements_that_share_a_line() -> None:
    text = text_of("row").replace(";\n	ld.global.nc.f32 %f2", "; ld.global.nc.f32 %f2")
    text = text.replace(";  // the source ld", "; ld")
    for form in ("keep", "versioned"):
        new, _ = made(text, "early", form)
        data, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        before = launch(parsed(text), "row", 1, 40, [data, out])
        after = launch(parsed(new), "row", 1, 40, [data, out])
        assert before.buffers[1].tobytes() == after.buffers[1].tobytes()


def test_what_lies_beyond_is_read_by_nc_only_if_all_members_are() -> None:
    """Of bytes that a plain load reads, the text does not say that nobody writes them."""
    text = text_of("row")
    members = re.findall(r"ld\.global\.nc[^\n]*", text)
    assert re.search(r"ld\.global\.nc\S* %sw\d*_beyond1,", made(text, "halo")[0])
    for member in members[1:]:
        mixed = made(text.replace(member, member.replace(".nc", "")), "halo")[0]
        assert re.search(r"ld\.global\.f32 %sw\d*_beyond1,", mixed)
