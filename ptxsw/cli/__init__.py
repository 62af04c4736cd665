"""The command line.

Plain lines of the commands that builds call thousands of times are read from their table of options
(`rows.py`); Typer reads all others (`commands.py`).
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

from ptxsw.cli.files import BAD_INPUT, CommandError
from ptxsw.cli.terminal import guard_output

__all__ = ["CommandError", "run"]

_STDOUT = "standard output"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _Interrupted(BaseException):
    """Somebody pressed Ctrl-C. (Typer answers a KeyboardInterrupt with status 1, our "no".)"""


def _interrupt(*_: object) -> NoReturn:
    raise _Interrupted


def run() -> None:
    """Runs the command line of this process: errors are drawn on stderr, never traced."""
    from ptxsw.ptx.errors import PtxError

    call = _plain(sys.argv[1:]) or _typed
    if sys.stdout is None:
        _fail("standard output is closed")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        guard_output()  # writes what is waiting, from Python 3.14 on
        try:
            call()
        finally:
            if not sys.stdout.closed:  # as by an editor that leaves
                sys.stdout.flush()  # here it is found out that a disk is full
    except (CommandError, PtxError) as error:
        _fail(str(error))
    except _Interrupted:
        from ptxsw.toolchain.process import end_by

        end_by(signal.SIGINT)
    except ModuleNotFoundError as error:
        _fail(f"{error.name} is not installed for {sys.executable} (`ptxsw doctor` has details)")
    except BrokenPipeError:
        _drop_output()  # nobody reads on
        sys.exit(0)
    except OSError as error:
        if error.filename is None and error.errno in _FULL:  # files have names (`naming`)
            _drop_output()
            error.filename = _STDOUT
        reason = error.strerror or (error.args and error.args[0])  # numpy gives no number
        _fail(f"{error.filename}: {reason}" if error.filename else str(error))


def _plain(arguments: Sequence[str]) -> Callable[[], None] | None:
    """The call that a plain line of a command with a table of options asks for."""
    if arguments[:2] == ["exec", "--"] and arguments[2:]:
        from ptxsw.cli import exec_run

        return partial(exec_run.run, list(arguments[2:]))
    from ptxsw.cli.rows import read

    if arguments[:1] in (["optimize"], ["analyze"], ["report"]) and _settings() is not None:
        return None
    match arguments[:1]:
        case ["optimize"]:
            from ptxsw.cli import optimize_run

            values = read(optimize_run.ROWS, arguments[1:])
            if values is not None and "output" in values:
                return partial(optimize_run.run, **values)
        case ["analyze"]:
            from ptxsw.cli import analyze_run

            values = read(analyze_run.ROWS, arguments[1:])
            if values is not None:
                return partial(analyze_run.run, **values)
        case ["report"]:
            from ptxsw.cli import report_run

            values = read(report_run.ROWS, arguments[1:])
            if values is not None:
                return partial(report_run.run, **values)
    return None


def _typed() -> None:
    from ptxsw.cli.commands import app
    from ptxsw.cli.project import COMMANDS, defaults

    words = set(sys.argv[1:])
    wanted = not words.isdisjoint(COMMANDS) and words.isdisjoint({"-h", "--help"})
    path = _settings() if wanted else None
    app(prog_name="ptxsw", default_map={} if path is None else defaults(path))


def _settings() -> str | None:
    """The file of the project's settings."""
    from ptxsw.toolchain import config

    try:
        return config.find(os.getcwd())
    except OSError:  # the working directory is gone
        return None


def _drop_output() -> None:
    """What is left in the buffer would be written again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _fail(message: str) -> NoReturn:
    if sys.stderr is not None:
        sys.stderr.write(f"{message}\n")
    sys.exit(BAD_INPUT)
