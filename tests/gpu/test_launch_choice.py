"""`ptxsw.choose`: the version of a kernel for a launch, from what was measured."""

from __future__ import annotations

import json
import runpy
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import ptxsw
from benchmarks.gpu.interpreter import DEVICE, InterpreterDriver
from ptxsw.toolchain.tuned import Timing, Tuned, store
from ptxsw.verify.launches import Launch
from tests.heads import head

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "choosing.py"
TEXT = (ROOT / "benchmarks" / "kernelgen" / "ptx" / "laplacian.ptx").read_text()
SMALL, LARGE, OTHER = (128, 1, 1), (256, 1, 1), (64, 1, 1)


def timings(
    seconds: Mapping[str, float], block: tuple[int, int, int], wrong: str = ""
) -> tuple[Timing, ...]:
    """One launch: the original first. A name is a scheme and a form, or rewrites alone."""
    return tuple(
        Timing(*name.partition(" ")[::2], block, time, 0.001, name != wrong)
        for name, time in seconds.items()
    )


def stored(path: Path, result: Tuned, text: str = TEXT) -> Path:
    begin = text.index(".visible .entry")
    store(text[begin : text.rindex("}") + 1], "sm_80", result, file=str(path))
    return path


TIMES = (
    *timings({"original": 10e-6, "paper keep": 8e-6, "halo keep": 9e-6}, SMALL),
    *timings({"original": 9e-6, "paper keep": 10e-6, "halo keep": 12e-6}, LARGE),
)
BEST = Tuned("keep", "keep", 1.0, "a GPU", "2026-11-27", "laplacian", timings=TIMES)


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    return stored(tmp_path / "tuned.json", BEST)


def test_each_shape_of_blocks_has_its_own_version(tuned: Path) -> None:
    small = ptxsw.choose(TEXT, SMALL, tuned=tuned)
    assert (small.version, round(small.speedup, 6), small.measured) == ("paper keep", 1.25, True)
    made = ptxsw.optimize(TEXT, ptxsw.Options(mode="force", scheme="paper", form="keep"))
    assert small.text == made.text != TEXT
    large = ptxsw.choose(TEXT, 256, tuned=tuned)
    assert (large.text, large.version, large.measured) == (TEXT, "keep keep", True)
    assert large.reason == ("kept as it is: the best, paper keep, takes 1.111 times as long")
    assert str(small) == (
        "laplacian in blocks of 128x1x1 on sm_80: paper keep: 1.250 times as fast"
    )


def test_what_was_not_measured_has_the_version_for_all(tuned: Path, tmp_path: Path) -> None:
    other = ptxsw.choose(TEXT, OTHER, tuned=tuned)
    assert other.text == TEXT and not other.measured
    assert "blocks of 64x1x1 were not measured; over all launches nothing was faster" in str(other)
    best = Tuned("halo", "keep", 1.1, "a GPU", "2026-11-27", timings=TIMES)
    other = ptxsw.choose(TEXT, OTHER, tuned=stored(tmp_path / "other.json", best))
    assert (other.version, other.speedup, other.measured) == ("halo keep", 1.1, False)
    assert other.text != TEXT


def test_several_launches_in_the_same_blocks(tmp_path: Path) -> None:
    """The mean counts, and none may be slower; what gave other results is no choice."""
    times = (
        *timings({"original": 10e-6, "paper keep": 5e-6, "halo keep": 9e-6}, SMALL),
        *timings({"original": 10e-6, "paper keep": 11e-6, "halo keep": 9e-6}, SMALL),
    )
    path = stored(tmp_path / "a.json", Tuned("keep", "keep", 1.0, "", "", timings=times))
    assert ptxsw.choose(TEXT, SMALL, tuned=path).version == "halo keep"
    times = timings({"original": 10e-6, "paper keep": 5e-6, "halo keep": 9e-6}, SMALL, "paper keep")
    path = stored(tmp_path / "b.json", Tuned("keep", "keep", 1.0, "", "", timings=times))
    assert ptxsw.choose(TEXT, SMALL, tuned=path).version == "halo keep"


def test_spills_to_shared_memory_are_not_for_launches_that_take_it(tmp_path: Path) -> None:
    text = TEXT.replace(")\n{", ")\n.reqntid 128, 1, 1\n{", 1)
    times = timings({"original": 10e-6, "registers=24-shared": 5e-6, "paper keep": 9e-6}, SMALL)
    best = Tuned("registers=24-shared", "", 2.0, "", "", timings=times)
    path = stored(tmp_path / "tuned.json", best, text)
    for launch in ({"block": [128], "shared": 1024}, Launch((1, 1, 1), SMALL, (), 1024)):
        assert ptxsw.choose(text, launch, tuned=path).version == "paper keep"
    path = stored(tmp_path / "b.json", Tuned("registers=24-shared", "", 2.0, "", ""), text)
    choice = ptxsw.choose(text, {"block": [128], "shared": 1024}, tuned=path)
    assert choice.text == text and choice.reason.endswith("shared memory, which the launch takes")


def test_nothing_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXSW_TUNED", str(tmp_path / "none.json"))
    choice = ptxsw.choose(TEXT, SMALL)
    assert choice.text == TEXT and not choice.measured
    assert choice.reason == (
        "kept as it is: there is no measurement for it on sm_80: ptxsw tune measures"
    )
    path = stored(tmp_path / "tuned.json", BEST)
    monkeypatch.setenv("PTXSW_TUNED", str(path))
    assert ptxsw.choose(TEXT, SMALL).version == "paper keep"
    assert ptxsw.choose(TEXT, SMALL, arch="sm_90").text == TEXT  # measured on another
    other = TEXT.replace("\tret;", "\tmembar.cta;\n\tret;")
    assert ptxsw.choose(other, SMALL).text == other  # measured was another kernel


def test_a_version_that_is_not_made_here(tmp_path: Path) -> None:
    times = timings({"original": 10e-6, "bank-conflicts": 5e-6}, SMALL)
    path = stored(tmp_path / "a.json", Tuned("bank-conflicts", "", 2.0, "", "", timings=times))
    choice = ptxsw.choose(TEXT, SMALL, tuned=path)
    assert choice.text == TEXT and choice.reason.endswith(
        "but this version of ptxsw does not produce it"
    )
    unknown = timings({"original": 10e-6, "of-a-plugin": 5e-6}, SMALL)
    path = stored(tmp_path / "b.json", Tuned("of-a-plugin", "", 2.0, "", "", timings=unknown))
    assert ptxsw.choose(TEXT, SMALL, tuned=path).text == TEXT
    other = ptxsw.choose(TEXT, OTHER, tuned=path)
    assert other.text == TEXT and "over all launches of-a-plugin was best" in other.reason
    assert other.reason.endswith("but this version of ptxsw does not produce it")


TWO = head() + ".visible .entry a() { ret; }\n.visible .entry b() .reqntid 64, 1, 1 { ret; }\n"


@pytest.mark.parametrize(
    ("kernel", "launch", "more", "said"),
    [
        (TWO, 64, {}, "entry must name one kernel; available: a, b"),
        (TWO, 64, {"entry": "c"}, "no kernel 'c' with a body; available: a, b"),
        (TWO, 32, {"entry": "b"}, "b is for blocks of 64x1x1 (.reqntid), not of 32x1x1"),
        (head() + ".visible .entry c() .maxntid 32, 1, 1 { ret; }", 64, {},
         "c is for blocks of up to 32 threads, not of 64x1x1"),
        (TWO, "64", {"entry": "b"}, "'64' is not a block shape"),
        (TWO, {"grid": [1]}, {"entry": "b"}, "a launch is an object with block"),
        (TWO, {"block": [64], "shared": "1"}, {"entry": "b"}, "a launch is an object with block"),
        (head().replace("sm_80", "texmode_independent") + ".visible .entry a() { ret; }", 64, {},
         "the PTX has no target: give arch, such as sm_90"),
    ],
)  # fmt: skip
def test_what_makes_no_sense(kernel: str, launch: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as error:
        ptxsw.choose(kernel, launch, **more)
    assert said in str(error.value)


def test_a_damaged_file_that_was_named(tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    path.write_text("{}")
    with pytest.raises(ValueError, match="not a store of tune results"):
        ptxsw.choose(TEXT, SMALL, tuned=path)


# ---------------------------------------------------------------- the example


def test_the_example_tells_what_it_would_load(tuned: Path, tmp_path: Path) -> None:
    (tmp_path / "kernel.ptx").write_text(TEXT)
    command = [sys.executable, str(EXAMPLE), "kernel.ptx", "128", "256", "128", "--tuned"]
    done = subprocess.run([*command, tuned], cwd=tmp_path, capture_output=True, text=True)
    promised = EXAMPLE.read_text().partition("needs no GPU:\n\n")[2].partition('"""')[0]
    assert done.stdout.splitlines() == [line.strip() for line in promised.strip().splitlines()]


def test_the_example_launches_each_version(tuned: Path) -> None:
    """On the interpreter in place of a GPU: both versions give the same."""
    versions = runpy.run_path(str(EXAMPLE))["Versions"]
    driver = InterpreterDriver(replace(DEVICE, arch="sm_80"))
    launched = versions(driver, TEXT, tuned)
    data = np.random.default_rng(1).random(66 * 4 * 4, np.float32)
    results = []
    for block in (SMALL, LARGE):
        places = [driver.allocate(data.nbytes) for _ in range(2)]
        for place in places:
            driver.upload(place, data.view(np.uint8))
        arguments = struct.pack("<iiiff4xQQ", 66, 4, 4, 0.4, 0.1, *places)
        assert launched.launch((2, 2, 1), block, arguments) == (
            "paper keep" if block == SMALL else "keep keep"
        )
        driver.wait()
        results.append(driver.download(places[1], data.nbytes).tobytes())
    assert results[0] == results[1] != data.tobytes()


def test_json_of_a_launch(tuned: Path) -> None:
    launch = Launch((4, 4, 1), SMALL, (1, 2))
    assert ptxsw.choose(TEXT, json.loads(str(launch)), tuned=tuned).version == "paper keep"


def test_what_an_h200_measured() -> None:
    """The committed file: a transpose is 1.75 times as fast without its bank conflicts."""
    tuned = ROOT / "benchmarks" / "results" / "gpu-nvidia-h200" / "tuned.json"
    text = (ROOT / "benchmarks" / "programs" / "ptx" / "transpose-float.ptx").read_text()
    choice = ptxsw.choose(text, (32, 32), arch="sm_90a", tuned=tuned)
    assert (choice.version, round(choice.speedup, 2), choice.measured) == (
        "bank-conflicts", 1.75, True,
    )  # fmt: skip
    assert choice.text != text
