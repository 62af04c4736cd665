"""The options that several commands have, as Typer takes them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import typer

from ptxsw.cli import values
from ptxsw.cli.rows import OptionRow


def typed(row: OptionRow) -> Any:
    """A row of a table of options, as Typer takes it."""
    flags = ("/".join(row.flags),) if row.kind is bool else row.flags
    return typer.Option(
        *flags, help=row.help or None, metavar=row.metavar, min=row.least, max=row.most,
        hidden=row.hidden, show_default=row.shows_default,
    )  # fmt: skip


class Mode(StrEnum):
    auto = "auto"
    force = "force"


class Scheme(StrEnum):
    auto = "auto"
    keep = "keep"
    paper = "paper"
    early = "early"
    halo = "halo"


class Format(StrEnum):
    text = "text"
    json = "json"
    markdown = "markdown"


class Form(StrEnum):
    auto = "auto"
    keep = "keep"
    versioned = "versioned"
    uniform = "uniform"


KERNELS = "PTX, .cu, or an object or program with one PTX module; - is standard input."

File: TypeAlias = Annotated[str, typer.Argument(metavar="FILE", help=KERNELS)]
KernelOption: TypeAlias = Annotated[str | None, typed(values.KERNEL)]
BlockOption: TypeAlias = Annotated[str | None, typed(values.BLOCK)]
PagerOption: TypeAlias = Annotated[bool, typed(values.PAGER)]
JobsOption: TypeAlias = Annotated[int | None, typed(values.JOBS)]
OnOption: TypeAlias = Annotated[str | None, typed(values.ON)]
RewritesOption: TypeAlias = Annotated[str | None, typed(values.REWRITES)]
LaunchOption: TypeAlias = Annotated[str | None, typed(values.LAUNCH)]
LaunchesOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--launch",
        metavar="[KERNEL=]SPEC.json",
        help="Weigh by the executions of this launch; repeat for other kernels. Default: loops of "
        "unknown length count 16 times.",
    ),
]
SourceRootOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DIR",
        help="Also show sources below this directory; repeatable. Default: only those below the "
        "directory of the PTX or the working directory.",
    ),
]
AssumeOption: TypeAlias = Annotated[str | None, typed(values.ASSUME)]


def is_set_by_project(context: typer.Context, name: str) -> bool:
    """Does an option have its value from the project's settings, not from the command line?"""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "DEFAULT_MAP"
