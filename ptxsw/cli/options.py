"""Options that several commands have, and their values. One name means one thing everywhere."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ptxsw.cli.files import CommandError, read

if TYPE_CHECKING:
    from ptxsw.verify.launches import Launch


class Mode(StrEnum):
    auto = "auto"
    force = "force"


class Scheme(StrEnum):
    auto = "auto"
    keep = "keep"
    paper = "paper"
    early = "early"
    halo = "halo"


class Form(StrEnum):
    auto = "auto"
    keep = "keep"
    versioned = "versioned"
    uniform = "uniform"


KernelOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--kernel", metavar="NAME", help="Only this kernel, by its PTX or C++ name."),
]
BlockOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--block", metavar="X[xY[xZ]]", help="Threads of a block. Default: rows of whole warps."
    ),
]
JobsOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "-j", "--jobs", min=1, metavar="N",
        help="Processes among which the kernels of a long file are divided. Default: the cores.",
    ),
]  # fmt: skip
RewritesOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--rewrites",
        metavar="LIST",
        help="all (but registers), or some of those that `ptxsw rewrites` prints, by commas.",
    ),
]
LaunchOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--launch", metavar="SPEC.json", help="Launches to run. Default: invented."),
]
AssumeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--assume",
        metavar="LIST",
        help="none, or some of lockstep-iterations, no-lane-race, parameters-are-global, "
        "no-outside-writer (these four by default), no-alias, no-fault-in-struct, no-index-wrap.",
    ),
]


def processes(jobs: int | None) -> int:
    """How many to use, where `--jobs` was given or not."""
    from ptxsw.workers import cores

    return cores() if jobs is None else jobs


def sizes(option: str, text: str) -> tuple[int, ...]:
    """One to three numbers above 0, as in 256, 16x16 or 8x8x4; commas do as well."""
    parts = text.replace(",", "x").split("x")
    numbers = [int(part) for part in parts if part.isascii() and part.isdigit() and len(part) < 10]
    if not 1 <= len(parts) <= 3 or len(numbers) < len(parts) or 0 in numbers:
        raise CommandError(f"{option}: {text!r} is no size; write 256, 16x16 or 8x8x4")
    return tuple(numbers)


def block_shape(text: str) -> tuple[int, int, int]:
    """The shape of a block, as for `sizes`."""
    from ptxsw.options import block_shape

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


def either(option: str, value: str | None, old: str, given: str | None) -> str | None:
    """The value of an option that an older spelling sets as well."""
    if value is not None and given is not None:
        raise CommandError(f"{old} is the old name of {option}: give one of them")
    return given if value is None else value
