"""`ptxsw rewrites`: what `optimize` can do to a kernel."""

from __future__ import annotations

import sys

from ptxsw.cli.app import app


@app.command()
def rewrites() -> None:
    """List the rewrites: the names that `--rewrites` takes, and what each does.

    docs/rewrites/NAME.md shows PTX before and after, what it is worth, and when it is refused.

    \b
      ptxsw rewrites
      ptxsw optimize kernel.ptx -o out.ptx --mode force --rewrites load-elimination
    """
    from ptxsw.rewrites import every

    width = max(len(one.name) for one in every())
    for one in every():
        sys.stdout.write(f"{one.name:{width}}  {one.summary}\n")
