"""Settings of a project: `ptxsw.toml`, or the table `tool.ptxsw` of `pyproject.toml`.

    ignore = ["neighbour-loads"]
    arch = "sm_90"

    [skip]
    files = ["third_party/*"]

The nearest file counts: in the working directory, or else in the next directory above. A
`pyproject.toml` without such a table is passed over. Like `settings`, this loads next to nothing.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FILES = ("ptxsw.toml", "pyproject.toml")
VARIABLE = "PTXSW_PROJECT"
"""The file that counts where there is none: a compiler cache may run ptxas in a directory of its
own."""
_TABLE = b"tool.ptxsw"


def find(directory: str) -> str | None:
    """The nearest file of settings: in a directory, or in one above."""
    while True:
        for name in FILES:
            path = os.path.join(directory, name)
            if os.path.isfile(path) and (name == FILES[0] or _has_table(path)):
                return path
        above = os.path.dirname(directory)
        if above == directory:
            return None
        directory = above


def of_build(environ: Mapping[str, str], directory: str) -> str | None:
    """The file that counts for a build in a directory."""
    return find(directory) or environ.get(VARIABLE) or None


def read(path: str) -> Mapping[str, Any]:
    """The settings of a file. Raises OSError or ValueError."""
    import tomllib

    with open(path, "rb") as file:
        table: Any = tomllib.load(file)
    if os.path.basename(path) == FILES[1]:
        table = table["tool"]["ptxsw"]
    if not isinstance(table, dict):
        raise ValueError("tool.ptxsw is not a table")
    return table


def _has_table(path: str) -> bool:
    """Does a pyproject.toml speak of ptxsw? One that cannot be read does not."""
    try:
        with open(path, "rb") as file:
            if _TABLE not in file.read():
                return False
        read(path)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True
