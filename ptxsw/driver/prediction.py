"""`predict`: what bounds each kernel of a text on a GPU, and what would change that.

With a launch, blocks of it are run in the interpreter, and the time is that of the launch. Without
one, it is that of one warp in one iteration of each innermost loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ptxsw.changes.options import Options, block_shape
from ptxsw.codegen.excerpt import Excerpt, Excerpts
from ptxsw.cost import gpu as gpus
from ptxsw.cost import machine_code, sass
from ptxsw.cost.account import Interval, exactly
from ptxsw.cost.estimate import estimate, iteration
from ptxsw.cost.gpu import Gpu
from ptxsw.cost.iterations import stretches
from ptxsw.cost.occupancy import Occupancy as Resident
from ptxsw.cost.occupancy import limits
from ptxsw.cost.occupancy import occupancy as resident_blocks
from ptxsw.driver.batches import alone
from ptxsw.driver.command_lines import predict_command
from ptxsw.driver.kernel_state import KernelState
from ptxsw.driver.outcome import kernel_report
from ptxsw.driver.passes import Passes, answers
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Trace
from ptxsw.parser import parse
from ptxsw.ptx import isa
from ptxsw.ptx.cxx_names import chosen, readable
from ptxsw.ptx.errors import InvalidRequest
from ptxsw.ptx.failures import failure, is_ours, stage
from ptxsw.ptx.ir import Function, Module
from ptxsw.report import prediction as model
from ptxsw.report.prediction import Prediction
from ptxsw.rewrites import REGISTERS, REWRITES, named

if TYPE_CHECKING:
    from ptxsw.verify.launches import Launch

_TIMEOUT = 60.0  # seconds of one run of ptxas
FEW = 8
"""Kernels of a text up to which it is said what rewrites would change."""
_LEFT_OUT = f"more than {FEW} kernels: what rewrites would change is told of one, or by --rewrites"
_NO_LAUNCH = "no launch is given: how often loops iterate and what caches hold is not known"
_NO_REGISTERS = "the registers are not known: no occupancy; name them with --registers"
_NO_BLOCK = "the block is not known: no occupancy; name one, or a launch"


def predict(
    text: str,
    name: str = "<ptx>",
    *,
    launch: Launch | Mapping[str, Any] | None = None,
    arch: str | None = None,
    gpu: str | None = None,
    against: str | None = None,
    kernel: str | None = None,
    block: int | Sequence[int] | None = None,
    registers: int | None = None,
    rewrites: bool | None = None,
    step: Callable[[int, str], None] = lambda *_: None,
) -> Prediction:
    """What bounds the kernels of a text, on the GPU named or the one that stands for `arch`
    (default: the text's target).

    `launch` is one of `ptxsw.verify.launches`, or an object of the form that `--launch` takes; it
    needs `kernel` where there are several. `against` is another text whose kernels have the same
    names. `block`: threads along x, y and z, for occupancy without a launch. `registers` of a
    thread stand for what ptxas says. `rewrites`: say what each would change
    (None: of up to `FEW` kernels). `step` is told how many kernels are done, and which is next.

    Raises ParseError; Unsupported or RunError where the launch cannot be run; ValueError for a
    kernel, GPU or launch that is not there or makes no sense.
    """
    module = parse(text, name)
    machine = _machine(module, arch, gpu)
    shape = None if block is None else block_shape(block)
    given = _launch(launch)
    functions = chosen(module, kernel)
    if given is not None and len(functions) != 1:
        names = ", ".join(readable(f.name) or f.name for f in functions)
        raise ValueError(f"which kernel is launched? name one of: {names}")
    _read_bodies(module)
    one = _Text(text, module, machine, registers, arch)
    other = None
    if against is not None:
        beside = _read_bodies(parse(against, "the other text"))
        other = _Text(against, beside, machine, registers, arch)
    few = len(functions) <= FEW
    considered = few if rewrites is None else rewrites

    def predicted(function: Function) -> model.Kernel:
        try:
            return _predicted(one, other, function, given, shape, rewrites=considered)
        except Exception as error:
            if not is_ours(error):
                raise
            command = predict_command(name, function.name, gpu, arch, shape)
            failed = failure(error, module, function, command)
            return model.failed_kernel(function.name, readable(function.name), failed)

    kernels = []
    for number, function in enumerate(functions):
        step(number, readable(function.name) or function.name)
        kernels.append(predicted(function))
    left_out = "" if few or rewrites is not None else _LEFT_OUT
    notes = tuple(filter(None, (one.note, _stands_for(machine, module, arch, gpu), left_out)))
    return Prediction(name, machine.name, machine.arch, tuple(kernels), notes)


def _predicted(
    one: _Text, other: _Text | None, function: Function, launch: Launch | None,
    block: tuple[int, int, int] | None, *, rewrites: bool,
) -> model.Kernel:  # fmt: skip
    """What bounds a kernel of a text, and the one of that name in another."""
    prediction = one.kernel(function, launch, block)
    if other is not None:
        prediction = replace(prediction, against=other.like(function, launch, block))
    if rewrites:
        prediction = replace(prediction, effects=one.effects(function, block, prediction))
        prediction = one.with_candidates(function, block, prediction)
    return prediction


def _read_bodies(module: Module) -> Module:
    """Has what is wrong with a body told of this text, not of a copy for ptxas: ParseError."""
    for function in module.functions:
        _ = function.body
    return module


def _machine(module: Module, arch: str | None, gpu: str | None) -> Gpu:
    if gpu is not None:
        return gpus.find(gpu)
    return gpus.of_target(arch or next(iter(module.targets), None))


def _stands_for(machine: Gpu, module: Module, arch: str | None, gpu: str | None) -> str:
    if gpu is not None:
        return ""
    return f"{machine.name} stands for {arch or next(iter(module.targets))}; --gpu names another"


def _launch(given: Launch | Mapping[str, Any] | None) -> Launch | None:
    if not isinstance(given, Mapping):
        return given
    import json

    from ptxsw.verify.launches import from_json

    return from_json(json.dumps(given))[0]


class _Text:
    """A text on a GPU."""

    def __init__(
        self, text: str, module: Module, machine: Gpu, registers: int | None, asked: str | None
    ) -> None:
        self._text, self._module, self._gpu, self._registers = text, module, machine, registers
        self._code, self._target, self.note = sass.read_for(
            text, module, machine.arch, asked, timeout=_TIMEOUT
        )
        self._arch = self._target or machine.arch
        self._last: tuple[Excerpt, Trace] | None = None

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

    def like(
        self, function: Function, launch: Launch | None, block: tuple[int, int, int] | None
    ) -> tuple[model.Stretch, ...]:
        """The stretches of the kernel of the same name. Raises ValueError where there is none."""
        named = chosen(self._module, function.name)
        return self.kernel(named[0], launch, block).stretches

    def kernel(
        self, function: Function, launch: Launch | None, block: tuple[int, int, int] | None
    ) -> model.Kernel:
        """What bounds a kernel."""
        block = function.block_shape or (launch.block if launch is not None else block)
        threads = _threads(block)
        shared = self._shared(function, launch)
        registers = self._registers_of(function)
        fits = self._resident(threads, registers, shared)
        notes = [_NO_BLOCK if threads is None else _NO_REGISTERS] if fits is None else []
        notes += _tensor_work(function, self._module)
        if launch is None:
            iterations = self._iterations(function, block, fits)
            notes.append(_NO_LAUNCH)
        else:
            iterations, said = self._launched(function, launch, fits, shared)
            notes.append(said)
        occupancy = None
        if fits is not None and threads is not None:
            occupancy = model.of_occupancy(
                fits, registers=registers or 0, shared=shared, threads=threads
            )
        shown = readable(function.name)
        return model.Kernel(
            function.name, shown, launch is not None, iterations, occupancy, (), tuple(notes)
        )

    # ------------------------------------------------------------ what it needs

    def _registers_of(self, function: Function) -> int | None:
        if self._registers is not None:
            return self._registers
        code = self._code.get(function.name)
        return None if code is None else code.registers

    def _shared(self, function: Function, launch: Launch | None) -> int:
        code = self._code.get(function.name)
        return (code.shared if code else 0) + (launch.shared if launch else 0)

    def _resident(self, threads: int | None, registers: int | None, shared: int) -> Resident | None:
        if threads is None or registers is None:
            return None
        return resident_blocks(
            self._gpu.arch, block_threads=threads, registers=registers, shared=shared
        )

    # ------------------------------------------------------------ without a launch

    def _iterations(
        self, function: Function, block: tuple[int, int, int] | None, fits: Resident | None
    ) -> tuple[model.Stretch, ...]:
        (excerpt, trace), code = self._run(function), self._code.get(function.name)
        return self._one_iteration(trace, block, fits, code, excerpt.offset)

    def _one_iteration(
        self,
        trace: Trace,
        block: tuple[int, int, int] | None,
        fits: Resident | None,
        code: machine_code.MachineKernel | None,
        offset: Callable[[int], int] = int,
    ) -> tuple[model.Stretch, ...]:
        """One iteration of each loop. `offset` tells where in the text that `code` was made from a
        place of the trace's text is."""
        warps = Interval(1.0, float(limits(self._gpu.arch).warps))
        if fits is not None and fits.warps:
            warps = exactly(float(fits.warps))
        return tuple(
            model.of_iteration(stretch, iteration(self._gpu, stretch.account, warps))
            for stretch in stretches(self._gpu, trace, block, code, offset)
        )

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
        from ptxsw.cost.sampled import sample

        if fits is None:
            raise InvalidRequest(_NO_REGISTERS)
        if fits.blocks == 0:
            what = f"no block of this launch fits on {self._gpu.name}"
            raise InvalidRequest(f"{function.name}: {what}")
        blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
        resident = int(fits.blocks * self._gpu.of("sms").high)
        seen = sample(self._module, function.name, launch, resident)
        code = self._code.get(function.name)
        asked = account(self._gpu, function, seen, blocks, fits, shared, code)
        line = self._module.source.line(function.span.start)
        note = (
            f"one block of {blocks} was run and counted, {seen.touches.blocks} side by side for "
            f"{seen.touches.steps:.0f} of {seen.steps:.0f} iterations; caches are a model"
        )
        answer = estimate(self._gpu, asked)
        return (model.of_launch(line, answer),), note


def _tensor_work(function: Function, module: Module) -> Iterator[str]:
    """What is to be said of a kernel's tensor instructions."""
    for instruction in function.body.instructions:
        if isa.has(instruction, isa.Trait.TENSOR):
            line = module.source.line(instruction.span.start)
            yield f"tensor work is not modelled: it begins with {instruction.name}, line {line}"
            return


def _threads(block: tuple[int, int, int] | None) -> int | None:
    return None if block is None else block[0] * block[1] * block[2]


def _longest(stretches: Sequence[model.Stretch]) -> model.Stretch | None:
    """The stretch that may take longest; of open ones that which takes longest at least."""
    return max(stretches, key=lambda stretch: (stretch.time.limit, stretch.time.low), default=None)
