"""Options that several commands have, as rows, and what their values mean. One name means one
thing everywhere. Loads nothing of Typer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ptxsw.changes.assumptions import ASSUMPTIONS, DEFAULT_ASSUME
from ptxsw.cli.files import CommandError, read
from ptxsw.cli.rows import OptionRow

if TYPE_CHECKING:
    from ptxsw.driver.workers import Workers
    from ptxsw.report import Report
    from ptxsw.verify.launches import Launch


def _listed(*, default: bool) -> str:
    """The assumptions that hold by default, or the others."""
    return ", ".join(name for name in ASSUMPTIONS if (name in DEFAULT_ASSUME) is default)


MODE = OptionRow(
    "mode",
    ("--mode",),
    "auto: only gains; force: whatever is proved.",
    choices=("auto", "force"),
)
SCHEME = OptionRow(
    "scheme",
    ("--scheme",),
    "Code for a shuffled load.",
    choices=("auto", "keep", "paper", "early", "halo"),
)
FORM = OptionRow(
    "form",
    ("--form",),
    "Code around it.",
    choices=("auto", "keep", "versioned", "uniform"),
)
KERNEL = OptionRow("kernel", ("--kernel",), "Only this kernel, by its PTX or C++ name.", "NAME")
PAGER = OptionRow("pager", ("--pager",), "Show long output with PAGER, or less.", kind=bool)
BLOCK = OptionRow(
    "block", ("--block",), "Shape of a block. Default: rows of whole warps.", "X[xY[xZ]]"
)
JOBS = OptionRow(
    "jobs",
    ("-j", "--jobs"),
    "Number of processes, for files or the kernels of a long one. Default: the cores.",
    "N",
    int,
    least=1,
)
ON = OptionRow(
    "on",
    ("--on",),
    "Use the workers of a Dask cluster instead of processes.",
    "dask://HOST:PORT",
)
REWRITES = OptionRow(
    "rewrites",
    ("--rewrites",),
    "all (but registers), or comma-separated names from `ptxsw rewrites`.",
    "LIST",
)
LAUNCH = OptionRow("launch", ("--launch",), "Launches to run. Default: invented.", "SPEC.json")
ASSUME = OptionRow(
    "assume",
    ("--assume",),
    f"none, or some of {_listed(default=True)} (these by default), {_listed(default=False)}.",
    "LIST",
)


def workers(jobs: int | None, on: str | None = None) -> Workers:
    """What `--jobs` and `--on` say, where they were given or not."""
    if on is not None:
        from ptxsw.driver.cluster import Cluster, NoCluster

        if jobs is not None:
            raise CommandError("--jobs and --on exclude each other: use one of them")
        try:
            return Cluster(on)
        except NoCluster as error:
            raise CommandError(f"--on: {error}") from error
    from ptxsw.driver.workers import cores

    return cores() if jobs is None else jobs


def sizes(option: str, text: str) -> tuple[int, ...]:
    """One to three numbers above 0, as in 256, 16x16 or 8x8x4; commas do as well."""
    parts = text.replace(",", "x").split("x")
    numbers = [int(part) for part in parts if part.isascii() and part.isdigit() and len(part) < 10]
    if not 1 <= len(parts) <= 3 or len(numbers) < len(parts) or 0 in numbers:
        raise CommandError(f"{option}: {text!r} is not a size; write 256, 16x16 or 8x8x4")
    return tuple(numbers)


def block_shape(text: str) -> tuple[int, int, int]:
    """The shape of a block, as for `sizes`."""
    from ptxsw.changes.options import block_shape

    try:
        return block_shape(sizes("--block", text))
    except ValueError as error:
        raise CommandError(f"--block: {error}") from error


def assumptions(text: str | None) -> frozenset[str]:
    from ptxsw.toolchain.settings import parse_assume

    try:
        return parse_assume(text)
    except ValueError as error:
        raise CommandError(f"--assume: {error}") from error


def named_rewrites(text: str) -> tuple[str, ...]:
    """The rewrites of a list with commas."""
    from ptxsw.rewrites import named

    try:
        return named(text.split(","))
    except ValueError as error:
        raise CommandError(f"--rewrites: {error}") from error


def launches(path: str | None) -> tuple[Launch, ...] | None:
    """The launches that a file describes; None where there is no file."""
    if path is None:
        return None
    from ptxsw.verify.launches import from_json

    text, name = read(path)
    try:
        return from_json(text)
    except ValueError as error:
        raise CommandError(f"{name}: {error}") from error


def named_launches(given: Sequence[str]) -> dict[str, Launch]:
    """The launches of KERNEL=SPEC.json, by kernel; "" for a file without a name before it."""
    by_kernel: dict[str, Launch] = {}
    for each in given:
        name, path = ("", each) if os.path.exists(each) else _parted(each)
        several = launches(path) or ()
        if len(several) != 1:
            raise CommandError(f"{path}: {len(several)} launches; a kernel takes one here")
        if name in by_kernel:
            what = f"of {name}" if name else "without a kernel's name"
            raise CommandError(f"--launch: there are two {what}")
        by_kernel[name] = several[0]
    return by_kernel


def all_launched(launches: Mapping[str, Launch], report: Report) -> None:
    """Raises CommandError for a launch of a kernel that the report does not have."""
    from ptxsw.findings.judge import without_kernel

    missing = without_kernel(launches, [kernel.name for kernel in report.kernels])
    if missing is not None:
        raise CommandError(f"--launch: no kernel {missing!r} in {report.file}")


def source_roots(given: Sequence[str]) -> tuple[str, ...]:
    """The directories of `--source-root`."""
    for path in given:
        if not os.path.isdir(path):
            raise CommandError(f"--source-root: {path}: no such directory")
    return tuple(given)


def _parted(given: str) -> tuple[str, str]:
    name, equals, path = given.rpartition("=")
    return (name, path) if equals else ("", given)


def either(option: str, value: str | None, old: str, given: str | None) -> str | None:
    """The value of an option that an older spelling sets as well."""
    if value is not None and given is not None:
        raise CommandError(f"{old} is the old name of {option}: use one of them")
    return given if value is None else value
