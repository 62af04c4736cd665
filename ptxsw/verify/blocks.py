"""Kernels that run in blocks of a shape that the caller names, as if their texts asked for it."""

from __future__ import annotations

from math import prod

from msgspec.structs import replace

from ptxsw.ptx.ir import Function, Module
from ptxsw.verify.launches import Shape


def in_blocks(module: Module, shape: Shape, only: str | None = None) -> Module:
    """The module, of which all kernels, or `only` that of a name, ask for such blocks by
    `.reqntid`. Raises ValueError for one that cannot run in them."""
    functions = (
        _asking(f, shape) if f.kind == "entry" and only in (None, f.name) else f
        for f in module.functions
    )
    return replace(module, functions=tuple(functions))


def in_blocks_of(kernel: Function, module: Module) -> Module:
    """The module, of which the kernel of this name asks for the shape of blocks that `kernel` asks
    for: what the caller has named is in no text that is written of it. Raises ValueError."""
    shape = kernel.block_shape
    return module if shape is None else in_blocks(module, shape, kernel.name)


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
