"""The command line, a file for each group of commands. Each imports what it needs when it runs."""

from __future__ import annotations

import errno
import os
import signal
import sys
from typing import Annotated, NoReturn

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
from ptxsw.cli.files import BAD_INPUT, CommandError

__all__ = [
    "CommandError", "analyze", "app", "assemble", "check", "optimize", "predict", "report",
    "rewrites", "run", "standin", "tune", "verify",
]  # fmt: skip

_STDOUT = "standard output"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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


class _Interrupted(BaseException):
    """Somebody pressed Ctrl-C. (Typer answers a KeyboardInterrupt with status 1, our "no".)"""


def _interrupt(*_: object) -> NoReturn:
    raise _Interrupted


def run() -> None:
    """Runs the command line of this process: errors are drawn on stderr, never traced."""
    from ptxsw.errors import PtxError

    if sys.stdout is None:
        _fail("standard output is closed")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        try:
            app(prog_name="ptxsw")
        finally:
            sys.stdout.flush()  # here it is found out that a disk is full
    except (CommandError, PtxError) as error:
        _fail(str(error))
    except _Interrupted:
        from ptxsw.toolchain.process import end_by

        end_by(signal.SIGINT)
    except ModuleNotFoundError as error:
        _fail(f"{error.name} is not installed for {sys.executable} (`ptxsw doctor` says more)")
    except BrokenPipeError:
        _drop_output()  # nobody reads on
        sys.exit(0)
    except OSError as error:
        if error.filename is None and error.errno in _FULL:  # files have names (`naming`)
            _drop_output()
            error.filename = _STDOUT
        reason = error.strerror or (error.args and error.args[0])  # numpy gives no number
        _fail(f"{error.filename}: {reason}" if error.filename else str(error))


def _drop_output() -> None:
    """What is left in the buffer would be written again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _fail(message: str) -> NoReturn:
    if sys.stderr is not None:
        sys.stderr.write(f"{message}\n")
    sys.exit(BAD_INPUT)
