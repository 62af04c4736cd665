"""What ptxas makes of a kernel under limits of registers: asked, and judged by its stalls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ptxsw.codegen.lower_registers import RegisterTrial, lower
from ptxsw.codegen.splice import apply
from ptxsw.cost import cubin, sass
from ptxsw.cost.disassembly import NoNvdisasm
from ptxsw.cost.executions import executions
from ptxsw.cost.machine_code import MachineKernel
from ptxsw.cost.occupancy import occupancy
from ptxsw.cost.stalls import LOOP_FACTOR, pace
from ptxsw.flow.cfg import build
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.ptx.target import assembled_for, plain_name
from ptxsw.rewrites.base import Kernel
from ptxsw.toolchain.ptxas import AssemblyError, assemble


class Trial(NamedTuple):
    """A limit of registers (None for none), and whether to spill to shared memory."""

    limit: int | None
    spills_to_shared: bool


AS_IT_IS: Final = Trial(None, False)


class Trials:
    """The candidates of one kernel."""

    def __init__(self, kernel: Kernel, patience: float) -> None:
        """`patience` is in seconds, for each program that is run."""
        self._patience = patience
        self.name = kernel.function.name
        self._module = kernel.module
        self.arch = kernel.arch or ""
        self._asked = assembled_for(self.arch)
        self.threads = kernel.function.most_threads or 0

    def needs(self) -> tuple[int, int]:
        """Registers of a thread and bytes of shared memory of a block, of the kernel as it is.
        Raises NoPtxas, AssemblyError, OSError, subprocess.TimeoutExpired."""
        text = self._module.source.text
        binary = cubin.read(assemble(text, self._asked, timeout=self._patience).cubin)
        code = next(function for function in binary.functions if function.name == self.name)
        return code.registers, code.shared

    def outcomes(self, trials: Sequence[Trial]) -> list[RegisterTrial]:
        """What ptxas makes of the candidates, in their order, the same code once. Spills to shared
        memory are left out where ptxas refuses them, and at a limit at which it spills no more to
        local memory than `AS_IT_IS`, which comes first. Raises NoPtxas, AssemblyError,
        UnknownTarget, OSError, subprocess.TimeoutExpired; NoNvdisasm where its code cannot be
        read."""
        # A limit without shared spills comes before the same limit with them, so `local` is known.
        local, outcomes = dict[int | None, int](), dict[object, RegisterTrial]()
        for trial, text, kernel in self._compiled(trials):
            if not trial.spills_to_shared:
                local[trial.limit] = _local(kernel)
            elif trial.limit is not None and local[trial.limit] <= local[None]:
                continue
            code = kernel.registers, kernel.shared, _code(kernel)
            if code not in outcomes:
                outcomes[code] = self._outcome(trial, text, kernel)
        return list(outcomes.values())

    def _compiled(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Module, MachineKernel]]:
        texts = [self._text(trial) for trial in trials]
        kernels, note = sass.read_several(texts, self.name, self._asked, timeout=self._patience)
        for trial, text, kernel in zip(trials, texts, kernels, strict=True):
            if isinstance(kernel, AssemblyError):
                if not trial.spills_to_shared:
                    raise kernel
                continue
            if not kernel.instructions:
                raise NoNvdisasm(note)
            yield trial, text, kernel

    def _text(self, trial: Trial) -> Module:
        text, function = self._module.source.text, self._module.kernel(self.name)
        edits = lower(text, function, trial.limit, spills_to_shared=trial.spills_to_shared)
        return parse(apply(text, edits))

    def _outcome(self, trial: Trial, text: Module, kernel: MachineKernel) -> RegisterTrial:
        resident = occupancy(
            self.arch, block_threads=self.threads, registers=kernel.registers, shared=kernel.shared
        ).fraction
        executed = executions(kernel, build(text.kernel(self.name).body), LOOP_FACTOR)
        arch = int(str(plain_name(self.arch)).removeprefix("sm_"))
        stalls = pace(kernel, arch, resident, executed) if resident else float("inf")
        return RegisterTrial(
            *trial, kernel.registers, _local(kernel), kernel.shared, resident, stalls
        )


def _local(kernel: MachineKernel) -> int:
    """Bytes that a thread spills to local memory, stored and loaded."""
    return (kernel.spill_stores or 0) + (kernel.spill_loads or 0)


def _code(kernel: MachineKernel) -> tuple[object, ...]:
    """Equal for machine code that is judged alike."""
    return tuple((i.opcode, i.predicate, i.control) for i in kernel.instructions)
