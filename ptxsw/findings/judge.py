"""From the report of a kernel to one with findings, weights and totals."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ptxsw.analysis.warp_addresses import Block
from ptxsw.emulator.trace import Trace
from ptxsw.findings import RULES, Resources, Rule, Scene, find
from ptxsw.findings.cost import weigh
from ptxsw.report import model


def judged(
    trace: Trace,
    kernel: model.Kernel,
    block: Block | None,
    arch: str | None,
    resources: Resources | None = None,
    rules: Iterable[Rule] = RULES,
) -> model.Kernel:
    """The kernel of a report, which has its accesses, with what `rules` find in it. `block` is its
    shape where `.reqntid` does not fix it, `arch` the target as in "sm_80"."""
    shape = trace.function.block_shape or block
    scene = Scene(trace, kernel.accesses or (), shape, arch, resources)
    accesses, totals = weigh(scene)
    findings = find(scene, rules)
    return replace(kernel, accesses=accesses, findings=findings, totals=totals)
