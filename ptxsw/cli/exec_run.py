"""`ptxsw exec`: becomes a build in which every ptxas is the stand-in."""

from __future__ import annotations

import os
import sys

from ptxsw.cli.files import CommandError


def run(command: list[str]) -> None:
    """Raises CommandError where the build cannot be started."""
    from ptxsw.build.toolkit import ToolkitError
    from ptxsw.build.wrapper import build_environment, setting_problems

    for problem in setting_problems(os.environ):
        sys.stderr.write(f"ptxsw: {problem}\n")
    try:
        environ = build_environment(os.environ)
    except ToolkitError as error:
        raise CommandError(str(error)) from error
    try:
        os.execvpe(command[0], command, environ)
    except OSError as error:
        raise CommandError(f"{command[0]}: {error.strerror}") from error
