"""From a kernel to its report with findings, weights and totals.

Without a launch a loop whose end is not known counts 16 times, and each branch as if it were
taken. With one, a block from the middle of its grid is run in the interpreter and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.block_shape import assumed_block
from ptxsw.analysis.warps import Block, Warps
from ptxsw.changes.options import Options
from ptxsw.cost.accesses import AccessFigures, access_figures, kernel_figures
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Trace
from ptxsw.findings import RULES, KernelResources, Rule, Scene, find
from ptxsw.findings.cost import weigh
from ptxsw.findings.kernel_source import KernelSource
from ptxsw.findings.second_addresses import SecondAddresses
from ptxsw.ptx.cxx_names import matches
from ptxsw.ptx.errors import InvalidRequest, PtxError
from ptxsw.ptx.failures import stage
from ptxsw.ptx.ir import Function, Module
from ptxsw.report import model
from ptxsw.report.describe import describe
from ptxsw.report.figures import shown
from ptxsw.report.source_files import SourceFiles
from ptxsw.report.source_places import source_places

if TYPE_CHECKING:
    from ptxsw.verify.launches import Launch


def judged(
    trace: Trace,
    kernel: model.Kernel,
    figures: Mapping[int, AccessFigures],
    block: Block | None,
    arch: str | None,
    resources: KernelResources | None = None,
    rules: Iterable[Rule] = RULES,
    executed: Executed | None = None,
    works: Callable[[str], bool] = lambda rewrite: False,
    source: KernelSource | None = None,
    second: SecondAddresses | None = None,
    assumed: Block | None = None,
) -> model.Kernel:
    """The kernel of a report, which has its accesses, with what `rules` find in it. `figures` are
    those of its accesses, `block` is its shape where `.reqntid` does not fix it, `arch` the target
    as in "sm_80", `executed` what a launch does, if one is known, `works` whether a rewrite changes
    the kernel."""
    shape = trace.function.block_shape or block
    times = None if executed is None else executed.times
    scene = Scene(
        trace, kernel.accesses or (), shape, arch, resources, times, works,
        source or KernelSource(), second, figures, assumed,
    )  # fmt: skip
    with stage("findings"):
        accesses, totals = weigh(scene)
        findings = find(scene, rules)
    return replace(kernel, accesses=accesses, findings=findings, totals=totals)


class Judge:
    """Looks at the kernels of one module by the rules of some names. With `ptxas` it asks ptxas
    what it makes of them. `launches` are those of kernels, by name (`of_kernel`). `works` tries
    whether a rewrite changes a kernel. `problems` say what could not be asked or run."""

    def __init__(
        self,
        module: Module,
        arch: str | None,
        block: Block | None,
        rules: Collection[str],
        ptxas: bool,
        launches: Mapping[str, Launch] | None = None,
        works: Callable[[Function, str], bool] = lambda function, rewrite: False,
        sources: SourceFiles | None = None,
    ) -> None:
        self._module, self._arch, self._block = module, arch, block
        self._names = frozenset(rules)  # rules themselves are compared by identity, and stay here
        self._resources: Mapping[str, KernelResources] = {}
        self._launches = launches or {}
        self._works, self._sources = works, sources
        self.problems: list[str] = []
        if ptxas and arch is not None and any(rule.asks_ptxas for rule in self._rules()):
            self._measure(arch)

    def _rules(self) -> list[Rule]:
        return [rule for rule in RULES if rule.name in self._names]

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
        with stage("symbolic execution"):
            second = SecondAddresses(function)
            hook = second if second.any else None
            trace = emulate(self._module, function, budget_s=Options().budget_s, hook=hook)
        source = source_of(trace, self._sources)
        block = self._block if counts is None else counts.block
        if block is None and source.launch is not None:
            block = source.launch.block
        fixed = block is not None or function.block_shape is not None
        assumed = None if fixed else assumed_block(trace)
        plain = model.Kernel(function.name, len(trace.global_loads))
        with stage("describing accesses"):
            shape = function.block_shape or block or assumed
            warps = Warps(shape)
            figures = access_figures(trace, shape, warps=warps)
            accesses, rows = describe(trace, plain, block or assumed, figures, warps)
        kernel = replace(
            plain, instructions=trace.statistics.instructions, accesses=accesses, rows=rows,
            block=shape,
            figures=shown(
                # As all commands give them, whatever is assumed here.
                kernel_figures(trace, function.block_shape or block,
                               accesses=None if assumed else figures),
            ),
        )  # fmt: skip
        used = self._resources.get(function.name)
        works = lru_cache(partial(self._works, function))
        kernel = judged(
            trace, kernel, figures, block, self._arch, used, self._rules(), counts, works, source,
            second, assumed,
        )  # fmt: skip
        return replace(kernel, accesses=tuple(_named(kernel.accesses or (), source)))


def _named(accesses: Iterable[model.Access], source: KernelSource) -> Iterator[model.Access]:
    """With what the source calls the parameters of a kernel."""
    for access in accesses:
        index = access.index and source.named(access.index)
        yield access if index == access.index else replace(access, index=index)


def source_of(trace: Trace, sources: SourceFiles | None) -> KernelSource:
    """The source of a kernel, as far as it may be read."""
    place = next(iter(source_places(trace).values()), None)
    if place is None or sources is None:
        return KernelSource()
    lines, count = sources.lines(place.file), len(trace.function.params)
    return KernelSource.read(trace.function.name, lines, count, place.file)


# ---------------------------------------------------------------- of a launch


class Executed(Struct, frozen=True):
    """How often a warp executes each instruction, by its place in the text; those that are not in
    it are not executed. `block` is the shape of the launch's blocks."""

    block: tuple[int, int, int]
    times: Mapping[int, float]


def executed(module: Module, function: Function, launch: Launch) -> Executed | str:
    """What a launch does with a kernel, or why it could not be run."""
    from ptxsw.cost.sampled import TooLong, executions  # with numpy

    name = function.name
    try:
        return Executed(launch.block, executions(module, name, launch))
    except (PtxError, TooLong) as error:
        return f"{module.source.name}: the launch of {name} cannot be run: {error}"


def without_kernel(launches: Mapping[str, Launch], kernels: Sequence[str]) -> str | None:
    """The first name of a launch that no kernel has."""
    named = (name for name in launches if name)
    return next((name for name in named if not any(matches(k, name) for k in kernels)), None)


def of_kernel(module: Module, function: Function, launches: Mapping[str, Launch]) -> Launch | None:
    """The launch of a kernel among those given by its PTX or C++ name, or by "" for the one kernel
    of a text. Raises ValueError where that could be several."""
    for name, launch in launches.items():
        if name and matches(function.name, name):
            return launch
    if "" in launches and len(module.kernels) > 1:
        raise InvalidRequest(
            f"{module.source.name} has {len(module.kernels)} kernels: "
            "say which is launched, as in --launch KERNEL=SPEC.json"
        )
    return launches.get("")
