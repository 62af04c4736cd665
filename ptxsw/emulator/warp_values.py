"""What a thread is given: special registers of its launch, and values that one lane hands to all.

.entry k() .reqntid 32, 1, 1           %ntid.x is 32, %tid.y is 0, and %tid.x has five bits

    @%p1 bra L;                        lanes but the first
    mov.b32 %r2, %r1;
    L: shfl.sync.idx.b32 %r2, %r2, 0, 31, -1;

Where lanes may have come on several paths, no path tells what lanes of the others hand over. All
that is known then is that every lane gets the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.flow.cfg import Cfg
from ptxsw.ptx.ir import Function, Int, Reg
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.origin import Origin
from ptxsw.terms.specials import SPECIALS
from ptxsw.terms.terms import Terms

_LANES = 32
_EVERY = (1 << _LANES) - 1


def broadcasts(cfg: Cfg) -> Iterator[int]:
    """The `shfl.sync.idx` by which all lanes of a warp get the value of a given one, and which a
    lane makes at most once, or once in every iteration of one loop. Of others one lane may make the
    first where another makes its second."""
    for index, instruction in enumerate(cfg.instructions):
        if instruction.opcode != "shfl" or not {"sync", "idx", "b32"} <= {*instruction.modifiers}:
            continue
        block = cfg.block_of[index]
        around = cfg.loops_around(block)
        latches = [latch for header in around for latch in cfg.loops[header].latches]
        if instruction.guard is not None or len(around) > 1 or block in cfg.irreducible:
            continue
        if not all(cfg.dominates(block, latch) for latch in latches):
            continue
        match instruction.operands:
            case (Reg(), Reg(), Int(lane), Int(clamp), Int(mask)) if (
                0 <= lane < _LANES and clamp == _LANES - 1 and mask & _EVERY == _EVERY
            ):
                yield index


class Broadcasts:
    """What the instructions `places` give. `alone` tells whether one path leads to the block that
    is run."""

    def __init__(self, terms: Terms) -> None:
        self.places: frozenset[int] = frozenset()
        self.alone = True
        self._terms = terms
        self._given: dict[int, Term] = {}

    def given(self, index: int, own: Term, width: int) -> Term:
        """What a lane gets that hands over its `own` value."""
        if self.alone and own.variance is Variance.UNIFORM:
            return own
        if index not in self._given:
            self._given[index] = self._terms.fresh("shfl", width, Variance.UNIFORM)
        return self._given[index]


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
