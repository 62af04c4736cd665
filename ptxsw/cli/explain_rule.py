"""`ptxsw rule`: what a rule of `check` looks for, and how to mend what it finds."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ptxsw.cli.app import app
from ptxsw.cli.files import CommandError
from ptxsw.cli.terminal import folded, paint, width


@app.command()
def rule(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="With or without ptxsw-. Default: list all."),
    ] = None,
) -> None:
    """Explain a rule of `check`: what it finds, a kernel before and after; or list all rules.

    \b
      ptxsw rule
      ptxsw rule bank-conflicts
    """
    from ptxsw.driver.check_rules import RESOURCES, rule_pages

    pages = {page.name.removeprefix("ptxsw-"): page for page in rule_pages()}
    if name is None:
        longest = max(map(len, pages))
        for short, page in pages.items():
            sys.stdout.write(f"{folded(f'{short:{longest}}  ', page.sentence, width())}\n")
        return
    short = name.removeprefix("ptxsw-")
    if short not in pages:
        raise CommandError(_unknown(short, list(pages)))
    page = pages[short]
    title = f"{page.name}: {page.sentence}"
    sys.stdout.write(f"{paint()('heading', title, title)}\n\n{page.page}\n")
    if page.name != RESOURCES:
        sys.stdout.write(
            f"\nSilence it on a source line: // ptxsw: ignore[{short}]\n"
            f"Leave the rule out: ptxsw check --ignore {short}\n"
        )


def _unknown(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}?" if near else "`ptxsw rule` lists all"
    return f"there is no rule {name!r}; {hint}"
