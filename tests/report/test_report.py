"""Reports as JSON, text and Markdown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ptxsw.report import (
    Access,
    Carried,
    Choice,
    Kernel,
    Outlook,
    Part,
    Proof,
    Refusal,
    Report,
    Reuse,
    Rewrite,
    Row,
    from_json,
    schema,
    to_json,
)
from ptxsw.report.build import Build, load, summary, summary_json, summary_markdown
from ptxsw.report.model import Cost, Decision, Loop
from ptxsw.report.tables import Table, change_table, proof_text, told_once
from ptxsw.report.text import (
    analysis_markdown,
    analysis_text,
    coloured,
    optimization_markdown,
    optimization_text,
)

ACCESSES = (
    Access(
        12,
        None,
        "load",
        "global",
        "ld.global.nc.f32",
        4,
        "w0 + 4*tid.x",
        4,
        4,
        False,
        "f32",
        1,
        "w0[tid.x]",
        "4",
        1.0,
        None,
        "A",
        4,
        None,
        (Reuse(10, 1), Reuse(9, 0)),
        Outlook("shuffle", 10, 1, "guarded", None),
    ),
    Access(13, None, "store", "generic", "st.f32", None, None, None, None, None),
)


def shuffle(line: int, source: int, delta: int, scheme: str, form: str, proof: Proof) -> Rewrite:
    return Rewrite(
        line=line, source_line=source, delta=delta, scheme=scheme, form=form, proof=proof,
        rewrite="shuffle", detail={},
    )  # fmt: skip


REWRITES = (
    shuffle(12, 10, 1, "paper", "keep", Proof("proved")),
    shuffle(
        14, 10, -2, "halo", "uniform",
        Proof("guarded", ("lockstep-iterations", "no-lane-race"), ("tid.x + 2 does not wrap",)),
    ),
    shuffle(15, 10, 0, "paper", "keep", Proof("assumed", ("no-index-wrap",))),
)  # fmt: skip
REFUSALS = (
    Refusal(20, 10, 3, "a barrier stands between"),
    Refusal(22, None, None, "volatile"),
)
ROWS = (Row("A", "w0[tid.x - 1]", (10, 12)),)
ANALYSED = Kernel("k", loads=1, instructions=7, accesses=ACCESSES, rows=ROWS)
OPTIMIZED = Kernel("k", 5, 2, 1, 1.0, rewrites=REWRITES, refusals=REFUSALS)
UNTOUCHED = Kernel("empty", 0, 0, 0, None, rewrites=(), refusals=())
REPORT = Report("0.1.0", "a.ptx", "sm_80", 0.25, (ANALYSED, OPTIMIZED, UNTOUCHED))


def test_json_round_trip() -> None:
    assert from_json(json.loads(json.dumps(to_json(REPORT)))) == REPORT


def test_json_satisfies_the_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(to_json(REPORT), schema())
    broken = to_json(REPORT)
    broken["kernels"][1]["rewrites"][0]["delta"] = 63
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema())


def test_absent_is_not_null() -> None:
    analysed, optimized, untouched = to_json(REPORT)["kernels"]
    assert set(analysed) == {"name", "loads", "instructions", "accesses", "rows"}
    assert set(optimized) == {
        "name", "loads", "shuffles", "copies", "mean_delta", "rewrites", "refusals",
    }  # fmt: skip
    assert untouched["mean_delta"] is None and untouched["rewrites"] == []
    assert analysed["accesses"][1]["address"] is None


@pytest.mark.parametrize(
    "data",
    [None, [], {}, {"schema": 1}, {"schema": 2}, to_json(REPORT) | {"kernels": [{"no": "name"}]}],
)
def test_other_json_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="not a ptxsw report"):
        from_json(data)


def test_analysis_text() -> None:
    assert analysis_text(Report("0.1.0", "a.ptx", None, None, (ANALYSED,))) == (
        "k: 1 global load, 7 instructions\n"
        "  line  access            bytes  stride  sectors  used  weight  "
        "address          same bytes     optimize --mode force\n"
        "    12  ld.global.nc.f32      4       4        4  100%       4  "
        "A+4              10 by lane +1  shuffle from 10 lane +1, guarded\n"
        "    13  st.f32                ?  varies                      0  differs by path\n"
        "\n"
        "  row  address\n"
        "  A    w0[tid.x - 1]\n"
    )


def test_colours_change_no_letter() -> None:
    report = Report("0.1.0", "a.ptx", None, None, (ANALYSED, OPTIMIZED))
    for draw in (analysis_text, optimization_text):
        painted = draw(report, coloured)
        assert "\x1b[36m10 by lane +1" in painted or draw is optimization_text
        stripped = re.sub(r"\x1b\[\d*m", "", painted)
        assert [line.rstrip() for line in stripped.splitlines()] == draw(report).splitlines()


def test_source_lines_are_a_column_where_known() -> None:
    accesses = (replace(ACCESSES[0], source="a.cu:3"), ACCESSES[1])
    text = analysis_text(Report("0", "a", None, None, (replace(ANALYSED, accesses=accesses),)))
    assert text.splitlines()[1].split()[:2] == ["line", "source"]
    assert text.splitlines()[2].split()[:3] == ["12", "a.cu:3", "ld.global.nc.f32"]


def test_optimization_text() -> None:
    assert optimization_text(Report("0.1.0", "a.ptx", None, None, (OPTIMIZED, UNTOUCHED))) == (
        "k: 5 global loads, 2 shuffles, 1 copy, mean |N| 1.00\n"
        "  line  from   N  scheme  form     proof\n"
        "    12    10  +1  paper   keep     proved\n"
        "    14    10  -2  halo    uniform  tested at run time: tid.x + 2 does not wrap, "
        "assuming lockstep-iterations, no-lane-race\n"
        "    15    10   0  paper   keep     assuming no-index-wrap\n"
        "  left alone:\n"
        "  line  from   N  reason\n"
        "    20    10  +3  a barrier stands between\n"
        "    22     ?   ?  volatile\n"
        "\n"
        "empty: 0 global loads, 0 shuffles, 0 copies\n"
    )


def test_many_rows_that_say_the_same_are_told_once() -> None:
    """Three rows stay; of more, the first three places are named and the others counted."""
    few = tuple((str(n), "shuffle", str(n - 8), "volatile") for n in (20, 22, 24))
    many = tuple((str(n), "vectorize", "7", "may write") for n in (30, 32, 30, 34, 36, 38))
    table = Table(("line", "rewrite", "from", "reason"), (*few[:2], *many, few[2]))
    assert told_once(table).rows == (*few, ("30, 32, 34 +2", "vectorize", "7", "may write"))


def test_rows_of_code_that_stands_twice_are_told_once() -> None:
    rows = (("8", "a"), ("9", "b"), ("8", "a"), ("9", "b"), ("9", "b"), ("7", "b"))
    table = Table(("line", "what"), rows)
    assert told_once(table).rows == (("8 (twice)", "a"), ("9 (3 times)", "b"), ("7", "b"))


def test_what_a_proof_rests_on_reads_as_words() -> None:
    assert proof_text(Proof("proved")) == "proved"
    assert proof_text(Proof("proved", (), ("whole warp",))) == "proved where whole warp"
    assert (
        proof_text(Proof("guarded", ("a",), ("b", "c"))) == "tested at run time: b; c, assuming a"
    )
    assert proof_text(Proof("assumed", ("a",))) == "assuming a"
    assert proof_text(Proof("assumed", ("a",), ("b", "c"))) == "proved where b; c, assuming a"


def test_no_kernel() -> None:
    assert analysis_text(Report("0", "a.ptx", None, None)) == "a.ptx: no kernel with a body\n"


def test_markdown() -> None:
    report = Report("0.1.0", "a.ptx", None, None, (ANALYSED, OPTIMIZED))
    assert analysis_markdown(report).splitlines()[:4] == [
        "## k: 1 global load, 7 instructions",
        "",
        "| line | access | bytes | stride | sectors | used | weight | address | same bytes "
        "| optimize --mode force |",
        "|---:|---|---:|---:|---:|---:|---:|---|---|---|",
    ]
    lines = optimization_markdown(report).splitlines()
    assert "| 20 | 10 | +3 | a barrier stands between |" in lines


def test_all_that_may_be_absent_comes_back() -> None:
    """Fields that only some reports have, against the schema and from JSON."""
    jsonschema = pytest.importorskip("jsonschema")
    access = replace(ACCESSES[0], carried=(Carried(12, 1, "BB0_2", 2),), phase=4)
    parts = (Part(10, 3, -1, False), Part(10, 0, 31, True))
    kernel = replace(
        OPTIMIZED, accesses=(access,), readable="a::k<int>", block=(16, 8, 1),
        rewrites=(replace(REWRITES[0], parts=parts),), choice=Choice("model", 3.5, "it pays"),
    )  # fmt: skip
    report = replace(REPORT, kernels=(kernel,), warning="it computes nonsense")
    data = json.loads(json.dumps(to_json(report)))
    jsonschema.validate(data, schema())
    assert from_json(data) == report
    plain = to_json(REPORT)["kernels"][1]
    assert not {"readable", "block", "choice", "rows"} & plain.keys()
    assert "parts" not in plain["rewrites"][0]


def test_earlier_iterations_as_text() -> None:
    def told(**fields: Any) -> str:
        access = replace(ACCESSES[0], optimizer=None, reuse=(), **fields)
        kernel = replace(ANALYSED, accesses=(access,), rows=None)
        return analysis_text(Report("0", "a", None, None, (kernel,))).splitlines()[-1]

    assert told(carried=(Carried(10, 0, "BB0_2", 1),)).endswith("  10 an iteration of BB0_2 ago")
    assert told(carried=(Carried(12, 1, "B", 2),)).endswith(
        "  itself by lane +1 2 iterations of B ago"
    )
    assert "in rows" in told(lane_stride=None, phase=0)
    assert " own " in told(lane_stride=0, sectors=4)


def test_a_build_is_summed_up(tmp_path: Path) -> None:
    """Files that nvcc made for a while are named as the sources they come from."""
    first = replace(REPORT, file="/tmp/tmpxft_0000a1_00000000-6_wave.ptx", kernels=(OPTIMIZED,))
    second = replace(REPORT, file="src/other.ptx", kernels=(replace(UNTOUCHED, readable="a::e"),))
    for name, report in (("a.json", first), ("b.json", second)):
        (tmp_path / name).write_text(json.dumps(to_json(report)))
    (tmp_path / "c.json").write_text("[]")
    build = load(tmp_path)
    assert len(build.problems) == 1 and "c.json" in build.problems[0]
    assert summary(build) == (
        "1 of 2 kernels changed: shuffle 3\n"
        "\n"
        "file      arch   kernel  rewrites\n"
        "wave.ptx  sm_80  k       shuffle 3\n"
        "\n"
        "left alone  because\n"
        "         1  a barrier stands between\n"
        "         1  volatile\n"
        "\n"
        "2 files, 0.5 s of analysis\n"
    )


def test_reasons_of_a_build_are_told_in_short() -> None:
    """Lines and figures differ from kernel to kernel; a CI job wants no page of them."""
    said = [f"st.global.u8 (line {n}) may write these bytes" for n in range(40)]
    said += [f"st.global.u8 at line {n} may write these bytes; force rewrites it" for n in (3, 4)]
    weighed = "no clear gain in ptxas's output"
    said += [f"{weighed}: instructions {n} to {n}" for n in range(3)]
    said += [f"reason {letter}" for letter in "abcdefghij"]
    refusals = tuple(Refusal(1, None, None, reason) for reason in said)
    build = Build((replace(REPORT, kernels=(Kernel("k", 1, refusals=refusals),)),), ())
    lines = summary(build).split("\n\n")[1].splitlines()[1:]
    assert [line.strip() for line in lines] == [
        "40  st.global.u8 may write these bytes",
        f"3  {weighed}",
        "2  st.global.u8 may write these bytes; force rewrites it",
        *(f"1  reason {letter}" for letter in "abcdefg"),
        "3  3 other reasons: --format json has all",
    ]
    assert len(summary_json(build)["left_alone"]) == len(said)


def test_a_build_says_what_each_rewrite_changed() -> None:
    """Also rewrites that take no value from another load, with what they gained by the code that
    ptxas makes of the kernel."""
    rewrites = tuple(
        Rewrite(line=line, proof=Proof("proved"), rewrite=name, detail={})
        for line, name in ((7, "bank-conflicts"), (8, "vectorize"), (9, "vectorize"))
    )
    before, after = (
        Cost(registers, 0, 4096, {}, instructions, wavefronts, 1.0, 2.0)
        for registers, instructions, wavefronts in ((14, 23.0, 27.5), (16, 29.0, 5.0))
    )
    flip = Kernel(
        "flip", 1, rewrites=rewrites, loops=(Loop(3, "uniform", None), Loop(5, "keep", "a call")),
        decision=Decision(True, "ptxas", "", before, after),
    )  # fmt: skip
    report = replace(REPORT, kernels=(flip, UNTOUCHED, UNTOUCHED))
    build = Build((report,), ())
    head, table, *_ = summary(build).split("\n\n")
    assert head == "1 of 3 kernels changed: bank-conflicts 1, uniform-loops 1, vectorize 2"
    cells = table.partition("vectorize 2")[2].split()
    assert cells[:9] == ["23", "to", "29", "27.5", "to", "5", "14", "to", "16"]
    assert "| 23 to 29 | 27.5 to 5 | 14 to 16 | " in summary_markdown(build)
    (one,) = summary_json(build)["changed"]
    assert one["rewrites"] == {"bank-conflicts": 1, "uniform-loops": 1, "vectorize": 2}
    assert (
        one["after"].items() >= {"instructions": 29.0, "wavefronts": 5.0, "registers": 16}.items()
    )
    assert one["after"]["at_least"] <= one["after"]["at_most"]


def test_a_detail_that_is_not_there_is_not_told() -> None:
    detail: dict[str, Any] = {
        "kind": "invariant",
        "source_line": None,
        "load_lines": [],
        "tested": False,
        "size": 0,
    }
    rewrite = Rewrite(line=7, proof=Proof("proved"), rewrite="scalar-replacement", detail=detail)
    kernel = Kernel("k", 1, rewrites=(rewrite,))
    assert change_table(kernel).rows == (
        ("7", "scalar-replacement", "kind invariant; size 0", "proved"),
    )
