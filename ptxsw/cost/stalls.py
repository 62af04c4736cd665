"""How long a kernel is predicted to stall: the predictor of RegDem, on control words.

Source: P. Sakdhnagool, A. Sabne, R. Eigenmann, "RegDem: Increasing GPU Performance via Shared
Memory Register Spilling", arXiv:1907.02894, 2019, section 4. Each instruction stalls for

    the stall of its control word * occupancy * most throughput / throughput of its pipe

cycles: the more warps there are, the more of them wait for a pipe. An instruction that waits for a
barrier stalls besides for what is left of the latency of the access that set it: 200 cycles of
global memory, 24 of shared memory. Code in a loop counts 10 times. The paper follows barriers
inside a block only, since all are waited for before a jump.

Three things differ. Loops are those of the PTX (`executions`), since ptxas unrolls one candidate
and not the next. Barriers that stores set when their sources are read do not count as memory
latencies. And candidates are compared by `pace`, what a warp takes over the warps that run
meanwhile: our copy of the paper ends before it says how it compares two occupancies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from typing import Final

from ptxsw.cost.gpu import of_target
from ptxsw.cost.machine_code import TENSOR, MachineInstruction, MachineKernel

LOOP_FACTOR: Final = 10.0
_GLOBAL: Final = 200.0  # cycles
_SHARED: Final = 24.0
_WAITS_FOR_COPIES: Final = frozenset({"DEPBAR", "LDGDEPBAR"})
_LATENCY: Final = {
    **dict.fromkeys(("LD", "LDG", "LDL", "ATOM", "ATOMG", "LDGSTS"), _GLOBAL),
    **dict.fromkeys(("LDS", "ATOMS", "LDSM"), _SHARED),
}  # fmt: skip


def stall_cycles(
    kernel: MachineKernel, arch: int, occupancy: float, executed: Sequence[float]
) -> float:
    """Cycles for which a warp stalls, at an occupancy of 0 to 1; `executed` says how often each
    instruction is executed (`executions`, with `LOOP_FACTOR`)."""
    gpu = of_target(f"sm_{arch}")
    issued = gpu.lanes("").low
    own = [
        instruction.control.stall * occupancy * (issued / gpu.lanes(instruction.pipe).low)
        for instruction in kernel.instructions
    ]
    return _total(kernel, executed, own, _LATENCY)


def waits(
    kernel: MachineKernel, executed: Sequence[float], latencies: Iterable[tuple[float, float]]
) -> tuple[float, ...]:
    """Cycles that a warp alone takes: the stalls of control words, and what is left of the latency
    of loads where it waits for their barriers. For each of some pairs of latencies, in cycles: of
    shared memory and of other memory."""
    own = [float(max(1, instruction.control.stall)) for instruction in kernel.instructions]
    totals = []
    for shared, memory in latencies:
        latency = {
            root: shared if cycles == _SHARED else memory for root, cycles in _LATENCY.items()
        }
        totals.append(_total(kernel, executed, own, latency))
    return tuple(totals)


def alone(kernel: MachineKernel, executed: Sequence[float], memory: float) -> float | None:
    """The most cycles that a warp alone takes: the stalls of control words, which have the latency
    of all that takes as long each time, tensor cores from sm_80 on among it; and wherever it waits
    for a barrier, or for copies, `memory` cycles for each. None where tensor cores set barriers, so
    that it is not known how long they take."""
    if any(i.pipe in TENSOR and i.control.write is not None for i in kernel.instructions):
        return None
    waits = (
        max(1, i.control.stall)
        + memory * (i.control.wait.bit_count() + (i.root in _WAITS_FOR_COPIES))
        for i in kernel.instructions
    )
    total: float = sum(map(mul, waits, executed))
    return total


def _total(
    kernel: MachineKernel,
    executed: Sequence[float],
    own: Sequence[float],
    latency: Mapping[str, float],
) -> float:
    """Cycles for which a warp stalls; `own` are those of each instruction that waits for no
    barrier."""
    total = 0.0
    for routine in kernel.routines:
        for block in routine.flow.blocks:
            inside = slice(block.start, block.end)
            stalls = _of_block(kernel.instructions[inside], own[inside], latency)
            total += sum(map(mul, stalls, executed[inside]))
    return total


def pace(kernel: MachineKernel, arch: int, occupancy: float, executed: Sequence[float]) -> float:
    """Stall cycles a warp, as if the resident warps shared them: the lower, the faster the kernel
    is predicted to be."""
    return stall_cycles(kernel, arch, occupancy, executed) / occupancy


def _of_block(
    instructions: Sequence[MachineInstruction],
    own: Sequence[float],
    latency: Mapping[str, float],
) -> list[float]:
    """The stall of each instruction of a block, executed once."""
    ready: dict[int, float] = {}  # when what each barrier stands for is there
    now = 0.0
    stalls = [*own]
    for at, (instruction, stall) in enumerate(zip(instructions, own, strict=True)):
        control = instruction.control
        if control.wait and ready:
            waited = max([ready.pop(b, now) - now for b in range(6) if control.wait >> b & 1])
            stalls[at] = max(waited, 0.0) + stall
            now += waited
        began, now = now, now + stall
        if control.write is not None and instruction.root in latency:
            ready[control.write] = max(
                began + latency[instruction.root], ready.get(control.write, now)
            )
    return stalls
