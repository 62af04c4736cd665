"""What `analyze` says of loads that a loop makes again, and of stores that it makes in vain."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks.programs.loads import LOADS
from ptxsw.driver.pipeline import Options, analyze, inspect
from ptxsw.report.serial import from_json, to_json
from tests.rewrites.pair import kernel
from tests.rewrites.test_load_elimination import OVER, STORED
from tests.rewrites.test_scalar_replacement import PROMOTED, ROTATED

slow = pytest.mark.slow


def told(text: str) -> dict[str, str | None]:
    """By the access with its address, as written."""
    (found,) = analyze(text).kernels
    lines = text.splitlines()
    return {
        lines[access.line - 1].strip(): access.over_stores for access in found.accesses or ()
    }  # fmt: skip


def test_what_is_kept_in_registers() -> None:
    assert told(kernel(ROTATED)) == {
        "ld.global.nc.f32 %f1, [%rd4];": "register of 22, an iteration ago",
        "ld.global.nc.f32 %f2, [%rd4+4];": None,
        "st.global.f32 [%rd5], %f3;": None,
    }
    assert told(kernel(PROMOTED)) == {
        "ld.global.nc.f32 %f1, [%rd4];": None,
        "ld.global.f32 %f2, [%rd5];": "in a register during the loop",
        "st.global.f32 [%rd5], %f3;": "once, after the loop",
    }


def test_what_is_loaded_again_without_a_loop() -> None:
    """Loads are read-only if that helps; else they take what the thread has loaded or stored."""
    assert told(kernel(OVER)) == {
        "ld.global.f32 %f1, [%rd4];": "read-only, with a test",
        "st.global.f32 [%rd5], %f1;": None,
        "ld.global.f32 %f2, [%rd4];": "read-only, with a test",
        "st.global.f32 [%rd5+4], %f2;": None,
    }
    assert told(kernel(STORED))["ld.global.f32 %f2, [%rd5];"] == "register of 20"


def beside(store: str) -> str | None:
    """What becomes of the store of a loop that has another one."""
    text = kernel(PROMOTED.replace("add.s64 %rd4", f"{store}\nadd.s64 %rd4"))
    return told(text)["st.global.f32 [%rd5], %f3;"]


def test_why_a_store_stays() -> None:
    reason = beside("st.global.u8 [%rd5+1], %r1;")
    assert reason is not None and reason.startswith("st.global.u8 at line 27 may write these bytes")


def test_a_store_that_may_be_apart_is_tested_to_be() -> None:
    assert beside("st.global.f32 [%rd2], %f1;") == "once, after the loop, with a test"


PROGRAMS = {
    "column-scale": {"once, before the loop, with a test": 2, "register of 60, with a test": 3},
    "row-sums": {"once, after the loop": 5, "read-only, with a test": 10},
    "fdtd2d": {"read-only, with a test": 16},
    "gather": {"read-only, with a test": 0},  # its loop is unrolled: nothing is loaded again
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "column-scale" else slow) for n in PROGRAMS]
)
def test_programs(name: str) -> None:
    (found,) = analyze(LOADS[name].path.read_text()).kernels
    counts = Counter(access.over_stores for access in found.accesses or ())
    assert {text: counts[text] for text in PROGRAMS[name]} == PROGRAMS[name]


def test_what_is_changed_has_no_reason_to_stay() -> None:
    """`a[i]` behind a store: a shuffle cannot pass it, a test at entry tells that it may."""
    text = kernel(
        "ld.global.f32 %f1, [%rd4];\nst.global.f32 [%rd5], %f1;\n"
        "ld.global.f32 %f2, [%rd4];\nst.global.f32 [%rd5+4], %f2;"
    )
    (found,) = analyze(text).kernels
    again = (found.accesses or ())[2]
    assert again.over_stores == "read-only, with a test"
    assert again.optimizer is not None
    assert (again.optimizer.action, again.optimizer.reason) == ("keep", None)


def test_it_is_told_once_where_the_rewrites_are_made() -> None:
    """`inspect` with these rewrites makes no second run for it."""
    text = kernel(PROMOTED)
    (with_them,) = inspect(text, Options("force")).report.kernels
    (without,) = analyze(text).kernels
    assert [a.over_stores for a in with_them.accesses or ()] == [
        a.over_stores for a in without.accesses or ()
    ]


def test_reports_keep_it() -> None:
    report = analyze(kernel(PROMOTED))
    assert from_json(json.loads(json.dumps(to_json(report)))) == report
