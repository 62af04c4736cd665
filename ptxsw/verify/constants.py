"""The numbers at which two texts may do different things: their constants and the neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

import numpy as np
from msgspec import Struct

from ptxsw.ptx.ir import Float, Function, Instruction, Int, Module, leaves
from ptxsw.verify.contents import DTYPES, float_bits, is_float, width_of

_MOST = 32  # of each kind: those of comparisons come first
_COMPARE = frozenset({"setp", "set", "slct", "min", "max"})


class Constants(Struct, frozen=True):
    """Numbers of some texts, the likeliest to matter first."""

    integers: tuple[int, ...] = ()
    floats: tuple[float, ...] = ()

    def bits(self, type_: str) -> tuple[int, ...]:
        """Those that a type can hold, with their neighbours, by their bits."""
        width = width_of(type_)
        mask = (1 << width) - 1
        if not is_float(type_):
            near = (n + by for n in self.integers for by in (0, 1, -1))
            return tuple(dict.fromkeys(n & mask for n in near if -(1 << width) < n <= mask))
        exact = [float_bits(value, type_) for value in self.floats]
        near = (bits + by for bits in exact for by in (0, 1, -1) if bits & mask >> 1 > 0)
        return tuple(dict.fromkeys([*exact, *(bits & mask for bits in near)]))


def constants(*texts: tuple[Module, Function]) -> Constants:
    """Those of kernels and of the functions they may call."""
    integers: dict[int, None] = {}
    floats: dict[float, None] = {}
    every = [i for module, function in texts for i in _instructions(module, function)]
    for instruction in sorted(every, key=lambda i: i.opcode not in _COMPARE):
        for leaf in leaves(instruction.operands):
            if isinstance(leaf, Int):
                integers[leaf.value] = None
            elif isinstance(leaf, Float):
                bits = np.array(leaf.bits, f"u{leaf.width // 8}")
                floats[float(bits.view(DTYPES[f"f{leaf.width}"]))] = None
    found = list(floats)[:8]
    with np.errstate(all="ignore"):
        for one, two in combinations(map(np.float64, found), 2):
            for value in (one / two, two / one, one * two, one + two, one - two, two - one):
                if np.isfinite(value):
                    floats[float(value)] = None
    return Constants(tuple(integers)[:_MOST], tuple(floats)[:_MOST])


def _instructions(module: Module, kernel: Function) -> Iterable[Instruction]:
    return _of(f for f in module.functions if f is kernel or f.kind == "func")


def _of(functions: Iterable[Function]) -> Iterator[Instruction]:
    for function in functions:
        if function.body_span is not None:
            yield from function.body.instructions
