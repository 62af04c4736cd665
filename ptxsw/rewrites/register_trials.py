"""What ptxas makes of a kernel under a limit of registers: asked, and judged by its stalls."""

from __future__ import annotations

from contextlib import suppress

from ptxsw.codegen.lower_registers import Outcome, lower
from ptxsw.codegen.splice import apply
from ptxsw.cost import sass
from ptxsw.cost.executions import executions
from ptxsw.cost.nvdisasm import NoNvdisasm, locate
from ptxsw.cost.occupancy import occupancy
from ptxsw.cost.stalls import LOOP_FACTOR, pace
from ptxsw.flow.cfg import build
from ptxsw.parser import parse
from ptxsw.rewrites.base import Kernel
from ptxsw.target import plain_name
from ptxsw.toolchain.ptxas import AssemblyError


class Trials:
    """The candidates of one kernel. `outcomes` are in the order in which they were made; what is
    the code of an earlier one is not among them."""

    def __init__(self, kernel: Kernel, patience: float) -> None:
        """`patience` is in seconds, for each program that is run. Raises NoNvdisasm."""
        self._disassembler = locate()
        self._patience = patience
        self.name = kernel.function.name
        self._text = kernel.text
        self._function = next(k for k in parse(self._text).kernels if k.name == self.name)
        self.arch = kernel.arch or ""
        self._asked = self.arch if self.arch.startswith("sm_") else str(plain_name(self.arch))
        self.threads = kernel.function.most_threads or 0
        self.outcomes: list[Outcome] = []
        self._codes: set[tuple[object, ...]] = set()

    def attempt(self, limit: int | None, *, spills_to_shared: bool) -> None:
        """As `made`, for what ptxas may refuse."""
        with suppress(AssemblyError):
            self.made(limit, spills_to_shared=spills_to_shared)

    def made(self, limit: int | None, *, spills_to_shared: bool) -> Outcome:
        """What ptxas makes of one candidate. Raises NoPtxas, AssemblyError, UnknownTarget, OSError,
        subprocess.TimeoutExpired; NoNvdisasm where its code cannot be read."""
        text = apply(
            self._text,
            lower(self._text, self._function, limit, spills_to_shared=spills_to_shared),
        )
        result = sass.read(
            text, self._asked, compared=False, disassembler=self._disassembler,
            timeout=self._patience,
        )  # fmt: skip
        kernel = result.kernel(self.name)
        if not kernel.instructions:
            raise NoNvdisasm(result.note)
        function = next(k for k in parse(text).kernels if k.name == self.name)
        resident = occupancy(self.arch, self.threads, kernel.registers, kernel.shared).fraction
        executed = executions(kernel, build(function.body), LOOP_FACTOR)
        local = (kernel.spill_stores or 0) + (kernel.spill_loads or 0)
        outcome = Outcome(
            limit, spills_to_shared, kernel.registers, local, kernel.shared, resident,
            pace(kernel, result.arch, resident, executed) if resident else float("inf"),
        )  # fmt: skip
        code = tuple((i.opcode, i.operands, i.predicate, i.control) for i in kernel.instructions)
        key = (outcome.registers, outcome.shared, code)
        if key not in self._codes:
            self._codes.add(key)
            self.outcomes.append(outcome)
        return outcome
