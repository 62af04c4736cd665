"""Texts that are run many times are parsed once."""

from __future__ import annotations

from functools import lru_cache

from ptxsw.parser import parse
from ptxsw.ptx.ir import Module


@lru_cache(maxsize=64)
def parsed(text: str) -> Module:
    return parse(text)
