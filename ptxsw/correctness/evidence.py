"""One launch of a kernel in the interpreter, and the faults that it shows, by rule.

Buffers that were invented grow until the kernel stays within them: where they end is nobody's
fault. Nor is it that a kernel wants more dynamic shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from time import thread_time
from typing import Any

from msgspec import Struct

from ptxsw.correctness.subject import Subject
from ptxsw.ptx.cxx_names import readable
from ptxsw.ptx.errors import Unsupported
from ptxsw.ptx.ir import Instruction, Module
from ptxsw.simt import RACE, SAME, Conflict, Races, RunError
from ptxsw.simt import launch as simulate
from ptxsw.simt.code import align_of
from ptxsw.simt.extents import Extent, extent_of
from ptxsw.simt.memory import SHARED
from ptxsw.simt.program import Program
from ptxsw.simt.state import (
    Deadlock,
    LaneOutsideMask,
    Livelock,
    MemoryFault,
    Misaligned,
    PartialBarrier,
    PastDynamicShared,
    Poisoned,
    ThreadPlace,
)
from ptxsw.verify.arguments import Data
from ptxsw.verify.differential import roomier
from ptxsw.verify.launches import Launch, buffers, repaired
from ptxsw.verify.runs import contents_of, placed

_ATTEMPTS = 10
"""At buffers that are large enough."""

_STEPS = 1 << 13  # of groups of threads

Raced = frozenset[tuple[str, bool, int, int]]

Key = tuple[str, int, int]
"""A rule and the two instructions, the smaller number first."""


class ShownFault(Struct, frozen=True):
    """A fault that a launch showed. `other` is the second thread's instruction, where there is one;
    `writes` says which of the two writes. `byte` names what both touch, `said` is the error in
    words. `same`: both wrote the same value."""

    rule: str
    index: int
    places: tuple[ThreadPlace, ...]
    error: RunError
    other: int | None = None
    writes: tuple[bool, bool] = (False, False)
    byte: str = ""
    said: str = ""
    shared: bool = False
    same: bool = False

    @property
    def key(self) -> Key:
        low, high = sorted((self.index, self.index if self.other is None else self.other))
        return self.rule, low, high


class Ran(Struct, frozen=True):
    """A launch as it was run at last, and what it showed. `error` is what it ended with."""

    launch: Launch
    evidence: tuple[ShownFault, ...] = ()
    error: RunError | None = None
    steps: int = 0
    unsupported: str = ""
    executed: Sequence[int] = ()  # how many threads executed each instruction of the kernel

    @property
    def clean(self) -> bool:
        """Did it end, whatever threads raced?"""
        return not self.unsupported and self.error is None

    def passes(self, key: Key) -> bool:
        """Does it come by the instructions of a fault, and not show it? So does one that ends for
        what is the launch's fault."""
        came = bool(self.executed) and all(self.executed[index] for index in key[1:])
        return came and (self.clean or not self.evidence)

    def shows(self, key: Key) -> ShownFault | None:
        return next((e for e in self.evidence if e.key == key), None)


def run(
    subject: Subject, launch: Launch, rules: frozenset[str], *, limit: int, seconds: float,
    given: bool = False,
) -> Ran:  # fmt: skip
    """Runs a launch, with longer buffers as far as it is needed; with `given` as it is. A run is
    given up after `limit` steps of groups of threads, or some CPU time. `rules` are asked."""
    end = thread_time() + seconds
    for _ in range(_ATTEMPTS):
        ran = _run(subject, launch, limit, end, given, rules)
        fault = ran.error
        if given or not isinstance(fault, MemoryFault) or _of(fault, ran.evidence):
            return ran
        more = roomier(subject.module, launch, fault) or _longer(launch, fault)
        if more is None or subject.budget.spent():
            return ran
        launch = more
    return ran


def raced(module: Module, kernel: str, launch: Launch, seconds: float) -> Raced | None:
    """The conflicts that a launch of a kernel shows, by kind and lines; None where it does not come
    to its end."""
    watch, end = Races(), thread_time() + seconds
    values, memory, _ = placed(module, kernel, launch)
    try:
        _simulated(module, kernel, launch, _STEPS, end, watch, values, memory)
    except (RunError, Unsupported, _Late):
        return None
    return frozenset((c.kind, c.shared, c.line, c.other_line) for c in watch.conflicts)


def _longer(launch: Launch, fault: MemoryFault) -> Launch | None:
    """With longer buffers, and the same numbers."""
    more = repaired(launch, fault.message)
    if more is None:
        return None
    numbers = [a for a in launch.args if not isinstance(a, Data)]
    kept = numbers == [a for a in more.args if not isinstance(a, Data)]
    grown = [b for _, b in buffers(launch)] != [b for _, b in buffers(more)]
    return more if kept or grown else None


def _of(fault: RunError, evidence: tuple[ShownFault, ...]) -> bool:
    return any(each.error is fault for each in evidence)


class _Late(Exception):
    pass


def _run(
    subject: Subject, launch: Launch, limit: int, end: float, given: bool, rules: frozenset[str]
) -> Ran:
    kernel, watch = subject.function.name, Races()
    values, memory, names = placed(subject.module, kernel, launch)
    error, steps = None, 0
    try:
        steps = _simulated(subject.module, kernel, launch, limit, end, watch, values, memory)
    except RunError as stopped:
        error = stopped
    except Unsupported as refused:
        return Ran(launch, unsupported=refused.message)
    except _Late:
        return Ran(launch, unsupported="it takes too long")
    sight = _Sight(subject, launch, watch, names, given, rules)
    conflicts = tuple(sight.conflicts())
    found = (*conflicts, *sight.stopped(error, bool(conflicts)))
    return Ran(launch, found, error, steps, executed=_executed(subject, watch.program))


def _executed(subject: Subject, program: Program | None) -> Sequence[int]:
    """How many threads executed each instruction of the kernel; of those that stand in several
    places, all of these together."""
    if program is None:
        return ()
    often = {
        instruction.start: threads
        for code in program.codes.values()
        for instruction, threads in zip(code.instructions, code.threads, strict=True)
    }
    return [often.get(instruction.start, 0) for instruction in subject.cfg.instructions]


def _simulated(
    module: Module, kernel: str, launch: Launch, limit: int, end: float, watch: Races,
    values: Sequence[Any], memory: Any,
) -> int:  # fmt: skip
    """How many steps a run made."""
    turns = count()

    def in_time(_: int) -> None:
        if not next(turns) % 16 and thread_time() > end:  # it is dear to ask
            raise _Late

    return simulate(
        module, kernel, launch.grid, launch.block, values, shared=launch.shared,
        memory=memory, variables=contents_of(launch), seed=launch.seed, counters=False,
        races=watch, limit=limit, results=False, progress=in_time,
        only=None if launch.only is None else range(*launch.only),
    ).steps  # fmt: skip


class _Sight(Struct, frozen=True):
    """What a run is known by, to say what went wrong in it."""

    subject: Subject
    launch: Launch
    races: Races
    names: dict[int, str]  # of buffers, by address
    given: bool
    rules: frozenset[str]

    def conflicts(self) -> Iterator[ShownFault]:
        for one in self.races.conflicts:
            if one.kind in (RACE, SAME):
                evidence = self._conflict(one)
                if evidence is not None:
                    yield evidence

    def _conflict(self, one: Conflict) -> ShownFault | None:
        first, second = (self._index(place) for place in one.places)
        if first is None or second is None:
            return None
        rule = "async-wait" if one.lasting else "data-race"
        return ShownFault(
            rule, first, one.places, one.error, second, one.writes,
            self._named(one.byte), shared=one.shared, same=one.kind == SAME,
        )  # fmt: skip

    def stopped(self, error: RunError | None, raced: bool) -> Iterator[ShownFault]:
        """What the run ended with, as faults. What threads that race read may well be undefined."""
        if error is None or error.place is None or (raced and isinstance(error, Poisoned)):
            return
        for rule in self._rules(error):
            place = error.place
            if isinstance(error, Deadlock) and rule != "deadlock":
                place = next((p for p in error.waiting if self._of_warp(p)), place)
            elif isinstance(error, Poisoned):
                place = error.absent or place
            index = self._index(place)
            if index is not None:
                more = tuple(p for p in getattr(error, "waiting", ()) if p != place)
                byte = self._named(error.address) if isinstance(error, MemoryFault) else ""
                shared = isinstance(error, MemoryFault) and error.space == "shared"
                yield ShownFault(
                    rule, index, (place, *more[:1]), error, byte=byte, said=self._words(error),
                    shared=shared,
                )  # fmt: skip

    def _words(self, error: RunError) -> str:
        """An error's message with the names of parameters for their buffers."""
        said = error.message.removeprefix(f"{self.subject.function.name}: ")
        for start, name in self.names.items():
            said = said.replace(f"buffer 'memory at {start:#x}'", name)
        return said

    def _rules(self, error: RunError) -> tuple[str, ...]:
        match error:
            case PartialBarrier():
                return ("divergent-barrier",)
            case LaneOutsideMask():
                return ("warp-mask",)
            case Misaligned():
                sure = len(error.ways) > 1 or self.given or self._begins_aligned(error)
                return ("misaligned-access",) if sure else ()
            case PastDynamicShared():
                return ("out-of-bounds",) if self.given else ()
            case MemoryFault():
                return ("out-of-bounds",) if self._bounded(error) else ()
            case Poisoned():
                return ("warp-mask",) if error.absent else ("undefined-value",)
            case Deadlock():
                named = error.lanes and not isinstance(error, Livelock)
                return ("warp-mask",) if named and "warp-mask" in self.rules else ("deadlock",)
        return ()

    def _bounded(self, fault: MemoryFault) -> bool:
        """Is it about an array whose size is said: by the text, or by a launch that was given?"""
        if fault.space:
            return "not in" not in fault.message or self._variable(fault) is not None
        program = self.races.program
        near = None if program is None else program.arena.near(fault.address)
        if near is None or near.name in ("parameters", "heap"):
            return False
        return self.given or not near.name.startswith("memory at ")

    def _variable(self, fault: MemoryFault) -> Extent | None:
        """The one that the address of an access is made of."""
        program, place = self.races.program, fault.place
        if program is None or place is None:
            return None
        code = program.codes[place.function]
        found = (extent_of(code, o) for o in code.instructions[place.index].operands)
        return next((extent for extent in found if extent is not None), None)

    def _begins_aligned(self, fault: MemoryFault) -> bool:
        """Is it in a variable that is aligned to as many bytes as are accessed?"""
        extent = self._variable(fault)
        if extent is None or fault.place is None or self.races.program is None:
            return False
        code = self.races.program.codes[fault.place.function]
        every = (*code.variables, *code.function.body.variables)
        aligned = max((align_of(v) for v in every if v.name == extent.name), default=1)
        return aligned >= fault.bytes

    def _of_warp(self, place: ThreadPlace) -> bool:
        index = self._index(place)
        return index is not None and "sync" in self._instruction(index).modifiers and (
            self._instruction(index).opcode not in ("bar", "barrier")
            or "warp" in self._instruction(index).modifiers
        )  # fmt: skip

    def _instruction(self, index: int) -> Instruction:
        return self.subject.cfg.instructions[index]

    def _index(self, place: ThreadPlace) -> int | None:
        """The instruction of the kernel that stands at a place, which may be in what it calls."""
        program = self.races.program
        if program is None:
            return None
        return self.subject.standing_at.get(
            program.codes[place.function].instructions[place.index].start
        )

    def _named(self, address: int) -> str:
        """A byte, by the array and how far it is from its start."""
        program = self.races.program
        if program is None:
            return ""
        if SHARED <= address < SHARED + program.shared_size:
            return _in_shared(program, address)
        near = program.arena.near(address)
        return "" if near is None else self._in_buffer(near.name, near.address, address)

    def _in_buffer(self, name: str, start: int, address: int) -> str:
        called = self.names.get(start)
        if called is None:
            return f"byte {address - start} of {readable(name) or name}"
        data = {n: d for n, (_, d) in zip(self.names.values(), buffers(self.launch), strict=False)}
        one = data.get(called)
        if one is None:
            return f"byte {address - start} of {called}"
        size = one.array().itemsize
        return f"{called}[{(address - start) // size - one.first}]"


def _in_shared(program: Program, address: int) -> str:
    """The last variable that begins at or before a byte of shared memory."""
    every = {**program.symbols, **{name: at for (_, name), at in program.local_symbols.items()}}
    starts = [(at, n) for n, at in every.items() if SHARED <= at <= address]
    if not starts:
        return f"byte {address - SHARED} of shared memory"
    at, name = max(starts)
    return f"byte {address - at} of {readable(name) or name}"
