"""The programs of this folder, as their sources describe them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ptxsw.verify.arguments import parse_argument
from ptxsw.verify.launches import Launch, Shape, from_json

HERE = Path(__file__).parent
SOURCES = HERE / "sources"
CLEAN = "clean"
FAULTY, MENDED = "", "-mended"

RULES = (
    "data-race", "divergent-barrier", "warp-mask", "out-of-bounds", "misaligned-access",
    "index-overflow", "undefined-value", "deadlock", "async-wait", "redundant-barrier",
    "ptxas-warning",
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A source, and what it says of itself. `rule` is "clean" where there is no fault. `faults`
    are the lines on which the rule may report it, `true` pairs of a line and a rule of which
    reports are true besides. `launches` are runs that show the fault and that the twin passes;
    `given` is the one of them that the check is told of."""

    source: Path
    title: str
    block: Shape
    launches: tuple[Launch, ...]
    given: Launch | None
    target: str
    unseen: str
    faults: frozenset[int]
    true: frozenset[tuple[int, str]]

    @property
    def name(self) -> str:
        return self.source.stem

    @property
    def rule(self) -> str:
        return self.source.parent.name

    @property
    def twins(self) -> tuple[str, ...]:
        """The ends of the names of its texts: of a clean program there is one."""
        return (FAULTY,) if self.rule == CLEAN else (FAULTY, MENDED)

    def path(self, twin: str = FAULTY) -> Path:
        """Of the PTX."""
        return HERE / "ptx" / f"{self.name}{twin}.ptx"


def programs(rule: str = "", names: tuple[str, ...] = ()) -> tuple[Program, ...]:
    """All of them, those of a rule, or those of these names."""
    every = _every()
    missing = set(names) - {p.name for p in every}
    if missing:
        raise ValueError(f"no program {min(missing)!r}")
    return tuple(
        p for p in every if (not rule or p.rule == rule) and (not names or p.name in names)
    )


@cache
def _every() -> tuple[Program, ...]:
    return tuple(program(path) for path in sorted(SOURCES.glob("*/*.*")))


def program(source: Path) -> Program:
    """Reads what a source says of itself. Raises ValueError."""
    text = source.read_text()
    first = re.match(r"// (.+)", text)
    if first is None:
        raise ValueError(f"{source.name}: the first line does not say what it is")
    given = [_launch(words) for words in re.findall(r"(?m)^// launch (.+)", text)]
    runs = [_launch(words) for words in re.findall(r"(?m)^// run (.+)", text)]
    launches = (*given, *runs)
    return Program(
        source, first[1], _block(text, launches), launches, given[0] if given else None,
        _said(text, "target", "sm_80"), _said(text, "unseen:", ""),
        frozenset(line for line, rule in _marks(text, "fault") if rule == source.parent.name),
        frozenset(_marks(text, "true")),
    )  # fmt: skip


def _said(text: str, word: str, otherwise: str) -> str:
    found = re.search(rf"(?m)^// {word} (.+)", text)
    return found[1] if found else otherwise


def _block(text: str, launches: tuple[Launch, ...]) -> Shape:
    said = _said(text, "block", "")
    return _shape(said) if said else launches[0].block


def _marks(text: str, kind: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        for mark in re.finditer(rf"// {kind}: ([\w-]+)", line):
            yield number, mark[1]


def _shape(words: str) -> Shape:
    x, y, z = (*map(int, words.split("x")), 1, 1)[:3]
    return x, y, z


def _launch(said: str) -> Launch:
    """A launch from its words, or from JSON."""
    if said.startswith("{"):
        [launch] = from_json(said)
        return launch
    grid, block, *words = said.split()
    shared = 0
    if words and words[0].startswith("shared="):
        shared = int(words.pop(0).removeprefix("shared="))
    args = tuple(map(parse_argument, words))
    return Launch(_shape(grid), _shape(block), args, shared)
