"""What makes a short run cheaper: most runs of ptxsw are short, and a build makes thousands."""

from __future__ import annotations

import gc
import sys

_OFTEN_ENOUGH = 150_000
"""Objects that may become garbage before the collector looks for it: more than the work on a usual
kernel makes."""


def collect_seldom(objects: int = _OFTEN_ENOUGH) -> None:
    """Little of what a short run makes is garbage: the collector would walk what stays. Of several
    calls that with the most `objects` counts."""
    gc.set_threshold(max(objects, gc.get_threshold()[0]))


def import_msgspec() -> None:
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
