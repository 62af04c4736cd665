"""The pages of the rewrites: each rewrite has one, its code is what the tool makes, its figures are
those of the results, its reasons are those of the code. --update-golden writes the code anew."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ptxsw import Options, optimize
from ptxsw.cost import disassembly, sass
from ptxsw.rewrites import REWRITES
from ptxsw.toolchain import ptxas

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "rewrites"
RESULTS = ROOT / "benchmarks" / "results" / "linux-x86_64-2cores" / "rewrites.txt"
NAMES = [rewrite.name for rewrite in REWRITES]
SHOWN = [name for name in NAMES if name != "registers"]


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text()


def block(name: str, language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", page(name), re.MULTILINE | re.DOTALL)
    return str(found)


@cache
def after(name: str) -> str:
    """What the command of the page makes of its kernel, or of KernelGen's tricubic."""
    (command,) = re.findall(r"^ptxsw optimize kernel\.ptx -o out\.ptx (.*)$", page(name), re.M)
    parser = argparse.ArgumentParser()
    for option in ("mode", "rewrites", "scheme", "arch"):
        parser.add_argument(f"--{option}")
    given = {k: v for k, v in vars(parser.parse_args(command.split())).items() if v is not None}
    assert given.pop("rewrites") == name
    return optimize(before(name), Options(rewrites=(name,), **given)).text


def before(name: str) -> str:
    if name == "registers":
        text = (ROOT / "benchmarks" / "kernelgen" / "ptx" / "tricubic.ptx").read_text()
        return re.sub(r"(?m)^\)$", ")\n.reqntid 256, 1, 1", text)
    return block(name, "ptx")


def difference(old: str, new: str) -> str:
    """The lines that change, each with one beside it; "⋮" stands for others."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), n=1, lineterm="")
    body = (" ⋮" if line.startswith("@@") else line.rstrip() for line in list(lines)[2:])
    return "\n".join((*body, " ⋮", ""))


def has_ptxas() -> bool:
    try:
        return bool(ptxas.locate() and disassembly.locate())
    except (ptxas.NoPtxas, disassembly.NoNvdisasm):
        return False


def test_each_rewrite_has_a_page() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == set(NAMES)


ROW = re.compile(r"^\| \[([a-z-]+)\]\((?:docs/)?rewrites/\1\.md\) \| .* \| (.*) \|\n", re.MULTILINE)


def test_the_tables_list_what_there_is(request: pytest.FixtureRequest) -> None:
    """What a rewrite does is its sentence; what it is worth, docs/rewrites.md says, and the README
    repeats it."""
    index, readme = ROOT / "docs" / "rewrites.md", ROOT / "README.md"
    worth = dict(ROW.findall(index.read_text()))
    for path, folder in ((index, ""), (readme, "docs/")):
        rows = ""
        for one in REWRITES:
            does = one.summary[0].lower() + one.summary[1:].removesuffix(".")
            gain = re.sub(r"\]\((?=\w+\.md)", f"]({folder}", worth.get(one.name, "not counted yet"))
            rows += f"| [{one.name}]({folder}rewrites/{one.name}.md) | {does} | {gain} |\n"
        table = "".join(match[0] for match in ROW.finditer(path.read_text()))
        assert table and table in path.read_text()
        if request.config.getoption("--update-golden"):
            path.write_text(path.read_text().replace(table, rows))
            table = rows
        assert table == rows


@pytest.mark.parametrize("name", [*SHOWN, pytest.param("registers", marks=pytest.mark.slow)])
def test_the_code_is_what_the_tool_makes(name: str, request: pytest.FixtureRequest) -> None:
    if name == "registers" and not has_ptxas():
        pytest.skip("no ptxas with nvdisasm")
    made = difference(before(name), after(name))
    if request.config.getoption("--update-golden"):
        text = re.sub(r"(?ms)^(```diff\n).*?^```", lambda m: f"{m[1]}{made}```", page(name))
        (PAGES / f"{name}.md").write_text(text)
    assert made == block(name, "diff")
    assert "\n+" in made


@pytest.mark.parametrize("name", SHOWN)
def test_ptxas_takes_both(name: str) -> None:
    try:
        program = ptxas.locate()
    except ptxas.NoPtxas as error:
        pytest.skip(str(error))
    for text in (before(name), after(name)):
        ptxas.assemble(text, "sm_80", ptxas=program)


@pytest.mark.parametrize("name", NAMES)
def test_reasons_are_those_of_the_code(name: str) -> None:
    code = _code()
    for reason in re.findall(r"^\| `(.*?)` \| ", _section(name, "When it is refused"), re.M):
        for part in re.split(r" ?… ?", reason):
            assert part.strip() in code, reason


@cache
def _code() -> str:
    """All of the package, texts of several lines joined, and what is filled in left out."""
    text = "\n".join(p.read_text() for p in sorted((ROOT / "ptxsw").rglob("*.py")))
    joined = re.sub(r'"\n\s*f?"', "", text)
    return re.sub(r" ?\{[^{}]*\} ?", "…", joined)


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_those_of_the_results(name: str) -> None:
    """Rows of tables that name a program and a target, cell by cell."""
    results = {(row["program"], row["rewrite"], row["arch"]): row for row in _rows()}
    for header, *rows in _tables(name):
        if header[0] == "program":
            for row in rows:
                measured = results[row[0], name, row[1]]
                for column, cell in zip(header[2:], row[2:], strict=True):
                    assert cell == measured[column], (row[0], column)


@pytest.mark.parametrize("name", ["narrowing"])
def test_instructions_of_the_example(name: str) -> None:
    if not has_ptxas() or not ptxas.version(ptxas.locate()).startswith("13.0."):
        pytest.skip("the page counts what ptxas 13.0 makes, disassembled")
    (table,) = (t for t in _tables(name) if t[0][0] == "this example")
    for arch, cell in zip(table[0][1:], table[1][1:], strict=True):
        texts = (
            text.replace("sm_70", arch).replace("7.0", "8.7")
            for text in (before(name), after(name))
        )
        counts = [len(sass.read(text, arch, lines=False).kernels[0].instructions) for text in texts]
        assert cell == " to ".join(map(str, counts))


def _rows() -> Iterator[dict[str, str]]:
    """The lines of the table, by its header."""
    header: list[str] = []
    for line in RESULTS.read_text().splitlines():
        cells = re.split(r"  +", line.strip())
        if cells[:3] == ["program", "rewrite", "arch"]:
            header = cells
        elif len(cells) == len(header) and cells[-1] == "proved":
            yield dict(zip(header, cells, strict=True))


def _tables(name: str) -> Iterator[list[list[str]]]:
    """The tables of a page: rows of cells, the header first."""
    for lines in re.findall(r"(?:^\|.*\|\n)+", page(name), re.MULTILINE):
        rows = [[cell.strip(" `") for cell in row[1:-1].split("|")] for row in lines.splitlines()]
        yield [rows[0], *rows[2:]]


def _section(name: str, title: str) -> str:
    return page(name).partition(f"## {title}\n")[2].partition("\n## ")[0]
