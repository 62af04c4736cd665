"""From a kernel to its report with findings, weights and totals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ptxsw.analysis.warps import Block
from ptxsw.changes.options import Options
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Trace
from ptxsw.findings import RULES, KernelResources, Rule, Scene, find, named
from ptxsw.findings.cost import weigh
from ptxsw.findings.launched import Executed, executed, of_kernel
from ptxsw.ptx.failures import stage
from ptxsw.ptx.ir import Function, Module
from ptxsw.report import model
from ptxsw.report.describe import describe

if TYPE_CHECKING:
    from ptxsw.verify.launches import Launch


def judged(
    trace: Trace,
    kernel: model.Kernel,
    block: Block | None,
    arch: str | None,
    resources: KernelResources | None = None,
    rules: Iterable[Rule] = RULES,
    executed: Executed | None = None,
) -> model.Kernel:
    """The kernel of a report, which has its accesses, with what `rules` find in it. `block` is its
    shape where `.reqntid` does not fix it, `arch` the target as in "sm_80", `executed` what a
    launch does, if one is known."""
    shape = trace.function.block_shape or block
    times = None if executed is None else executed.times
    scene = Scene(trace, kernel.accesses or (), shape, arch, resources, times)
    with stage("findings"):
        accesses, totals = weigh(scene)
        findings = find(scene, rules)
    return replace(kernel, accesses=accesses, findings=findings, totals=totals)


class Judge:
    """Looks at the kernels of one module by some rules; None: by all. With `ptxas` it asks ptxas
    what it makes of them. `launches` are those of kernels, by name (`of_kernel`). `problems` say
    what could not be asked or run. Raises ValueError for a rule that there is not."""

    def __init__(
        self,
        module: Module,
        arch: str | None,
        block: Block | None,
        rules: Collection[str] | None,
        ptxas: bool,
        launches: Mapping[str, Launch] | None = None,
    ) -> None:
        wanted = None if rules is None else named(rules)
        self._module, self._arch, self._block = module, arch, block
        self._rules = [rule for rule in RULES if wanted is None or rule.name in wanted]
        self._resources: Mapping[str, KernelResources] = {}
        self._launches = launches or {}
        self.problems: list[str] = []
        if ptxas and arch is not None and any(rule.asks_ptxas for rule in self._rules):
            self._measure(arch)

    def _measure(self, arch: str) -> None:
        from ptxsw.findings.measured import measured
        from ptxsw.toolchain.ptxas import AssemblyError, NoPtxas

        try:
            self._resources = measured(self._module, arch)
        except (NoPtxas, AssemblyError) as error:
            self.problems.append(f"registers and spills are not known: {error}")

    def _executed(self, function: Function) -> Executed | None:
        """What the launch of a kernel does, where there is one that can be run."""
        launch = of_kernel(self._module, function, self._launches)
        if launch is None:
            return None
        counts = executed(self._module, function, launch)
        if isinstance(counts, str):
            self.problems.append(counts)
            return None
        return counts

    def kernel(self, function: Function) -> model.Kernel:
        """The report of one kernel. Raises ParseError; ValueError where it is not said which of
        several is launched."""
        counts = self._executed(function)
        block = self._block if counts is None else counts.block
        with stage("symbolic execution"):
            trace = emulate(self._module, function, budget_s=Options().budget_s)
        plain = model.Kernel(function.name, len(trace.global_loads))
        with stage("describing accesses"):
            accesses, rows = describe(trace, plain, block)
        kernel = replace(
            plain, instructions=trace.statistics.instructions, accesses=accesses, rows=rows
        )
        used = self._resources.get(function.name)
        return judged(trace, kernel, block, self._arch, used, self._rules, counts)
