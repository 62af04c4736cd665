"""`ptxsw check` as it is called: formats, exit codes, baselines, silencing, messages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.programs.faults.cases import HERE as FAULTS
from ptxsw.report import messages
from ptxsw.report.layout import plain
from ptxsw.report.messages import Located
from ptxsw.report.model import Finding
from tests.command_line import ptxsw
from tests.heads import head

TILE, SOIL = (FAULTS / "ptx" / f"{name}.ptx" for name in ("tile", "soil"))
MENDED = FAULTS / "ptx" / "tile-mended.ptx"
SCHEMA = Path(__file__).with_name("sarif-2.1.0-rtm.5.json")
FAST = "--no-ptxas"


def copied(to: Path, *names: str) -> None:
    """Programs in a directory of their own, sources and PTX side by side as they are here."""
    for name in names:
        for part, ending in (("cuda", "cu"), ("ptx", "ptx")):
            (to / part).mkdir(exist_ok=True)
            shutil.copy(FAULTS / part / f"{name}.{ending}", to / part)


def rules(done: Any) -> list[str]:
    return [finding["rule"] for finding in json.loads(done.stdout)["findings"]]


def test_text_and_exit_status() -> None:
    done = ptxsw("check", TILE, MENDED, FAST)
    text = done.stdout.decode()
    assert done.returncode == 1 and done.stderr == b""
    assert text.startswith("benchmarks/programs/faults/cuda/tile.cu:16:5: warning: 32-way bank ")
    assert "Pad the rows: `t[SIDE][SIDE + PAD + 1]`" in text
    assert text.endswith("\n1 warning in 2 kernels of 2 files\n")
    assert ptxsw("check", MENDED, FAST).stdout == b"no findings in 1 kernel\n"


def test_findings_fold_to_the_terminal() -> None:
    """Words go on in the next line, code between backticks stays whole, and of a long line of the
    source the part about the caret is shown."""
    code = "\tout[b + threadIdx.y * SIDE + threadIdx.x] = t[threadIdx.x][threadIdx.y] + offset;"
    finding = Finding(
        "ptxsw-bank-conflicts", "warning", "tile", 60, 2, "32-way conflict",
        "The lanes of this load are 128 bytes apart and want different words of one bank.",
        "Pad it; or let `ptxsw optimize --rewrites bank-conflicts` do it.", 124.0, lines=(60,),
    )  # fmt: skip
    one = Located(finding, "tile.cu", 16, code.index("t[threadIdx.x]") + 1, code, "tile.ptx")
    assert messages.text([one], plain, 60) == (
        "tile.cu:16:46: warning: The lanes of this load are 128 bytes\n"
        "      apart and want different words of one bank.\n"
        "      [ptxsw-bank-conflicts]\n"
        "   16 | … * SIDE + threadIdx.x] = t[threadIdx.x][threadIdx.…\n"
        "      |                           ^\n"
        "      kernel tile, tile.ptx:60: 32-way conflict; weight 124\n"
        "      Pad it; or let\n"
        "      `ptxsw optimize --rewrites bank-conflicts` do it.\n"
    )
    assert messages.text([one], plain).count("\n") == 5


@pytest.mark.parametrize(
    ("name", "level", "status"),
    [
        ("tile", "note", 1), ("tile", "warning", 1), ("tile", "error", 0), ("tile", "never", 0),
        ("taps", "note", 1), ("taps", "warning", 0),
    ],
)  # fmt: skip
def test_fail_on(name: str, level: str, status: int) -> None:
    done = ptxsw("check", FAULTS / "ptx" / f"{name}.ptx", "--fail-on", level, FAST)
    assert done.returncode == status


def test_sarif_is_valid_and_has_the_pages_of_its_rules() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    pages = "https://example.org/findings.html"
    done = ptxsw("check", TILE, SOIL, "--format", "sarif", "--help-uri", pages, FAST)
    assert done.returncode == 1
    log = json.loads(done.stdout)
    jsonschema.Draft4Validator(json.loads(SCHEMA.read_text())).validate(log)
    [run] = log["runs"]
    first, second = run["results"]
    rule = run["tool"]["driver"]["rules"][first["ruleIndex"]]
    assert rule["id"] == first["ruleId"] == "ptxsw-bank-conflicts"
    assert rule["helpUri"] == f"{pages}#ptxsw-bank-conflicts"
    assert "t[32][33]" in rule["help"]["markdown"].replace("__shared__ float ", "")
    [place] = first["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "benchmarks/programs/faults/cuda/tile.cu"},
        "region": {"startLine": 16, "startColumn": 5},
    }
    assert second["ruleId"] == "ptxsw-array-of-structs"
    assert first["partialFingerprints"] != second["partialFingerprints"]


def test_sarif_of_nothing_is_valid() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    done = ptxsw("check", MENDED, "--format", "sarif", FAST)
    assert done.returncode == 0
    jsonschema.Draft4Validator(json.loads(SCHEMA.read_text())).validate(json.loads(done.stdout))


def test_annotations_of_github() -> None:
    done = ptxsw("check", TILE, "--format", "github", FAST)
    [line] = done.stdout.decode().splitlines()
    head, _, message = line.removeprefix("::").partition("::")
    assert head == (
        "warning file=benchmarks/programs/faults/cuda/tile.cu,line=16,col=5,"
        "title=ptxsw-bank-conflicts"
    )
    assert message.startswith("32-way bank conflict in `t`: adjacent lanes are 128 bytes")


def test_json() -> None:
    data = json.loads(ptxsw("check", TILE, "--format", "json", FAST).stdout)
    [found] = data["findings"]
    assert (found["rule"], found["line"], found["ptx_line"]) == ("ptxsw-bank-conflicts", 16, 60)
    assert found["figures"]["ways"] == 32 and found["weight"] == 124
    [kernel] = data["kernels"]
    assert kernel["totals"] == {"bytes": 256, "sectors": 8, "wavefronts": 33}
    assert "accesses" not in kernel


@pytest.mark.parametrize("select", ["performance", "data-race"])
def test_accesses_are_those_of_analyze(select: str) -> None:
    """What an editor shows of a line comes of the same run as the findings."""
    asked = ("--format", "json", "--block", "32x32")
    done = ptxsw("check", TILE, *asked, "--accesses", "--select", select, FAST)
    [kernel] = json.loads(done.stdout)["kernels"]
    [analyzed] = json.loads(ptxsw("analyze", TILE, *asked).stdout)["kernels"]
    assert kernel["block"] == analyzed["block"] == [32, 32, 1]
    for access, other in zip(kernel["accesses"], analyzed["accesses"], strict=True):
        for name in ("line", "source", "opcode", "sectors", "lane_stride", "address"):
            assert access[name] == other[name]
        assert access.get("bank_conflicts") == other.get("bank_conflicts")


@pytest.mark.parametrize("also", [(), ("--format", "json", "--statistics")])
def test_accesses_are_for_programs(also: tuple[str, ...]) -> None:
    done = ptxsw("check", TILE, "--accesses", *also)
    assert done.returncode == 2
    wanted = b"--accesses needs --format json, without --statistics or --resources\n"
    assert done.stderr == wanted


def test_rules_are_chosen() -> None:
    given = ("check", TILE, SOIL, "--format", "json", FAST)
    assert rules(ptxsw(*given, "--select", "array-of-structs")) == ["ptxsw-array-of-structs"]
    assert rules(ptxsw(*given, "--ignore", "ptxsw-array-of-structs,column")) == [
        "ptxsw-bank-conflicts"
    ]


def test_a_block_is_told(tmp_path: Path) -> None:
    """A kernel that does not fix its block has idle lanes in blocks that have."""
    given = ("check", FAULTS / "ptx" / "sampled-mended.ptx", "--format", "json", FAST)
    assert rules(ptxsw(*given, "--block", "100")) == ["ptxsw-idle-lanes"]
    assert rules(ptxsw(*given, "--block", "128")) == []


def test_baseline(tmp_path: Path) -> None:
    """What is known is not told, although lines have come and gone; what is new is."""
    copied(tmp_path, "tile", "soil")
    pinned = tmp_path / "known.json"
    done = ptxsw("check", "ptx/tile.ptx", "--write-baseline", pinned, FAST, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    source = tmp_path / "cuda" / "tile.cu"
    source.write_text("// a line more\n" + source.read_text())
    ptx = tmp_path / "ptx" / "tile.ptx"
    ptx.write_text(ptx.read_text().replace(".loc	1 16 5", ".loc	1 17 5"))
    given = ("check", "ptx", "--baseline", pinned, "--format", "json", FAST)
    done = ptxsw(*given, cwd=tmp_path)
    assert done.returncode == 1 and rules(done) == ["ptxsw-array-of-structs"]
    ptxsw("check", "ptx", "--write-baseline", pinned, FAST, cwd=tmp_path)
    assert ptxsw(*given, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    "comment", ["ignore", "ignore[bank-conflicts]", "ignore[x, ptxsw-bank-conflicts]"]
)
def test_a_comment_silences_its_line(comment: str, tmp_path: Path) -> None:
    copied(tmp_path, "tile")
    source = tmp_path / "cuda" / "tile.cu"
    silent = "t[threadIdx.x][threadIdx.y];"
    assert silent in source.read_text()
    source.write_text(source.read_text().replace(silent, f"{silent}  // ptxsw: {comment}"))
    done = ptxsw("check", "ptx/tile.ptx", FAST, cwd=tmp_path)
    assert done.stdout == b"no findings in 1 kernel\n"


def test_a_comment_about_another_rule_does_not(tmp_path: Path) -> None:
    copied(tmp_path, "tile")
    ptx = tmp_path / "ptx" / "tile.ptx"
    lines = ptx.read_text().splitlines()
    lines[59] += "  // ptxsw: ignore[column]"
    ptx.write_text("\n".join(lines) + "\n")
    assert ptxsw("check", ptx, FAST, cwd=tmp_path).returncode == 1
    lines[59] += " ptxsw: ignore[bank-conflicts]"
    ptx.write_text("\n".join(lines) + "\n")
    assert ptxsw("check", ptx, FAST, cwd=tmp_path).returncode == 0


def test_processes_change_nothing() -> None:
    given = ("check", TILE, SOIL, MENDED, FAST)
    assert ptxsw(*given, "-j1").stdout == ptxsw(*given, "-j2").stdout


# ---------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.ptx",), "none.ptx: No such file or directory\n"),
        (
            ("empty",),
            "empty: no PTX (*.ptx) below it; name sources, objects and libraries "
            "yourself: empty/*.o\n",
        ),
        (("latin.ptx",), "latin.ptx: neither PTX nor CUDA nor an object: byte 3 is not UTF-8\n"),
        (("tile.ptx", "--select", "luck"), "there is no rule ptxsw-luck; known: ptxsw-acc"),
        (
            ("tile.ptx", "--baseline", "tile.ptx"),
            "tile.ptx: not a baseline of ptxsw: not JSON: line 1, column 1: Expecting value",
        ),
        (
            ("tile.ptx", "--baseline", "gone"),
            "gone: No such file or directory; `--write-baseline gone` writes it\n",
        ),
        (("tile.ptx", "--block", "0"), "--block: '0' is not a size; write 256, 16x16 or 8x8x4\n"),
    ],
)
def test_errors(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "latin.ptx").write_bytes(b"// \xe9")
    shutil.copy(TILE, tmp_path)
    done = ptxsw("check", *arguments, FAST, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.decode().startswith(message)


def test_one_bad_file_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "broken.ptx").write_text("hello")
    done = ptxsw("check", tmp_path / "broken.ptx", TILE, FAST)
    assert done.returncode == 2
    assert b"broken.ptx:1:1: " in done.stderr and b"[ptxsw-bank-conflicts]" in done.stdout


# ---------------------------------------------------------------- weighed by a launch

COLUMNS = (
    head()
    + """\
.visible .entry columns(.param .u32 n, .param .u32 m, .param .u64 a)
{
    .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .f32 %f<3>;
    ld.param.u32 %r1, [n];
    ld.param.u32 %r2, [m];
    ld.param.u64 %rd1, [a];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r3, %tid.x;
    mul.wide.u32 %rd2, %r3, 64;
    add.s64 %rd2, %rd1, %rd2;
    mul.wide.u32 %rd3, %r3, 128;
    add.s64 %rd3, %rd1, %rd3;
FIRST:
    ld.global.f32 %f1, [%rd2];
    st.global.f32 [%rd2], %f1;
    add.s32 %r1, %r1, -1;
    setp.gt.s32 %p1, %r1, 0;
    @%p1 bra FIRST;
SECOND:
    ld.global.f32 %f2, [%rd3];
    st.global.f32 [%rd3], %f2;
    add.s32 %r2, %r2, -1;
    setp.gt.s32 %p1, %r2, 0;
    @%p1 bra SECOND;
    ret;
}
"""
)


def launch(to: Path, first: int, second: int, size: int = 4096) -> Path:
    args = [first, second, f"zeros:{size}:f32"]
    to.write_text(json.dumps({"grid": [2, 1, 1], "block": [32, 1, 1], "args": args}))
    return to


def worst_line(*arguments: str | Path) -> int:
    done = ptxsw("check", *arguments, FAST, "--format", "json", "--select", "uncoalesced")
    line: int = json.loads(done.stdout)["findings"][0]["ptx_line"]
    return line


def test_a_launch_says_which_loop_costs_most(tmp_path: Path) -> None:
    """The same kernel is slow in its first loop or in its second, as it is called."""
    text = tmp_path / "columns.ptx"
    text.write_text(COLUMNS)
    first = launch(tmp_path / "first.json", 50, 2)
    second = launch(tmp_path / "second.json", 2, 50)
    assert worst_line(text, "--launch", first) == 17
    assert worst_line(text, "--launch", f"columns={second}") == 23


def test_analyze_and_report_weigh_by_a_launch_too(tmp_path: Path) -> None:
    text = tmp_path / "columns.ptx"
    text.write_text(COLUMNS)
    first = launch(tmp_path / "first.json", 50, 2)
    second = launch(tmp_path / "second.json", 2, 50)
    for spec, worst in ((first, "17"), (second, "23")):
        for command in ("analyze", "report"):
            lines = ptxsw(command, text, "--launch", spec).stdout.decode().splitlines()
            assert "blocks of 32" in lines[0] and lines[2].split()[0] == worst, (command, spec)


def test_a_launch_that_analyze_cannot_run_is_bad_input(tmp_path: Path) -> None:
    text = tmp_path / "columns.ptx"
    text.write_text(COLUMNS)
    spec = launch(tmp_path / "l.json", 1, 1, size=4)
    for command in ("analyze", "report"):
        done = ptxsw(command, text, "--launch", spec)
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"the launch of columns cannot be run: " in done.stderr
        done = ptxsw(command, text, "--launch", f"other={spec}")
        assert done.returncode == 2
        assert done.stderr.decode() == f"--launch: no kernel 'other' in {text}\n"


def test_a_launch_that_faults_is_told_and_loops_count_as_before(tmp_path: Path) -> None:
    text = tmp_path / "columns.ptx"
    text.write_text(COLUMNS)
    done = ptxsw("check", text, "--launch", launch(tmp_path / "l.json", 1, 1, size=4), FAST)
    assert done.returncode == 1
    assert b"the launch of columns cannot be run: " in done.stderr
    assert b"past the end of buffer" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--launch", "nix=l.json"], "--launch: no kernel 'nix' in these files"),
        (
            ["--launch", "columns=l.json", "--launch", "columns=l.json"],
            "--launch: there are two of columns",
        ),
        (["--launch", "l.json", "--launch", "l.json"], "there are two without a kernel's name"),
        (["--launch", "both.json"], "both.json: 2 launches; a kernel takes one here"),
    ],
)
def test_launches_that_fit_nothing(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "columns.ptx").write_text(COLUMNS)
    one = launch(tmp_path / "l.json", 1, 1).read_text()
    (tmp_path / "both.json").write_text(f"[{one}, {one}]")
    done = ptxsw("check", "columns.ptx", *arguments, FAST, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.decode()


def test_of_several_kernels_the_launched_one_is_named(tmp_path: Path) -> None:
    text = tmp_path / "two.ptx"
    body = COLUMNS.partition(".visible")[2]
    text.write_text(COLUMNS + f".visible{body.replace('columns', 'others')}")
    spec = launch(tmp_path / "l.json", 1, 1)
    done = ptxsw("check", text, "--launch", spec, FAST)
    assert done.returncode == 2
    assert b"two.ptx has 2 kernels: say which is launched" in done.stderr
    assert ptxsw("check", text, "--launch", f"others={spec}", FAST).stderr == b""


# ---------------------------------------------------------------- one line, one finding


def test_what_one_line_became_is_told_once() -> None:
    """nvcc unrolled the loop by four and left a loop for the rest: one line of the source."""
    done = ptxsw("check", FAULTS / "ptx" / "gemv.ptx", "--format", "json", FAST)
    column, tile = json.loads(done.stdout)["findings"]
    assert (column["rule"], tile["rule"]) == ("ptxsw-column", "ptxsw-shared-tile")
    assert "The same holds for" not in column["what"]
    assert column["lines"] == [74, 83, 92, 101, 134]


TALL = f"""{head("8.0", "sm_80")}
.visible .entry scale_rows(.param .u64 x, .param .u32 columns)
{{
    .reg .b32 %r<20>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [x];
    ld.param.u32 %r1, [columns];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %tid.y;
    mov.u32 %r5, %ctaid.x;
    mov.u32 %r6, %ntid.x;
    mad.lo.s32 %r2, %r5, %r6, %r2;
    mad.lo.s32 %r4, %r2, %r1, %r3;
    mul.wide.s32 %rd2, %r4, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    add.f32 %f2, %f1, %f1;
    st.global.f32 [%rd3], %f2;
    ret;
}}
"""


def test_a_finding_names_the_block_that_it_assumes(tmp_path: Path) -> None:
    """A kernel that is launched with blocks of 1 x 256 threads: without `--block` a warp is taken
    to lie along x, and the finding says so."""
    (tmp_path / "tall.ptx").write_text(TALL)
    alone = ptxsw("check", tmp_path / "tall.ptx", FAST)
    assert alone.returncode == 1 and b"[ptxsw-swapped-axes]" in alone.stdout
    assert b"This assumes that `blockDim.x` is a multiple of 32" in alone.stdout
    for shape, status in (("1x256", 0), ("256", 1)):
        told = ptxsw("check", tmp_path / "tall.ptx", FAST, "--block", shape)
        assert (told.returncode, b"assumes" in told.stdout) == (status, False)


def test_the_worst_finding_of_all_kernels_and_files_comes_first(tmp_path: Path) -> None:
    """A light warning, then a note, then a heavy warning: the order of the text is not that of
    what they cost."""
    light = TALL.replace("scale_rows", "light").replace(".visible", "\n.visible", 1)
    note = (FAULTS / "ptx" / "taps.ptx").read_text()
    heavy = TILE.read_text()
    (tmp_path / "a.ptx").write_text(light)
    (tmp_path / "b.ptx").write_text(note)
    (tmp_path / "c.ptx").write_text(heavy)
    body = light[light.index(".visible") :]
    (tmp_path / "d.ptx").write_text(heavy + "\n" + body.replace("light", "lighter"))
    for files in (["a", "b", "c"], ["d"], ["a", "b", "c", "d"]):
        done = ptxsw("check", *(tmp_path / f"{name}.ptx" for name in files), FAST, "--format",
                     "json")  # fmt: skip
        told = [(f["level"], f["weight"]) for f in json.loads(done.stdout)["findings"]]
        assert told == sorted(told, key=lambda f: (f[0] != "warning", -f[1])) and len(told) > 1
