"""How many blocks of a kernel a multiprocessor holds at a time, and what would change that.

The rules are those of NVIDIA's occupancy calculator (`cuda_occupancy.h` of the CUDA toolkit):

- Registers are given to a warp in multiples of 256 (8 a thread). The register file has partitions,
  and the registers of a warp lie in one of them, so each partition holds whole warps.
- Shared memory is given to a block in multiples of 128 or 256 bytes. From sm_80 on the system adds
  1 KiB for itself. Part of a multiprocessor's memory is cache; the rest is shared memory, which can
  be configured (the "carveout"). Unless told otherwise all that can be is shared memory.
- Warps, blocks and, from sm_90 on, named barriers are limited in number.

The smallest of these limits counts. All numbers stand in `limits.toml`, each with its source.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.ptx.target import plain_name

WARP: Final = 32  # threads
_FILE: Final = os.path.join(os.path.dirname(__file__), "limits.toml")
_OTHER_PARTITIONS: Final = 4  # of all multiprocessors but sm_60's


class UnknownTarget(ValueError):
    """No limits are known for a target; the message names those that are."""


class Limits(Struct, frozen=True):
    """What a multiprocessor of one architecture holds. Registers are of 32 bits, shared memory is
    in bytes; `limits.toml` says what each number means and where it is from."""

    name: str  # "sm_80"
    blocks: int
    warps: int
    registers: int
    block_registers: int
    thread_registers: int
    register_unit: int
    partitions: int
    shared: int
    block_shared: int
    shared_unit: int
    reserved: int
    carveouts: tuple[int, ...]
    barriers: int
    block_threads: int


class Allowed(NamedTuple):
    """How many blocks each resource allows by itself; None where it sets no limit."""

    warps: int
    blocks: int
    registers: int | None
    shared: int | None
    barriers: int | None


class OccupancyStep(NamedTuple):
    """A change of one resource that changes the number of resident blocks.

    `at` is the value nearest to today's with which `blocks` are resident: registers a thread, or
    bytes of shared memory a block (without what the system reserves).
    """

    resource: str  # "registers" or "shared"
    at: int
    blocks: int
    fraction: float


class _Need(Struct, frozen=True, kw_only=True):
    """What one block takes."""

    warps: int
    registers: int  # a thread
    shared: int  # bytes, static and dynamic
    barriers: int = 1
    carveout: int | None = None


class Occupancy(Struct, frozen=True, dict=True):
    """Resident blocks and warps of one multiprocessor. With 0 blocks the kernel cannot be launched.

    `limiter` is the resource that runs out first: "warps", "blocks", "registers", "shared" or
    "barriers"; where several do at once, the first in this order.
    """

    blocks: int
    warps: int
    fraction: float  # of the warps that can be resident
    limiter: str
    allowed: Allowed
    _machine: Limits
    _need: _Need | None  # None where no block fits for its size

    @cached_property
    def next_steps(self) -> tuple[OccupancyStep, ...]:
        """The nearest up and down in registers and shared memory, everything else as it is."""
        need = self._need
        return () if need is None else tuple(_next_steps(self._machine, need, self.blocks))


def limits(target: str) -> Limits:
    """The limits of a target such as "sm_80" or "sm_90a". Raises UnknownTarget."""
    name = plain_name(target)
    own = None if name is None else _limits(name)
    if own is None:
        raise UnknownTarget(f"no limits are known for {target!r}; known: {', '.join(targets())}")
    return own


def targets() -> tuple[str, ...]:
    """The architectures whose limits are known, oldest first: ("sm_35", …)."""
    return tuple(_tables())


def occupancy(
    target: str,
    *,
    block_threads: int,
    registers: int,
    shared: int = 0,
    barriers: int = 1,
    carveout: int | None = None,
) -> Occupancy:
    """Resident blocks of `block_threads` threads, each with so many registers (as `ptxas -v` says).

    `shared` is the sum of static and dynamic shared memory of a block in bytes. `barriers` are the
    named barriers that the kernel uses. `carveout` is the shared memory a multiprocessor is
    configured to, in bytes; it is rounded up to the next size there is, and ignored where the size
    is fixed. Raises UnknownTarget, or ValueError for a negative number or an empty block.
    """
    if block_threads < 1 or min(registers, shared, barriers, carveout or 0) < 0:
        raise ValueError("a block has a thread or more, and no resource is negative")
    machine = limits(target)
    if block_threads > machine.block_threads:
        none = Allowed(0, machine.blocks, None, None, None)
        return Occupancy(0, 0, 0.0, "warps", none, machine, None)
    need = _Need(
        warps=-(-block_threads // WARP), registers=registers, shared=shared, barriers=barriers,
        carveout=carveout,
    )  # fmt: skip
    allowed = _allowed(machine, need)
    blocks = _least(allowed)
    limiter = next(n for n, v in zip(allowed._fields, allowed, strict=True) if v == blocks)
    warps = blocks * need.warps
    return Occupancy(blocks, warps, warps / machine.warps, limiter, allowed, machine, need)


def register_steps(
    target: str, *, block_threads: int, shared: int = 0, barriers: int = 1
) -> tuple[OccupancyStep, ...]:
    """All steps in registers of such a kernel: for each number of resident blocks the most
    registers a thread may have, fewest blocks first. Raises as `occupancy` does."""
    full = occupancy(
        target, block_threads=block_threads, registers=0, shared=shared, barriers=barriers
    )
    machine = limits(target)
    need = _Need(warps=-(-block_threads // WARP), registers=0, shared=shared, barriers=barriers)
    blocks_of = _by_registers(machine, need)
    steps = []
    for blocks in range(1, full.blocks + 1):
        at = _last(blocks_of, machine.thread_registers, blocks)
        if at is not None and blocks_of(at) == blocks:
            steps.append(_step(machine, need, "registers", at, blocks))
    return tuple(steps)


# ---------------------------------------------------------------- the limits


def _allowed(machine: Limits, need: _Need) -> Allowed:
    return Allowed(
        machine.warps // need.warps,
        machine.blocks,
        _register_blocks(machine, need),
        _shared_blocks(machine, need),
        machine.barriers // need.barriers if machine.barriers and need.barriers else None,
    )


def _least(allowed: Allowed) -> int:
    return min(blocks for blocks in allowed if blocks is not None)


def _register_blocks(machine: Limits, need: _Need) -> int | None:
    if need.registers == 0:
        return None
    blocks = _register_blocks_in(machine, need, machine.partitions)
    # Code for sm_60 has to run on the rest of its family, which has more partitions.
    if machine.partitions != _OTHER_PARTITIONS:
        elsewhere = _register_blocks_in(machine, need, _OTHER_PARTITIONS)
        return blocks if elsewhere else 0
    return blocks


def _register_blocks_in(machine: Limits, need: _Need, partitions: int) -> int:
    per_warp = _round_up(need.registers * WARP, machine.register_unit)
    # The launch is checked as if each partition held the same number of the block's warps.
    checked = per_warp * _round_up(need.warps, partitions)
    if checked > machine.block_registers or need.registers > machine.thread_registers:
        return 0
    return machine.registers // partitions // per_warp * partitions // need.warps


def _shared_blocks(machine: Limits, need: _Need) -> int | None:
    if need.shared > machine.block_shared:
        return 0
    per_block = _round_up(need.shared + machine.reserved, machine.shared_unit)
    if per_block == 0:
        return None
    wanted = machine.shared if need.carveout is None else min(need.carveout, machine.shared)
    return _configured(machine, max(wanted, per_block)) // per_block


def _configured(machine: Limits, size: int) -> int:
    """The shared memory of a multiprocessor where at least `size` bytes are asked for."""
    return next((c for c in machine.carveouts if c >= size), machine.shared)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


# ---------------------------------------------------------------- the steps


def _next_steps(machine: Limits, need: _Need, blocks: int) -> Iterator[OccupancyStep]:
    """The nearest steps. More of a resource never lets more blocks in, so each is found by
    bisection."""
    for resource, value, most, blocks_of in (
        ("registers", need.registers, machine.thread_registers, _by_registers(machine, need)),
        ("shared", need.shared, machine.block_shared, _by_shared(machine, need)),
    ):
        better = _last(blocks_of, min(value, most), blocks + 1)
        if better is not None:
            yield _step(machine, need, resource, better, blocks_of(better))
        same = _last(blocks_of, most, blocks)
        if blocks and same is not None and same < most:
            yield _step(machine, need, resource, same + 1, blocks_of(same + 1))


def _step(machine: Limits, need: _Need, resource: str, at: int, blocks: int) -> OccupancyStep:
    return OccupancyStep(resource, at, blocks, blocks * need.warps / machine.warps)


def _last(blocks_of: Callable[[int], int], most: int, blocks: int) -> int | None:
    """The largest value up to `most` with which at least so many blocks are resident."""
    after = bisect_left(range(most + 1), True, key=lambda value: blocks_of(value) < blocks)
    return after - 1 if after else None


def _by_registers(machine: Limits, need: _Need) -> Callable[[int], int]:
    return lambda registers: _least(_allowed(machine, replace(need, registers=registers)))


def _by_shared(machine: Limits, need: _Need) -> Callable[[int], int]:
    return lambda shared: _least(_allowed(machine, replace(need, shared=shared)))


# ---------------------------------------------------------------- the file


@lru_cache(maxsize=1)
def _tables() -> Mapping[str, str]:
    """The text of the table of each architecture."""
    with open(_FILE, encoding="utf-8") as file:
        _, *tables = file.read().split("\n[")
    parted = (table.partition("]\n") for table in tables)
    return {name: text for name, _, text in parted if name != "sources"}


@lru_cache(maxsize=8)
def _limits(name: str) -> Limits | None:
    """Those in the table of an architecture. It alone is read: all take 2 ms."""
    import tomllib

    text = _tables().get(name)
    if text is None:
        return None
    values = tomllib.loads(text)
    wanted = set(Limits.__struct_fields__) - {"name"}
    assert values.keys() == wanted, (name, values.keys() ^ wanted)
    return Limits(name, **{**values, "carveouts": tuple(values["carveouts"])})
