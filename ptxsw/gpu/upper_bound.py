"""Wrong kernels for timing: how much could be gained at most if loads became shuffles?

CC'23 (section 8.1) bounds what shuffles can gain by two kernels that compute nonsense: `noload`
leaves out each load that would be shuffled and takes this lane's value of the source instead,
`nocorner` takes the shuffled value in every lane, without the load at the edges of a warp.

    shfl.sync.up.b32 %f5, %sw_src1, 1, 0, %sw_mask1;        noload:   mov.b32 %f5, %sw_src1;
    @%sw_own1 ld.global.nc.f32 %f5, [%rd6];             =>  nocorner: the shuffle alone

This is a rewrite that stands in for `shuffle`: it takes the same loads, and writes other lines.
The rewrites that `optimize` knows are all proved; this one is handed in from outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.changes.change import Change
from ptxsw.changes.options import Options
from ptxsw.changes.plan import Plan
from ptxsw.changes.plan import ServedLoad as ServedLoad
from ptxsw.codegen.emit import Emitter, as_plan
from ptxsw.codegen.splice import Edit, apply, insert, line_end
from ptxsw.driver import pipeline
from ptxsw.driver.workers import Workers
from ptxsw.report import model
from ptxsw.rewrites.base import FOR_SHUFFLES, SHUFFLE, Kernel, Outcome, Requires
from ptxsw.rewrites.shuffle import Shuffle

BOUNDS = ("noload", "nocorner")
_WARNING = "made with --unsafe-bound {}: the kernels compute WRONG RESULTS and are for timing only"
_NO_PROOF = model.Proof("assumed", ("that results do not matter",))


class UpperBound(Struct, frozen=True):
    """See above."""

    name: ClassVar[str] = SHUFFLE
    summary: ClassVar[str] = "Loads that could become shuffles are left out: results are wrong."
    requires: ClassVar[Requires] = FOR_SHUFFLES
    needs_ptxas: ClassVar[bool] = False
    follows: ClassVar[frozenset[str]] = frozenset()
    bound: str

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """What `shuffle` finds in the scheme of the paper."""
        options = replace(kernel.options, scheme="paper", form="keep")
        return Shuffle().find(replace(kernel, options=options))

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes wrong."""
        plan = as_plan(kernel.function, kernel.trace.cfg, changes)
        return _Emitter(kernel.text, plan, self.bound).edits() if plan.rewrites else ()


class _Emitter(Emitter):
    def __init__(self, text: str, plan: Plan, bound: str) -> None:
        super().__init__(text, plan)
        self._bound = bound

    def _shuffle(self, rewrite: ServedLoad) -> None:
        lines = self._lines(rewrite)
        mask = self._stretches.mask(lines, rewrite.dest, self._plan.segments[rewrite.dest])
        registers = self._values.registers(rewrite.dest)
        code: list[str] = []
        for part, (register, width) in zip(rewrite.parts, registers, strict=True):
            if self._bound == "noload":
                part = replace(part, delta=0, mirror=False)
            code.extend(self._shuffled.element(self._home, part, register, width, mask))
        lines.replace(rewrite.dest, *code)


def optimize(
    text: str,
    options: Options,
    bound: str,
    name: str = "<ptx>",
    *,
    watch: pipeline.Watch | None = None,
    jobs: Workers = 1,
) -> pipeline.Result:
    """As `pipeline.optimize`, with wrong lines in the place of shuffles, and a warning on top.
    Raises what that raises, and ValueError for options that do not go with it."""
    check(options, bound)
    stand_in = UpperBound(bound)
    result = pipeline.optimize(text, options, name, watch=watch, jobs=jobs, stand_in=stand_in)
    if not result.edits:
        return result
    warning = _WARNING.format(bound)
    edits = (insert(0, f"// WARNING: {warning}{line_end(text)}"), *result.edits)
    kernels = tuple(_told(kernel, bound) for kernel in result.report.kernels)
    report = replace(result.report, kernels=kernels, warning=warning)
    return replace(result, text=apply(text, edits), report=report, edits=edits)


def check(options: Options, bound: str) -> None:
    """Raises ValueError for a bound that there is not, or options that do not go with one."""
    if bound not in BOUNDS:
        raise ValueError(f"unsafe_bound is {bound!r}; it can be {', '.join(BOUNDS)}")
    if options.mode != "force":
        raise ValueError("unsafe_bound gives wrong results: it needs mode force")
    if options.scheme not in ("auto", "paper") or options.form not in ("auto", "keep"):
        raise ValueError("unsafe_bound goes with scheme paper and form keep")


def _told(kernel: model.Kernel, bound: str) -> model.Kernel:
    """The report of a kernel, which says of no wrong load that it is proved."""
    rewrites = tuple(
        replace(one, scheme=bound, proof=_NO_PROOF) if one.rewrite == UpperBound.name else one
        for one in kernel.rewrites or ()
    )
    return replace(kernel, rewrites=rewrites)
