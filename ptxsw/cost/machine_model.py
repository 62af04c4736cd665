"""What a kernel costs on an architecture: a model in numbers, read from a file.

A model is a bound, not a simulation. Each of these is a number of cycles that a multiprocessor is
busy for one warp, and the prediction is a smooth maximum of them all (`overlap` is its exponent),
as in V. Volkov, "Understanding Latency Hiding on GPUs", UC Berkeley 2016:

issue     warp instructions over those issued in a cycle
l1        requests to the first-level cache, counted as the hardware parts them: in groups of
          lanes by the size of the element, in 32-byte sectors, in 128-byte lines
shuffle   a part of `l1` where one unit does both, else a bound of its own
memory    bytes that have to come from memory at least once
latency   cycles in which a warp waits, over the warps that are resident and fill them

The files are `models/*.toml` beside this module. Each names its architectures and its sources; to
add one, copy the nearest and change the numbers: `read` says what is wrong with it. `policy` is
"predict" where shuffles are made if the prediction gains, or "keep" where they are left alone
unless a measurement (`ptxsw tune`) says otherwise; the file then gives its `reason`.

Nothing here decides: `choose` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ptxsw.target import plain_name

WARP = 32  # lanes
PREDICT, KEEP = "predict", "keep"
_SIZES = (4, 8, 16)  # bytes of an element, by which requests are parted


Bounds = tuple[float, float, float, float]
"""Cycles for one warp of the issue slots, the cache, the shuffle unit, memory."""


class Request(Struct, frozen=True):
    """A global memory access as the cache sees it: `size` bytes for each of `lanes` lanes, which
    lie in so many 32-byte sectors and 128-byte lines."""

    size: int
    lanes: int
    sectors: int
    lines: int


class Wait(Struct, frozen=True):
    """How often a warp waits for loads and for shuffles on its way through a stretch of code,
    where all that stands side by side is waited for once."""

    loads: int = 0
    shuffles: int = 0

    def __or__(self, other: Wait) -> Wait:
        return Wait(max(self.loads, other.loads), max(self.shuffles, other.shuffles))


class Figures(Struct, frozen=True):
    """What one warp does in a kernel, or how much more a rewrite makes it do: executed counts,
    each loop taken a fixed number of times. `waits` is by stretch, with how often it is run."""

    issued: float = 0.0  # warp instructions
    shuffles: float = 0.0  # of these: shuffles of one word
    divergent: float = 0.0  # of these: where ptxas does not know that the warp is together
    requests: Mapping[Request, float] = field(default_factory=dict)
    waits: Mapping[int, tuple[float, Wait]] = field(default_factory=dict)
    memory: float = 0.0  # bytes that memory has to give or take

    def plus(self, *others: Figures) -> Figures:
        """The sum; waits of one stretch happen together."""
        requests, waits = dict(self.requests), dict(self.waits)
        for other in others:
            for request, times in other.requests.items():
                requests[request] = requests.get(request, 0.0) + times
            for stretch, (times, wait) in other.waits.items():
                waits[stretch] = (times, wait | waits.get(stretch, (0.0, Wait()))[1])
        everyone = (self, *others)
        return Figures(
            sum(f.issued for f in everyone),
            sum(f.shuffles for f in everyone),
            sum(f.divergent for f in everyone),
            requests,
            waits,
            sum(f.memory for f in everyone),
        )


class Model(Struct, frozen=True):
    """The numbers of one architecture. Cycles are those of a multiprocessor."""

    name: str
    architectures: tuple[str, ...]  # "sm_60"
    policy: str
    reason: str  # why shuffles are left alone, where the policy is to keep
    issue: float  # warp instructions a cycle
    caches: int  # first-level caches, which share the requests
    group: Mapping[int, int]  # lanes of one request, by the size of the element in bytes
    sectors: int  # that the cache gives in a cycle
    lines: int  # that it looks up in a cycle
    load_latency: int  # cycles, of a hit
    shuffle_latency: int
    shuffle_unit: str  # "l1": the unit that loads take; "own"
    divergent_shuffle: float  # instructions more, where the warp is not known to be together
    warps: int  # that can be resident
    registers: int
    register_unit: int  # registers are given to warps in units of so many
    memory: float  # bytes a cycle
    overlap: float  # exponent of the smooth maximum
    least_gain: float  # percent: a smaller gain is not believed
    sources: tuple[str, ...]

    # ------------------------------------------------------------ cycles

    def passes(self, request: Request) -> float:
        """Cycles that a request takes of a cache."""
        size = next((s for s in _SIZES if request.size <= s), _SIZES[-1])
        return max(
            float(-(-request.lanes // self.group[size])),
            request.sectors / self.sectors,
            request.lines / self.lines,
        )

    def resident(self, registers: int | None) -> int:
        """Warps that fit, by the registers of a thread; all where these are not known."""
        if not registers:
            return self.warps
        unit = self.register_unit
        return max(1, min(self.warps, self.registers // (-(-registers * WARP // unit) * unit)))

    def cycles(self, figures: Figures, registers: int | None = None) -> float:
        """Cycles for one warp, with so many registers in a thread (None: not known)."""
        waiting = sum(self.waiting(times, wait) for times, wait in figures.waits.values())
        return self.total(self.bounds(figures), waiting, registers)

    def bounds(self, figures: Figures) -> Bounds:
        """Cycles of each unit but for waiting: of a sum of figures the sums of theirs."""
        l1 = sum(self.passes(request) * times for request, times in figures.requests.items())
        l1 /= self.caches
        shuffle = figures.shuffles  # a warp's word takes a cycle: 32 lanes
        if self.shuffle_unit == "l1":
            l1, shuffle = l1 + shuffle, 0.0
        issued = figures.issued + figures.divergent * self.divergent_shuffle
        return issued / self.issue, l1, shuffle, figures.memory / self.memory

    def waiting(self, times: float, wait: Wait) -> float:
        """Cycles that a warp alone would wait."""
        return times * (wait.loads * self.load_latency + wait.shuffles * self.shuffle_latency)

    def total(self, bounds: Bounds, waiting: float, registers: int | None = None) -> float:
        """Cycles for one warp from all bounds."""
        return _smooth_maximum((*bounds, waiting / self.resident(registers)), self.overlap)


def _smooth_maximum(values: Iterable[float], exponent: float) -> float:
    kept = [max(v, 0.0) for v in values]
    most = max(kept)
    return most * sum((v / most) ** exponent for v in kept) ** (1 / exponent) if most else 0.0


# ---------------------------------------------------------------- reading


class BadModel(ValueError):
    """A file that is no model; the message says where and what to write."""


_MAY_BE_0 = frozenset({"divergent_shuffle", "load_latency", "shuffle_latency", "least_gain"})
_HOME = Path(__file__).parent / "models"


@lru_cache(maxsize=8)
def find_model(arch: str | None) -> Model | None:
    """The model of an architecture such as "sm_80", "sm_90a" or "compute_75"; None where no file
    names it. Raises BadModel where its file is wrong."""
    name = plain_name(arch)
    if name is None:
        return None
    for path in sorted(_HOME.glob("*.toml")):
        if f'"{name}"' in path.read_text(encoding="utf-8"):  # one file is read as TOML, not all
            model = read(path)
            if name in model.architectures:
                return model
    return None


def shipped() -> Mapping[str, Model]:
    """All models of this package by architecture. Raises BadModel."""
    found: dict[str, Model] = {}
    for path in sorted(_HOME.glob("*.toml")):
        model = read(path)
        for name in model.architectures:
            if name in found:
                raise BadModel(f"{path.name}: {name} is in the model {found[name].name!r}, too")
            found[name] = model
    return found


def read(path: Path) -> Model:
    """The model in a file. Raises BadModel, or OSError where it cannot be read."""
    import tomllib

    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # TOML or UTF-8
        raise BadModel(f"{path.name}: {error}") from error
    try:
        return _model(given)
    except BadModel as error:
        raise BadModel(f"{path.name}: {error}") from None


def _model(given: dict[str, Any]) -> Model:
    known = set(Model.__struct_fields__)
    for name in sorted(given.keys() - known):
        raise BadModel(f"{name} is not a number of a model; those are {', '.join(sorted(known))}")
    given = {"reason": "", **given}
    for name in sorted(known - given.keys()):
        raise BadModel(f"{name} is missing")
    numbers = known - {
        "name", "architectures", "policy", "reason", "group", "shuffle_unit", "sources",
    }  # fmt: skip
    for name in sorted(numbers):
        least = 0 if name in _MAY_BE_0 else 1e-9
        _number(name, given[name], least)
    for name in ("architectures", "sources"):
        value = given[name]
        if not (isinstance(value, list) and value and all(isinstance(v, str) for v in value)):
            raise BadModel(f"{name} has to be a list of texts that is not empty")
    for name in given["architectures"]:
        if plain_name(name) != name:
            raise BadModel(f"architectures: {name!r} is no name such as sm_80")
    if given["policy"] not in (PREDICT, KEEP):
        raise BadModel(f"policy is {given['policy']!r}; it can be {PREDICT}, {KEEP}")
    if given["policy"] == KEEP and not given["reason"]:
        raise BadModel("the policy is to keep, and reason does not say why")
    if given["shuffle_unit"] not in ("l1", "own"):
        raise BadModel(f"shuffle_unit is {given['shuffle_unit']!r}; it can be l1, own")
    return Model(**{**given, **_lists(given)})


def _lists(given: dict[str, Any]) -> dict[str, Any]:
    group = given["group"]
    if not isinstance(group, dict) or set(group) != {str(size) for size in _SIZES}:
        raise BadModel(f"group has to say how many lanes for {', '.join(map(str, _SIZES))} bytes")
    for size, lanes in group.items():
        _number(f"group.{size}", lanes, 1)
    return {
        "group": {int(size): lanes for size, lanes in group.items()},
        "architectures": tuple(given["architectures"]),
        "sources": tuple(given["sources"]),
    }


def _number(name: str, value: object, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
        wanted = "a number above 0" if least else "a number, 0 or more"
        raise BadModel(f"{name} is {value!r}; it has to be {wanted}")
