"""What is known already: findings, and what each kernel of a build uses of the hardware, read from
its cubins, so that only what is new or got worse is told.

{"ptxsw_baseline": 1, "findings": {"4f0c…": 2}, "resources": {"sm_80 kernel": {…}}}

Spills are counted as ptxas leaves them in the code: instructions that store to and load from local
memory. Their numbers are in the low 12 bits of an instruction from sm_70 on, checked against
nvdisasm in the tests.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, field, to_builtins

from ptxsw.cost import cubin
from ptxsw.cost.machine_code import BYTES
from ptxsw.cost.occupancy import UnknownTarget, occupancy
from ptxsw.ptx.cxx_names import readable
from ptxsw.ptx.text_files import parsed
from ptxsw.report.messages import Located
from ptxsw.report.tables import Table, show

_FORMAT = 1
STORE, LOAD = 0x387, 0x983  # STL, LDL
_FIRST = 70
_THREADS = 256  # of a block whose size nobody says


class Usage(Struct, frozen=True, kw_only=True):
    """Registers of a thread; bytes of its stack frame; instructions that store and load local
    memory (None before sm_70); bytes of static shared memory of a block; resident warps of a
    multiprocessor with blocks of `threads` (None for a target without known limits)."""

    registers: int
    frame: int
    local_stores: int | None
    local_loads: int | None
    shared: int
    threads: int
    warps: int | None


def usages(cubins: Iterable[bytes], threads: int | None) -> dict[str, Usage]:
    """What the kernels of cubins use, by "sm_80 name"; of several of one name the second is
    "sm_80 name #2". `threads` of a block; None: as the kernel's bounds say, else 256. Raises
    BadCubin."""
    by_kernel: dict[str, Usage] = {}
    for data in cubins:
        binary = cubin.read(data)
        for code in binary.functions:
            if code.entry:
                name = free(f"sm_{binary.arch} {code.name}", by_kernel)
                by_kernel[name] = _usage(binary, code, threads)
    return by_kernel


def free(name: str, taken: Collection[str]) -> str:
    """A name, with a number where it is taken."""
    number = 1
    while (full := name if number == 1 else f"{name} #{number}") in taken:
        number += 1
    return full


def _usage(binary: cubin.Cubin, code: cubin.FunctionCode, threads: int | None) -> Usage:
    block = threads or (prod(code.block) if code.block else _THREADS)
    try:
        held = occupancy(
            f"sm_{binary.arch}", block_threads=block, registers=code.registers, shared=code.shared
        )
        warps: int | None = held.warps
    except UnknownTarget:
        warps = None
    stores, loads = _local(binary.arch, code.code)
    return Usage(
        registers=code.registers, frame=code.stack, local_stores=stores, local_loads=loads,
        shared=code.shared, threads=block, warps=warps,
    )  # fmt: skip


def _local(arch: int, code: bytes) -> tuple[int | None, int | None]:
    """Instructions that store to and load from local memory."""
    if arch < _FIRST:
        return None, None
    numbers = [
        int.from_bytes(code[at : at + 2], "little") & 0xFFF for at in range(0, len(code), BYTES)
    ]
    return numbers.count(STORE), numbers.count(LOAD)


# ---------------------------------------------------------------- compared


def worse(
    now: Mapping[str, Usage], pinned: Mapping[str, Usage], drift: float
) -> Iterator[tuple[str, str]]:
    """Kernels that use more than is pinned, and what: beyond a share `drift` (0.05: 5 %) of
    registers, frame and shared memory. More spills and fewer warps are always told. Of a kernel
    that is not pinned it is told that it spills."""
    for name, usage in now.items():
        before = pinned.get(name)
        if before is None and usage.local_stores:
            yield name, f"is not pinned, and stores to local memory {usage.local_stores} times"
        elif before is not None and (parts := list(_compared(usage, before, drift))):
            yield name, "; ".join(parts)


def _compared(now: Usage, before: Usage, drift: float) -> Iterator[str]:
    if (now.local_stores or 0) > (before.local_stores or 0):
        yield (
            f"{'spills more' if before.local_stores else 'starts to spill'}: "
            f"{before.local_stores or 0} -> {now.local_stores} stores and "
            f"{before.local_loads or 0} -> {now.local_loads} loads of local memory"
        )
    if now.warps is not None and before.warps is not None and now.warps < before.warps:
        yield (
            f"loses occupancy: {before.warps} -> {now.warps} warps with blocks of "
            f"{now.threads} threads"
        )
    for noun, old, new in (
        ("registers", before.registers, now.registers),
        ("bytes of stack frame", before.frame, now.frame),
        ("bytes of shared memory", before.shared, now.shared),
    ):
        if new > old * (1 + drift):
            yield f"uses more {noun}: {old:,} -> {new:,}"


# ---------------------------------------------------------------- shown


def usage_table(usages: Mapping[str, Usage]) -> Table:
    """What each kernel uses."""
    header = ("arch", "kernel", "registers", "frame", "stores", "loads", "shared", "block", "warps")
    rows = []
    for name, used in usages.items():
        arch, _, kernel = name.partition(" ")
        figures = (
            used.registers, used.frame, used.local_stores, used.local_loads, used.shared,
            used.threads, used.warps,
        )  # fmt: skip
        rows.append((arch, readable(kernel) or kernel, *map(show, figures)))
    return Table(header, tuple(rows), frozenset(header[2:]))


# ---------------------------------------------------------------- the file


class Baseline(Struct, frozen=True):
    """How many findings there are of each `Located.key`, and what each kernel uses."""

    findings: Mapping[str, int] = field(default_factory=dict)
    resources: Mapping[str, Usage] = field(default_factory=dict)


def read(path: str) -> Baseline:
    """Raises OSError; ValueError where the file is no baseline."""
    try:
        data: Any = parsed(Path(path).read_bytes())
        if data["ptxsw_baseline"] != _FORMAT:
            raise ValueError("written by another version of ptxsw; write it anew")
        return convert(data, Baseline)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not a baseline of ptxsw: {error}") from error


def written(findings: Iterable[Located], resources: Mapping[str, Usage]) -> str:
    """The text of a baseline, in which lines move as little as may be."""
    counts = Counter(each.key for each in findings)
    data = {
        "ptxsw_baseline": _FORMAT,
        "findings": dict(sorted(counts.items())),
        "resources": {name: to_builtins(resources[name]) for name in sorted(resources)},
    }
    return json.dumps(data, indent=1) + "\n"


def new(findings: Iterable[Located], pinned: Baseline) -> tuple[Located, ...]:
    """The findings beyond those that the baseline counts."""
    left = Counter(pinned.findings)
    fresh = []
    for each in findings:
        if left[each.key] > 0:
            left[each.key] -= 1
        else:
            fresh.append(each)
    return tuple(fresh)
