"""`python -m benchmarks.faults`: what it counts, and what it calls wrong."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.faults import __main__ as yardstick
from benchmarks.faults.judging import judged, occurs
from benchmarks.faults.programs import FAULTY, MENDED, programs
from ptxsw.report import model
from ptxsw.report.serial import Report


def answering(line: int, level: str = "error", **more: Any) -> Any:
    """A check that finds a race on one line of the source."""

    def ask(text: str, name: str, **_: Any) -> Report:
        finding = model.Finding(
            "ptxsw-data-race", level, "k", 1, 1, "", "Two threads meet.", "", 0.0,
            source_line=line, **more,
        )  # fmt: skip
        verdicts = {"data-race": model.Verdict("found", "two threads meet")}
        kernel = model.Kernel("k", 0, findings=(finding,), verdicts=verdicts)
        return Report("0", name, "sm_80", None, (kernel,))

    return ask


def test_a_fault_has_to_be_told_on_its_line() -> None:
    [race] = programs(names=("warp_ranges",))
    line = min(race.faults)
    there, beside = (judged(race, FAULTY, answering(n)) for n in (line, line + 1))
    assert there.found and there.besides == ()
    assert not beside.found and beside.besides == (
        f"error data-race at {line + 1}: Two threads meet.",
    )
    assert judged(race, MENDED, answering(line)).besides  # a twin has no fault anywhere


def test_a_witness_has_to_show_the_fault() -> None:
    """The launch of the source shows the race; a block of one thread does not."""
    [race] = programs(names=("warp_ranges",))
    launch = race.launches[0].json()
    line = min(race.faults)
    assert judged(race, FAULTY, answering(line, witness=launch)).replayed == (True,)
    alone = launch | {"block": [1, 1, 1]}
    assert judged(race, MENDED, answering(line, witness=alone)).replayed == (False,)


@pytest.mark.parametrize(
    ("code", "rules"),
    [
        ("mad.lo.s32 %r1, %r2, %r3, %r4;", set()),
        ("bar.warp.sync -1;", {"warp-mask", "deadlock"}),
        ("bar.sync 0;", {"divergent-barrier", "deadlock", "redundant-barrier"}),
        ("bar.arrive 1, 64;", {"divergent-barrier", "deadlock"}),
        ("cp.async.wait_all;", {"undefined-value"}),
        ("ld.global.u8 %r1, [%rd1];", {"index-overflow"}),
        ("ld.global.f32 %f1, [%rd1];", {"index-overflow", "misaligned-access"}),
        ("// st.shared.f32 [%r1], %f1;", set()),
        ("st.shared.f32 [%r1], %f1;",
         {"data-race", "misaligned-access", "out-of-bounds", "undefined-value"}),
    ],
)  # fmt: skip
def test_rules_that_a_text_can_break(code: str, rules: set[str]) -> None:
    from benchmarks.faults.programs import RULES

    assert {rule for rule in RULES if occurs(rule, code)} == rules


def test_what_is_printed() -> None:
    [race], [clean] = programs(names=("warp_ranges",)), programs(names=("gather",))
    line = min(race.faults)
    answers = [judged(race, FAULTY, answering(line)), judged(clean, FAULTY, answering(line))]
    told = "\n".join(yardstick.lines(answers, verbose=True))
    assert told.startswith("faults found: 1 of 1\n  data-race            1 of   1")
    assert "said of twins and clean kernels: 1\n  clean/gather: error data-race at" in told
    assert "clean kernels: absent in 0 of 4 (0%) of pairs" in told
    assert "   1 index-overflow: no verdict" in told


SAMPLE = (
    "warp_ranges", "every_fourth", "flag_no_fence", "half_rows", "absent_source", "swapped_tile",
    "packed_record", "bytes_in_int", "slots_of_absent_warps", "opposite_order", "pipeline_tail",
    "disjoint_arrays",
)  # fmt: skip


@pytest.mark.parametrize("name", SAMPLE)
def test_checks_name_the_fault_and_nothing_in_its_twin(name: str) -> None:
    [program] = programs(names=(name,))
    faulty, mended = (judged(program, twin) for twin in program.twins)
    assert faulty.found and faulty.besides == () and all(faulty.replayed)
    assert mended.besides == () and not mended.problem


@pytest.mark.slow
def test_all_faults_but_one_are_found_and_most_of_the_rest_is_proved() -> None:
    """The middle of a binary search is no function that is followed: it stays unknown."""
    answers = [judged(program, twin) for program in programs() for twin in program.twins]
    assert [a.program.name for a in answers if a.faulty and not a.found] == ["middle_of_two"]
    assert [a.program.name for a in answers if not a.faulty and a.besides] == []
    assert all(it for a in answers for it in a.replayed)
    assert not [a.program.name for a in answers if a.denied or a.problem]
    pairs = [
        (rule, verdict) for a in answers if a.program.rule == "clean"
        for rule, (verdict, _) in a.pairs().items()
    ]  # fmt: skip
    races = [verdict for rule, verdict in pairs if rule == "data-race"]
    assert races.count("absent") >= 0.75 * len(races)
    assert sum(verdict == "absent" for _, verdict in pairs) >= 0.8 * len(pairs)
