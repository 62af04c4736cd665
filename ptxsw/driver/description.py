"""What `analyze` says of a kernel beside what becomes of it: its accesses, and findings."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ptxsw.analysis.warps import Warps
from ptxsw.cost.accesses import access_figures, kernel_figures
from ptxsw.cost.roles import roles_of
from ptxsw.driver.outcome import kernel_report
from ptxsw.driver.passes import Passes, considered
from ptxsw.findings.judge import executed, judged, of_kernel, source_of
from ptxsw.ptx.errors import InvalidRequest
from ptxsw.ptx.failures import stage
from ptxsw.report.describe import describe
from ptxsw.report.descriptors import described_operands
from ptxsw.report.figures import shown
from ptxsw.report.over_stores import REWRITES, concerned, with_over_stores
from ptxsw.report.warp_roles import shown_roles

if TYPE_CHECKING:
    from ptxsw.changes.options import Options
    from ptxsw.codegen.excerpt import Excerpt
    from ptxsw.cost.combined import Question
    from ptxsw.cost.counted import Answered
    from ptxsw.driver.kernel_state import KernelState
    from ptxsw.emulator.trace import Trace
    from ptxsw.findings.judge import Executed
    from ptxsw.report import model
    from ptxsw.report.source_files import SourceFiles
    from ptxsw.verify.launches import Launch


class Description(Struct, frozen=True):
    """Describes kernels that were sent through the rewrites of `options`. `block`: the threads of a
    block for which accesses are described; None: rows of whole warps. Of kernels with a launch, by
    `findings.judge.of_kernel`, its blocks are described, and what it executes counts. `sources`
    tell what things are called, and with which block the source launches a kernel."""

    options: Options
    block: tuple[int, int, int] | None
    launches: Mapping[str, Launch] = field(default_factory=dict)
    sources: SourceFiles | None = None

    def steps(
        self, excerpt: Excerpt, each: KernelState, arch: str | None
    ) -> Generator[Question, Answered, model.Kernel]:
        """The report of a kernel with its accesses. Yields what ptxas has to be asked. Raises
        ValueError where its launch cannot be run."""
        trace, kernel = each.original, kernel_report(each)
        loads_over_stores = kernel
        if self._leaves_loads_over_stores and concerned(trace):
            alone = replace(
                self.options, mode="force", scheme="auto", form="auto", rewrites=REWRITES
            )
            other = yield from Passes(alone, arch, self.block).run_again(excerpt, trace)
            loads_over_stores = kernel_report(other)
        run = self._executed(trace)
        threads = self.block if run is None else run.block
        source = source_of(trace, self.sources)
        if threads is None and source.launch is not None:
            threads = source.launch.block
        with stage("describing accesses"):
            shape = trace.function.block_shape or threads
            warps = Warps(shape)
            figures = access_figures(trace, shape, warps=warps)
            accesses, rows = describe(trace, kernel, threads, figures, warps)
            accesses = with_over_stores(loads_over_stores, accesses)
        block = threads and (trace.function.block_shape or threads)
        described = replace(
            kernel, accesses=accesses, rows=rows, block=block,
            figures=shown(kernel_figures(trace, shape, accesses=figures)),
            roles=shown_roles(roles_of(trace, shape), {}, {}) or None,
            descriptors=described_operands(trace) or None,
        )  # fmt: skip
        return judged(trace, described, figures, threads, arch, executed=run, source=source)

    @property
    def _leaves_loads_over_stores(self) -> bool:
        """Were not all rewrites of loads over stores asked for?"""
        return not {one.name for one in considered(self.options)}.issuperset(REWRITES)

    def _executed(self, trace: Trace) -> Executed | None:
        """What the launch of a kernel executes; None where none is given."""
        if not self.launches:
            return None
        launch = of_kernel(trace.module, trace.function, self.launches)
        counts = None if launch is None else executed(trace.module, trace.function, launch)
        if isinstance(counts, str):
            raise InvalidRequest(counts)
        return counts
