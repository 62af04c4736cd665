"""`predict`: what bounds each kernel of a text on a GPU, and what would change that.

With a launch, blocks of it are run in the interpreter, and the time is that of the launch. Without
one, it is that of one warp in one iteration of each innermost loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ptxsw.changes.options import block_shape
from ptxsw.cost import gpu as gpus
from ptxsw.cost.gpu import Gpu
from ptxsw.cost.pairs import pairs, unlike
from ptxsw.driver.command_lines import predict_command
from ptxsw.driver.predicted_text import PredictedText
from ptxsw.parser import parse
from ptxsw.ptx.cxx_names import chosen, readable
from ptxsw.ptx.failures import failure, is_ours
from ptxsw.ptx.ir import Function, Module
from ptxsw.report import prediction as model
from ptxsw.report.prediction_text import Prediction

if TYPE_CHECKING:
    from ptxsw.verify.launches import Launch

FEW = 8
"""Kernels of a text up to which it is said what rewrites would change."""
_LEFT_OUT = f"more than {FEW} kernels: use --rewrites to show what rewrites would change"


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
    shared: int | None = None,
    rewrites: bool | None = None,
    step: Callable[[int, str], None] | None = None,
) -> Prediction:
    """Predict what limits each kernel on a GPU, and how long it takes, without one.

    Returns a `Prediction`. Times are intervals: seconds of the launch, or without one cycles of a
    multiprocessor for each warp and iteration.

    Args:
        text: The PTX.
        name: Its name in messages.
        launch: A `Launch` of `ptxsw.verify.launches`, or an object in the format of `--launch`; it
            needs `kernel` if there are several.
        arch: The target, as in "sm_90"; None: the text's.
        gpu: A name as for `ptxsw predict --gpu`; None: the GPU that represents `arch`.
        against: Another text whose kernels have the same names.
        kernel: Only the kernel with this PTX or C++ name.
        block: Threads along x, y and z, for occupancy without a launch.
        registers: Registers per thread, instead of ptxas's count.
        shared: Dynamic shared memory per block, in bytes (a launch has its own).
        rewrites: Show what each rewrite would change; None: for up to `FEW` kernels.
        step: Called with the number of finished kernels and the name of the next.

    Raises:
        ParseError: If the text is not PTX.
        Unsupported: If the launch cannot run; also RunError.
        ValueError: For an unknown kernel or GPU, or an invalid launch.
    """
    module = parse(text, name)
    machine = _machine(module, arch, gpu)
    shape = None if block is None else block_shape(block)
    given = _launch(launch)
    functions = chosen(module, kernel)
    if given is not None and len(functions) != 1:
        names = ", ".join(readable(f.name) or f.name for f in functions)
        raise ValueError(f"several kernels: choose one for the launch: {names}")
    _read_bodies(module)
    one = PredictedText(text, module, machine, arch, registers=registers, shared=shared)
    other = None
    if against is not None:
        beside = _read_bodies(parse(against, "the other text"))
        other = PredictedText(against, beside, machine, arch, registers=registers, shared=shared)
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
        if step is not None:
            step(number, readable(function.name) or function.name)
        kernels.append(predicted(function))
    left_out = "" if few or rewrites is not None else _LEFT_OUT
    notes = tuple(filter(None, (one.note, _stands_for(machine, module, arch, gpu), left_out)))
    return Prediction(name, machine.name, machine.arch, tuple(kernels), notes)


def _predicted(
    one: PredictedText, other: PredictedText | None, function: Function, launch: Launch | None,
    block: tuple[int, int, int] | None, *, rewrites: bool,
) -> model.Kernel:  # fmt: skip
    """What bounds a kernel of a text, and the one of that name in another."""
    prediction = one.kernel(function, launch, block)
    if other is not None:
        prediction = _beside(one, other, function, prediction, launch, block)
    if rewrites:
        prediction = replace(prediction, effects=one.effects(function, block, prediction))
        prediction = one.with_candidates(function, block, prediction)
    return prediction


def _beside(
    one: PredictedText, other: PredictedText, function: Function, prediction: model.Kernel,
    launch: Launch | None, block: tuple[int, int, int] | None,
) -> model.Kernel:  # fmt: skip
    """A kernel beside the one of the same name in another text, both known alike."""
    (beside,) = chosen(other.module, function.name)
    against = other.kernel(beside, launch, block)
    if launch is not None:
        return replace(prediction, against=against.stretches, pairs=((0, 0),))
    own, theirs = one.last_stretches, other.last_stretches
    lost = unlike(own, theirs)
    if any(lost):
        prediction = one.kernel(function, launch, block, lost[0])
        against = other.kernel(beside, launch, block, lost[1])
    both = tuple(tuple(pair) for pair in pairs(own, theirs))
    return replace(prediction, against=against.stretches, pairs=both)


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
    return f"{machine.name} represents {arch or next(iter(module.targets))}; --gpu selects another"


def _launch(given: Launch | Mapping[str, Any] | None) -> Launch | None:
    if not isinstance(given, Mapping):
        return given
    import json

    from ptxsw.verify.launches import from_json

    return from_json(json.dumps(given))[0]
