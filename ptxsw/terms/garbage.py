"""The garbage collector, kept still while terms are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Terms and states hold no cycles; the collector would only walk the growing table again and
    again, which makes time grow faster than the code."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
