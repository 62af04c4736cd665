"""Real PTX files for tests: the committed fixtures, and the corpus where it is there."""

from __future__ import annotations

import os
from pathlib import Path

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.ptx"))
_BESIDE = Path(__file__).parents[2] / "shared" / "corpus"
CORPUS_FOLDER = Path(os.environ.get("PTXSW_CORPUS", _BESIDE))
CORPUS = sorted(CORPUS_FOLDER.glob("ptx/*/*.ptx"))


def text_of(path: Path) -> str:
    """The text of a file with its line ends as they are."""
    return path.read_bytes().decode("utf-8", errors="surrogateescape")


def name_of(path: Path) -> str:
    """A short name for a test's parameter."""
    return f"{path.parent.name}/{path.stem}"
