"""What is wrong with the variables that steer the stand-in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ptxsw.toolchain import find
from ptxsw.toolchain.settings import VARIABLES, Settings, SettingsError

_PREFIX = "PTXSW_"


def setting_problems(environ: Mapping[str, str]) -> Iterator[str]:
    """Variables of ours that nobody reads, and values that make no sense, a sentence for each."""
    names = {name.removeprefix(_PREFIX): name for name in VARIABLES}
    for name in sorted(environ):
        if name.startswith(_PREFIX) and name not in (*VARIABLES, find.TRIED):
            from difflib import get_close_matches

            near = get_close_matches(name.removeprefix(_PREFIX), names, 1)
            meant = f"; did you mean {names[near[0]]}?" if near else ""
            yield f"{name} is not a variable of ptxsw{meant}"
    try:
        Settings(environ)
    except SettingsError as error:
        yield from error.problems
