"""A change of a Triton kernel, tested without a GPU: it does what it did.

pip install pytest triton ptxsw, then: pytest examples/testing
"""

from __future__ import annotations

from typing import Any

import pytest

import ptxsw

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402


@triton.jit
def scale_add(x, y, out, n, factor, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    inside = i < n
    a = tl.load(x + i, mask=inside)
    b = tl.load(y + i, mask=inside)
    tl.store(out + i, a * factor + b, mask=inside)


@triton.jit
def tidied(x, y, out, n, factor, block: tl.constexpr):
    i = block * tl.program_id(0) + tl.arange(0, block)
    inside = n > i
    b = tl.load(y + i, mask=inside, other=0.0)
    tl.store(out + i, b + factor * tl.load(x + i, mask=inside, other=0.0), mask=inside)


@triton.jit
def off_by_one(x, y, out, n, factor, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    inside = i <= n
    a = tl.load(x + i, mask=inside)
    b = tl.load(y + i, mask=inside)
    tl.store(out + i, a * factor + b, mask=inside)


def ptx(kernel: Any, **constants: int) -> str:
    """What Triton makes of a kernel for sm_90, under one name for all of them."""
    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "factor": "fp32"}
    signature |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    return compiled.asm["ptx"].replace(kernel.fn.__name__, "kernel")


@pytest.mark.parametrize("block", [128, 1024])
def test_the_tidied_kernel_does_the_same(block: int) -> None:
    verdict = ptxsw.verify(ptx(scale_add, block=block), ptx(tidied, block=block))
    assert isinstance(verdict, ptxsw.Proved), verdict


def test_an_off_by_one_is_found() -> None:
    verdict = ptxsw.verify(ptx(scale_add, block=128), ptx(off_by_one, block=128))
    assert isinstance(verdict, ptxsw.Different), verdict
