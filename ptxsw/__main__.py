"""`python -m ptxsw` and the console script."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line; `--version` is answered before anything is imported for it."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from ptxsw import __version__

        print(f"ptxsw {__version__}")
        return
    from ptxsw.cli import run

    run()


if __name__ == "__main__":
    main()
