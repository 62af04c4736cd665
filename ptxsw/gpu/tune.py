"""What `ptxsw tune` does: makes every variant of a kernel, has it measured, stores the choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from importlib import import_module
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

import ptxsw
from ptxsw.codegen.lower_registers import candidate_name
from ptxsw.driver import pipeline
from ptxsw.driver.command_lines import tune_command
from ptxsw.emulator.run import emulate
from ptxsw.gpu import upper_bound
from ptxsw.gpu.driver import Driver, GpuError, Shape
from ptxsw.gpu.invent import BLOCKS, NoLaunch, invent
from ptxsw.gpu.measure import ORIGINAL, Effort, Measured, Unfit, Variant, measure
from ptxsw.gpu.padding import paddings
from ptxsw.gpu.problem import PreparedLaunch, from_launch
from ptxsw.gpu.results import VariantChoice, chart, choose, plain, tuned, write_csv
from ptxsw.parser import parse
from ptxsw.ptx.cxx_names import chosen
from ptxsw.ptx.failures import Failure, KernelFailed, failure, is_ours
from ptxsw.ptx.ir import Function, Module
from ptxsw.report import model
from ptxsw.rewrites import REGISTERS, every, named
from ptxsw.rewrites.base import TOGETHER
from ptxsw.toolchain.ptxas import AssemblyError
from ptxsw.toolchain.tuned import PADDED, Tuned, same_arch, store
from ptxsw.verify.launches import Launch


class TuneRequest(Struct, frozen=True):
    """What is to be tuned, and how. `launches` none: invent them, for each shape in `blocks`."""

    kernel: str | None = None
    arch: str | None = None  # what the code is built for; default: the device's own
    launches: tuple[Launch, ...] = ()
    blocks: tuple[Shape, ...] = BLOCKS
    assume: frozenset[str] = pipeline.DEFAULT_ASSUME
    effort: Effort = field(default_factory=Effort)


class TunedKernel(Struct, frozen=True):
    """One kernel: its measurements and the choice; or why it was not measured. `left_out` says
    which launches were not, and why."""

    kernel: str
    rows: tuple[Measured, ...] = ()
    choice: VariantChoice | None = None
    tuned: Tuned | None = None
    problem: str | None = None
    left_out: tuple[str, ...] = ()
    failed: Failure | None = None  # a fault of ptxsw itself


def combinations() -> Iterator[tuple[str, str]]:
    """All schemes in all forms."""
    for scheme in pipeline.SCHEMES:
        for form in pipeline.FORMS:
            if "auto" not in (scheme, form):
                yield scheme, form


def variants(text: str, options: pipeline.Options, name: str = "<ptx>") -> list[Variant]:
    """The original; what each scheme in each form makes of it; what each other rewrite makes of it,
    all of these that change it together, those that mode auto would keep, and each candidate of
    `registers`. Equal texts once. A rewrite stands in place of the scheme, several with "+"
    between; there is no form then. Raises ParseError."""
    candidates = [Variant(ORIGINAL, "", text)]
    texts = {text}

    def add(scheme: str, form: str, asked: pipeline.Options) -> bool:
        result = _optimized(text, asked, name)
        is_new = result.text not in texts
        if is_new:
            texts.add(result.text)
            candidates.append(Variant(scheme, form, result.text))
        return is_new

    for scheme, form in combinations():
        add(scheme, form, replace(options, mode="force", scheme=scheme, form=form))
    changing = [
        one.name
        for one in every()
        if one.name not in TOGETHER
        and add(one.name, "", replace(options, mode="force", rewrites=(one.name,)))
    ]
    if len(changing) > 1:
        add("+".join(changing), "", replace(options, mode="force", rewrites=tuple(changing)))
    kept = _kept_by_auto(text, options, name)
    if kept:
        add("+".join(kept), "", replace(options, mode="force", rewrites=kept))
    alone = replace(options, mode="force", rewrites=(REGISTERS,))
    for limit in _register_limits(text, alone, name):
        add(f"{REGISTERS}={limit}", "", replace(alone, register_limit=limit))
    return candidates


def _optimized(text: str, options: pipeline.Options, name: str) -> pipeline.Result:
    """As `pipeline.optimize`. Raises KernelFailed where a kernel is not finished."""
    result = pipeline.optimize(text, options, name)
    for kernel in result.report.kernels:
        if kernel.failed is not None:
            raise KernelFailed(kernel.failed)
    return result


def _kept_by_auto(text: str, options: pipeline.Options, name: str) -> tuple[str, ...]:
    """The rewrites that mode auto makes of the kernel where nothing was measured."""
    weighed = replace(options, mode="auto", rewrites=named(["all"]))
    names = {one.rewrite for one in _report(text, weighed, name).rewrites or ()}
    return tuple(one.name for one in every() if one.name in names)


def _report(text: str, options: pipeline.Options, name: str) -> model.Kernel:
    (kernel,) = (
        kernel
        for kernel in _optimized(text, options, name).report.kernels
        if options.only in (None, kernel.name)
    )
    return kernel


def _register_limits(text: str, options: pipeline.Options, name: str) -> list[str]:
    """The candidates of `registers` for the kernel."""
    kernel = _report(text, options, name)
    details = [one.detail for one in kernel.rewrites or ()]
    details += [one.detail for one in kernel.refusals or ()]
    outcomes = [each for detail in details for each in detail.get("outcomes", ())]
    names = (
        candidate_name(each["maxnreg"], spills_to_shared=each["spills_to_shared"])
        for each in outcomes
    )
    return list(filter(None, names))


def bounds(text: str, options: pipeline.Options, name: str = "<ptx>") -> list[Variant]:
    """Texts that compute nonsense, to see what could be gained at most: `noload` with nothing in
    the place of the loads that would be shuffled, `nocorner` without the loads at the edges of a
    warp. None where nothing would be shuffled. Raises ParseError."""
    candidates = []
    asked = replace(options, mode="force", scheme="paper", form="keep")
    for bound in upper_bound.BOUNDS:
        result = upper_bound.optimize(text, asked, bound, name)
        if result.text != text:
            candidates.append(Variant(bound, "", result.text, bound=True))
    return candidates


def runs_on(arch: str, device_arch: str) -> bool:
    """Does a cubin for an architecture run on a device? Within one major version upwards."""
    own, other = (same_arch(a).removeprefix("sm_") for a in (arch, device_arch))
    if not (own.isdigit() and other.isdigit()):
        return False
    return own[:-1] == other[:-1] and int(own[-1]) <= int(other[-1])


def tune(
    text: str,
    name: str,
    driver: Driver,
    request: TuneRequest,
    step: Callable[[str], None] = lambda _: None,
) -> Iterator[TunedKernel]:
    """Each kernel of a text in turn, measured and chosen for, nothing stored yet.

    Raises ParseError; ValueError where the request makes no sense; GpuError.
    """
    arch = same_arch(request.arch or driver.device.arch)
    if not runs_on(arch, driver.device.arch):
        raise ValueError(f"code for {arch} does not run on this device ({driver.device.arch})")
    module = parse(text, name)
    kernels = chosen(module, request.kernel)
    if not kernels:
        raise ValueError(f"{name}: no kernel with a body")
    if request.launches and len(kernels) > 1:
        raise ValueError(f"{name} has {len(kernels)} kernels: name that of the launches")
    for function in kernels:
        step(function.name)
        options = pipeline.Options(
            only=function.name, arch=arch, assume=request.assume, block=_block(request)
        )
        try:
            candidates = variants(text, options, name)
            outcome = _tune_one(candidates, module, function, driver, request, arch, step)
        except Exception as error:
            if isinstance(error, GpuError | ValueError) or not is_ours(error):
                raise
            failed = failure(error, module, function, tune_command(name, function.name))
            outcome = TunedKernel(function.name, problem=str(failed), failed=failed)
        yield outcome


def _block(request: TuneRequest) -> Shape | None:
    """The shape of all blocks that are launched, where they have one."""
    shapes = {launch.block for launch in request.launches}
    return shapes.pop() if len(shapes) == 1 else None


def _tune_one(
    candidates: Sequence[Variant],
    module: Module,
    function: Function,
    driver: Driver,
    request: TuneRequest,
    arch: str,
    step: Callable[[str], None],
) -> TunedKernel:
    if len(candidates) == 1:
        return TunedKernel(function.name, problem="no scheme or rewrite changes it")
    try:
        problems = _problems(module, function, driver, request)
    except NoLaunch as error:
        return TunedKernel(function.name, problem=str(error))
    rows: list[Measured] = []
    left_out: list[str] = []
    for problem in problems:
        try:
            rows += measure(
                driver, function, candidates, problem, arch=arch, effort=request.effort,
                step=lambda variant: step(f"{function.name} {variant}"),
            )  # fmt: skip
            rows += _padded(driver, function, candidates[0], problem, arch, request.effort, rows)
        except (Unfit, AssemblyError) as error:
            left_out.append(f"blocks of {'x'.join(map(str, problem.block))}: {error}")
    if not rows:
        return TunedKernel(function.name, problem="; ".join(left_out))
    choice = choose(rows)
    return TunedKernel(
        function.name, tuple(rows), choice, tuned(rows, choice, driver.device, function.name),
        left_out=tuple(left_out),
    )  # fmt: skip


def _padded(
    driver: Driver,
    function: Function,
    original: Variant,
    problem: PreparedLaunch,
    arch: str,
    effort: Effort,
    rows: Sequence[Measured],
) -> Iterator[Measured]:
    """The original in launches with fewer resident blocks (`padding`)."""
    whole = next(row for row in reversed(rows) if row.scheme == ORIGINAL)
    for shared in paddings(original.text, function.name, problem, arch):
        padded = replace(problem, shared=shared)
        (row,) = measure(driver, function, [original], padded, arch=arch, effort=effort)
        if row.seconds and whole.seconds:
            speedup = whole.seconds / row.seconds
            yield replace(row, scheme=f"{PADDED}={shared}", speedup=speedup)


def _problems(
    module: Module, function: Function, driver: Driver, request: TuneRequest
) -> Iterator[PreparedLaunch]:
    launches: Sequence[Launch] = request.launches
    if not launches:
        launches = invent(emulate(module, function), driver.device, request.blocks)
    return map(from_launch, launches)


def run(
    text: str,
    name: str,
    driver: Driver,
    request: TuneRequest,
    *,
    keep: bool,
    csv: Path | None,
    plot: Path | None,
    say: Callable[[str], None],
    step: Callable[[str], None] = lambda _: None,
) -> bool:
    """Tunes, and says for each kernel what came out; stores the choices where `keep`, and writes
    the measurements. Is everything equal to the original, bit for bit?

    Raises what `tune` and `save` raise; KernelFailed, when all others are done; ImportError for a
    plot without matplotlib.
    """
    if plot is not None:
        import_module("matplotlib")  # before anything is measured in vain
    arch = same_arch(request.arch or driver.device.arch)
    rows: list[Measured] = []
    failures: list[Failure] = []
    say(f"{driver.device}, code for {arch}")
    for outcome in tune(text, name, driver, request, step):
        step("")
        rows += outcome.rows
        failures += [outcome.failed] if outcome.failed is not None else []
        _tell(outcome, say)
        if keep and outcome.choice is not None:
            say(f"stored in {save(text, arch, outcome)}")
    notes = [f"date: {date.today().isoformat()}", f"ptxsw {ptxsw.__version__}",
             f"device: {driver.device}", f"file: {name}, code for {arch}"]  # fmt: skip
    if csv is not None:
        write_csv(csv, rows, notes)
    if plot is not None:
        chart(plot, rows, driver.device, f"{name}, code for {arch}")
    for failed in failures:
        raise KernelFailed(failed)
    return all(row.wrong is None for row in rows)


def _tell(outcome: TunedKernel, say: Callable[[str], None]) -> None:
    if outcome.rows:
        say("\n" + plain(outcome.rows))
    for left_out in outcome.left_out:
        say(f"{outcome.kernel}: not measured: {left_out}")
    what = f"not measured: {outcome.problem}" if outcome.choice is None else outcome.choice
    say(f"{outcome.kernel}: {what}")


def save(text: str, arch: str, outcome: TunedKernel) -> str | None:
    """Stores the choice of a kernel of the text; returns the path of the store, None where there
    was no choice. Raises OSError, ValueError."""
    if outcome.tuned is None:
        return None
    function = next(f for f in parse(text).functions if f.name == outcome.kernel)
    own = text[function.span.start : function.span.end]
    return store(own, arch, outcome.tuned)
