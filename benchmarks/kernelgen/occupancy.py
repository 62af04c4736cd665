"""How many warps of a kernel fit on a multiprocessor, from its registers.

Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". Registers
are given to warps in units of 256, and a multiprocessor has 65,536 in four equal partitions.
Shared memory is left out: the kernels here have none.
"""

from __future__ import annotations

# Resident warps and blocks per multiprocessor.
LIMITS = {"sm_75": (32, 16), "sm_80": (64, 32), "sm_90": (64, 32)}
PARTITIONS = 4
UNIT = 256


def occupancy(arch: str, registers: int, block: int) -> float:
    """The share of the resident warps that blocks of `block` threads can fill.

    Raises KeyError for an architecture that is not in `LIMITS`.
    """
    warps, blocks = LIMITS[arch]
    per_block = -(-block // 32)
    per_warp = -(-max(registers, 1) * 32 // UNIT) * UNIT
    by_registers = PARTITIONS * (65_536 // PARTITIONS // per_warp) // per_block
    resident = min(blocks, warps // per_block, by_registers)
    return resident * per_block / warps
