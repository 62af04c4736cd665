"""What a kernel says of its launch: `.reqntid`, `.maxntid`, `.minnctapersm`, `.maxnreg`."""

from __future__ import annotations

from math import prod

from ptxsw.findings.base import Scene
from ptxsw.ptx.ir import Function

BOUNDS = ("maxntid", "minnctapersm", "maxnreg")
"""Directives that limit registers and that a launch does not need."""


def most_threads(scene: Scene) -> int | None:
    """The threads of a block, as far as they are known; a bound is taken for the size."""
    if scene.block is not None:
        return prod(scene.block)
    sizes = dict(scene.trace.function.directives).get("maxntid")
    return None if sizes is None else prod(int(size) for size in sizes.replace(",", " ").split())


def bounds(function: Function) -> str:
    """The bounds of a kernel as they are written: ".maxntid 1024 .minnctapersm 2"."""
    return " ".join(f".{name} {text}" for name, text in function.directives if name in BOUNDS)
