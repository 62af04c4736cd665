"""What the wrapper leaves alone because somebody asked: files and kernels by pattern.

`PTXSW_SKIP` is a list with commas; each pattern is tried on files and on kernels. The settings of a
project (`config`) say which is meant:

    [skip]
    files = ["third_party/*", "slow.cu"]
    kernels = ["*reduce*", "app::jacobi<*>"]
"""

from __future__ import annotations

import os

from ptxsw.toolchain import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Final

VARIABLE = "PTXSW_SKIP"


class Skip:
    """Patterns as of a shell, of files and of kernels."""

    def __init__(self, files: tuple[str, ...] = (), kernels: tuple[str, ...] = ()) -> None:
        self.files: Final = files
        self.kernels: Final = kernels

    def has_file(self, path: str, text: bytes) -> bool:
        """Is a PTX file left alone? Its source is that of its `.file` lines which has its name;
        where it has none, its name stands for a source in any language."""
        if not self.files:
            return False
        from fnmatch import fnmatchcase

        from ptxsw.ptx.text_files import source_of_temporary

        name = source_of_temporary(path) or os.path.basename(path)
        stem = os.path.splitext(name)[0]
        for pattern in self.files:
            if any(_matches(place, pattern) for place in (path, name, *_sources(text, stem))):
                return True
            if os.sep not in pattern and fnmatchcase(stem, os.path.splitext(pattern)[0]):
                return True
        return False


def read(environ: Mapping[str, str], directory: str | None, wrong: list[str]) -> Skip:
    """What is asked for in a directory (None: only the variable is read); what makes no sense is
    added to `wrong`. If no file of settings counts there, `config.VARIABLE` may name one."""
    words = tuple(word.strip() for word in environ.get(VARIABLE, "").split(",") if word.strip())
    path = None if directory is None else config.of_build(environ, directory)
    if path is None:
        return Skip(words, words)
    try:
        files, kernels = _table(path)
    except (OSError, ValueError) as error:
        wrong.append(f"{path}: {error}")
        return Skip(words, words)
    return Skip((*words, *files), (*words, *kernels))


def _table(path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The patterns of files and of kernels in a file. Raises OSError or ValueError."""
    table = config.read(path).get("skip", {})
    unknown = sorted(set(table) - {"files", "kernels"}) if isinstance(table, dict) else [str(table)]
    if unknown:
        raise ValueError(f"[skip] takes files and kernels, not {unknown[0]!r}")
    lists = [table.get(name, []) for name in ("files", "kernels")]
    if any(not isinstance(one, list) or not all(isinstance(p, str) for p in one) for one in lists):
        raise ValueError("files and kernels of [skip] are lists of patterns in quotes")
    return tuple(lists[0]), tuple(lists[1])


def _sources(text: bytes, stem: str) -> Iterator[str]:
    """The paths of `.file` lines whose names are `stem`, but for what is behind a dot."""
    for line in text.split(b"\n") if b".file" in text else ():
        if line.lstrip().startswith(b".file") and line.count(b'"') >= 2:
            path = os.fsdecode(line.split(b'"')[1])
            if os.path.splitext(os.path.basename(path))[0] == stem:
                yield path


def _matches(path: str, pattern: str) -> bool:
    """A pattern without a slash is one of names, another one of the end of a path."""
    from fnmatch import fnmatchcase

    if os.sep not in pattern:
        return fnmatchcase(os.path.basename(path), pattern)
    return fnmatchcase(path, pattern) or fnmatchcase(path, f"*/{pattern}")
