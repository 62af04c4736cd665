"""The environment of the wrapper, read in one place.

The modules that the wrapper needs before it knows that there is work to do import neither
`typing` nor `dataclasses` nor `re`: that would double the time a build spends on a file that
is left alone.
"""

from __future__ import annotations

import os

from ptxsw.changes.assumptions import ASSUMPTIONS, DEFAULT_ASSUME
from ptxsw.toolchain import skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

KNOWN_SCHEMES = ("auto", "keep", "paper", "early", "halo")
DEFAULT_TIMEOUT = 60.0

VARIABLES = (
    "PTXSW_ASSUME", "PTXSW_CACHE", "PTXSW_DISABLE", "PTXSW_LOG", "PTXSW_MAX_DELTA", "PTXSW_MODE",
    "PTXSW_PROJECT", "PTXSW_REAL_NVPTX_AS", "PTXSW_REAL_PTXAS", "PTXSW_REPORT", "PTXSW_REWRITES",
    "PTXSW_SCHEME", "PTXSW_SKIP", "PTXSW_STRICT", "PTXSW_TIMEOUT", "PTXSW_TUNED",
)  # fmt: skip
"""All that a user can set."""

OFF = ("", "0", "no", "off", "false")
"""Values with which a variable is as good as not set."""


class SettingsError(ValueError):
    """Variables whose values make no sense; `problems` has a sentence for each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Settings:
    """What the `PTXSW_*` variables ask for."""

    def __init__(self, environ: Mapping[str, str], directory: str | None = None) -> None:
        """The settings of a build in a directory. Raises SettingsError, which names every variable
        whose value makes no sense."""
        get = environ.get
        wrong: list[str] = []
        self.disabled: Final = get("PTXSW_DISABLE", "").lower() not in OFF
        self.strict: Final = get("PTXSW_STRICT", "").lower() not in OFF
        self.mode: Final = _choice(environ, "PTXSW_MODE", ("auto", "force"), wrong)
        self.scheme: Final = _choice(environ, "PTXSW_SCHEME", KNOWN_SCHEMES, wrong)
        self.rewrites: Final = get("PTXSW_REWRITES") or None  # names, checked where they are used
        self.max_delta: Final = int(_number(environ, "PTXSW_MAX_DELTA", 31, 0, 31, wrong))
        self.assume: Final = _assume(environ, wrong)
        self.timeout: Final = _number(environ, "PTXSW_TIMEOUT", DEFAULT_TIMEOUT, 0.001, 1e6, wrong)
        self.real_ptxas: Final = get("PTXSW_REAL_PTXAS") or None
        self.report: Final = get("PTXSW_REPORT") or None  # a directory
        self.log: Final = get("PTXSW_LOG") or None  # a file
        self.cache: Final = cache_directory(environ)
        self.tuned: Final = tuned_file(environ)
        self.skip: Final = skip.read(environ, directory, wrong)
        if wrong:
            raise SettingsError(wrong)

    def key(self) -> str:
        """The settings that decide what becomes of a file, with the state of what was tuned."""
        words = [self.mode, self.scheme, str(self.max_delta), *sorted(self.assume)]
        if self.rewrites:
            words.append(f"rewrites-{self.rewrites}")
        if self.skip.kernels:
            words.append(f"skip-{','.join(self.skip.kernels)}")
        if self.mode == "auto":
            words.append(tuned_state(self.tuned))
        return " ".join(word for word in words if word)

    def asked(self) -> str:
        """All that was asked for and decides what becomes of a file."""
        if self.disabled:
            return "disabled"
        assumed = ",".join(sorted(self.assume)) or "none"
        words = [self.mode, self.scheme, str(self.max_delta), assumed, f"{self.timeout:g} s"]
        if self.rewrites:
            words.append(f"rewrites-{self.rewrites}")
        words += [f"file-{pattern}" for pattern in self.skip.files]
        words += [f"kernel-{pattern}" for pattern in self.skip.kernels]
        return " ".join(words)


def cache_directory(environ: Mapping[str, str]) -> str | None:
    """Where answers are kept; None where `PTXSW_CACHE` is off or there is no home."""
    chosen = environ.get("PTXSW_CACHE", "")
    if chosen:
        return None if chosen.lower() in OFF else chosen
    base = environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        home = environ.get("HOME", "")
        base = f"{home}/.cache" if home.startswith("/") else ""
    return f"{base}/ptxsw" if base else None


def tuned_file(environ: Mapping[str, str]) -> str | None:
    """Where the results of `ptxsw tune` are: the file that `PTXSW_TUNED` names, else
    `tuned.json` beside the cached answers; None where both are off."""
    chosen = environ.get("PTXSW_TUNED", "")
    if chosen:
        return None if chosen.lower() in OFF else chosen
    directory = cache_directory(environ)
    return f"{directory}/tuned.json" if directory else None


def tuned_state(path: str | None) -> str:
    """Another word after each change of these results; an empty one where there are none."""
    try:
        status = os.stat(path or "")
    except OSError:
        return ""
    return f"tuned-{status.st_mtime_ns}-{status.st_size}"


def parse_assume(text: str | None) -> frozenset[str]:
    """Assumptions from "none" or a list with commas; the default for None or an empty text.

    Raises ValueError for a name nobody knows.
    """
    if not text:
        return DEFAULT_ASSUME
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    if names == {"none"}:
        return frozenset()
    unknown = names - ASSUMPTIONS.keys()
    if unknown:
        words = ", ".join(("none", *sorted(ASSUMPTIONS)))
        raise ValueError(f"unknown assumption {sorted(unknown)[0]!r}; known: {words}")
    return names


# Each adds to `wrong` what makes no sense, so that all of it is said at once.


def _choice(
    environ: Mapping[str, str], name: str, choices: tuple[str, ...], wrong: list[str]
) -> str:
    """The value of a variable, or its first choice where it is not set."""
    value = environ.get(name) or choices[0]
    if value not in choices:
        wrong.append(f"{name} is {value!r}; it can be {', '.join(choices)}")
    return value


def _number(
    environ: Mapping[str, str],
    name: str,
    default: float,
    low: float,
    high: float,
    wrong: list[str],
) -> float:
    text = environ.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        wrong.append(f"{name} is {text!r}; it must be a number from {low:g} to {high:.0f}")
        return default
    return value


def _assume(environ: Mapping[str, str], wrong: list[str]) -> frozenset[str]:
    try:
        return parse_assume(environ.get("PTXSW_ASSUME"))
    except ValueError as error:
        wrong.append(f"PTXSW_ASSUME: {error}")
        return DEFAULT_ASSUME
