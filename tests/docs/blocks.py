"""The code blocks of the documents.

A block is fenced and names its language. A comment in the line before it may say

    <!-- needs: nvcc, clang++ -->    which programs it takes, beside those of ptxsw
    <!-- not run: a GPU -->          why no test can run it
    <!-- excerpt of: FILE -->        where its lines stand
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

_FENCE = re.compile(
    r"(?:^<!-- (?P<word>needs|not run|excerpt of): (?P<said>[^\n]*) -->\n)?"
    r"^```(?P<language>\S*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    page: str  # below the root of the repository
    line: int
    language: str
    code: str
    mark: str  # "needs", "not run", "excerpt of", or nothing
    said: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(*languages: str, page: str | None = None) -> Iterator[Block]:
    """All blocks of all pages, or those in some languages, or of one page."""
    for path in PAGES:
        name = str(path.relative_to(ROOT))
        if page in (None, name):
            text = path.read_text()
            for match in _FENCE.finditer(text):
                if not languages or match["language"] in languages:
                    line = text.count("\n", 0, match.start("language")) + 1
                    mark, said = match["word"] or "", match["said"] or ""
                    yield Block(name, line, match["language"], match["code"], mark, said)


def indented(path: Path) -> Iterator[str]:
    """Lines that Markdown would show as code without a fence: outside of lists and fences."""
    text = _FENCE.sub("", path.read_text())
    for paragraph in re.split(r"\n{2,}", text):
        if paragraph.startswith("    "):
            yield paragraph
