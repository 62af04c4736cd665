"""`ptxsw rewrites`: what `optimize` can do to a kernel."""

from __future__ import annotations

import sys

from ptxsw.cli.app import app
from ptxsw.cli.terminal import width


@app.command()
def rewrites() -> None:
    """List the rewrites: the names that `--rewrites` takes, and what each does.

    docs/rewrites/NAME.md shows PTX before and after, what it is worth, and when it is refused.

    \b
      ptxsw rewrites
      ptxsw optimize kernel.ptx -o out.ptx --mode force --rewrites load-elimination
    """
    from ptxsw.rewrites import every

    names = max(len(one.name) for one in every())
    for one in every():
        sys.stdout.write(f"{_folded(f'{one.name:{names}}  ', one.summary, width())}\n")


def _folded(lead: str, words: str, width: int | None) -> str:
    """Words behind a lead, in lines of at most `width` characters."""
    if width is None:
        return lead + words
    from textwrap import fill

    return fill(words, width, initial_indent=lead, subsequent_indent=" " * len(lead))
