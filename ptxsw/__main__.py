"""`python -m ptxsw` and the console script."""

from __future__ import annotations

import sys

_OFTEN_ENOUGH = 100_000  # objects that may become garbage before the collector looks for it


def main() -> None:
    """Runs the command line; `--version` is answered before anything is imported for it."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from ptxsw import __version__

        try:
            print(f"ptxsw {__version__}", flush=True)
            return
        except OSError:
            pass  # `run` says what is wrong with the output
    _collect_seldom()
    _import_msgspec()
    from ptxsw.cli import run

    run()


def _collect_seldom() -> None:
    """Most runs are short, and little of what they make is garbage: the collector would walk what
    stays, and walk it again when all of it dies at the end."""
    import atexit
    import gc

    gc.set_threshold(_OFTEN_ENOUGH)
    atexit.register(gc.freeze)


def _import_msgspec() -> None:
    """Import msgspec without typing_extensions, which takes a third of its time. It does without;
    from Python 3.11 on `typing` has all that it asks for."""
    there = sys.modules.get("typing_extensions")
    if there is None:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        if there is None:
            del sys.modules["typing_extensions"]


if __name__ == "__main__":
    main()
