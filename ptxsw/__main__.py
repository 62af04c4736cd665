"""`python -m ptxsw` and the console script."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line; `--version` is answered before anything is imported for it."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from ptxsw import __version__

        try:
            print(f"ptxsw {__version__}", flush=True)
            return
        except OSError:
            pass  # `run` says what is wrong with the output
    import atexit
    import gc

    from ptxsw.driver import lean_start

    lean_start.collect_seldom()
    atexit.register(gc.freeze)  # else it walks all that dies at the end once more
    if sys.argv[1:3] != ["exec", "--"]:  # a build does without, and waits for it
        lean_start.import_msgspec()
    from ptxsw.cli import run

    run()


if __name__ == "__main__":
    main()
