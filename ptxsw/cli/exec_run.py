"""`ptxsw exec`: becomes a build in which every ptxas is the wrapper."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

NOT_FOUND = 127  # what a shell says of a command that it does not find
NOT_RUN = 126  # and of one that it cannot run


def run(command: list[str]) -> NoReturn:
    """Starts the build; where the wrapper cannot be put before ptxas, the build runs without it.
    Ends with 127 or 126, as a shell does, where the command is not found or cannot be run."""
    from ptxsw.build.environment import build_environment, setting_problems
    from ptxsw.build.toolkit import ToolkitError
    from ptxsw.toolchain.process import without_our_locale

    for problem in setting_problems(os.environ):
        sys.stderr.write(f"ptxsw: {problem}\n")
    try:
        environ = build_environment(os.environ)
    except (ToolkitError, OSError) as error:
        sys.stderr.write(f"ptxsw: the build runs without ptxsw: {error}\n")
        environ = without_our_locale(os.environ)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, a build must not
        signal.signal(number, signal.SIG_DFL)
    try:
        sys.stderr.flush()
        os.execvpe(command[0], command, environ)
    except OSError as error:
        sys.stderr.write(f"ptxsw: {command[0]}: {error.strerror}\n")
        sys.stderr.flush()
        sys.exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUN)
