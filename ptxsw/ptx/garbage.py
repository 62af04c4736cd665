"""The garbage collector, kept still while trees and terms are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Trees, terms and states hold no cycles; the collector would only walk what grows again and
    again, which makes time grow faster than the code."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
