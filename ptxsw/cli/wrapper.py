"""`ptxsw toolkit`, `env`, `doctor` and `cache`: the wrapper around ptxas, set up and examined."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ptxsw.cli.app import app
from ptxsw.cli.files import CommandError

if TYPE_CHECKING:
    from ptxsw.build.doctor import Diagnosis
    from ptxsw.toolchain.cache import Cache


@app.command()
def toolkit(
    cuda: Annotated[Path, typer.Argument(metavar="CUDA", help="A CUDA toolkit.")],
    destination: Annotated[Path, typer.Argument(metavar="DEST", help="Where to put its shadow.")],
) -> None:
    """Make a shadow of a CUDA toolkit with the wrapper as its ptxas.

    Everything but bin/ptxas is a link; the toolkit itself does not change. You can run it again.

    \b
      ptxsw toolkit /usr/local/cuda ~/cuda-ptxsw
      ~/cuda-ptxsw/bin/nvcc -arch=sm_80 -c kernel.cu
    """
    from ptxsw.build.toolkit import ToolkitError, make_toolkit

    try:
        tree = make_toolkit(cuda, destination)
    except ToolkitError as error:
        raise CommandError(str(error)) from error
    typer.echo(f"{tree}/bin/ptxas is the wrapper; everything else is {cuda}'s")


class Tool(StrEnum):
    """What `env` has advice for."""

    nvcc = "nvcc"
    clang = "clang"
    nvhpc = "nvhpc"
    gcc = "gcc"
    triton = "triton"
    cmake = "cmake"
    jax = "jax"
    ccache = "ccache"
    sccache = "sccache"
    sccache_dist = "sccache-dist"


@app.command()
def env(
    tool: Annotated[
        Tool,
        typer.Argument(
            metavar="TOOL",
            help="nvcc, clang, nvhpc, gcc, triton, cmake, jax, ccache, sccache, sccache-dist.",
        ),
    ],
) -> None:
    """Print shell commands that make a build tool use the wrapper.

    They set variables of this shell. Unset them, or open a new shell, to undo it. Those for
    sccache-dist belong in sccache's configuration.

    \b
      eval "$(ptxsw env nvcc)"
      ptxsw env sccache-dist >> ~/.config/sccache/config
    """
    from ptxsw.build.advice import advice
    from ptxsw.build.toolkit import ToolkitError

    try:
        typer.echo(advice(tool.value, os.environ), nl=False)
    except (ToolkitError, ValueError) as error:
        raise CommandError(str(error)) from error


@app.command()
def doctor() -> None:
    """Report which ptxas a build would use, which settings are in effect, and what is wrong."""
    from ptxsw.build.doctor import examine

    findings = [*examine(os.environ), *_project(), *_unknown_to_pipeline()]
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        mark = " " if finding.good else "!"
        typer.echo(f"{mark} {finding.subject.ljust(width)}  {finding.value}")
    if not all(finding.good for finding in findings):
        typer.echo("Lines marked ! need attention.")
        raise typer.Exit(1)
    typer.echo("Nothing is wrong.")


def _project() -> Iterator[Diagnosis]:
    """The settings of the project, and what is wrong with them."""
    from ptxsw.build.doctor import Diagnosis
    from ptxsw.cli.project import defaults
    from ptxsw.toolchain import config

    path = config.find(os.getcwd())
    if path is None:
        return
    try:
        defaults(path)
    except CommandError as error:
        yield Diagnosis("project", str(error), good=False)
    else:
        yield Diagnosis("project", path)


def _unknown_to_pipeline() -> Iterator[Diagnosis]:
    """What the variables may ask for, but this version cannot do."""
    from ptxsw.build.doctor import Diagnosis
    from ptxsw.toolchain.settings import Settings

    try:
        settings = Settings(os.environ)
    except ValueError:  # has been said
        return
    from ptxsw.driver import pipeline

    try:
        pipeline.Options(mode=settings.mode, scheme=settings.scheme)
    except ValueError as error:
        yield Diagnosis("settings", f"every file is left alone: {error}", good=False)


cache_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Show what the wrapper has cached, or delete it.",
)
app.add_typer(cache_app, name="cache")


@cache_app.command()
def info() -> None:
    """Print where the cache and the results of tune are, and their sizes."""
    cache = _cache()
    typer.echo(f"{cache.directory}: {cache.tally()}")
    from ptxsw.toolchain.settings import tuned_file
    from ptxsw.toolchain.tuned import everything

    path = tuned_file(os.environ)
    if path is None:
        return
    try:
        typer.echo(f"{path}: {len(everything(path))} results of ptxsw tune")
    except ValueError as error:
        raise CommandError(str(error)) from error


@cache_app.command()
def clear() -> None:
    """Delete all cached results and counts. Measurements of tune stay."""
    cache = _cache()
    typer.echo(f"{cache.directory}: {cache.clear()} results deleted")


def _cache() -> Cache:
    from ptxsw.toolchain.cache import Cache
    from ptxsw.toolchain.settings import cache_directory

    directory = cache_directory(os.environ)
    if directory is None:
        raise CommandError("the cache is off: PTXSW_CACHE")
    cache = Cache(directory)
    if cache.problem is not None:
        raise CommandError(f"{directory} {cache.problem}")
    return cache
