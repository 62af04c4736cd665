"""What ptxas makes of some texts of one kernel, counted, and remembered for the next build.

Texts that differ in the kernel alone go into one file, the kernel once under its name and then
under others: ptxas and nvdisasm run once for all of them.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

import ptxsw
from ptxsw.cost import nvdisasm, sass
from ptxsw.cost.executions import executions, fallback_blocks
from ptxsw.cost.pipes import UNKNOWN
from ptxsw.flow.cfg import build
from ptxsw.ir import Function, Module
from ptxsw.parser import parse
from ptxsw.toolchain import ptxas
from ptxsw.toolchain.cache import COUNTED, Answer, Cache, fingerprint, key
from ptxsw.toolchain.settings import cache_directory

TRIPS: Final = 16.0  # taken for every loop
_PATIENCE: Final = 20.0  # seconds for each program; it is asked for advice only
_EXTERNAL: Final = re.compile(r"\.extern\s+\.(?!shared)")  # what is linked later
_PACKAGE: Final = str(Path(ptxsw.__file__).parent)


class NotCounted(Exception):
    """ptxas or nvdisasm could not be asked; the message says why, and what to install."""


class Refused(NotCounted):
    """ptxas takes one of the texts for wrong; the message is its own."""


class Use(Struct, frozen=True, array_like=True):
    """An access in machine code: the position of its instruction of PTX, bytes of a lane, and how
    often a warp executes it."""

    index: int
    width: int
    executions: float


class Counted(Struct, frozen=True):
    """What ptxas made of one text. `local` are bytes that a thread spills, stored and loaded;
    `shared` those of a block, static ones. `pipes` has the instructions that a warp executes, by
    pipe, where every loop is taken 16 times."""

    arch: int
    registers: int
    local: int
    shared: int
    pipes: Mapping[str, float]
    uses: tuple[Use, ...]

    @property
    def instructions(self) -> float:
        """All that a warp executes."""
        return sum(self.pipes.values())


class Tools(Struct, frozen=True):
    """The programs that are run."""

    ptxas: str
    nvdisasm: str


def tools() -> Tools:
    """Where the programs are. Raises NotCounted, with what to install."""
    try:
        return Tools(ptxas.locate(), nvdisasm.locate())
    except (ptxas.NoPtxas, nvdisasm.NoNvdisasm) as error:
        raise NotCounted(str(error)) from error


def can_be_told_apart(texts: Sequence[Module], name: str) -> bool:
    """Do these texts differ in this kernel alone, so that one run serves all?"""
    return len({_around(module, _kernel(module, name)) for module in texts}) == 1


def count(texts: Sequence[Module], name: str, arch: str, programs: Tools) -> tuple[Counted, ...]:
    """What ptxas makes of the kernel in each text, of which all but it are best hollow. The texts
    differ in this kernel alone. Raises NotCounted."""
    combined, names = _combined(texts, name)
    store = _store()
    entry = COUNTED + key(combined.encode(), arch.encode(), _identity(programs).encode())
    known = store.get(entry) if store is not None else None
    if known is not None and known.report:
        return msgspec.json.decode(known.report, type=tuple[Counted, ...])
    made = _made(combined, names, arch, programs)
    if store is not None:
        try:
            store.put(entry, Answer(None, msgspec.json.encode(made)))
        except OSError:
            return made  # next time it is counted again
    return made


# ---------------------------------------------------------------- one file of several texts


def _kernel(module: Module, name: str) -> Function:
    return next(kernel for kernel in module.kernels if kernel.name == name)


def _around(module: Module, kernel: Function) -> tuple[str, str]:
    text, span = module.source.text, kernel.span
    return text[: span.start], text[span.end :]


def _combined(texts: Sequence[Module], name: str) -> tuple[str, list[str]]:
    """One text with the kernel of each, and their names there."""
    before, after = _around(texts[0], _kernel(texts[0], name))
    names, bodies = [], []
    for number, module in enumerate(texts):
        own = f"{name}$sw{number}" if number else name
        span = _kernel(module, name).span
        head, entry, rest = module.source.text[span.start : span.end].partition(".entry")
        names.append(own)
        bodies.append(head + entry + rest.replace(name, own, 1))
    return before + "\n".join(bodies) + after, names


def _made(text: str, names: Sequence[str], arch: str, programs: Tools) -> tuple[Counted, ...]:
    try:
        made = sass.read(
            text, arch, compared=False, ptxas=programs.ptxas, disassembler=programs.nvdisasm,
            options=("-c",) if _EXTERNAL.search(text) else (), timeout=_PATIENCE,
        )  # fmt: skip
    except ptxas.AssemblyError as error:
        raise Refused(f"ptxas refuses it: {' '.join(str(error).split())[:200]}") from error
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise NotCounted(f"ptxas could not be asked: {error}") from error
    if made.note:
        raise NotCounted(made.note)
    module = parse(text)
    return tuple(_counted(made, _kernel(module, name)) for name in names)


def _counted(made: sass.Sass, function: Function) -> Counted:
    kernel = made.kernel(function.name)
    cfg = build(function.body)
    times = executions(kernel, cfg, TRIPS)
    at = {instruction.start: number for number, instruction in enumerate(cfg.instructions)}
    cold = fallback_blocks(cfg)
    pipes: Counter[str] = Counter()
    uses = []
    for instruction, often in zip(kernel.instructions, times, strict=True):
        index = None if instruction.ptx is None else at.get(instruction.ptx)
        if index is not None and cfg.block_of[index] in cold:
            pipes[UNKNOWN] += often  # type: ignore[assignment]  # issued, and predicated off
            continue
        pipes[instruction.pipe] += often  # type: ignore[assignment]
        width = instruction.width
        if index is not None and (width or instruction.root.startswith(("ATOM", "RED"))):
            uses.append(Use(index, width or 4, often))
    return Counted(
        made.arch,
        kernel.registers,
        (kernel.spill_stores or 0) + (kernel.spill_loads or 0),
        kernel.shared,
        dict(pipes),
        tuple(uses),
    )


# ---------------------------------------------------------------- what is remembered


def _store() -> Cache | None:
    directory = cache_directory(os.environ)
    store = Cache(directory) if directory else None
    return None if store is None or store.problem is not None else store


def _identity(programs: Tools) -> str:
    """Changes with the programs, and with ptxsw itself."""
    states = [fingerprint(_PACKAGE)]
    for path in (programs.ptxas, programs.nvdisasm):
        found = os.stat(path)
        states.append(f"{os.path.realpath(path)} {found.st_size} {found.st_mtime_ns}")
    return "\n".join(states)
