"""The command line, a file for each group of commands. Each imports what it needs when it runs."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ptxsw import __version__
from ptxsw.cli import analyze, assemble, check, optimize, report, standin, tune
from ptxsw.cli.app import app
from ptxsw.cli.files import BAD_INPUT, CommandError

__all__ = [
    "CommandError", "analyze", "app", "assemble", "check", "optimize", "report", "run", "standin",
    "tune",
]  # fmt: skip


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False,
) -> None:
    """ptxsw - see what a CUDA kernel loads, and let neighbouring threads share it

    It reads PTX, finds out symbolically, without a GPU, which address each thread of a warp
    touches, and prints it. Loads of what a neighbour has just loaded it can turn into shuffles,
    each one proved; standing in for ptxas, it does so inside any build.
    """
    if version:
        typer.echo(f"ptxsw {__version__}")
        raise typer.Exit


def run() -> None:
    """Runs the command line of this process: errors are drawn on stderr, never traced."""
    from ptxsw.errors import PtxError

    try:
        app(prog_name="ptxsw")
    except (CommandError, PtxError) as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        _fail(f"{error.name} is not installed for {sys.executable} (`ptxsw doctor` says more)")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads on; Python flushes at exit
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _fail(message: str) -> None:
    sys.stderr.write(f"{message}\n")
    sys.exit(BAD_INPUT)
