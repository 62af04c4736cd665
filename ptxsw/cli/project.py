"""The options that the settings of a project give to all commands that have them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from ptxsw.cli.app import GROUPS
from ptxsw.cli.files import CommandError
from ptxsw.toolchain import config

COMMANDS = (*GROUPS["Look"], *GROUPS["Rewrite"])
"""Those whose options settings may give."""

_COMPILER = ("-D", "-I", "-U", "-O", "-std=", "--std=", "-isystem=", "--expt-", "-fmad=",
             "--use_fast_math", "-use_fast_math", "-maxrregcount=", "--maxrregcount=")  # fmt: skip
"""How options begin that settings may give to the compiler: none that runs a program."""


def defaults(path: str) -> dict[str, dict[str, Any]]:
    """What a file sets, by command and parameter. Raises CommandError for what makes no sense.

    Whoever runs a command may not have written the settings of the directory he stands in. So they
    can choose what is told, and name files of the project, but write nothing and run no program.
    """
    try:
        chosen = {
            name.replace("-", "_"): _value(name, value, os.path.dirname(path))
            for name, value in config.read(path).items()
            if name != "skip"
        }
    except (OSError, ValueError) as error:
        raise CommandError(f"{path}: {error}") from error
    block = chosen.get("block")
    return {
        **dict.fromkeys(COMMANDS, chosen),
        "tune": {**chosen, "block": None if block is None else [block]},  # which takes several
        "run": {},  # where the words of the line are the launch
    }


def _value(name: str, value: Any, directory: str) -> Any:
    """A setting as its option takes it. Raises ValueError."""
    if name not in _FORMS:
        from difflib import get_close_matches

        near = get_close_matches(name, _FORMS, 1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(_FORMS))}"
        raise ValueError(f"{name!r} is an unknown setting; {hint}")
    return _FORMS[name](name, value, directory)


def _word(name: str, value: Any, directory: str) -> str:
    if not isinstance(value, str) or not value or value.startswith("-"):
        raise ValueError(f"{name} must be a quoted string")
    return value


def _level(name: str, value: Any, directory: str) -> str:
    levels = ("note", "warning", "error", "never")
    if value not in levels:
        raise ValueError(f"{name} must be one of {', '.join(levels)}")
    return str(value)


def _names(name: str, value: Any, directory: str) -> str:
    return ",".join(_list(name, value))


def _number(name: str, value: Any, directory: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"{name} must be a number, 0 or above")
    return value


def _count(name: str, value: Any, directory: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be an integer, 1 or above")
    return value


def _switch(name: str, value: Any, directory: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false")
    return value


def _shape(name: str, value: Any, directory: str) -> str:
    """256, "16x16" or [16, 16]."""
    numbers = value if isinstance(value, list) else [value]
    return "x".join(map(str, numbers))


def _options(name: str, value: Any, directory: str) -> str:
    words = _list(name, value)
    for word in words:
        if not word.startswith(_COMPILER):
            raise ValueError(
                f"{name}: {word!r} is not allowed here: options must begin with "
                f"{', '.join(_COMPILER)}; use --{name}"
            )
    placed = [
        f"{word[:2]}{os.path.join(directory, word[2:])}" if word.startswith("-I") else word
        for word in words
    ]
    return shlex.join(placed)


def _directories(name: str, value: Any, directory: str) -> list[str]:
    return [_inside(name, path, directory) for path in _list(name, value)]


def _file(name: str, value: Any, directory: str) -> str:
    return _inside(name, _word(name, value, directory), directory)


def _inside(name: str, path: str, directory: str) -> str:
    """A path below the settings' own directory, from which it counts."""
    root = os.path.realpath(directory)
    full = os.path.realpath(os.path.join(root, path))
    if os.path.commonpath((root, full)) != root:
        raise ValueError(f"{name}: {path!r} lies outside {root}; use --{name}")
    return full


def _list(name: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{name} must be a list of quoted strings")
    return value


_FORMS: Mapping[str, Callable[[str, Any, str], Any]] = {
    "arch": _word, "baseline": _file, "block": _shape, "compiler-options": _options,
    "drift": _number, "fail-on": _level, "ignore": _names, "jobs": _count, "ptxas": _switch,
    "select": _names, "source-root": _directories,
}  # fmt: skip
