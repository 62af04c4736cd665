"""All commands, registered with Typer. Each imports what it needs when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from ptxsw import __version__
from ptxsw.cli import (
    analyze,
    assemble,
    check,
    explain_rule,
    lsp,
    optimize,
    predict,
    report,
    reproduce,
    tune,
    verify,
    wrapper,
)
from ptxsw.cli.app import app
from ptxsw.cli.files import CommandError

__all__ = [
    "analyze", "app", "assemble", "check", "explain_rule", "lsp", "optimize", "predict", "report",
    "reproduce", "tune", "verify", "wrapper",
]  # fmt: skip


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False,
    plugins: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…|all",
            help="Load opcodes and rewrites from other packages first.",
        ),
    ] = None,
) -> None:
    """ptxsw - see what CUDA kernels do to memory, and rewrite them with proof

    It runs PTX symbolically, without a GPU, and so knows which address each thread of a warp
    touches at every access. It shows what these accesses cost and how to fix them, and rewrites
    kernels with proof. As a drop-in replacement for ptxas, it does this inside any build.
    """
    if version:
        typer.echo(f"ptxsw {__version__}")
        raise typer.Exit
    if plugins is not None:
        from ptxsw.driver.plugins import load

        try:
            load(*(name.strip() for name in plugins.split(",")))
        except ValueError as error:
            raise CommandError(f"--plugins: {error}") from error
