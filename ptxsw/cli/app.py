"""The command line as a whole: its commands register with `app`."""

from __future__ import annotations

import typer

from ptxsw.cli.help import Manual

app = typer.Typer(
    name="ptxsw",
    cls=Manual,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
