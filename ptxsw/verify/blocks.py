"""Kernels that run in blocks of a shape that the caller names, as if their texts asked for it."""

from __future__ import annotations

from math import prod

from msgspec.structs import replace

from ptxsw.ptx.ir import Function, Module
from ptxsw.verify.launches import Shape


def in_blocks(module: Module, shape: Shape) -> Module:
    """The module, of which all kernels ask for such blocks by `.reqntid`. Raises ValueError for one
    that cannot run in them."""
    functions = (_asking(f, shape) if f.kind == "entry" else f for f in module.functions)
    return replace(module, functions=tuple(functions))


def _asking(function: Function, shape: Shape) -> Function:
    if function.block_shape == shape:
        return function
    if function.block_shape is not None or prod(shape) > (function.most_threads or prod(shape)):
        size = "x".join(map(str, shape))
        raise ValueError(f"{function.name} does not run in blocks of {size} threads")
    signature = function.load_signature()
    asked = "reqntid", ", ".join(map(str, shape))
    signature = signature._replace(directives=(*signature.directives, asked))
    return replace(function, load_signature=lambda: signature)
