"""`ptxsw assemble` and `ptxsw exec`: run the real ptxas, and builds that use the wrapper."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ptxsw.cli.app import app
from ptxsw.cli.files import BAD_INPUT, CommandError, read, written
from ptxsw.cli.progress import working
from ptxsw.ptx.errors import naming
from ptxsw.ptx.text_files import encoded

if TYPE_CHECKING:
    from ptxsw.build.arguments import CommandLine

RAW = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@app.command(context_settings=RAW)
def assemble(
    arguments: Annotated[
        list[str], typer.Argument(metavar="FILE -o CUBIN [PTXAS OPTIONS]", help="As for ptxas.")
    ],
) -> None:
    """Assemble PTX with the real ptxas.

    Without -arch, the target is that of the PTX. The cubin appears completely or not at all.

    \b
      ptxsw assemble out.ptx -o out.cubin
      ptxsw assemble out.ptx -o out.cubin -arch=sm_90 -v
    """
    from ptxsw.build.arguments import CommandLine

    line = CommandLine(arguments)
    if not line.inputs or line.output is None:
        raise CommandError("usage: ptxsw assemble FILE -o CUBIN [ptxas options]")
    first, stdin = line.inputs[0], None
    text, _ = ("", "") if first.is_text else read(first.value)
    if first.is_stdin:
        stdin = encoded(text)
    own = [] if line.arch is not None else _own_target(text)
    _ptxas(line, own, stdin)


def _own_target(text: str) -> list[str]:
    """The option that names the architecture for which a PTX text was made."""
    import re

    match = re.search(r"^\s*\.target\s+(sm_\w+)", text, re.MULTILINE)
    return [f"-arch={match[1]}"] if match else []


def _ptxas(line: CommandLine, more: list[str], stdin: bytes | None) -> None:
    """Runs ptxas; its words go to the user. Ends the program where it fails."""
    import subprocess

    from ptxsw.toolchain.ptxas import NoPtxas, locate

    try:
        program = locate()
    except NoPtxas as error:
        raise CommandError(str(error)) from error
    with _cubin(str(line.output)) as private:
        command = [program, *line.replace({}, str(private)), *more]
        with working("assembling") as step:
            step("<stdin>" if stdin is not None else line.inputs[0].value)
            # What ptxas says waits for the line of progress to go, and passes the guard.
            done = subprocess.run(command, input=stdin, check=False, stderr=subprocess.PIPE)
        sys.stderr.write(done.stderr.decode(errors="surrogateescape"))
        if done.returncode != 0:
            raise SystemExit(BAD_INPUT)


@contextmanager
def _cubin(output: str) -> Iterator[Path]:
    """Where to write a cubin for `output`, which may be standard output or a device: ptxas does
    not say when it could not write to one."""
    device = output != "-" and Path(output).exists() and not Path(output).is_file()
    if output != "-" and not device:
        with written(output) as private:
            yield Path(private)
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ptxsw-") as directory:
        path = Path(directory, "cubin")
        yield path
        if device:
            with naming(output):
                Path(output).write_bytes(path.read_bytes())
        else:
            sys.stdout.buffer.write(path.read_bytes())


@app.command("exec", context_settings=RAW)
def exec_(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND")],
    stats: Annotated[
        bool, typer.Option("--stats", help="Print one line at the end: how many kernels changed.")
    ] = False,
) -> None:
    """Run a build in which every ptxas is the wrapper.

    Invalid PTXSW_* settings are reported first; the build still runs. exec exits with the status
    of the command. Build tools skip files that are up to date, so build from scratch.

    \b
      ptxsw exec -- make -j8
      ptxsw exec --stats -- cmake --build build
      PTXSW_MODE=force PTXSW_REPORT=reports ptxsw exec -- cmake --build build
    """
    from ptxsw.cli import exec_run

    exec_run.run(command, stats=stats)
