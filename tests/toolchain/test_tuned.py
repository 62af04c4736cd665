"""The store of what was tuned: what names a kernel, and what a damaged or foreign file does."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from ptxsw.driver.pipeline import Options
from ptxsw.integrations.triton import _hook
from ptxsw.toolchain.settings import Settings, tuned_file
from ptxsw.toolchain.tuned import KEEP, Timing, Tuned, digest, everything, find, same_arch, store

PTX = Path(__file__).parents[2] / "benchmarks" / "kernelgen" / "ptx"
TUNED = Tuned(
    "paper", "keep", 1.25, "A GPU", "2026-11-21", "jacobi", "580.1", "0.1.0",
    (Timing("paper", "keep", (128, 1, 1), 1e-3, 0.01),),
)  # fmt: skip


@pytest.fixture
def kernel() -> str:
    text = (PTX / "jacobi.ptx").read_text()
    return text[text.index(".visible") :]


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "of" / "mine" / "tuned.json")


def test_a_kernel_keeps_its_name(kernel: str) -> None:
    """With line numbers, comments, other spacing, and other kernels before it in its file."""
    name = digest(kernel)
    for same in (
        kernel.replace("$L__BB0_", "$L__BB12_"),
        re.sub(r"\n\t(?=\w)", "\n\t.loc 1 7 3, function_name $L__info_string3\n\t", kernel),
        kernel.replace(";", "; // why\n").replace("\t", "    "),
        kernel.replace(", ", " /* a\nb */ , "),
    ):
        assert same != kernel
        assert digest(same) == name


def test_another_kernel_has_another_name(kernel: str) -> None:
    found = {digest(kernel)}
    for other in (
        kernel.replace("jacobi", "jacoby"),
        kernel.replace("ld.global.nc.f32 \t%f2", "ld.global.nc.f32 \t%f3", 1),
        kernel.replace("+4]", "+8]", 1),
        kernel.replace("bra \t$L__BB0_2", "bra \t$L__BB0_1", 1),
        kernel.replace("ret;", '.pragma "nounroll";\n\tret;'),
    ):
        assert other != kernel
        found.add(digest(other))
    assert len(found) == 6


@pytest.mark.parametrize(
    ("arch", "name"),
    [("sm_90a", "sm_90"), ("compute_80", "sm_80"), ("sm_120f", "sm_120"), ("mine", "mine")],
)
def test_names_of_architectures(arch: str, name: str) -> None:
    assert same_arch(arch) == name


def test_found_again(kernel: str, file: str) -> None:
    assert find(kernel, "sm_80", file=file) is None
    assert store(kernel, "sm_80", TUNED, file=file) == file
    slow = replace(TUNED, scheme=KEEP, speedup=1.0)
    store(kernel, "sm_90a", slow, file=file)
    assert find(kernel, "compute_80", file=file) == TUNED
    assert find(kernel, "sm_90", file=file) == slow
    assert find(kernel, "sm_75", file=file) is None
    assert find(kernel.replace("jacobi", "other"), "sm_80", file=file) is None
    store(kernel, "sm_80", slow, file=file)
    assert find(kernel, "sm_80", file=file) == slow
    lines = Path(file).read_text().splitlines()
    assert [digest(kernel) in line for line in lines] == [False, True, True, False]


def test_the_environment_says_where(
    kernel: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTXSW_TUNED", file)
    store(kernel, "sm_80", TUNED)
    assert find(kernel, "sm_80") == TUNED
    monkeypatch.setenv("PTXSW_TUNED", "off")
    assert find(kernel, "sm_80") is None
    with pytest.raises(ValueError, match="PTXSW_TUNED"):
        store(kernel, "sm_80", TUNED)
    assert tuned_file({"PTXSW_CACHE": "/c"}) == "/c/tuned.json"
    assert tuned_file({"PTXSW_CACHE": "off"}) is None
    assert tuned_file({"PTXSW_CACHE": "off", "PTXSW_TUNED": "/t"}) == "/t"


@pytest.mark.parametrize(
    "damage",
    [
        "", "{", "[]", '{"schema": 2, "results": {}}', '{"schema": 1}',
        '{"schema": 1, "results": {"NAME": {"scheme": "paper"}}}',
        '{"schema": 1, "results": {"NAME": {"scheme": 1, "form": "", "speedup": "x",'
        ' "device": "", "date": ""}}}',
        '{"schema": 1, "results": {"NAME": 3}}',
    ],
)  # fmt: skip
def test_a_damaged_store_is_no_store(kernel: str, file: str, damage: str) -> None:
    os.makedirs(os.path.dirname(file))
    Path(file).write_text(damage.replace("NAME", f"{digest(kernel)} sm_80"))
    assert find(kernel, "sm_80", file=file) is None
    with pytest.raises(ValueError, match=re.escape(file)):
        everything(file)
    with pytest.raises(ValueError, match=re.escape(file)):  # nothing is thrown away unasked
        store(kernel, "sm_80", TUNED, file=file)


def test_what_a_later_version_adds_is_no_harm(kernel: str, file: str) -> None:
    store(kernel, "sm_80", TUNED, file=file)
    content = json.loads(Path(file).read_text())
    for one in content["results"].values():
        one["colour"] = "red"
        one["timings"][0]["smell"] = "none"
    Path(file).write_text(json.dumps(content))
    assert find(kernel, "sm_80", file=file) == TUNED


def test_writers_at_the_same_time(kernel: str, file: str) -> None:
    def write(number: int) -> None:
        store(kernel, f"sm_{number}", TUNED, file=file)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(50, 90)))
    assert len(everything(file)) == 40


def test_results_outdate_cached_answers(kernel: str, file: str) -> None:
    """In mode auto what was tuned decides what becomes of a file; in mode force it does not."""
    auto, force = {"PTXSW_TUNED": file}, {"PTXSW_TUNED": file, "PTXSW_MODE": "force"}
    before = Settings(auto).key(), Settings(force).key()
    store(kernel, "sm_80", TUNED, file=file)
    assert Settings(auto).key() != before[0]
    assert Settings(force).key() == before[1]


def test_results_outdate_what_triton_keeps(
    kernel: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTXSW_TUNED", file)
    hooks = [_hook(Options(mode=mode), None) for mode in ("auto", "force")]
    before = [hook() for hook in hooks]
    store(kernel, "sm_80", TUNED)
    after = [hook() for hook in hooks]
    assert before[0] != after[0] and before[1] == after[1]
