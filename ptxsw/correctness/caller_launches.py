"""Launches as a caller would write them, who keeps what a kernel takes for granted.

Buffers do not overlap, and are long enough. All numbers are alike, so that a stride is as long as
the rows that it separates; integers in buffers count up from 0: they are distinct, sorted and in
range, whatever they index. Words that threads wait for, or count with, begin at 0. Blocks are of
usual shapes, or of the one by which the kernel computes its indices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from operator import le, mul

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.block_shape import assumed_block, widths
from ptxsw.correctness.subject import Subject
from ptxsw.facts.grid import AXES
from ptxsw.facts.thread_views import Dimensions
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Special, leaves
from ptxsw.ptx.target import MOST_THREADS
from ptxsw.terms.node import Term
from ptxsw.terms.origin import Origin
from ptxsw.verify.argument_places import ArgumentPlace, argument_places, at_place
from ptxsw.verify.arguments import Data
from ptxsw.verify.contents import is_float, width_of
from ptxsw.verify.invented import BOXES, ROWS, TILES, arguments
from ptxsw.verify.launches import Launch, Shape, with_argument
from ptxsw.verify.parameters import flat, parameters, pointer_of

_WIDTHS = 2  # of tiles that are not usual
_BLOCKS = 64  # of the largest grid that a model makes
_LARGEST = 1 << 16  # number of one
_LANES = frozenset({"%laneid", "%warpid"})


class Natural(Struct, frozen=True, dict=True):
    """Launches of one kernel."""

    subject: Subject

    @cached_property
    def slots(self) -> tuple[ArgumentPlace, ...]:
        return tuple(argument_places(parameters(self.subject.trace)))

    @cached_property
    def numbers(self) -> tuple[ArgumentPlace, ...]:
        """The parameters that are whole numbers."""
        return tuple(
            s for s in self.slots
            if s.parameter.pointee is None and not is_float(s.parameter.type)
        )  # fmt: skip

    def whole(self, slot: ArgumentPlace) -> bool:
        """Does a parameter point to whole numbers?"""
        return slot.parameter.pointee is not None and not is_float(slot.parameter.pointee)

    @cached_property
    def _dimensions(self) -> Dimensions:
        """Those that the kernel reads; the others have one thread, or one block."""
        return Dimensions(self.subject.trace, None)

    @cached_property
    def _across(self) -> frozenset[str]:
        """The axes of a block along which it may have several threads."""
        leaves_ = (leaf for one in self.subject.cfg.instructions for leaf in leaves(one.operands))
        lanes = any(isinstance(o, Special) and o.name in _LANES for o in leaves_)
        return frozenset(self._dimensions.block) | ({"x"} if lanes else set())

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """Blocks, the likeliest first; a single one where somebody declares it."""
        declared = self.subject.shape
        if declared is not None:
            return (declared,)
        most = self.subject.function.most_threads or MOST_THREADS
        bound = [(most, 1, 1)] if self._across == {"x"} and most < MOST_THREADS else []
        found = [s for s in (*bound, *self._told(), *self._usual()) if s[0] * s[1] * s[2] <= most]
        return tuple(dict.fromkeys(found)) or ((most, 1, 1),)

    def _usual(self) -> tuple[Shape, ...]:
        if "z" in self._across:
            return BOXES
        if "y" in self._across:
            return (*TILES, *self._odd_tiles())
        across = sorted(set(widths(self.subject.trace, "x")))
        if len(across) == 1 and 32 <= across[0] <= MOST_THREADS:
            parts = [across[0] // n for n in (1, 2, 4, 8) if across[0] % (32 * n) == 0]
            return tuple((x, 1, 1) for x in parts) or ((across[0], 1, 1),)
        return ROWS if self._across else ((1, 1, 1),)

    def _odd_tiles(self) -> Iterator[Shape]:
        """Besides the usual ones: as wide as the kernel computes its indices, `blockIdx.x * 24 +
        threadIdx.x`. It may be what threads of several elements cover, so these are not all."""
        usual = {x for x, _, _ in TILES}
        for x in sorted({*widths(self.subject.trace, "x")} - usual)[:_WIDTHS]:
            yield from ((x, y, 1) for y in (8, 4, x) if x > 1 and x * y <= MOST_THREADS)

    def _told(self) -> Iterator[Shape]:
        shape = assumed_block(self.subject.trace)
        if shape is not None:
            yield shape

    def grid(self, blocks: int = 2) -> Shape:
        """So many blocks along each axis that the kernel reads."""
        x, y, z = (blocks if axis in self._dimensions.grid else 1 for axis in AXES)
        return x, y, z

    def extent(self, block: Shape) -> int:
        """Threads along the longest axis of the grid."""
        return max(b * g for b, g in zip(block, self.grid(), strict=True))

    # ------------------------------------------------------------ arguments

    def launch(self, block: Shape, number: int, contents: str = "iota") -> Launch:
        """With all numbers alike."""
        sizes = (number,) * max(len(self.numbers), 1)
        launch = Launch(self.grid(), block, arguments(parameters(self.subject.trace), sizes))
        return self.holding(launch, contents)

    def modelled(self, values: Mapping[Term, int]) -> Launch | None:
        """With the blocks and numbers of a model, and its threads if a block of usual shape has
        them; None where the grid is too large. What it says of contents is left to chance, and so
        are numbers below 1."""
        least = {"tid": [1, 1, 1], "ctaid": [*self.grid()]}
        numbers: dict[str, int] = {}
        for term, value in values.items():
            name, _, axis = str(term.value).removeprefix("u ").lstrip("%").partition(".")
            if term.origin is Origin.SPECIAL and name in least and axis in AXES:
                at = AXES.index(axis)
                least[name][at] = max(least[name][at], value + 1)
            elif term.origin is Origin.PARAMETER and 0 < value < _LARGEST:
                numbers[str(term.value)] = value
        fit = (s for s in self.shapes if all(map(le, least["tid"], s)))
        block = next(fit, self.shapes[0])
        x, y, z = least["ctaid"]
        if x * y * z > _BLOCKS:
            return None
        room = max(map(mul, (x, y, z), block))
        launch = replace(self.launch(block, room), grid=(x, y, z))
        for slot in self.numbers:
            if slot.parameter.name in numbers:
                launch = with_argument(launch, slot.place, numbers[slot.parameter.name])
        return launch

    def holding(self, launch: Launch, contents: str, first: int = 0) -> Launch:
        """With other integers in buffers: "iota", "zeros" or "random"; or all below a number, such
        as "17". What counts up begins with `first`."""
        below = int(contents) if contents.isdecimal() else 0
        for slot in self.slots:
            data = at_place(launch, slot.place)
            if isinstance(data, Data) and not is_float(data.type):
                kind = "zeros" if slot.parameter.name in self.counted_with else contents
                held = replace(data, kind=kind, values=())
                if first and kind == "iota":
                    held = replace(held, first=first, count=held.count + first)
                if below and kind == contents:
                    mask = (1 << width_of(data.type)) - 1
                    values = tuple((first + n) % below & mask for n in range(below))
                    held = replace(held, kind="values", values=values)
                launch = with_argument(launch, slot.place, held)
        return launch

    def with_number(self, launch: Launch, values: Mapping[str, int]) -> Launch:
        """With other values of some parameters."""
        for slot in self.numbers:
            value = values.get(slot.parameter.name)
            if value is not None:
                launch = with_argument(launch, slot.place, value * slot.parameter.unit)
        return launch

    def value(self, launch: Launch, name: str) -> int:
        """Of a number by its name, in elements where it counts bytes."""
        slot = next(slot for slot in self.numbers if slot.parameter.name == name)
        value = at_place(launch, slot.place)
        return value // slot.parameter.unit if isinstance(value, int) else 0

    @cached_property
    def waits(self) -> bool:
        """May it matter who comes first: are there strong accesses, or exchanges of a warp?"""
        return any(
            one.opcode in ("atom", "red") or isa.STRONG & {*one.modifiers}
            or ("sync" in one.modifiers and one.opcode not in ("bar", "barrier"))
            or "warp" in one.modifiers
            for one in self.subject.cfg.instructions
        )  # fmt: skip

    @cached_property
    def counted_with(self) -> frozenset[str]:
        """The pointers to words that threads wait for, or change by atomic operations."""
        names = {p.name for p in flat(parameters(self.subject.trace))}
        found: set[str] = set()
        for access in self.subject.trace.accesses:
            strong = isa.STRONG & {*access.instruction.modifiers}
            if access.kind == "atomic" or strong:
                found |= {pointer_of(v.address) or "" for v in access.variants}
        return frozenset(found & names)
