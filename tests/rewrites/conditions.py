"""Under which conditions the programs of `benchmarks/programs/loads.py` are launched to compare a
rewritten text with its original, and which conditions cannot apply to which program.

Every launch has no more memory than the original touches: a load that the original does not make
ends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kernelgen.cases import Run
from benchmarks.programs.loads import LOADS
from ptxsw.simt import launch
from ptxsw.simt.chunk import Chunk
from ptxsw.simt.memory import AccessedBytes
from ptxsw.simt.state import Fragment, MemoryFault
from tests.parsed import parsed

HERE = Path(__file__).parent / "programs"
WHERE = 1 << 44
"""The buffer that holds all arrays."""
PAGE = 1 << 14
GCC = "jacobi-gcc"
CONSTANT = ("forces", "gather")
"""Programs whose number of iterations is a constant of the source."""
JAGGED = "jagged"  # whose lanes have a number of iterations of their own in any case


@dataclass(frozen=True)
class Launch:
    """A kernel, its arguments as numbers, and all memory there is. `where` says what is special
    about it; `slow` whether the copy of the kernel as it was has to run, if there is one (None:
    either may). With `apart` the arrays are known to lie apart, so that no test has to tell."""

    text: str
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Any, ...]
    memory: Mapping[int, np.ndarray]
    where: str = ""
    slow: bool | None = None
    apart: bool = False

    def results(self, text: str) -> dict[int, bytes]:
        """What another text of the kernel leaves in memory. Raises RunError."""
        done = launch(
            parsed(text), self.entry, self.grid, self.block, self.arguments, memory=self.memory
        )  # fmt: skip
        return {at: data.tobytes() for at, data in done.memory.items()}

    def with_touched_memory(self) -> Launch:
        """The same with those bytes alone that the text itself touches."""
        if not self.memory:
            return self
        marks = _Marks(self.memory)
        launch(
            parsed(self.text), self.entry, self.grid, self.block, self.arguments,
            memory=self.memory, recorder=marks,
        )  # fmt: skip
        return replace(self, memory=dict(marks.pieces()))


class _Marks:
    """Sees which bytes of some buffers a run touches."""

    def __init__(self, memory: Mapping[int, np.ndarray]) -> None:
        self.memory = {at: np.ascontiguousarray(a).view("u1") for at, a in memory.items()}
        assert all(at % 256 == 0 and not len(data) % 256 for at, data in self.memory.items())
        self.touched = np.zeros(sum(map(len, self.memory.values())), bool)

    def access(
        self, chunk: Chunk, fragment: Fragment, place: AccessedBytes, size: int, write: bool
    ) -> None:
        if place.arena:
            offsets = np.unique(place.offsets)
            for byte in range(size):
                self.touched[offsets[offsets + byte < len(self.touched)] + byte] = True

    def executed(self, kernel: object, warps: object) -> None:
        """Nothing to see."""

    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        """The bytes that were touched, by address."""
        first = 0
        for at, data in self.memory.items():
            touched = np.flatnonzero(self.touched[first : first + len(data)])
            first += len(data)
            ends = np.flatnonzero(np.diff(touched) > 1)
            for piece in np.split(touched, ends + 1):
                if len(piece):
                    yield at + int(piece[0]), data[piece[0] : piece[-1] + 1].copy()


# ---------------------------------------------------------------- the texts


def text_of(name: str) -> str:
    """As the compiler wrote it."""
    return LOADS[name].path.read_text()


@cache
def downwards(name: str) -> str:
    """The program from its last iteration to the first."""
    return (HERE / "downwards.ptx").read_text()


_ITERATIONS = {  # where the number of iterations comes from
    "column-scale": ("ld.param", "param_1"), "z-march": ("ld.param", "param_2"),
    "stencil7": ("ld.param", "param_2"), "row-sums": ("ld.param", "param_1"),
    "fdtd2d": ("ld.param", "param_1"), "thomas": ("ld.param", "param_1"),
    "jacobi-nvcc": ("ld.param", "param_1"), "jacobi-clang": ("ld.param", "param_1"),
    GCC: ("shfl.sync.idx.b32", "%r27, %r27"),
}  # fmt: skip


@cache
def own_iterations(name: str) -> str:
    """The program with a number of iterations that differs from lane to lane: lane by lane up to
    three fewer; where it is a constant, one fewer than in the lane before, and none at last."""
    if name in CONSTANT:
        return (HERE / "own_iterations.ptx").read_text()
    if name == JAGGED:
        return text_of(name)
    opcode, operands = _ITERATIONS[name]
    fewer = r"\g<0> mov.u32 %fewer, %tid.x; and.b32 %fewer, %fewer, 3; sub.s32 \1, \1, %fewer;"
    line = rf"{re.escape(opcode)}\S*\s+(%r\d+),[^;]*{re.escape(operands.partition(', ')[2])}[^;]*;"
    if opcode == "ld.param":
        line = rf"ld\.param\S*\s+(%r\d+),\s*\[\w+{operands}\];"
    text, times = re.subn(line, fewer, text_of(name))
    assert times == 1, name
    return re.sub(r"(?m)^\s*\.reg\s*\.pred", r"\t.reg .b32 %fewer;\n\g<0>", text, count=1)


# ---------------------------------------------------------------- arguments and memory


def placed(name: str, run: Run, at: Mapping[str, int] | None = None) -> Launch:
    """A run with all arrays in one buffer, far from each other but for those `at` so many bytes
    from its middle."""
    arrays = _arrays(run)
    room = (4 * max(data.nbytes for data in arrays.values()) + 319) // 256 * 256
    buffer = np.zeros(room * (len(arrays) + 1), "u1")
    offsets = {array: room // 2 + room * n for n, array in enumerate(arrays, 1)}
    offsets |= {array: room // 2 + offset for array, offset in (at or {}).items()}
    for array, data in arrays.items():
        bytes_ = data.view("u1")
        buffer[offsets[array] : offsets[array] + len(bytes_)] = bytes_
    where = {array: WHERE + offset for array, offset in offsets.items()}
    arguments, memory = _arguments(run, where)
    return Launch(
        text_of(name), LOADS[name].entry, run.grid, run.block, arguments,
        memory | {WHERE: buffer}, ", ".join(f"{a} at {n:+}" for a, n in (at or {}).items()),
    )  # fmt: skip


def _arrays(run: Run) -> dict[str, np.ndarray]:
    if run.placed:  # GCC's
        return {name: run.placed[name][1] for name in ("in", "out")}
    given = [argument for argument in run.args if isinstance(argument, np.ndarray)]
    return dict(zip(run.arrays, given, strict=True))


def _arguments(run: Run, where: Mapping[str, int]) -> tuple[tuple[Any, ...], dict[int, np.ndarray]]:
    """The arguments for arrays at some addresses, and what else has to be in memory."""
    if not run.placed:
        scalars = run.args[: len(run.args) - len(run.arrays)]
        return (*scalars, *(where[name] for name in run.arrays)), {}
    memory = {}
    for name in ("addresses", "values"):
        at, data = run.placed[name]
        memory[at] = np.zeros(256, "u1")
        memory[at][: data.nbytes] = data.view("u1")
    pointers = np.array([where["out"], where["in"]], np.int64)
    memory[run.placed["values"][0]][:16] = pointers.view("u1")
    return run.args, memory


def mapped_as_touched(one: Launch, fill: Callable[[int], np.ndarray]) -> Launch:
    """A launch with pages where its text touches memory; `fill` tells what a page holds."""
    memory: dict[int, np.ndarray] = {}
    while True:
        try:
            launch(parsed(one.text), one.entry, one.grid, one.block, one.arguments, memory=memory)
        except MemoryFault as fault:
            (address, *_) = re.findall(r" at 0x([0-9a-f]+)", str(fault))
            page = int(address, 16) // PAGE * PAGE
            assert page not in memory and len(memory) < 200, fault
            memory[page] = fill(page)
        else:
            return replace(one, memory=memory)


# ---------------------------------------------------------------- the conditions


def _iterations(which: int) -> Callable[[str], Iterator[Launch]]:
    """Launches of two iterations, one or none."""

    def of(name: str) -> Iterator[Launch]:
        if name in CONSTANT:
            yield _own_iterations(name, 1 + which)
        elif name == "three-outputs":
            yield from _no_thread(name)
        else:
            one = placed(name, LOADS[name].launches[3 - which]())
            yield replace(one, slow=False if which else None)

    return of


def _no_thread(name: str) -> Iterator[Launch]:
    one = placed(name, LOADS[name].launches[0]())
    yield replace(one, arguments=(0, *one.arguments[1:]))


def _own_iterations(name: str, count: int) -> Launch:
    """So many threads of a program of constant iterations; the last one makes none. Where
    `x[at[i]]` lies no test can tell."""
    one = placed(name, LOADS[name].launches[0]())
    arguments = (count, *one.arguments[1:])
    return replace(one, text=own_iterations(name), arguments=arguments, apart=name == "gather")


def _each_its_own(name: str) -> Iterator[Launch]:
    if name in CONSTANT:
        yield _own_iterations(name, 9 if name == "gather" else 70)
        return
    for which in (0, 1):  # many, and two: some lanes make none
        one = replace(placed(name, LOADS[name].launches[which]()), text=own_iterations(name))
        yield one
        if name != "thomas":  # whose arrays are stored to and read
            yield replace(one, apart=True)


def _unmapped(name: str) -> Iterator[Launch]:
    """Nothing is where the pointers point, or, for lanes that make no iteration, not all."""
    for one in _iterations(0)(name):
        if name == "thomas":  # which divides the last row in any case
            sizes, pointers = one.arguments[:2], one.arguments[4:]
            yield replace(one, arguments=(*sizes, 1 << 40, 2 << 40, *pointers))
        elif name == JAGGED:  # with lengths of 0
            yield one
        elif name != GCC:
            yield replace(one, memory={})
        else:
            memory = {at: data for at, data in one.memory.items() if at != WHERE}
            yield replace(one, memory=memory)


def _partial(name: str) -> Iterator[Launch]:
    """Blocks that are no whole warps, and lanes of the last one without work."""
    for which in (0, 1):
        if which < len(LOADS[name].launches):
            run = LOADS[name].launches[which]()
            narrow, (_, y, z) = (5, 3, 1) if name == "z-march" else (37, 1, 1), run.grid
            wide = run.grid[0] * run.block[0]
            deep = run.grid[1] * run.block[1]
            grid = (-(-wide // narrow[0]), -(-deep // narrow[1]) if y > 1 else 1, z)
            yield replace(placed(name, replace(run, grid=grid, block=narrow)), slow=False)


def _overlapping(name: str) -> Iterator[Launch]:
    """Each output is another array, begins 4 bytes behind it or before it, or lies inside it, in
    launches of two iterations and of many."""
    for make in LOADS[name].launches[:2]:
        run = _of_small_numbers(make()) if name == "gather" else make()
        arrays, outputs = _arrays(run), set(run.expected)
        for source, target in permutations(arrays, 2):
            distances: tuple[int, ...] = (0, 4, -4, arrays[source].nbytes // 8 * 4)
            if (name, source) == (JAGGED, "a"):  # a thread's own elements: others would race
                distances = tuple(row * arrays[target].nbytes for row in (0, 1, -1, 9))
            for distance in distances * (target in outputs):
                own = (name, source) == (JAGGED, "a") and distance
                tested = (name, source) not in NOT_TESTED
                yield replace(
                    placed(name, run, {source: 0, target: distance}),
                    slow=None if source in outputs or own else tested,
                )


def _of_small_numbers(run: Run) -> Run:
    """Where sums are indices, too: numbers so small that floats add up as integers do."""
    random = np.random.default_rng(3)
    small = [
        random.integers(0, 100 if data.dtype.kind == "i" else 4, data.size, np.int32)
        for data in _arrays(run).values()
    ]
    arrays = [s.view(data.dtype) for s, data in zip(small, _arrays(run).values(), strict=True)]
    return replace(run, args=(*run.args[: len(run.args) - len(arrays)], *arrays))


NOT_TESTED = {
    ("gather", "x"),  # where `x[at[i]]` lies no test can tell
    ("thomas", "lower"),  # is loaded once
    ("thomas", "upper"),
}
"""Arrays whose place no test asks for."""


def _downwards(name: str) -> Iterator[Launch]:
    if name == "jacobi-clang":  # a step of -2^31 elements
        yield from _sparse(name, (-(1 << 31), 6, 0.25))
        return
    for which in range(4):
        if which < len(LOADS[name].launches):
            run = LOADS[name].launches[which]()
            one = replace(placed(name, run), text=downwards(name))
            yield one
            if name not in ("column-scale", "thomas"):  # whose arrays are stored to and read
                yield replace(one, apart=True)
    if name == "stencil7":  # whose rows are not compared with anything
        yield from _sparse(name, (40, -7, 6, 0.6, 0.1))
    if name == "z-march":  # 65536 * 65535 is -65536
        yield from _sparse(name, (1 << 16, (1 << 16) - 1, 6))


_WRAPPING: Mapping[str, tuple[Any, ...]] = {  # a row of 2^30 elements: the third begins below
    "column-scale": (1 << 30, 9), "row-sums": (1 << 30, 9), "gather": (1 << 30,),
    JAGGED: (1 << 30, 9), "thomas": (1 << 30, 7), "fdtd2d": (1 << 30, 7),
    "jacobi-nvcc": (1 << 30, 8, 0.25),
    "jacobi-clang": (1 << 30, 8, 0.25), "z-march": (1 << 15, 1 << 15, 8),
    "stencil7": (1 << 15, 1 << 15, 8, 0.6, 0.1),
}  # fmt: skip


def _wrapping(name: str) -> Iterator[Launch]:
    yield from _sparse(name, _WRAPPING[name])
    if name in ("fdtd2d", "jacobi-nvcc", "jacobi-clang"):  # nx - 1 wraps, too
        yield from _sparse(name, (-(1 << 31), *_WRAPPING[name][1:]))


def _sparse(name: str, scalars: tuple[Any, ...]) -> Iterator[Launch]:
    """A launch of few threads in memory with holes: there are pages where the text goes."""
    run = LOADS[name].launches[0]()
    arrays = len(run.arrays)
    block = (8, 4, 1) if name == "z-march" else (40, 1, 1)
    numbers = tuple(np.float32(n) if isinstance(n, float) else n for n in scalars)
    pointers = tuple(WHERE + (n << 40) for n in range(arrays))

    def fill(page: int) -> np.ndarray:
        count = np.arange(PAGE // 4) + page // PAGE
        if (name, page >> 40) in (("gather", WHERE >> 40), (JAGGED, WHERE >> 40)):
            return (count % (5 if name == JAGGED else 500)).astype("i4").view("u1")
        return ((count * 37 % 251 + 1) / 64).astype("f4").view("u1")

    one = Launch(
        text_of(name), LOADS[name].entry, (1, 1, 1), block, (*numbers, *pointers), {},
        f"of {scalars}", slow=None if name == JAGGED else True,  # which counts in 64 bits
    )  # fmt: skip
    yield mapped_as_touched(one, fill)


CONDITIONS: Mapping[str, Callable[[str], Iterator[Launch]]] = {
    "no iteration": _iterations(0),
    "one iteration": _iterations(1),
    "two iterations": _iterations(2),
    "iterations of its own for each lane": _each_its_own,
    "unmapped behind a zero-trip test": _unmapped,
    "partial warps": _partial,
    "overlapping buffers": _overlapping,
    "negative steps": _downwards,
    "an index that wraps": _wrapping,
}

_NO_LOOP = "it has no loop"
_NO_WRAP = "its indices count threads and at most 100 particles"
_WHOLE = "GCC writes for whole warps of 32 lanes"
_WIDE = "GCC computes addresses in 64 bits, from sizes that are tested to be positive"
STAYS: Mapping[tuple[str, str], str] = {
    **{(GCC, condition): "its pointers are loaded from memory" for condition in CONDITIONS},
    ("thomas", "negative steps"): "the trip count of a loop is not known",
}
"""What is left as it is under some conditions, and why."""
IMPOSSIBLE: Mapping[tuple[str, str], str] = {
    ("three-outputs", "one iteration"): _NO_LOOP,
    ("three-outputs", "two iterations"): _NO_LOOP,
    ("three-outputs", "iterations of its own for each lane"): _NO_LOOP,
    ("three-outputs", "negative steps"): _NO_LOOP,
    ("three-outputs", "an index that wraps"): _NO_WRAP,
    ("forces", "an index that wraps"): _NO_WRAP,
    (GCC, "partial warps"): _WHOLE,
    (GCC, "negative steps"): _WIDE,
    (GCC, "an index that wraps"): _WIDE,
}
"""Which condition cannot apply to which program, and why."""
