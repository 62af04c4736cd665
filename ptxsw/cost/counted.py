"""What ptxas makes of some texts of a kernel, counted, and remembered for the next build.

Texts that differ in the kernel alone go into one file, the kernel once under its name and then
under others, and with them the texts of other kernels (`combined`): ptxas and nvdisasm run once for
all of them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

import ptxsw
from ptxsw.analysis.coalescing import LANES, LINE
from ptxsw.analysis.trip_count import TRIPS
from ptxsw.cost import disassembly, sass
from ptxsw.cost.combined import Question, combined, together
from ptxsw.cost.executions import executions, fallback_blocks
from ptxsw.cost.gpu import UnknownGpu, of_target
from ptxsw.cost.machine_code import UNKNOWN, MachineKernel, width
from ptxsw.cost.occupancy import UnknownTarget, limits
from ptxsw.cost.stalls import waits
from ptxsw.flow.cfg import Cfg, build
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function
from ptxsw.ptx.target import plain_name
from ptxsw.ptx.text_files import encoded
from ptxsw.toolchain import ptxas
from ptxsw.toolchain.cache import COUNTED, Answer, Cache, fingerprint, key
from ptxsw.toolchain.settings import cache_directory

_FIRST_ARCH: Final = 70  # whose machine code is read
_PATIENCE: Final = 20.0  # seconds for each program; it is asked for advice only
_NEEDED: Final = f"its code has instructions that only nvdisasm knows: {disassembly.INSTALL}"
_PACKAGE: Final = str(Path(ptxsw.__file__).parent)


class NotCounted(Exception):
    """ptxas or nvdisasm could not be asked; the message says why, and what to install."""


class RefusedByPtxas(NotCounted):
    """ptxas takes one of the texts for wrong, or makes code that nvdisasm cannot read, or one of
    them takes too long; the message is their own."""


class Use(Struct, frozen=True, array_like=True):
    """An access in machine code: the position of its instruction of PTX, bytes of a lane, and how
    often a warp executes it."""

    index: int
    width: int
    executions: float


class Counted(Struct, frozen=True, kw_only=True):
    """What ptxas made of one text. `local` are bytes that a thread spills, stored and loaded;
    `shared` those of a block, static ones. `pipes` has the instructions that a warp executes, by
    pipe, where every loop is taken 16 times, and `once` where each block is taken once; `spilled`
    the wavefronts of what it spills; `waits` the cycles that it would take alone, where loads hit
    in the first-level cache and where they go to memory."""

    arch: int
    registers: int
    local: int
    shared: int
    pipes: Mapping[str, float]
    uses: tuple[Use, ...]
    once: Mapping[str, float] = field(default_factory=dict)
    spilled: float = 0.0
    waits: tuple[float, float] = (0.0, 0.0)

    @property
    def instructions(self) -> float:
        """All that a warp executes."""
        return sum(self.pipes.values())


Answered = tuple[Counted, ...] | NotCounted
"""Of each text of a question; or why it is not known."""


class Tools(Struct, frozen=True):
    """The programs that are run. Without nvdisasm, code is counted where `decode` knows all its
    instructions."""

    ptxas: str
    nvdisasm: str | None


def tools(arch: str) -> Tools:
    """Where the programs are that code for an architecture takes. Raises NotCounted, with what to
    install."""
    try:
        assembler = ptxas.locate()
    except ptxas.NoPtxas as error:
        raise NotCounted(str(error)) from error
    try:
        return Tools(assembler, disassembly.locate())
    except disassembly.NoNvdisasm as error:
        number = (plain_name(arch) or "sm_0").removeprefix("sm_")
        if not disassembly.reads(int(number)):
            raise NotCounted(str(error)) from error
        return Tools(assembler, None)


def cannot_count(arch: str | None) -> str | None:
    """Why ptxas cannot be asked what a kernel costs; None where it can."""
    try:
        name = limits(arch or "").name
        if int(name.removeprefix("sm_")) < _FIRST_ARCH:
            return f"ptxsw cannot read machine code for {name}"
        tools(name)
    except (UnknownTarget, NotCounted) as error:
        return str(error)
    return None


def answers(questions: Sequence[Question], programs: Tools) -> list[Answered]:
    """What ptxas makes of each text of each question, or why that is not known; the programs are
    run for many questions at once, and give what they would give for one."""
    store = _store()
    entries = list(_entries(questions, programs)) if store is not None else []
    by_number: dict[int, Answered] = {}
    for number, entry in enumerate(entries):
        stored = store.get(entry) if store is not None else None
        if stored is not None and stored.report:
            by_number[number] = msgspec.json.decode(stored.report, type=tuple[Counted, ...])
    missing = [number for number in range(len(questions)) if number not in by_number]
    for group in together([questions[number] for number in missing]):
        asked = [missing[at] for at in group]
        fresh = _asked([questions[number] for number in asked], programs)
        for number, one in zip(asked, fresh, strict=True):
            by_number[number] = one
            if store is not None and not isinstance(one, NotCounted):
                answer = Answer(None, msgspec.json.encode(one))
                with contextlib.suppress(OSError):  # next time it is counted again
                    store.put(entries[number], answer, trim=number == asked[-1])
    return [by_number[number] for number in range(len(questions))]


def _asked(questions: Sequence[Question], programs: Tools) -> list[Answered]:
    """The answers of the programs. Where they fail for all, each question is asked by itself."""
    try:
        return [*_made(questions, programs)]
    except NotCounted as error:
        if len(questions) == 1:
            return [error]
    return [answer for question in questions for answer in _asked([question], programs)]


def _made(questions: Sequence[Question], programs: Tools) -> Iterator[tuple[Counted, ...]]:
    whole = combined(questions)
    try:
        machine_code = sass.read(
            whole.text, questions[0].arch, functions=whole.functions, compared=False, briefly=True,
            ptxas=programs.ptxas, disassembler=programs.nvdisasm, timeout=_PATIENCE,
        )  # fmt: skip
    except ptxas.NoCodeForTarget as error:
        raise NotCounted(str(error)) from error
    except ptxas.AssemblyError as error:
        raise RefusedByPtxas(f"ptxas rejects it: {' '.join(str(error).split())[:200]}") from error
    except subprocess.TimeoutExpired as error:
        program = Path(error.cmd[0]).name
        raise RefusedByPtxas(f"{program} took more than {_PATIENCE:.0f} s for its code") from error
    except (OSError, ValueError) as error:
        raise NotCounted(f"ptxas could not be run: {error}") from error
    if machine_code.note:
        if programs.nvdisasm is None:
            raise NotCounted(_NEEDED)
        raise RefusedByPtxas(machine_code.note)
    for kernels in whole.kernels:
        yield tuple(_counted(machine_code, each.name, each.function) for each in kernels)


def _counted(machine_code: sass.Sass, name: str, function: Function) -> Counted:
    kernel = machine_code.kernel(name)
    cfg = build(function.body)
    times, single = (executions(kernel, cfg, trips) for trips in (float(TRIPS), 1.0))
    at = dict[int | None, int]((one.start, number) for number, one in enumerate(cfg.instructions))
    cold = fallback_blocks(cfg)
    pipes: defaultdict[str, float] = defaultdict(float)
    once: defaultdict[str, float] = defaultdict(float)
    uses, spilled = [], 0.0
    for instruction, often, alone in zip(kernel.instructions, times, single, strict=True):
        once[instruction.pipe] += alone
        index = at.get(instruction.ptx)
        if index is not None and cfg.block_of[index] in cold and instruction.predicate:
            pipes[UNKNOWN] += often  # issued, and predicated off
            continue
        pipes[instruction.pipe] += often
        width = _accessed(instruction.opcode)
        if index is not None and width:
            uses.append(Use(index, width, often))
        if width and instruction.root in ("LDL", "STL") and not _is_local(cfg, index):
            spilled += often * LANES * width / LINE
    return Counted(
        arch=machine_code.arch,
        registers=kernel.registers,
        local=(kernel.spill_stores or 0) + (kernel.spill_loads or 0),
        shared=kernel.shared,
        pipes=dict(pipes),
        once=dict(once),
        uses=tuple(uses),
        spilled=spilled,
        waits=_waits(machine_code.arch, kernel, times),
    )


@lru_cache(maxsize=1 << 10)
def _accessed(opcode: str) -> int | None:
    """Bytes that an access moves for each lane; None of what is no access."""
    return width(opcode) or (4 if opcode.startswith(("ATOM", "RED")) else None)


def _is_local(cfg: Cfg, index: int | None) -> bool:
    """Is it an access of the text, and not one that ptxas added?"""
    return index is not None and isa.space(cfg.instructions[index]) in ("local", "generic")


def _waits(arch: int, kernel: MachineKernel, times: Sequence[float]) -> tuple[float, float]:
    try:
        gpu = of_target(f"sm_{arch}")
    except UnknownGpu:
        return 0.0, 0.0
    shared = gpu.of("shared_latency")
    near, far = gpu.of("l1_latency").low, gpu.of("dram_latency").high
    first, last = waits(kernel, times, ((shared.low, near), (shared.high, far)))
    return first, last


# ---------------------------------------------------------------- what is remembered


def _store() -> Cache | None:
    directory = cache_directory(os.environ)
    store = Cache(directory) if directory else None
    return None if store is None or store.problem is not None else store


def _entries(questions: Iterable[Question], programs: Tools) -> Iterator[str]:
    """The names of what is remembered, however it was asked."""
    identity = _identity(programs).encode()
    for question in questions:
        text = combined([question]).text
        yield COUNTED + key(encoded(text), question.arch.encode(), identity)


def _identity(programs: Tools) -> str:
    """Changes with the programs, and with ptxsw itself."""
    states = [_own_state()]
    for path in filter(None, (programs.ptxas, programs.nvdisasm)):
        status = os.stat(path)
        states.append(f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(states)


@cache
def _own_state() -> str:
    return fingerprint(_PACKAGE)
