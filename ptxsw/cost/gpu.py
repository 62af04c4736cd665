"""What a GPU can do, in numbers read from `gpus/*.toml`: the machine model of all that is weighed.

Each number stands with its sources, and as a range where they differ. "(could not be read)" stands
behind a source that could not be had when all figures were checked. `estimate` computes times from
them, `decide` what a rewrite is worth. A file is about one product, which stands for its
`architectures`; where one of these is known to differ, `deviations` has its numbers. (How many
warps fit is in `limits.toml`, by architecture.) To add a GPU, copy the nearest file and change the
numbers: `read` says what is wrong with it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ptxsw.cost.account import Interval
from ptxsw.cost.occupancy import WARP
from ptxsw.ptx.target import plain_name

_HOME: Final = os.path.join(os.path.dirname(__file__), "gpus")
PIPES: Final = ("fma", "alu", "fp64", "xu", "lsu")
"""Pipelines whose lanes are known."""
_SHARE: Final = "mma_share"
_LARGEST: Final = 1e6  # of any number in the files: catches a wrong unit


class BadGpu(ValueError):
    """A file that describes no GPU; the message says where and what to write."""


class UnknownGpu(ValueError):
    """No file describes a GPU; the message names those that are."""


class Figure(Struct, frozen=True, forbid_unknown_fields=True):
    """A number of a file: `value`, or `low` and `high`; `source` counts in the file's `sources`."""

    source: tuple[int, ...]
    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> Interval:
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        assert low is not None and high is not None
        return Interval(low, high)


class Gpu(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """One product. "Lanes" are threads a cycle and multiprocessor."""

    name: str
    arch: str  # "sm_70"
    architectures: tuple[str, ...]  # that it stands for, where no product is named
    sms: Figure  # multiprocessors
    clock: Figure  # MHz
    issue: Figure  # warp instructions a cycle and multiprocessor
    fma: Figure  # lanes: 32-bit floating point, and integer products from Volta on
    alu: Figure  # lanes: 32-bit integer addition and logic
    fp64: Figure  # lanes
    xu: Figure  # lanes: reciprocals, roots, sines, conversions
    lsu: Figure  # lanes: addresses that are taken
    shfl: Figure  # lanes of a shuffle
    shared: Figure  # bytes a cycle and multiprocessor
    l1_lanes: Figure  # lanes of a global load that the first-level cache serves in a cycle
    l1_bytes: Figure  # that it gives in a cycle
    plain_loads: bool  # are `ld.global` without `.nc` kept in the first-level cache?
    l1_size: Figure  # KiB of a multiprocessor
    l2_bytes: Figure  # a cycle, of all multiprocessors together
    l2_size: Figure  # MiB
    dram_peak: Figure  # GB/s
    dram_copy: Figure  # GB/s, read and written, that copies reach
    alu_latency: Figure  # cycles until a dependent instruction
    fp64_latency: Figure  # cycles
    shared_latency: Figure  # cycles
    l1_latency: Figure  # cycles of a hit
    l2_latency: Figure  # cycles of a hit
    dram_latency: Figure  # cycles
    sources: tuple[str, ...]
    tensor: Mapping[str, Figure] = field(default_factory=dict)
    """Multiply-adds a cycle and multiprocessor of tensor cores, dense, by the names of `tensor`;
    `mma_share` is what `mma.sync` reaches of them where there is another instruction for all."""
    deviations: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    """Numbers of architectures that differ in them, by architecture and name."""

    def of(self, name: str) -> Interval:
        """The range of a number by its name."""
        figure = getattr(self, name)
        assert isinstance(figure, Figure), name
        return figure.interval

    def lanes(self, pipe: str) -> Interval:
        """Threads a cycle and multiprocessor of a pipeline, as `pipes` names them: as many as
        instructions are issued for, where it is not known to serve fewer."""
        issued = self.of("issue") * WARP
        if pipe not in PIPES:
            return issued
        own = self.of(pipe)
        return Interval(min(own.low, issued.low), min(own.high, issued.high))

    def tensor_rate(self, name: str, opcode: str) -> Interval | None:
        """Multiply-adds a cycle and multiprocessor by an instruction such as "wgmma"; None where
        no source has it."""
        figure = self.tensor.get(name)
        if figure is None or name == _SHARE:
            return None
        share = self.tensor.get(_SHARE) if opcode in ("mma", "wmma") else None
        rate = figure.interval
        return rate if share is None else Interval(rate.low * share.interval.low, rate.high)

    def as_architecture(self, name: str) -> Gpu:
        """With the numbers of one of its architectures."""
        return replace(self, arch=name, **self.deviations.get(name, {}))


def gpus() -> Mapping[str, Gpu]:
    """All GPUs by the names of their files: "v100". Raises BadGpu."""
    return {name: _read(path) for name, path in _files().items()}


def _files() -> dict[str, str]:
    """The path of each GPU's file, by the GPU's name."""
    stems = sorted(file[:-5] for file in os.listdir(_HOME) if file.endswith(".toml"))
    return {stem: os.path.join(_HOME, f"{stem}.toml") for stem in stems}


def find(name: str) -> Gpu:
    """The GPU of a name: that of its file ("rtx-4090") or its own, in any case. Raises UnknownGpu,
    BadGpu."""
    wanted = _plain(name)
    files = {_plain(stem): path for stem, path in _files().items()}
    if wanted in files:
        return _read(files[wanted])
    for gpu in gpus().values():
        if _plain(gpu.name) == wanted:
            return gpu
    raise UnknownGpu(f"unknown GPU {name!r}; known: {', '.join(_files())}")


@lru_cache(maxsize=8)
def of_target(target: str | None) -> Gpu:
    """The GPU that stands for an architecture such as "sm_80", "sm_90a" or "compute_75". Raises
    UnknownGpu where there is none, and BadGpu."""
    name = plain_name(target)
    for path in _files().values() if name else ():
        if f'"{name}"' in _text(path):  # one file is read as TOML, not all
            gpu = _read(path)
            if name in gpu.architectures:
                return gpu.as_architecture(name)
    architectures = sorted((a for gpu in gpus().values() for a in gpu.architectures), key=_number)
    raise UnknownGpu(
        f"no known GPU of {target or 'this target'}; known: {', '.join(architectures)}"
    )


def _number(arch: str) -> int:
    return int(arch.removeprefix("sm_"))


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def read(path: str | os.PathLike[str]) -> Gpu:
    """The GPU in a file. Raises BadGpu, or OSError where it cannot be read."""
    import tomllib

    name = os.path.basename(path)
    try:
        gpu = msgspec.convert(tomllib.loads(_text(path)), Gpu)
    except ValueError as error:  # of TOML, UTF-8 or a type
        raise BadGpu(f"{name}: {error}") from error
    for problem in _problems(gpu):
        raise BadGpu(f"{name}: {problem}")
    return gpu


def _text(path: str | os.PathLike[str]) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


@lru_cache(maxsize=32)
def _read(path: str) -> Gpu:
    return read(path)


def _problems(gpu: Gpu) -> list[str]:
    problems = [
        f"{name!r} is not an architecture; use one such as sm_80"
        for name in (gpu.arch, *gpu.architectures)
        if plain_name(name) != name
    ]
    figures = [(name, getattr(gpu, name)) for name in gpu.__struct_fields__]
    for arch, own in gpu.deviations.items():
        if arch not in gpu.architectures:
            problems.append(f"deviations.{arch} is not among the architectures")
        unknown = [name for name in own if not isinstance(getattr(gpu, name, None), Figure)]
        problems += [f"deviations.{arch}.{name} is not a number of a GPU" for name in unknown]
        figures += [(f"deviations.{arch}.{name}", figure) for name, figure in own.items()]
    figures += [(f"tensor.{name}", figure) for name, figure in gpu.tensor.items()]
    for name, figure in figures:
        if not isinstance(figure, Figure):
            continue
        if (figure.value is None) == (figure.low is None and figure.high is None):
            problems.append(f"{name} needs either value, or low and high")
        elif (figure.low is None) != (figure.high is None):
            problems.append(f"{name} needs both low and high")
        elif not 0 < (figure.value or figure.low or 0) <= (figure.value or figure.high or 0):
            problems.append(f"{name} must be above 0, and low no more than high")
        elif (figure.value or figure.high or 0) > _LARGEST:
            problems.append(f"{name} is too large for its unit")
        elif not figure.source or not all(1 <= n <= len(gpu.sources) for n in figure.source):
            problems.append(f"{name} names no source, or one that is not in sources")
    if not problems and gpu.of("dram_copy").high > gpu.of("dram_peak").high:
        problems.append("dram_copy is above dram_peak")
    return problems
