"""What bounds the kernels of one text on a GPU, and what each rewrite would change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ptxsw.analysis.shared_banks import dynamic_bytes, shared_arrays
from ptxsw.changes.options import Options
from ptxsw.codegen.excerpt import Excerpt, Excerpts
from ptxsw.cost import gpu as gpus
from ptxsw.cost import machine_code, sass
from ptxsw.cost.accesses import kernel_figures
from ptxsw.cost.account import Interval, exactly
from ptxsw.cost.estimate import estimate, iteration
from ptxsw.cost.gpu import Gpu
from ptxsw.cost.iterations import Stretch, stretches
from ptxsw.cost.occupancy import Occupancy as Resident
from ptxsw.cost.occupancy import limits, targets
from ptxsw.cost.occupancy import occupancy as resident_blocks
from ptxsw.cost.roles import of_block, roles_of, tiles
from ptxsw.driver.batches import alone
from ptxsw.driver.kernel_state import KernelState
from ptxsw.driver.outcome import kernel_report
from ptxsw.driver.passes import Passes, answers
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Trace
from ptxsw.ptx.cxx_names import readable
from ptxsw.ptx.errors import InvalidRequest
from ptxsw.ptx.failures import stage
from ptxsw.ptx.ir import Function, Module
from ptxsw.ptx.patterns import pattern
from ptxsw.report import prediction as model
from ptxsw.report.figures import shown
from ptxsw.report.model import Figures, Role
from ptxsw.report.warp_roles import shown_roles
from ptxsw.rewrites import REGISTERS, REWRITES, named

if TYPE_CHECKING:
    from ptxsw.verify.launches import Launch

_TIMEOUT = 60.0  # seconds of one run of ptxas
_NO_LAUNCH = "no launch given: trip counts and cache contents are unknown"
_NO_REGISTERS = "registers unknown, so no occupancy: use --registers"
_DYNAMIC: Final = pattern(r"\.extern\s[^;]*\.shared\b")
_NO_BLOCK = "block size unknown, so no occupancy: use --block or --launch"


class PredictedText:
    """A text on a GPU."""

    def __init__(
        self, text: str, module: Module, machine: Gpu, asked: str | None,
        *, registers: int | None = None, shared: int | None = None,
    ) -> None:  # fmt: skip
        """`registers` of a thread stand for what ptxas says; `shared` are bytes of a block in
        dynamic shared memory: None for as many as the accesses are seen to need."""
        self._text, self._module, self._gpu, self._registers = text, module, machine, registers
        self._code, self._target, self.note = sass.read_for(
            text, module, machine.arch, asked, timeout=_TIMEOUT
        )
        self._dynamic = shared
        self._arch = self._target or machine.arch
        # What a multiprocessor holds: of old architectures that of the product that stands for it.
        self._limits = machine.arch if machine.arch in targets() else gpus.find(machine.name).arch
        self._last: tuple[Excerpt, Trace] | None = None
        self.module: Final = module
        self.last_stretches: Sequence[Stretch] = ()
        """Of the kernel that was looked at last, without a launch."""

    @cached_property
    def _excerpts(self) -> Excerpts:
        return Excerpts(self._module)

    def _run(self, function: Function) -> tuple[Excerpt, Trace]:
        """The kernel taken out of its text, and run symbolically; the last one is kept."""
        if self._last is None or self._last[0].name != function.name:
            excerpt = self._excerpts.of(function)
            with stage("symbolic execution"):
                self._last = excerpt, emulate(excerpt.module, excerpt.function)
        return self._last

    def kernel(
        self, function: Function, launch: Launch | None, block: tuple[int, int, int] | None,
        unknown: frozenset[int] = frozenset(),
    ) -> model.Kernel:  # fmt: skip
        """What bounds a kernel. Of `unknown` accesses nothing is taken to be known."""
        block = function.block_shape or (launch.block if launch is not None else block)
        threads = _threads(block)
        shared = self._shared(function, launch)
        registers = self._registers_of(function)
        fits = self._resident(threads, registers, shared)
        notes = [_NO_BLOCK if threads is None else _NO_REGISTERS] if fits is None else []
        if fits is not None and launch is None and self._dynamic is None:
            notes += self._seen_to_need(function)
        if launch is None:
            iterations = self._iterations(function, block, fits, unknown)
            roles = self._roles(function, block, fits)
            notes.append(_NO_LAUNCH)
        else:
            iterations, said = self._launched(function, launch, fits, shared)
            roles = shown_roles(roles_of(self._run(function)[1], block), {}, {})
            notes.append(said)
        occupancy = None
        if fits is not None and threads is not None:
            occupancy = model.of_occupancy(
                fits, registers=registers or 0, shared=shared, threads=threads
            )
        name = readable(function.name)
        return model.Kernel(
            function.name, name, launch is not None, iterations, occupancy, (), tuple(notes),
            figures=self._figures(function, block), roles=roles,
        )  # fmt: skip

    # ------------------------------------------------------------ what it needs

    def _registers_of(self, function: Function) -> int | None:
        if self._registers is not None:
            return self._registers
        code = self._code.get(function.name)
        return None if code is None else code.registers

    def _shared(self, function: Function, launch: Launch | None) -> int:
        code = self._code.get(function.name)
        dynamic = launch.shared if launch else self._dynamic_of(function)
        return (code.shared if code else 0) + dynamic

    def _dynamic_of(self, function: Function) -> int:
        """Bytes of a block in dynamic shared memory."""
        if self._dynamic is None and self._is_dynamic:
            return dynamic_bytes(self._run(function)[1], function.block_shape)
        return self._dynamic or 0

    @cached_property
    def _is_dynamic(self) -> bool:
        """Does the text declare shared memory of which the launch says how large it is?"""
        return _DYNAMIC.search(self._text) is not None

    def _seen_to_need(self, function: Function) -> Iterator[str]:
        if self._is_dynamic and any(a.is_dynamic for a in shared_arrays(self._run(function)[1])):
            seen = self._dynamic_of(function)
            yield f"dynamic shared memory: {seen} bytes, judging by the accesses; --shared sets it"

    def _resident(self, threads: int | None, registers: int | None, shared: int) -> Resident | None:
        if threads is None or registers is None:
            return None
        return resident_blocks(
            self._limits, block_threads=threads, registers=registers, shared=shared
        )

    # ------------------------------------------------------------ without a launch

    def _iterations(
        self, function: Function, block: tuple[int, int, int] | None, fits: Resident | None,
        unknown: frozenset[int] = frozenset(),
    ) -> tuple[model.Stretch, ...]:  # fmt: skip
        (excerpt, trace), code = self._run(function), self._code.get(function.name)
        return self._one_iteration(trace, block, fits, code, excerpt.offset, unknown)

    def _figures(self, function: Function, block: tuple[int, int, int] | None) -> Figures:
        (excerpt, trace), code = self._run(function), self._code.get(function.name)
        return shown(kernel_figures(trace, block, code, excerpt.offset))

    def _one_iteration(
        self,
        trace: Trace,
        block: tuple[int, int, int] | None,
        fits: Resident | None,
        code: machine_code.MachineKernel | None,
        offset: Callable[[int], int] = int,
        unknown: frozenset[int] = frozenset(),
    ) -> tuple[model.Stretch, ...]:
        """One iteration of each loop. `offset` tells where in the text that `code` was made from a
        place of the trace's text is. Of `unknown` accesses nothing is taken to be known."""
        warps, blocks = self._beside(fits)
        self.last_stretches = stretches(self._gpu, trace, block, code, offset, unknown)
        runs = {loop.header: len(r.warps) for r in roles_of(trace, block) for loop in r.loops}
        return tuple(
            model.of_iteration(
                stretch,
                iteration(
                    self._gpu, stretch.account,
                    blocks * runs[stretch.header] if stretch.header in runs else warps,
                ),
            )
            for stretch in self.last_stretches
        )  # fmt: skip

    def _beside(self, fits: Resident | None) -> tuple[Interval, Interval]:
        """The warps and the blocks that a multiprocessor holds."""
        if fits is not None and fits.warps:
            return exactly(float(fits.warps)), exactly(float(fits.blocks))
        most = limits(self._limits)
        return Interval(1.0, float(most.warps)), Interval(1.0, float(most.blocks))

    def _roles(
        self, function: Function, block: tuple[int, int, int] | None, fits: Resident | None
    ) -> tuple[Role, ...]:
        """What the roles of its warps do, and how long each takes for an iteration of a block; of a
        kernel whose loops were looked at last."""
        roles, times = roles_of(self._run(function)[1], block), dict[int, float]()
        accounts = {each.header: each.account for each in self.last_stretches}
        for role in roles:
            for header in (loop.header for loop in role.loops if loop.header in accounts):
                whole = of_block(accounts[header], len(role.warps))
                times[header] = iteration(self._gpu, whole, self._beside(fits)[1]).time.low
        return shown_roles(roles, times, tiles(roles))

    def effects(
        self, function: Function, block: tuple[int, int, int] | None, kernel: model.Kernel
    ) -> tuple[model.RewriteEffect, ...]:
        """What each rewrite would change of a kernel, of those that need not be asked for."""
        shape = function.block_shape or block
        threads = _threads(shape)
        stretches = kernel.stretches
        if kernel.launch:
            shared = self._shared(function, None)
            fits = self._resident(threads, self._registers_of(function), shared)
            stretches = self._iterations(function, shape, fits)
        before = _longest(stretches)
        changed = list(self._changed(function, block))
        effects = []
        for each, code in zip(changed, self._codes_of(changed), strict=True):
            trace = each.trace or emulate(each.module, each.function)
            fits = None
            if code is not None:
                fits = self._resident(threads, code.registers, code.shared)
            after = _longest(self._one_iteration(trace, shape, fits, code))
            if before is None or after is None:
                continue
            report = kernel_report(each)
            effects.append(
                model.RewriteEffect(
                    each.attempts[-1].rewrite, len(report.rewrites or ()) + len(report.loops or ()),
                    (before.time.low, after.time.low), (before.time.high, after.time.high),
                    (self._registers_of(function), None if code is None else code.registers),
                )
            )  # fmt: skip
        return tuple(effects)

    def _changed(
        self, function: Function, block: tuple[int, int, int] | None
    ) -> Iterator[KernelState]:
        """The kernel as each rewrite by itself leaves it, for those that change it."""
        own = self._text[function.span.start : function.span.end]
        considered = named(["all"])
        for one in REWRITES:
            if one.name in considered and one.requires.may_apply(own):
                each = self._made(function, block, one.name)
                if each.since:
                    yield each

    def _made(
        self, function: Function, block: tuple[int, int, int] | None, rewrite: str
    ) -> KernelState:
        """What a rewrite, made wherever it is proved, makes of a kernel."""
        options = Options(mode="force", rewrites=(rewrite,), arch=self._arch, block=block)
        passes = Passes(options, self._arch)
        return alone(passes.run_again(*self._run(function)), answers)

    def _codes_of(
        self, changed: Sequence[KernelState]
    ) -> Sequence[machine_code.MachineKernel | None]:
        """What ptxas makes of kernels that rewrites left; None where it makes nothing."""
        if self._target is None or not changed:
            return [None] * len(changed)
        texts, name = [each.module for each in changed], changed[0].function.name
        try:
            codes, _ = sass.read_several(texts, name, self._target, timeout=_TIMEOUT)
        except sass.NOT_MADE:
            return [None] * len(changed)
        return [code if isinstance(code, machine_code.MachineKernel) else None for code in codes]

    def with_candidates(
        self, function: Function, block: tuple[int, int, int] | None, kernel: model.Kernel
    ) -> model.Kernel:
        """The kernel with what ptxas makes of it under other limits of registers; or with the
        reason why that cannot be told."""
        report = kernel_report(self._made(function, block, REGISTERS))
        details = [one.detail for one in report.rewrites or ()]
        details += [one.detail for one in report.refusals or ()]
        outcomes = [each for detail in details for each in detail.get("outcomes", ())]
        if not outcomes:
            reasons = [f"{REGISTERS}: {refusal.reason}" for refusal in report.refusals or ()]
            return replace(kernel, notes=(*kernel.notes, *reasons))
        return replace(kernel, candidates=tuple(map(model.of_candidate, outcomes)))

    # ------------------------------------------------------------ with one

    def _launched(
        self, function: Function, launch: Launch, fits: Resident | None, shared: int
    ) -> tuple[tuple[model.Stretch, ...], str]:
        from ptxsw.cost.launched import account
        from ptxsw.cost.merged_accesses import widths
        from ptxsw.cost.sampled import sample

        if fits is None:
            raise InvalidRequest(_NO_REGISTERS)
        if fits.blocks == 0:
            what = f"no block of this launch fits on {self._gpu.name}"
            raise InvalidRequest(f"{function.name}: {what}")
        blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
        resident = int(fits.blocks * self._gpu.of("sms").high)
        code = self._code.get(function.name)
        wide = widths(function, code)
        seen = sample(self._module, function.name, launch, resident, wide)
        asked = account(self._gpu, function, seen, blocks, fits, shared, code)
        line = self._module.source.line(function.span.start)
        note = (
            f"one block of {blocks} was run and counted, {seen.touches.blocks} side by side for "
            f"{seen.touches.steps:.0f} of {seen.steps:.0f} iterations; caches are a model"
        )
        answer = estimate(self._gpu, asked)
        return (model.of_launch(line, answer),), note


def _threads(block: tuple[int, int, int] | None) -> int | None:
    return None if block is None else block[0] * block[1] * block[2]


def _longest(stretches: Sequence[model.Stretch]) -> model.Stretch | None:
    """The stretch that may take longest; of open ones that which takes longest at least."""
    return max(stretches, key=lambda stretch: (stretch.time.limit, stretch.time.low), default=None)
