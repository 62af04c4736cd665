"""`ptxsw reproduce`: the figures of the paper, beside ours."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from ptxsw.cli.app import app
from ptxsw.cli.files import CommandError, as_json
from ptxsw.cli.progress import bar
from ptxsw.cli.terminal import write_exact


class What(StrEnum):
    all = "all"
    table2 = "table2"
    figure2 = "figure2"
    figure3 = "figure3"


class Format(StrEnum):
    text = "text"
    json = "json"


@app.command()
def reproduce(
    what: Annotated[
        What,
        typer.Argument(
            metavar="[table2|figure2|figure3]", show_default=False, help="Default: all three."
        ),
    ] = What.all,
    operator: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="One of the paper's operators; repeatable."),
    ] = None,
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.text,
) -> None:
    """Reproduce the figures of the shuffle paper, beside ours.

    The paper is "A Symbolic Emulator for Shuffle Synthesis on the NVIDIA PTX Code" (CC 2023). Its
    operators come with ptxsw, so you need nothing else, and no GPU. table2: shuffles among loads,
    their mean distance, and the time of the analysis. figure2: the measured and predicted speed of
    each operator with shuffles (PTXASW), without the loads of corner lanes (NO CORNER), and without
    all loads that shuffles replace (NO LOAD). figure3: what the warps waited for. Without an
    argument: all three, in a few minutes.

    Exit 0: each figure of table2 is the paper's or has a reason; 1: one has no reason.

    \b
      ptxsw reproduce table2
      ptxsw reproduce figure2 --operator gaussblur --operator jacobi
      ptxsw reproduce --format json > figures.json
    """
    from msgspec import to_builtins

    from ptxsw.reproduce.paper import TABLE_2, logs
    from ptxsw.reproduce.speedups import Predictor, Speedup, figure2, figure3, speedups
    from ptxsw.reproduce.table2 import Row, shown, table2

    unknown = sorted(set(operator or ()) - TABLE_2.keys())
    if unknown:
        raise CommandError(f"no operator {unknown[0]!r}; available: {', '.join(TABLE_2)}")
    names = [name for name in TABLE_2 if not operator or name in operator]
    timed = [name for name in names if any(log.operator == name for log in logs())]
    if what in (What.figure2, What.figure3) and not timed:
        have = ", ".join(dict.fromkeys(log.operator for log in logs()))
        raise CommandError(f"the paper's logs do not have {', '.join(names)}; they have: {have}")
    with_table, with_figures = what in (What.all, What.table2), what != What.table2
    predictor = Predictor()
    rows: list[Row] = []
    found: list[Speedup] = []
    try:
        with bar("reproducing", len(names) * with_table + len(timed) * with_figures) as step:
            for number, name in enumerate(names if with_table else ()):
                step(number, name)
                rows += table2([name])
            for number, name in enumerate(timed if with_figures else ()):
                step(len(rows) + number, name)
                found += speedups(predictor, [name])
    except OSError as error:
        raise CommandError(str(error)) from error
    if format is Format.json:
        data = {"table2": to_builtins(rows), "speedups": to_builtins(found)}
        write_exact(sys.stdout, as_json(data))
    else:
        parts = [shown(rows)] if with_table else []
        parts += [figure2(found, predictor.note)] if found and what != What.figure3 else []
        parts += [figure3(found)] if found and what != What.figure2 else []
        sys.stdout.write("\n".join(parts))
    raise typer.Exit(1 if any(row.open for row in rows) else 0)
