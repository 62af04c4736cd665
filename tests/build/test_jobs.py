"""How many processes one call may take, and how kernels are kept one by one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale import many_kernels
from ptxsw import Options, optimize
from ptxsw.codegen.excerpt import Excerpt
from ptxsw.driver.passes import Passes
from ptxsw.toolchain.cache import Cache, KernelCache
from ptxsw.toolchain.jobs import Jobs

FOUR = frozenset(range(4))


@pytest.fixture(autouse=True)
def four_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: FOUR)
    monkeypatch.setattr(os, "getloadavg", lambda: (1.4, 9.0, 9.0))


def in_make(flags: str) -> dict[str, str]:
    return {"MAKELEVEL": "1", "MAKEFLAGS": flags}


def test_outside_of_make_the_idle_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Jobs({}, 3).count == 3
    monkeypatch.setattr(os, "getloadavg", lambda: (17.0, 9.0, 9.0))
    assert Jobs({}, 3).count == 1


def test_no_more_than_is_wanted() -> None:
    assert [Jobs({}, wanted).count for wanted in (0, 1, 9)] == [1, 2, 3]


@pytest.mark.parametrize("style", ["fifo", "pipe"])
@pytest.mark.parametrize(("free", "count"), [(b"", 1), (b"+-", 3), (b"abcdef", 4)])
def test_in_make_what_the_jobserver_has(
    style: str, free: bytes, count: int, tmp_path: Path
) -> None:
    """And all of it is there again afterwards, byte for byte."""
    if style == "fifo":
        os.mkfifo(tmp_path / "jobs")
        reading = writing = os.open(tmp_path / "jobs", os.O_RDWR)
        flags = f" -j7 --jobserver-auth=fifo:{tmp_path / 'jobs'}"
    else:
        reading, writing = os.pipe()
        flags = f"rw --jobserver-fds=98,99 -j --jobserver-auth={reading},{writing}"
    os.write(writing, free)
    taken = Jobs(in_make(flags), 3)
    assert taken.count == count
    taken.end()
    os.write(writing, b".")
    assert sorted(os.read(reading, 20)) == sorted(free + b".")
    assert os.get_blocking(reading)
    for descriptor in {reading, writing}:
        os.close(descriptor)


@pytest.mark.parametrize(
    "flags", ["", "k", " -j4 --jobserver-auth=98,99", " --jobserver-auth=fifo:/nonexistent"]
)
def test_in_make_without_a_jobserver_for_us_only_one(flags: str) -> None:
    assert Jobs(in_make(flags), 3).count == 1


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_a_real_make(tmp_path: Path) -> None:
    """With -j3 a rule that make takes for a make gets two more processes, and all rules end."""
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); from ptxsw.toolchain import jobs; "
        "os.sched_getaffinity = lambda _: range(8); "
        "one = jobs.Jobs(os.environ, 7); "
        "print(one.count); one.end()"
    )
    (tmp_path / "Makefile").write_text(
        f'all:\n\t+@{sys.executable} -c "{program}" {Path(__file__).parents[2]}\n'
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    for option, count in (("-j3", "3"), ("-j1", "1")):
        done = subprocess.run(
            ["make", option, "--no-print-directory"],
            cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert done.stdout.split() == [count]
        assert "warning" not in done.stderr


def test_descriptors_that_are_no_ends_of_one_pipe_are_let_be() -> None:
    """A rule that make shares nothing with may have other files under these numbers."""
    first, second = os.pipe(), os.pipe()
    os.write(second[1], b"data")
    flags = f" -j4 --jobserver-auth={second[0]},{first[1]}"
    taken = Jobs(in_make(flags), 3)
    assert taken.count == 1
    assert os.read(second[0], 9) == b"data"
    for descriptor in (*first, *second):
        os.close(descriptor)


# ---------------------------------------------------------------- kernels kept one by one


def test_after_a_change_of_one_kernel_only_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    steps = Passes.steps

    def noted(self: Passes, excerpt: Excerpt) -> Any:
        ran.append(excerpt.name)
        return steps(self, excerpt)

    monkeypatch.setattr(Passes, "steps", noted)
    text, options = many_kernels(3), Options(mode="force")
    changed = text.replace("ret;", "bar.sync 0;\n\tret;", 1)
    expected = optimize(changed, options)
    for lines in (False, True):
        keep = KernelCache(Cache(str(tmp_path / str(lines))), b"force", lines=lines)
        first = optimize(text, options, keep=keep)
        ran.clear()
        again = optimize(text, options, keep=keep)
        assert ran == []
        assert (again.text, again.report.kernels) == (first.text, first.report.kernels)
        other = optimize(changed, options, keep=keep)
        assert other.text == expected.text
        if lines:  # the report tells where things stand: those behind the change have moved
            assert len(ran) == 3
            assert other.report.kernels == expected.report.kernels
        else:
            assert len(ran) == 1


def test_what_is_kept_is_for_the_same_settings(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path))
    KernelCache(cache, b"force", lines=False).put("text", 7, b"data")
    assert KernelCache(cache, b"force", lines=False).get("text", 8) == b"data"
    assert KernelCache(cache, b"auto", lines=False).get("text", 7) is None
    assert KernelCache(cache, b"force", lines=True).get("text", 7) is None
    assert cache.tally().kernels == 1
    assert cache.tally().answers == 0


def test_a_cache_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    keep = KernelCache(Cache(str(tmp_path / "file")), b"", lines=False)
    keep.put("text", 1, b"data")
    assert keep.get("text", 1) is None
