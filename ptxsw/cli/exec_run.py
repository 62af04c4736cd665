"""`ptxsw exec`: becomes a build in which every ptxas is the wrapper."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from typing import NoReturn


def run(command: list[str], *, stats: bool = False) -> NoReturn:
    """Becomes the build, or with `stats` runs it, and says in one line what became of it. Where the
    wrapper cannot be put before ptxas, the build runs without it. Ends with 127 or 126, as a shell
    does, where the command is not found or cannot be run."""
    from ptxsw.build.environment import build_environment, setting_problems
    from ptxsw.build.toolkit import ToolkitError
    from ptxsw.toolchain.process import without_our_locale

    try:
        for problem in setting_problems(os.environ):
            sys.stderr.write(f"ptxsw: {problem}\n")
        environ = build_environment(os.environ)
    except (ToolkitError, OSError) as error:
        sys.stderr.write(f"ptxsw: the build runs without ptxsw: {error}\n")
        environ = without_our_locale(os.environ)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, a build must not
        signal.signal(number, signal.SIG_DFL)
    try:
        sys.stderr.flush()
        if stats:
            _run_and_sum_up(command, environ)
        os.execvpe(command[0], command, environ)
    except OSError as error:
        sys.stderr.write(f"ptxsw: {command[0]}: {error.strerror}\n")
        sys.stderr.flush()
        from ptxsw.build.shim import NOT_FOUND
        from ptxsw.toolchain.process import NOT_RUN

        sys.exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUN)


_NOTHING = "no kernels changed: nothing was assembled, or there was nothing to rewrite"


def _run_and_sum_up(command: list[str], environ: dict[str, str]) -> NoReturn:
    """Runs a build to its end, prints a line about its kernels, and ends as it did. Raises OSError
    where it cannot be started."""
    import subprocess
    from contextlib import ExitStack
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from ptxsw.report.build import head_line, load, stamps, summed
    from ptxsw.toolchain.process import end_by

    with ExitStack() as stack:
        if not environ.get("PTXSW_REPORT"):
            environ["PTXSW_REPORT"] = stack.enter_context(TemporaryDirectory(prefix="ptxsw-"))
        reports = Path(environ["PTXSW_REPORT"])
        earlier = stamps(reports)
        for number in (signal.SIGINT, signal.SIGQUIT):  # the build's answer to them is ours
            signal.signal(number, signal.SIG_IGN)
        ours = (signal.SIGTERM, signal.SIGHUP)  # these come to us alone, and wait for the build
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ours)
        child = subprocess.Popen(command, env=environ, preexec_fn=lambda: _answer_signals(mask))
        for number in ours:
            signal.signal(number, lambda number, _: child.send_signal(number))
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        status = child.wait()
        build = load(reports, but=earlier) if reports.is_dir() else None
        line = _NOTHING if not (build and build.reports) else head_line(summed(build))
        sys.stderr.write(f"ptxsw: {line}\n")
    sys.stderr.flush()
    if status < 0:
        end_by(-status)
    sys.exit(status)


def _answer_signals(mask: Iterable[int]) -> None:
    """In the child: all signals are as they were."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
