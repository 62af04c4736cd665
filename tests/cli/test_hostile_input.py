"""Inputs whose author wants something else: to read files of the machine, to command a terminal or
a CI system, to stop the program. `.file`, names and strings in JSON are data."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from time import process_time
from typing import NamedTuple

import pytest

from ptxsw.cli.terminal import GuardedStream
from ptxsw.ptx import printable
from ptxsw.report.machine_code import MachineCode
from tests.command_line import JACOBI, ptxsw

SECRET = "hunter2"
FIELDS = """\
.version 7.8
.target sm_80
.address_size 64
.visible .entry {kernel}(.param .u64 a)
{{
.reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<9>;
.loc 1 1 1
ld.param.u64 %rd1,[a];
mov.u32 %r1,%tid.x;
mul.wide.u32 %rd2,%r1,128;
add.s64 %rd3,%rd1,%rd2;
ld.global.f32 %f1,[%rd3];
.loc 1 2 1
st.global.f32 [%rd3+4],%f1;
ret;
}}
.file 1 "{file}"
"""


def text(file: str, kernel: str = "k") -> str:
    """A kernel that `check` complains of, in the lines 1 and 2 of a source file."""
    return FIELDS.format(file=file, kernel=kernel)


def written(path: Path, file: str, kernel: str = "k") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text(file, kernel))
    return path


class Said(NamedTuple):
    status: int
    stdout: str
    stderr: str


class Commands:
    """The command line under the settings of the test. What asks ptxas is left out."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        nothing = MachineCode(None, (), "")
        patch.setattr("ptxsw.report.machine_code.machine_code", lambda *_: nothing)
        patch.setattr("ptxsw.cli.report_run._predicted", lambda *_: None)

    def __call__(self, *arguments: object, cwd: Path | None = None) -> Said:
        settings = {k: v for k, v in os.environ.items() if k.startswith("PTXSW_")}
        done = ptxsw(*arguments, cwd=cwd, env=settings)
        return Said(done.returncode, *(os.fsdecode(said) for said in (done.stdout, done.stderr)))

    def check(self, path: Path, *more: str, cwd: Path | None = None) -> str:
        """All that `check` says of a file, on both streams."""
        done = self("check", path, "--no-ptxas", "-j1", *more, cwd=cwd or path.parent)
        assert done.status == 1, done.stderr
        return done.stdout + done.stderr

    def page(self, path: Path, *more: str, cwd: Path | None = None) -> str:
        out = path.with_suffix(".html")
        done = self("report", path, "--html", out, *more, cwd=cwd or path.parent)
        assert done.status == 0, done.stderr
        return out.read_text()


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(monkeypatch)


# ---------------------------------------------------------------- files of the machine


@pytest.mark.parametrize("here", [None, Path("/"), Path("/proc/self")])
def test_the_environment_is_not_shown(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Path | None
) -> None:
    """Not even to who works in the root directory, below which everything lies."""
    monkeypatch.setenv("PASSWORD", SECRET)
    for file in ("/proc/self/environ", "../../../../../../../proc/self/environ", "environ"):
        ptx = written(tmp_path / "k.ptx", file)
        for show in (commands.check, commands.page):
            assert SECRET not in show(ptx, cwd=here)
        assert f"{file}:1:1: warning" in commands.check(ptx, "--format", "text")


@pytest.mark.parametrize(
    "file", ["{}/settings.py", "../secret/settings.py", "x.cu", "in/settings.py"]
)
def test_sources_of_others_are_not_shown(commands: Commands, tmp_path: Path, file: str) -> None:
    """By no path, by no link to a file, by no link to a directory."""
    secret, work = tmp_path / "secret", tmp_path / "work"
    secret.mkdir()
    (secret / "settings.py").write_text(f"PASSWORD = {SECRET}\n" * 3)
    ptx = written(work / "k.ptx", file.format(secret))
    (work / "x.cu").symlink_to(secret / "settings.py")
    (work / "in").symlink_to(secret)
    for show in (commands.check, commands.page):
        assert SECRET not in show(ptx)
    assert "is not shown: it lies below neither the PTX, nor the working dir" in commands.check(ptx)
    assert SECRET in commands.check(ptx, "--source-root", str(tmp_path))
    assert SECRET in commands.page(ptx, "--source-root", "/usr", "--source-root", str(secret))


def test_a_link_to_what_is_no_source_is_not_shown(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"PASSWORD={SECRET}\n" * 3)
    (tmp_path / "x.cu").symlink_to(".env")
    for file in (".env", "x.cu"):
        ptx = written(tmp_path / "k.ptx", file)
        assert SECRET not in commands.check(ptx) and SECRET not in commands.page(ptx)


def test_pipes_devices_and_huge_files_are_not_read(commands: Commands, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.cu")
    (tmp_path / "device.cu").symlink_to("/dev/zero")
    (tmp_path / "own.cu").symlink_to("/dev/stdin")
    with (tmp_path / "huge.cu").open("wb") as huge:
        huge.truncate(3 << 30)
    for file, reason in [
        ("pipe.cu", "it is not a regular file"), ("device.cu", "it is not a regular file"),
        ("huge.cu", "it is larger than 4 MB"), ("own.cu", ""),
    ]:  # fmt: skip
        ptx = written(tmp_path / "k.ptx", file)
        assert (f"{file} is not shown: " if reason else "") + reason in commands.check(ptx)
        commands.page(ptx)


def test_sources_are_found_where_they_moved(commands: Commands, tmp_path: Path) -> None:
    """Compiled elsewhere; the sources are below a root, under the last parts of their path."""
    (tmp_path / "repo" / "src").mkdir(parents=True)
    (tmp_path / "repo" / "src" / "k.cu").write_text("the first line\n")
    ptx = written(tmp_path / "build" / "k.ptx", "/home/ci/work/src/k.cu")
    assert "the first line" not in commands.check(ptx)
    said = commands.check(ptx, "--source-root", "../repo", cwd=ptx.parent)
    assert "../repo/src/k.cu:1:1: warning" in said and "    1 | the first line\n" in said
    done = commands("check", ptx, "--source-root", "none", cwd=tmp_path)
    assert (done.status, done.stderr) == (2, "--source-root: none: no such directory\n")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("/cuda" * 100_000 + ".cu", "", ""),
        ("x/a" * 2_000 + ".cu", "", ""),
        ("k.cu", "[%rd3];\n", "[%rd3]; // " + "ptxsw: ignore[" * 50_000 + "\n"),
        (
            "/cuda/include/k.h",
            ".loc 1 2 1",
            f".loc 1 2 1, function_name $L, inlined_at {'9' * 5000} 1 1",
        ),
    ],
    ids=["roots of toolkits", "depth", "silencing", "digits"],
)
def test_long_names_and_lines_take_no_time(
    commands: Commands, tmp_path: Path, file: str, old: str, new: str
) -> None:
    """What searches them takes time in proportion to their length."""
    ptx = written(tmp_path / "k.ptx", file)
    ptx.write_text(ptx.read_text().replace(old, new) if old else ptx.read_text())
    begin = process_time()
    commands("check", ptx, "--no-ptxas")
    commands.page(ptx)
    assert process_time() - begin < 5


# ---------------------------------------------------------------- commands to terminals and CI

MEAN = {
    "terminal": "x\x1b]0;PWNED\x07\x1b[2Jy.cu",
    "8 bits": "x\x9b2J\x90y.cu",
    "bidi": "x\u202e\u2066cod.cu",
    "carriage": "x\ry.cu",
    "GitHub": "::stop-commands::x.cu",
    "GitHub indented": " \t::stop-commands::x.cu",
    "GitHub as it was": "x##[set-env name=PATH]y.cu",
    "Azure": "x##vso[task.setvariable variable=PATH]y.cu",
    "Markdown": "x|y<img src=z>[a](b)`.cu",
}


def printed(said: str) -> bool:
    return said == printable.one_line(said, "\n\t")


def harmless(said: str) -> bool:
    lines = [line.lstrip() for line in said.split("\n")]
    old = re.search(r"##(vso)?\[", said)
    return printed(said) and not old and not any(line.startswith("::") for line in lines)


@pytest.mark.parametrize("file", MEAN.values(), ids=MEAN)
def test_names_of_files_are_no_commands(commands: Commands, tmp_path: Path, file: str) -> None:
    ptx = written(tmp_path / "k.ptx", file)
    (tmp_path / "y.cu").write_text("a\n")
    assert harmless(commands.check(ptx))
    (only,) = commands.check(ptx, "--format", "github").splitlines()
    assert only.startswith("::warning file=") and harmless(only[2:])
    for format in ("json", "sarif"):
        done = commands("check", ptx, "--no-ptxas", "--format", format)
        assert harmless(done.stdout) and json.loads(done.stdout)
    for format in ("text", "markdown"):
        assert harmless(commands("analyze", ptx, "--format", format).stdout)
    assert harmless(commands("report", ptx).stdout)
    html = commands.page(ptx)
    assert printed(html) and "\\u001b" not in html and "<img" not in html


def test_markdown_stays_a_table(commands: Commands, tmp_path: Path) -> None:
    ptx = written(tmp_path / "k.ptx", MEAN["Markdown"])
    said = commands("analyze", ptx, "--format", "markdown").stdout
    assert r"x\|y\<img src=z>[a]\(b)\`.cu:1" in said


@pytest.mark.parametrize("line", ["\x1b[2J\x9b::a", "::stop-commands::a", "a ##[error]", "\u202eb"])
def test_lines_of_sources_are_no_commands(commands: Commands, tmp_path: Path, line: str) -> None:
    ptx = written(tmp_path / "k.ptx", "k.cu")
    (tmp_path / "k.cu").write_text(f"{line}\n" * 2)
    said = commands.check(ptx)
    assert harmless(said) and "    1 | " in said
    assert printed(commands.page(ptx))


def test_errors_draw_harmless_lines(commands: Commands, tmp_path: Path) -> None:
    """With the caret below the character that is meant, in a part of a long line."""
    path = tmp_path / "::stop::\x1b[2J.ptx"
    path.write_text(".version 8.0\n.target sm_80\n\t\x1b[2J\x9b\r\u202e ?\n")
    for command in (("analyze",), ("check",), ("optimize", "-o", "-"), ("predict",), ("report",)):
        done = commands(command[0], path.name, *command[1:], cwd=tmp_path)
        said = done.stderr
        assert done.status == 2 and harmless(said), command
        assert said.startswith(r"\x3a:stop::\x1b[2J.ptx:3:"), command
    assert said.splitlines()[1] == "    3 | \t\\x1b[2J\\x9b\\r\\u202e ?"
    path.write_text(f".version 8.0\n.target sm_80\n.entry k() {{ {'add ' * 1_000_000}}}\n")
    said = commands("analyze", path.name, cwd=tmp_path).stderr
    assert len(said) < 2000 and "^" in said


def test_what_ptxas_says_is_harmless(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "ptxas"
    fake.write_text("#!/bin/sh\nprintf '::stop::\\033[2J\\377\\n' >&2\nexit 1\n")
    fake.chmod(0o700)
    monkeypatch.setenv("PTXSW_REAL_PTXAS", str(fake))
    done = commands("assemble", JACOBI, "-o", tmp_path / "out")
    assert done == (2, "", "\\x3a:stop::\\x1b[2J\\xff\n")


def test_what_a_stream_is_given_is_guarded() -> None:
    class Terminal(list[str]):
        def write(self, text: str) -> int:
            self.append(text)
            return len(text)

        def isatty(self) -> bool:
            return True

    told = Terminal()
    stream = GuardedStream(told)  # type: ignore[arg-type]
    stream.write("\x1b[31mred\x1b[0m \x1b[2J\x1b[8m\r\n")
    stream.exact("\r\x1b[K")
    assert told == ["\x1b[31mred\x1b[0m \\x1b[2J\\x1b[8m\\r\n", "\r\x1b[K"]


# ---------------------------------------------------------------- names of files and kernels


def test_names_that_are_not_utf8(commands: Commands, tmp_path: Path) -> None:
    """Each output can be read again; SARIF has the very bytes of the name."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/k\xff\n.ptx"))
    path.write_text(text("none.cu").replace(".loc", "//"))
    assert r"k\xff\n.html" in commands.page(path).split("</title>")[0].replace(".ptx", ".html")
    said = commands.check(path)
    assert harmless(said) and said.startswith(rf"{tmp_path}/k\xff\n.ptx:12:1: warning")
    log = json.loads(commands("check", path, "--no-ptxas", "--format", "sarif").stdout)
    [result] = log["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place["uri"].endswith("/k%FF%0A.ptx")
    for command in (("analyze", path), ("check", path, "--no-ptxas")):
        done = commands(*command, "--format", "json")
        assert r"k\\xff\n.ptx" in done.stdout, done.stderr
    json_report = tmp_path / "r.json"
    done = commands("optimize", path, "-o", tmp_path / "o.ptx", "--report", json_report)
    assert done.status == 0 and harmless(done.stdout), done.stderr
    assert harmless(commands("report", json_report).stdout)


def test_names_of_kernels_that_are_too_long_for_a_file(commands: Commands, tmp_path: Path) -> None:
    """Their proofs are told apart by a digest."""
    jacobi = JACOBI.read_text()
    kernel = jacobi[jacobi.index(".visible") :]
    names = [f"{'j' * 300}{end}" for end in "ab"]
    head = jacobi[: jacobi.index(".visible")]
    path = tmp_path / "long.ptx"
    path.write_text(head + "\n".join(kernel.replace("jacobi", name) for name in names))
    done = commands(
        "optimize", path, "-o", tmp_path / "o.ptx", "--mode", "force", "--emit-smt2", tmp_path / "p"
    )
    assert done.status == 0, done.stderr
    stems = {proof.name[:160] for proof in (tmp_path / "p").iterdir()}
    assert len(stems) == 2


# ---------------------------------------------------------------- JSON


DEEP = b'{"ptxsw_baseline": ' + b"[" * 100_000


def test_json_that_is_nested_without_end(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "deep.json"
    path.write_bytes(DEEP)
    monkeypatch.setenv("PTXSW_TUNED", str(path))
    reason = "not JSON that can be read: nested too deeply\n"
    done = commands("check", JACOBI, "--no-ptxas", "--baseline", path)
    assert done == (2, "", f"{path}: not a baseline of ptxsw: {reason}")
    done = commands("cache", "info")
    assert (done.status, done.stderr) == (2, f"{path}: {reason}")
    assert commands("optimize", JACOBI, "-o", tmp_path / "o.ptx").status == 0


def test_reports_of_a_hostile_build(commands: Commands, tmp_path: Path) -> None:
    """Their strings are data, and only regular files are read."""
    done = commands("optimize", JACOBI, "-o", os.devnull, "--report", tmp_path / "r.json")
    assert done.status == 0
    report = json.loads((tmp_path / "r.json").read_text())
    mean = "\n".join(MEAN.values())
    report |= {"file": mean, "arch": mean, "warning": mean}
    report["kernels"][0] |= {"name": mean, "readable": mean}
    report["kernels"][0]["refusals"] = [
        {"line": 1, "source_line": None, "delta": None, "reason": mean}
    ]
    (tmp_path / "r.json").write_text(json.dumps(report))
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "::stop::\x1b[2J.json").write_bytes(DEEP)
    done = commands("report", tmp_path)
    assert done.status == 2
    assert harmless(done.stdout) and harmless(done.stderr)
