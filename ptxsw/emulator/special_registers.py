"""The values of special registers as terms, in one launch of a function.

.entry k() .reqntid 32, 1, 1       %ntid.x is 32, %tid.y is 0, and %tid.x has five bits
"""

from __future__ import annotations

from ptxsw.ptx.ir import Function
from ptxsw.terms.node import Term
from ptxsw.terms.origin import Origin
from ptxsw.terms.specials import SPECIALS
from ptxsw.terms.terms import Terms


class SpecialRegisters:
    """The special registers of the threads that run one function."""

    def __init__(self, terms: Terms, function: Function) -> None:
        self._terms = terms
        self._values: dict[str, Term] = {}
        self._launch = _launch_bounds(function)

    def value(self, name: str) -> Term:
        """The value of a special register (manual chapter 10)."""
        value = self._values.get(name)
        if value is None:
            if name not in SPECIALS:
                return self._terms.fresh(name, 64, origin=Origin.VOLATILE)
            variance, ones = SPECIALS[name]
            size = self._launch.get(name)
            if size is not None:
                value = self._terms.const(size, 32)
            else:
                value = self._terms.atom(name, 32, variance, self._bounded(name, ones))
            self._values[name] = value
        return value

    def _bounded(self, name: str, ones: int) -> int:
        """A thread index is below the block size, where that is known."""
        size = self._launch.get(name.replace("tid", "ntid"))
        if size is None or not name.startswith("%tid"):
            return ones
        return (1 << (size - 1).bit_length()) - 1


def _launch_bounds(function: Function) -> dict[str, int]:
    """Block dimensions that `.reqntid` fixes, and the thread indices that they make zero."""
    bounds: dict[str, int] = {}
    for axis, size in zip("xyz", function.block_shape or (), strict=False):
        bounds[f"%ntid.{axis}"] = size
        if size == 1:
            bounds[f"%tid.{axis}"] = 0
    return bounds
