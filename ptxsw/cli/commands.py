"""All commands, registered with Typer. Each imports what it needs when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from ptxsw import __version__
from ptxsw.cli import (
    analyze,
    assemble,
    check,
    optimize,
    predict,
    report,
    rewrites,
    standin,
    tune,
    verify,
)
from ptxsw.cli.app import app
from ptxsw.cli.files import CommandError

__all__ = [
    "analyze", "app", "assemble", "check", "optimize", "predict", "report", "rewrites", "standin",
    "tune", "verify",
]  # fmt: skip


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False,
    plugins: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…|all",
            help="Load opcodes and rewrites of other packages before the command.",
        ),
    ] = None,
) -> None:
    """ptxsw - see what a CUDA kernel loads, and let neighbouring threads share it

    It reads PTX, finds out symbolically, without a GPU, which address each thread of a warp
    touches, and prints it. Loads of what a neighbour has just loaded it can turn into shuffles,
    each one proved; standing in for ptxas, it does so inside any build.
    """
    if version:
        typer.echo(f"ptxsw {__version__}")
        raise typer.Exit
    if plugins is not None:
        from ptxsw.plugins import load

        try:
            load(*(name.strip() for name in plugins.split(",")))
        except ValueError as error:
            raise CommandError(f"--plugins: {error}") from error
