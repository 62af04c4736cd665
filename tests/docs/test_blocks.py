"""Every code block of the documents is run, compiled, assembled or parsed, or says why not."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ptxsw.driver import check_rules
from tests.docs.blocks import DOCS, PAGES, ROOT, Block, blocks, indented

LANGUAGES = {
    "sh": "run here",
    "console": "run here, or by the test of its page; what it prints is compared",
    "python": "test_docs.test_programs_run",
    "cuda": "compiled here",
    "yaml": "parsed here",
    "json": "parsed here",
    "toml": "parsed here",
    "ptx": "test_rewrites, test_docs.test_the_walk_through_is_real; or an excerpt, looked up here",
    "diff": "test_rewrites",
    "smt2": "test_docs.test_the_walk_through_is_real",
    "text": "no code: how a command is called, a drawing",
}
"""Each language of a block, and who looks after it."""

HAVE_A_TEST = {"docs/errors.md", "docs/reading-a-trace.md", "docs/walkthrough.md"}
"""Pages whose consoles `test_docs` runs, each in its own folder."""

SLOW = {
    "README.md",
    "docs/getting-started.md",
    "docs/integrations.md",
    "docs/kernelgen.md",
    "docs/predicting.md",
}
"""Pages whose commands take more than a few seconds."""

REASONS = {
    "a GPU",
    "the network",
    "make test runs this",
    "another compiler",
    "another build system",
    "other machines",
    "python -m benchmarks runs for minutes",
    "a GPU; the network",
}
"""What may keep a block from being run."""


def test_every_block_names_a_language_and_nothing_is_code_without_a_fence() -> None:
    for path in PAGES:
        assert list(indented(path)) == [], path
    for block in blocks():
        assert block.language in LANGUAGES, block
        assert block.mark != "not run" or block.said in REASONS, block
        if block.language == "text":
            assert not re.match(r"\$ |ptxsw ", block.code), block


def _by_speed(pages: list[Block]) -> list[object]:
    return [
        pytest.param(one, id=str(one), marks=[pytest.mark.slow] * (one.page in SLOW))
        for one in pages
        if one.mark != "not run"
    ]


# ---------------------------------------------------------------- commands


@pytest.mark.parametrize("block", _by_speed(list(blocks("sh"))))
def test_commands_run(block: Block, run: Callable[[Block, str], str]) -> None:
    run(block, block.code)


@pytest.mark.parametrize(
    "block", _by_speed([b for b in blocks("console") if b.page not in HAVE_A_TEST])
)
def test_consoles_print_what_they_show(block: Block, run: Callable[[Block, str], str]) -> None:
    """Lines with "…" stand for some others."""
    for part in re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        printed = run(block, command)
        expected = ".*".join(map(re.escape, re.split(r"^…\n", shown, flags=re.MULTILINE)))
        assert re.fullmatch(expected, printed, re.DOTALL), printed


_TRAP = """
trap 'status=$?; case "$BASH_COMMAND" in "ptxsw check "*) [ $status = 1 ];; *) false;; esac ||
  { echo "$BASH_COMMAND: status $status" >&2; exit $status; }' ERR
"""
"""Ends where a command fails; `check` says by status 1 that there are findings."""


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Block, str], str]:
    """Runs commands of a block beside the files that they name, in a home of their own."""

    def check(block: Block, commands: str) -> str:
        for program in block.said.split(", ") if block.mark == "needs" else ():
            if not shutil.which(program):
                pytest.skip(f"no {program}")
        furnish(tmp_path, commands)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PTXSW_", "XDG_"))}
        more = {
            "PATH": f"{tmp_path / 'programs'}:{os.environ['PATH']}",
            "HOME": str(tmp_path), "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        done = subprocess.run(
            ["bash", "-c", f"{_TRAP}{commands}\n:"], cwd=tmp_path, env=clean | more,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return check


def furnish(place: Path, commands: str) -> None:
    """The files that a page takes for granted."""
    programs = place / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("ptxsw", "ptxsw-ptxas", "ptxsw-nvptx-none-as", "python"):
        program = Path(sys.executable).parent / name
        (programs / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        (programs / name).chmod(0o755)
    for name in ("examples", "tests"):
        if not (place / name).exists():
            (place / name).symlink_to(ROOT / name)
    ptx = ROOT / "benchmarks" / "kernelgen" / "ptx"
    for name in ("jacobi", "laplacian"):
        shutil.copy(ptx / f"{name}.ptx", place)
    for name in ("chunks", "dct", "stencil-nvcc"):
        shutil.copy(ROOT / "benchmarks" / "programs" / "ptx" / f"{name}.ptx", place)
    shutil.copy(ptx / "jacobi.ptx", place / "kernel.ptx")
    shutil.copy(ptx / "jacobi.ptx", place / "A.ptx")
    shutil.copy(ptx / "jacobi.ptx", place / "B.ptx")
    cuda = ROOT / "benchmarks" / "programs" / "faults" / "cuda"
    shutil.copy(cuda / "tile.cu", place)
    shutil.copy(cuda / "rowsum.cu", place / "kernel.cu")
    shutil.copy(ptx / "jacobi.ptx", place / "out.ptx")
    (place / "spec.json").write_text(
        '{"grid": [1, 62, 1], "block": [64, 1, 1], "args": [64, 64, 0.25, 0.25, 0.25, '
        '"random:8192:f32:1+1024", "zeros:8192:f32+1024"]}'
    )
    (place / "Makefile").write_text("all:\n\tptxas -arch=sm_80 kernel.ptx -o kernel.cubin\n")
    (place / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(tile CUDA)\n"
        "set(CMAKE_CUDA_ARCHITECTURES 90)\nadd_library(tile tile.cu)\n"
    )
    if "build/" in commands:
        (place / "build").mkdir()
        shutil.copy(ptx / "jacobi.ptx", place / "build")
    if "kernel.c\n" in commands:
        (place / "kernel.c").write_text(
            "float a[256];\nint main(void)\n{\n#pragma acc parallel loop copy(a)\n"
            "    for (int i = 0; i < 256; i++)\n        a[i] += 1;\n    return 0;\n}\n"
        )
    if "src/*.cu" in commands:
        (place / "src").mkdir()
        shutil.copy(cuda / "tile.cu", place / "src")
    for name in re.findall(r"--source-root (\w+)", commands):
        (place / name).mkdir()
    if "a.out" in commands:
        (place / "main.cu").write_text(
            "__global__ void k(int *p) { *p = 1; }\nint main() { k<<<1, 1>>>(0); }\n"
        )
        subprocess.run(["nvcc", "-arch=sm_80", "main.cu", "-o", "a.out"], cwd=place, check=True)
    if "lib.a" in commands:
        subprocess.run(
            ["nvcc", "-arch=sm_80", "-lib", "kernel.cu", "-o", "lib.a"], cwd=place, check=True
        )


# ---------------------------------------------------------------- CUDA


@pytest.mark.parametrize("page", ["findings.md", "correctness.md"])
def test_cuda_compiles_and_has_the_findings_that_its_page_names(page: str, tmp_path: Path) -> None:
    """Each rule is broken by the kernel before, and kept by the kernel after."""
    if not shutil.which("nvcc"):
        pytest.skip("no nvcc")
    sections = {}
    for section in (DOCS / page).read_text().split("\n## "):
        for code in re.findall(r"^```cuda\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
            sections[section.partition("\n")[0]] = code
    pages = {b.page for b in blocks("cuda")}
    assert pages == {"docs/findings.md", "docs/correctness.md"}, "compile that of others here, too"
    group = "performance" if page == "findings.md" else "correctness"
    broken = _findings(sections, group, tmp_path)
    for rule in check_rules.rule_pages():
        if rule.group == group and rule.name in sections:
            word = _word(rule.name)
            named = [kernel for name, kernel in broken if name == rule.name]
            assert any(f"{len(word)}{word}6before" in kernel for kernel in named), rule.name
            assert not any(f"{len(word)}{word}5after" in kernel for kernel in named), rule.name
    assert not any("row_sums" in kernel for _, kernel in broken)  # it has a comment that says so


def _findings(sections: Mapping[str, str], group: str, place: Path) -> set[tuple[str, str]]:
    """Rules and kernels of what is found in the code of some sections."""
    includes = {
        line for code in sections.values() for line in code.splitlines() if line[:8] == "#include"
    }
    bare = {
        title: "\n".join(line for line in code.splitlines() if line not in includes)
        for title, code in sections.items()
    }
    text = "".join(f"namespace {_word(title)} {{\n{code}}}\n" for title, code in bare.items())
    (place / "all.cu").write_text("\n".join([*sorted(includes), text]))
    arch = "sm_90" if group == "performance" else "sm_90a"
    compiled = ["nvcc", f"-arch={arch}", "-lineinfo", "-ptx", "all.cu", "-o", "all.ptx"]
    subprocess.run(compiled, cwd=place, check=True)
    done = subprocess.run(
        [sys.executable, "-m", "ptxsw", "check", "all.ptx", "--select", group, "--format", "json"],
        cwd=place, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {(each["rule"], each["kernel"]) for each in json.loads(done.stdout)["findings"]}


def _word(title: str) -> str:
    return re.sub(r"\W", "_", title)


# ---------------------------------------------------------------- data and excerpts


@pytest.mark.parametrize("block", list(blocks("json", "toml", "yaml")), ids=str)
def test_data_can_be_parsed(block: Block) -> None:
    if block.language == "json":
        json.loads(block.code)
    elif block.language == "toml":
        tomllib.loads(block.code)
    else:
        yaml = pytest.importorskip("yaml")
        assert yaml.safe_load(block.code)


def test_excerpts_stand_where_they_say() -> None:
    for block in blocks():
        if block.mark == "excerpt of":
            assert block.code in (ROOT / block.said).read_text(), block
