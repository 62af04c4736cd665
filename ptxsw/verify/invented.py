"""Launches invented for two kernels, the likeliest to show a difference first.

They begin with plain ones, which find out how large buffers have to be. All that follow vary one
that ran clean: what buffers hold, both outcomes of comparisons, numbers, buffers that overlap or
are misaligned, other grids and blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product, zip_longest
from random import Random

from msgspec.structs import replace

from ptxsw.emulator.trace import Trace
from ptxsw.ptx.ir import type_width
from ptxsw.ptx.target import MOST_THREADS
from ptxsw.verify.argument_places import (
    argument_places,
    as_argument,
    at_place,
    overlapped,
    shifted,
    with_values,
)
from ptxsw.verify.arguments import Argument, Data
from ptxsw.verify.branch_inputs import BranchInput
from ptxsw.verify.constants import Constants
from ptxsw.verify.contents import corners, is_float, width_of
from ptxsw.verify.launches import MARGIN, Fields, Launch, Shape, with_argument
from ptxsw.verify.parameters import Parameter, parameters

# Grid, block and the integers among the arguments, in turn: enough for two points of margin on each
# side. Small launches come first, and may be run under fuzzed schedules.
_SMALL: tuple[tuple[Shape, Shape, tuple[int, ...]], ...] = (
    ((1, 1, 1), (7, 1, 1), (15, 5, 5, 6, 3)),
    ((1, 1, 1), (32, 1, 1), (45, 5, 5, 6, 3)),
    ((1, 1, 1), (33, 1, 1), (45, 5, 5, 6, 3)),
    ((1, 1, 1), (16, 4, 1), (24, 5, 5, 6, 3)),
    ((2, 1, 1), (48, 1, 1), (60, 6, 5, 6, 3)),
    ((1, 2, 1), (32, 2, 1), (45, 5, 6, 6, 3)),
)
_WIDE: tuple[tuple[Shape, Shape, tuple[int, ...]], ...] = (
    ((3, 2, 2), (32, 1, 1), (131, 7, 6, 5, 4)),
    ((3, 2, 2), (48, 1, 1), (131, 7, 6, 5, 4)),
    ((2, 3, 1), (128, 1, 1), (300, 7, 6, 5, 4)),
    ((3, 2, 2), (16, 16, 1), (75, 40, 5, 4, 3)),
    ((2, 2, 3), (32, 4, 1), (75, 40, 7, 4, 3)),
    ((3, 2, 2), (8, 8, 4), (45, 44, 43, 42, 41)),
    ((3, 2, 2), (7, 1, 1), (40, 7, 6, 5, 4)),
    ((2, 2, 2), (33, 3, 1), (100, 9, 8, 7, 6)),
    ((3, 1, 2), (1024, 1, 1), (1100, 5, 4, 3, 2)),
)
ROWS: tuple[Shape, ...] = ((64, 1, 1), (256, 1, 1), (128, 1, 1), (32, 1, 1))
TILES: tuple[Shape, ...] = ((16, 16, 1), (32, 8, 1), (32, 4, 1), (8, 8, 1), (32, 32, 1))
BOXES: tuple[Shape, ...] = ((8, 8, 4), (4, 4, 4), (32, 2, 2), (8, 8, 8))
"""Blocks as programs have them: kernels with shared memory often run in no others."""
_COUNT = 1 << 14  # elements of a buffer at first


def invent(trace: Trace, *, wide: bool = True) -> Iterator[Launch]:
    """Plain launches of a kernel, the smallest first; whether they stay in bounds is yet to be
    seen. Blocks are as large as the kernel allows."""
    inferred = parameters(trace)
    required, most = trace.function.block_shape, trace.function.most_threads or MOST_THREADS
    for given, fuzz in ((_SMALL, True), (_WIDE if wide else (), False)):
        seen: set[tuple[Shape, Shape]] = set()
        for grid, block, sizes in given:
            block = required or block
            threads = block[0] * block[1] * block[2]
            if (grid, block) not in seen and threads <= most:
                seen.add((grid, block))
                small_enough = fuzz and threads <= 128
                yield Launch(grid, block, arguments(inferred, sizes), fuzz=small_enough)


def arguments(
    inferred: Sequence[Parameter], sizes: Sequence[int], count: int = _COUNT, before: int = MARGIN
) -> tuple[Argument | Fields, ...]:
    """Values for the parameters: integers get `sizes` in turn, pointers buffers of `count`
    elements, of which `before` lie before the pointer."""
    numbers = iter((*sizes, *[3] * 64))
    seeds = iter(range(1, 1000))

    def value(parameter: Parameter) -> Argument:
        seed = next(seeds)
        if parameter.pointee is not None:
            return Data("random", count, parameter.pointee, seed, before)
        if parameter.type in ("f32", "f64"):
            return 0.25 + seed / 16
        return next(numbers) * parameter.unit

    return tuple(
        Fields(tuple((at, inner.type, value(inner)) for at, inner in p.fields))
        if p.fields
        else value(p)
        for p in inferred
    )


# ---------------------------------------------------------------- varied


class Inventor:
    """Launches for a kernel, varied by what became of those before: `ran` is told of each."""

    def __init__(
        self, trace: Trace, constants: Constants, branches: Iterator[BranchInput],
        variables: Mapping[str, str], *, overlaps: bool = True,
    ) -> None:  # fmt: skip
        """`variables` are those of the module that have no first values, with their types. May
        buffers overlap?"""
        self._overlaps = overlaps
        self._plain = list(invent(trace))
        inferred = parameters(trace)
        self._places = tuple(argument_places(inferred))
        self._pointers = tuple(s for s in self._places if s.parameter.pointee is not None)
        self._numbers = tuple(s for s in self._places if s.parameter.pointee is None)
        self._constants, self._branches, self._variables = constants, branches, variables
        self._fixed = trace.function.block_shape is not None
        self._most = trace.function.most_threads or MOST_THREADS
        self._written = frozenset(_written(trace))
        self._dice = Random(1)
        self._ran: Launch | None = None  # the last one, if it ran clean
        self._clean: list[tuple[Launch, bool]] = []  # each with whether it was idle
        self._tame = {
            s.parameter.name
            for s in self._pointers
            if s.parameter.steers and not is_float(s.parameter.pointee or "")
        }

    def ran(self, launch: Launch | None, *, idle: bool = False) -> None:
        """The launch proposed last ran clean, perhaps with longer buffers; None: it did not.
        `idle`: it changed nothing."""
        self._ran = launch
        if launch is not None:
            self._clean.append((launch, idle))

    def launches(self) -> Iterator[tuple[Launch, bool]]:
        """Each with whether its buffers may be made longer."""
        small = [launch for launch in self._plain if launch.fuzz] or self._plain[:1]
        for launch in small:
            yield self._sized(launch), True
        if not self._clean:
            yield from ((launch, True) for launch in self._plain[len(small) :])
        if not self._clean and not self._fixed:
            yield from ((launch, True) for launch in self._usual(small[0]))
        for bits in (1, 0) if not self._clean else ():  # flags that somebody waits for
            yield self._filled(small[0], bits), True
        if not self._clean:
            return
        base, _ = max(self._clean, key=_breadth)
        yield from self._wild(base)
        for launch in chain(self._contents(base), self._taken(base)):
            yield launch, False
        overlapping = self._overlapping(base) if self._overlaps else iter(())
        lying = chain(overlapping, self._misaligned(base))
        varied = (self._counts(base), lying, self._together(base))
        wide = self._wide(self._plain[len(small) :])
        for several in zip_longest(wide, *varied, *varied, *varied[:1]):
            for number, launch in enumerate(several):
                if launch is not None:
                    yield launch, number == 0

    def _usual(self, plain: Launch) -> Iterator[Launch]:
        """In a block of each usual shape, and in the largest that the kernel allows."""
        shapes = dict.fromkeys(((self._most, 1, 1), *TILES, *ROWS, (512, 1, 1), *BOXES))
        for x, y, z in shapes:
            if x * y * z <= self._most:
                yield replace(plain, block=(x, y, z), fuzz=x * y * z <= 256)

    def _wide(self, plain: Sequence[Launch]) -> Iterator[Launch]:
        for number, launch in enumerate(plain):
            kind = ("full", "mixed", "random")[number % 3]
            yield self._held(self._sized(launch), kind, number)

    # ------------------------------------------------------------ buffers

    def _sized(self, launch: Launch) -> Launch:
        """With buffers and shared memory as large as those of the launches that ran clean."""
        for other, _ in self._clean[-1:]:
            for each in self._pointers:
                one, two = at_place(launch, each.place), at_place(other, each.place)
                if isinstance(one, Data) and isinstance(two, Data) and two.count > one.count:
                    sized = replace(one, count=two.count, first=two.first)
                    launch = with_argument(launch, each.place, sized)
        return launch

    def _held(self, launch: Launch, kind: str, seed: int) -> Launch:
        """The same with other contents: buffers whose integers steer keep small ones."""
        for each in self._pointers:
            data = at_place(launch, each.place)
            if isinstance(data, Data) and each.parameter.name not in self._tame:
                listed = self._constants.bits(data.type) if kind == "mixed" else ()
                held = replace(data, kind=kind, seed=data.seed + 100 * seed, values=listed)
                launch = with_argument(launch, each.place, held)
        return replace(launch, fuzz=False)

    def _filled(self, launch: Launch, bits: int) -> Launch:
        """With one value in all buffers."""
        for each in self._pointers:
            data = at_place(launch, each.place)
            if isinstance(data, Data):
                filled = replace(data, kind="values", values=(bits,))
                launch = with_argument(launch, each.place, filled)
        return launch

    def _wild(self, base: Launch) -> Iterator[tuple[Launch, bool]]:
        """Finds out which buffers have to keep small integers, because the kernel leaves its
        buffers or never ends with others."""
        suspects = [s.parameter.name for s in self._pointers if s.parameter.name not in self._tame]
        yield self._held(base, "mixed", 0), False
        if self._went() or not suspects:
            return
        self._tame.update(suspects)
        yield self._held(base, "mixed", 0), False
        for name in suspects if self._went() and len(suspects) > 1 else []:
            self._tame.remove(name)
            yield self._held(base, "mixed", 0), False
            if not self._went():
                self._tame.add(name)

    def _went(self) -> bool:
        """Did the last launch run clean?"""
        return self._ran is not None

    def _contents(self, base: Launch) -> Iterator[Launch]:
        for seed, kind in enumerate(("full", "mixed", "full", "mixed"), 1):
            yield self._held(base, kind, seed)
        if self._variables:
            for seed, kind in enumerate(("full", "random", "mixed"), 5):
                yield replace(self._held(base, "full", seed), variables=self._contents_of(kind))

    def _contents_of(self, kind: str) -> tuple[tuple[str, Data], ...]:
        made: list[tuple[str, Data]] = []
        for seed, (name, said) in enumerate(self._variables.items(), 900):
            type_, _, count = said.partition(":")
            made.append((name, Data(kind, int(count), type_, seed)))
        return tuple(made)

    # ------------------------------------------------------------ outcomes of comparisons

    def _taken(self, base: Launch) -> Iterator[Launch]:
        for wanted in self._branches:
            launch = self._shaped(self._held(base, "full", 20), wanted.specials)
            for each in self._numbers:
                if each.parameter.name in wanted.numbers:
                    value = wanted.numbers[each.parameter.name]
                    launch = with_argument(launch, each.place, as_argument(value, each.parameter))
            for each in self._pointers:
                data, loaded = at_place(launch, each.place), wanted.loads.get(each.parameter.name)
                if wanted.numbers.get(each.parameter.name) == 0:
                    launch = with_argument(launch, each.place, 0)
                elif isinstance(data, Data) and loaded:
                    launch = with_argument(launch, each.place, with_values(data, loaded))
            known = {name: Data("values", 1, f"u{some[0][1]}", values=tuple(v for v, _ in some))
                     for name, some in wanted.loads.items() if name in self._variables}  # fmt: skip
            yield replace(launch, variables=tuple(known.items()))

    def _shaped(self, launch: Launch, specials: Mapping[str, int]) -> Launch:
        """With a grid and block that have the thread, or are of the size, that is wanted."""
        block, grid = list(launch.block), list(launch.grid)
        for axis, letter in enumerate("xyz"):
            if not self._fixed:
                block[axis] = max(block[axis], specials.get(f"%tid.{letter}", 0) + 1)
                block[axis] = specials.get(f"%ntid.{letter}", 0) or block[axis]
            grid[axis] = max(grid[axis], specials.get(f"%ctaid.{letter}", 0) + 1)
            grid[axis] = specials.get(f"%nctaid.{letter}", 0) or grid[axis]
        if block[0] * block[1] * block[2] > self._most:
            block = list(launch.block)
        if grid[0] * grid[1] * grid[2] > 64:
            grid = list(launch.grid)
        return replace(
            launch, grid=(grid[0], grid[1], grid[2]), block=(block[0], block[1], block[2])
        )

    # ------------------------------------------------------------ numbers

    def _counts(self, base: Launch) -> Iterator[Launch]:
        """One number at a time, the others as they are; by turns."""
        pools = [
            [with_argument(held, each.place, value) for value in self._pool(each.parameter)]
            for each in self._numbers
            for held in [self._held(base, "full", 30)]
        ]
        for some in zip_longest(*pools):
            yield from (launch for launch in some if launch is not None)

    def _pool(self, parameter: Parameter) -> tuple[Argument, ...]:
        """Values of a number: small ones first, constants of the text, corners."""
        if is_float(parameter.type):
            bits = (*self._constants.bits(parameter.type), *corners(parameter.type))
            return tuple(dict.fromkeys(as_argument(b, parameter) for b in bits))
        width = max(type_width(parameter.type), 8)
        mask = (1 << width) - 1
        half = mask >> 1
        plain: tuple[int, ...] = (
            0, 1, 2, mask, mask - 4, half, half + 1, 3, 4, 7, 8, 16, 31, 33, 64,
        )  # fmt: skip
        wide = ((1 << 32) + 5, mask ^ 0xFFFFFFFF) if width == 64 else ()
        if parameter.unit > 1:
            plain = tuple(n * parameter.unit & mask for n in (0, 2, 3, mask, 5, mask - 2, 1))
        whole = tuple(self._dice.getrandbits(width) for _ in range(4))
        found = (*plain, *wide, *self._constants.bits(f"u{width}"), *whole, *corners(f"u{width}"))
        return tuple(dict.fromkeys(as_argument(n & mask, parameter) for n in found))

    def _together(self, base: Launch) -> Iterator[Launch]:
        """All numbers drawn at once."""
        pools = [(each, self._pool(each.parameter)) for each in self._numbers]
        for seed in range(16 if len(pools) > 1 else 4):
            launch = self._held(base, "mixed", 40 + seed)
            for each, pool in pools:
                if self._dice.random() < 0.7:
                    launch = with_argument(launch, each.place, self._dice.choice(pool))
            yield launch

    # ------------------------------------------------------------ where buffers lie

    def _overlapping(self, base: Launch) -> Iterator[Launch]:
        """Pairs of buffers of which the kernel writes one: the same one, and some bytes apart, the
        latter in a single thread, which cannot race, and as far apart as the text aligns them."""
        pairs = [
            (first, second)
            for at, first in enumerate(self._pointers[:5])
            for second in self._pointers[at + 1 : 5]
            if {first.parameter.name, second.parameter.name} & self._written
        ]
        for distance, (first, second) in product((0, 1, -1, 2, -3), pairs):
            launch = self._held(self._row(base, 1 if distance else 33), "full", 60)
            size = width_of((first if distance > 0 else second).parameter.pointee or "b8") // 8
            step = max(size, second.parameter.unit)  # which is moved
            yield overlapped(launch, first, second, distance * step)

    def _misaligned(self, base: Launch) -> Iterator[Launch]:
        """A buffer that begins one element further, for vectors."""
        for each, shift in product(self._pointers, (4, 2, 1, 8)):
            if shift % each.parameter.unit == 0:
                yield shifted(self._held(self._row(base, 33), "full", 70), each, shift)

    def _row(self, base: Launch, threads: int) -> Launch:
        """One block with so many threads in a row, if the kernel allows."""
        block = base.block if self._fixed else (min(threads, self._most), 1, 1)
        return replace(base, grid=(1, 1, 1), block=block)


def _breadth(clean: tuple[Launch, bool]) -> tuple[bool, bool, int]:
    """Does it do something, and how many different numbers do threads have along the first axis, as
    far as it matters?"""
    launch, idle = clean
    return not idle, launch.block[1] == launch.block[2] == 1, min(launch.threads, 96)


def _written(trace: Trace) -> Iterator[str]:
    """The parameters that point to what the kernel writes."""
    for access in trace.accesses:
        if access.kind in ("store", "atomic", "other"):
            for variant in access.variants:
                for node in (t for t in variant.address.args or (variant.address,)):
                    yield str(node.value)
