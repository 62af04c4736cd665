"""`predict`: what bounds each kernel of a text on a GPU, and what would change that.

With a launch, blocks of it are run in the interpreter, and the time is that of the launch. Without
one, it is that of one warp in one turn of each innermost loop.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ptxsw import pipeline
from ptxsw.cost import gpu as gpus
from ptxsw.cost import sass
from ptxsw.cost.cubin import BadCubin
from ptxsw.cost.estimate import Estimate, estimate, iteration
from ptxsw.cost.gpu import Gpu
from ptxsw.cost.interval import Interval
from ptxsw.cost.iterations import Stretch, stretches
from ptxsw.cost.occupancy import Occupancy as Resident
from ptxsw.cost.occupancy import limits
from ptxsw.cost.occupancy import occupancy as resident_blocks
from ptxsw.cxx_names import chosen, readable
from ptxsw.emulator.run import emulate
from ptxsw.excerpt import Excerpts
from ptxsw.ir import Function, Module
from ptxsw.options import Options, block_shape
from ptxsw.parser import parse
from ptxsw.report import prediction as model
from ptxsw.report.prediction import Prediction
from ptxsw.rewrites import REWRITES, named
from ptxsw.rewrites.registers import Registers
from ptxsw.target import plain_name
from ptxsw.toolchain.ptxas import AssemblyError, NoPtxas

if TYPE_CHECKING:
    from ptxsw.verify.launches import Launch

_VOLTA = ("sm_70", "sm_72")
_TURING = "sm_75"
"""Turing's machine code has Volta's form (Z. Jia et al., arXiv:1903.07486, 2019, chapter 2)."""
_TIMEOUT = 60.0  # seconds of one run of ptxas
FEW = 8
"""Kernels of a text up to which it is said what rewrites would change."""
_REGISTERS = Registers.name
_LEFT_OUT = f"more than {FEW} kernels: what rewrites would change is told of one, or by --rewrites"
_NO_LAUNCH = "no launch is given: how often loops turn and what caches hold is not known"
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
    one = _Text(text, module, machine, registers)
    other = None
    if against is not None:
        other = _Text(against, parse(against, "the other text"), machine, registers)
    few = len(functions) <= FEW
    told = few if rewrites is None else rewrites
    kernels = []
    for number, function in enumerate(functions):
        step(number, readable(function.name) or function.name)
        found = one.kernel(function, given, shape)
        if other is not None:
            found = replace(found, against=other.like(function, given, shape))
        if told:
            found = replace(found, effects=one.effects(function, shape, found))
            found = one.with_candidates(found)
        kernels.append(found)
    left_out = "" if few or rewrites is not None else _LEFT_OUT
    notes = tuple(filter(None, (one.note, _stands_for(machine, module, arch, gpu), left_out)))
    return Prediction(name, machine.name, machine.arch, tuple(kernels), notes)


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

    def __init__(self, text: str, module: Module, machine: Gpu, registers: int | None) -> None:
        self._text, self._module, self._gpu, self._registers = text, module, machine, registers
        self._code, self.note = _machine_code(text, module, machine.arch)

    @cached_property
    def _excerpts(self) -> Excerpts:
        return Excerpts(self._module)

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
        threads = None if block is None else block[0] * block[1] * block[2]
        shared = self._shared(function, launch)
        fits = self._fits(function, threads, shared)
        notes = [] if fits is not None else [self._why_no_occupancy(function, threads)]
        if launch is None:
            found = self._iterations(function, block, fits)
            notes.append(_NO_LAUNCH)
        else:
            found, said = self._launched(function, launch, fits, shared)
            notes.append(said)
        occupancy = None
        if fits is not None and threads is not None:
            occupancy = _occupancy(fits, self._registers_of(function) or 0, shared, threads)
        shown = readable(function.name)
        return model.Kernel(
            function.name, shown, launch is not None, found, occupancy, (), tuple(notes)
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

    def _fits(self, function: Function, threads: int | None, shared: int) -> Resident | None:
        registers = self._registers_of(function)
        if threads is None or registers is None:
            return None
        return resident_blocks(self._gpu.arch, threads, registers, shared)

    def _why_no_occupancy(self, function: Function, threads: int | None) -> str:
        if threads is None:
            return _NO_BLOCK
        return "the registers are not known: no occupancy; name them with --registers"

    # ------------------------------------------------------------ without a launch

    def _iterations(
        self, function: Function, block: tuple[int, int, int] | None, fits: Resident | None
    ) -> tuple[model.Stretch, ...]:
        trace = emulate(self._module, function)
        code = self._code.get(function.name)
        most = float(limits(self._gpu.arch).warps)
        warps = Interval(1.0, most)
        if fits is not None and fits.warps:
            warps = Interval(float(fits.warps), float(fits.warps))
        return tuple(
            _shown(stretch, iteration(self._gpu, stretch.work, warps))
            for stretch in stretches(self._gpu, trace, block, code)
        )

    def effects(
        self, function: Function, block: tuple[int, int, int] | None, kernel: model.Kernel
    ) -> tuple[model.Effect, ...]:
        """What each rewrite would change of a kernel, of those that need not be asked for."""
        found = []
        before = None if kernel.launch else _longest(kernel.stretches)
        span = function.span
        own = self._text[span.start : span.end]
        text = self._excerpts.of(function).source.text  # without the other kernels of the file
        considered = named(["all"])
        for one in REWRITES:
            if one.name not in considered or not one.requires.may_apply(own):
                continue
            options = Options(
                mode="force", rewrites=(one.name,), only=function.name, arch=self._gpu.arch,
                block=block,
            )  # fmt: skip
            result = pipeline.optimize(text, options, self._module.source.name)
            if not result.edits:
                continue
            made = result.report.kernels[0]
            before = before or self._longest(function, block)
            module = parse(result.text, "the rewritten text")
            new = _Text(result.text, module, self._gpu, None)
            changed = chosen(module, function.name)[0]
            after = new._longest(changed, block)
            if before is None or after is None:
                continue
            found.append(
                model.Effect(
                    one.name, len(made.rewrites or ()) + len(made.loops or ()),
                    (before.time.low, after.time.low), (before.time.high, after.time.high),
                    (self._registers_of(function), new._registers_of(changed)),
                )
            )  # fmt: skip
        return tuple(found)

    def with_candidates(self, kernel: model.Kernel) -> model.Kernel:
        """The kernel with what ptxas makes of it under other limits of registers; or with the
        reason why that cannot be told."""
        options = Options(
            mode="force", rewrites=(_REGISTERS,), only=kernel.name, arch=self._gpu.arch
        )
        (made,) = pipeline.optimize(self._text, options, self._module.source.name).report.kernels
        details = [one.detail for one in made.rewrites or ()]
        details += [one.detail for one in made.refusals or ()]
        outcomes = [each for detail in details for each in detail.get("outcomes", ())]
        if not outcomes:
            reasons = [f"{_REGISTERS}: {refusal.reason}" for refusal in made.refusals or ()]
            return replace(kernel, notes=(*kernel.notes, *reasons))
        return replace(kernel, candidates=tuple(map(_candidate, outcomes)))

    def _longest(
        self, function: Function, block: tuple[int, int, int] | None
    ) -> model.Stretch | None:
        shape = function.block_shape or block
        threads = None if shape is None else shape[0] * shape[1] * shape[2]
        fits = self._fits(function, threads, self._shared(function, None))
        return _longest(self._iterations(function, shape, fits))

    # ------------------------------------------------------------ with one

    def _launched(
        self, function: Function, launch: Launch, fits: Resident | None, shared: int
    ) -> tuple[tuple[model.Stretch, ...], str]:
        from ptxsw.cost.launched import work
        from ptxsw.cost.sampled import sample

        if fits is None:
            raise ValueError(self._why_no_occupancy(function, 1))
        if fits.blocks == 0:
            raise ValueError(f"{function.name}: no block of this launch fits on {self._gpu.name}")
        blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
        resident = int(fits.blocks * self._gpu.of("sms").high)
        seen = sample(self._module, function.name, launch, resident)
        code = self._code.get(function.name)
        asked = work(self._gpu, function, seen, blocks, fits, shared, code)
        line = self._module.source.line(function.span.start)
        note = (
            f"one block of {blocks} was run and counted, {seen.touches.blocks} side by side for "
            f"{seen.touches.steps:.0f} of {seen.steps:.0f} turns; caches are a model"
        )
        found = estimate(self._gpu, asked)
        return (_stretch(None, line, found, ()),), note


def _machine_code(text: str, module: Module, arch: str) -> tuple[Mapping[str, sass.Kernel], str]:
    """What ptxas makes of the kernels, and what is to be said of it. Where it makes nothing for
    this target, as for those that CUDA 13 has left out, or of a text for a later one, code for
    another stands for it."""
    problem = ""
    own = [plain_name(target) for target in module.targets]
    for target in dict.fromkeys((arch, _TURING if arch in _VOLTA else None, *own)):
        if target is None:
            continue
        try:
            made = sass.read(text, target, timeout=_TIMEOUT)
        except (NoPtxas, AssemblyError, BadCubin, subprocess.TimeoutExpired) as error:
            problem = problem or str(error).strip().splitlines()[0]
            continue
        stands = "" if target == arch else f"machine code and registers are those of {target}"
        return {kernel.name: kernel for kernel in made.kernels}, made.note or stands
    return {}, f"no machine code, PTX instructions are counted instead: {problem}"


# ---------------------------------------------------------------- as it is shown


def _longest(stretches: Sequence[model.Stretch]) -> model.Stretch | None:
    return max(stretches, key=lambda stretch: stretch.time.high, default=None)


def _candidate(outcome: Mapping[str, Any]) -> model.Candidate:
    return model.Candidate(
        outcome["maxnreg"], outcome["spills_to_shared"], outcome["registers"], outcome["local"],
        outcome["shared"], outcome["occupancy"], outcome["pace"],
    )  # fmt: skip


def _shown(stretch: Stretch, found: Estimate) -> model.Stretch:
    return _stretch(stretch.label, stretch.line, found, stretch.unknown)


def _stretch(
    label: str | None, line: int, found: Estimate, unknown: tuple[int, ...]
) -> model.Stretch:
    loads = tuple(model.Load(r.name, _range(r.time), r.busy_with) for r in found.resources)
    # Without a launch nothing is known of what is likely: the bounds are all there is.
    launched = found.unit == "s"
    likely = found.likely if launched else found.time
    expected = found.expected if launched else None
    return model.Stretch(
        label, line, found.unit, _range(found.time), _range(likely), expected, loads, unknown
    )


def _range(interval: Interval) -> model.Range:
    return model.Range(interval.low, interval.high)


def _occupancy(fits: Resident, registers: int, shared: int, threads: int) -> model.Occupancy:
    steps = tuple(model.Step(*step) for step in fits.next_steps)
    return model.Occupancy(
        registers, shared, threads, fits.blocks, fits.warps, fits.fraction, fits.limiter, steps
    )
