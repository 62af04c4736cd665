"""Compilers that pass PTX to the driver inside a Python process, without ptxas.

`rewrite` is for any of them; `triton` and `numba` hook themselves in.
"""

from __future__ import annotations

import logging
from functools import lru_cache

from ptxsw.driver.pipeline import Options, optimize

_log = logging.getLogger("ptxsw")


@lru_cache(maxsize=256)
def rewrite(ptx: str, options: Options | None = None) -> str:
    """A PTX text with its loads rewritten; the text itself wherever anything goes wrong.

    The reason is then logged, as a warning of the logger "ptxsw".
    """
    try:
        return optimize(ptx, options).text
    except Exception as error:  # no mistake of ours may stop a program that works without us
        _log.warning("PTX left unchanged: %s", error)
        return ptx


__all__ = ["rewrite"]
