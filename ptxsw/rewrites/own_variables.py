"""Which variables belong to a kernel alone, so that their declarations may be changed."""

from __future__ import annotations

import re

from ptxsw.ptx.ir import Variable, type_width
from ptxsw.ptx.patterns import pattern
from ptxsw.rewrites.base import Kernel
from ptxsw.terms.node import Term, split
from ptxsw.terms.origin import Origin

STATIC = 48 * 1024
"""Bytes of shared arrays that a kernel may declare."""

_COMMENT = pattern(r"//[^\n]*")
_SPACES = frozenset({"shared", "local", "global"})


def named_elsewhere(kernel: Kernel, variable: Variable) -> bool:
    """Does the module name one of its variables outside the kernel and the declaration?"""
    text, span = kernel.text, kernel.function.span
    spans = sorted((span, variable.span), key=lambda s: s.start)
    rest = text[: spans[0].start], text[spans[0].end : spans[1].start], text[spans[1].end :]
    word = re.compile(rf"(?<![\w$%]){re.escape(variable.name)}(?![\w$])")
    return any(word.search(_COMMENT.sub("", part)) for part in rest)


def alignable(kernel: Kernel, address: Term, size: int) -> Variable | None:
    """The variable to which an address leads and that may be declared a multiple of `size` bytes:
    nobody else knows where it lies."""
    symbols = [t for t, factor in split(address)[1] if t.origin is Origin.SYMBOL and factor == 1]
    if len(symbols) != 1:
        return None
    name = symbols[0].of[0]
    declared = [v for v in (*kernel.function.body.variables, *kernel.module.variables)
                if v.name == name and v.space != "reg"]  # fmt: skip
    if len(declared) != 1:
        return None
    variable = declared[0]
    alone = not (variable.linkage or variable.attributes or variable.scope)
    if variable.space not in _SPACES or not alone or not _stands_alone(kernel, variable):
        return None
    if variable in kernel.module.variables and named_elsewhere(kernel, variable):
        return None
    return variable if variable.space != "shared" or _has_room(kernel, size) else None


def _stands_alone(kernel: Kernel, variable: Variable) -> bool:
    """Is it all that its declaration declares, and is no comment in that?"""
    every = (*kernel.function.body.variables, *kernel.module.variables)
    text = kernel.module.source.slice(variable.span)
    return sum(v.span == variable.span for v in every) == 1 and "/" not in text


def _has_room(kernel: Kernel, size: int) -> bool:
    """Do the shared arrays fit where they lay, if each is aligned to `size` bytes?"""
    arrays = [v for v in (*kernel.function.body.variables, *kernel.module.variables)
              if v.space == "shared"]  # fmt: skip
    before = after = 0
    for array in arrays:
        align = array.align or max(1, type_width(array.type) * array.vector // 8)
        before += -(-array.size // align) * align
        after += -(-array.size // max(align, size)) * max(align, size)
    if any(array.is_dynamic for array in arrays):
        return after == before  # the launch has sized dynamic memory for the arrays as they are
    return after <= max(before, STATIC)
