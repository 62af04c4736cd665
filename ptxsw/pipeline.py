"""The whole way, from a text to a report and a rewritten text. The steps, in order:

parse, emulate each kernel, plan (`planning`: draft, count, choose), emit edits, splice them in,
check what was spliced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter

import ptxsw
from ptxsw.codegen.edit import Edit, apply, insert, line_end
from ptxsw.codegen.emit import emit
from ptxsw.codegen.versioned import as_written
from ptxsw.emulator.run import emulate
from ptxsw.emulator.solver import Solver
from ptxsw.emulator.trace import Trace
from ptxsw.ir import Function, Module
from ptxsw.options import DEFAULT_ASSUME, FORMS, MODES, SCHEMES, Options
from ptxsw.parser import parse
from ptxsw.planning import Decision, decide
from ptxsw.report import model
from ptxsw.report.describe import describe
from ptxsw.report.names import matches, readable
from ptxsw.shuffle.find import global_loads
from ptxsw.shuffle.legal import Judge
from ptxsw.shuffle.plan import Plan, Proof, Rewrite
from ptxsw.verify.local import check

__all__ = [
    "DEFAULT_ASSUME", "FORMS", "MODES", "SCHEMES", "Options", "Result", "analyze", "inspect",
    "kernel_names", "optimize",
]  # fmt: skip

_WRONG = "made with --unsafe-bound {}: the kernels compute NONSENSE and are for timing only"
_FIRST_VERSION = (6, 2)  # activemask
_FIRST_ARCH = 30  # shfl


@dataclass(frozen=True, slots=True)
class Result:
    """The rewritten text (the very input where nothing was rewritten), and the report.

    `smt2` holds the proofs by file name, where they were asked for: each is unsatisfiable.
    `edits` are those that made the text from the input.
    """

    text: str
    report: model.Report
    smt2: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()


def analyze(
    text: str,
    name: str = "<ptx>",
    *,
    kernel: str | None = None,
    block: tuple[int, int, int] | None = None,
) -> model.Report:
    """What the memory accesses of every kernel are, and what `optimize` in mode force, scheme
    paper, would do with its loads. `block`: threads along x, y and z for kernels without
    `.reqntid`; by default rows of the block hold whole warps. Raises ParseError."""
    options = Options(mode="force", scheme="paper", only=kernel)
    report = inspect(text, options, name, block=block).report
    kernels = (
        replace(
            k,
            shuffles=None,
            copies=None,
            mean_delta=None,
            rewrites=None,
            refusals=None,
            choice=None,
            loops=None,
        )
        for k in report.kernels
    )
    return replace(report, kernels=tuple(kernels))


def inspect(
    text: str,
    options: Options | None = None,
    name: str = "<ptx>",
    *,
    block: tuple[int, int, int] | None = None,
) -> Result:
    """As `optimize`, with the accesses of `analyze` in the report. Raises ParseError."""
    return _run(text, options or Options(), name, lambda made: _with_accesses(made, block))


def optimize(text: str, options: Options | None = None, name: str = "<ptx>") -> Result:
    """Rewrite the loads that neighbouring lanes have made. Raises ParseError."""
    return _run(text, options or Options(), name, lambda made: made.kernel)


def _run(text: str, options: Options, name: str, told: Callable[[_Made], model.Kernel]) -> Result:
    begin = perf_counter()
    module = parse(text, name)
    arch = options.arch or _arch(module)
    unfit = _unfit(module)
    made: list[_Made] = []
    for function in _kernels(module, options.only):
        solver = Solver()
        trace = emulate(module, function, budget_s=options.budget_s, solver=solver)
        made.append(_make(trace, solver, options, arch, unfit))
    made = _checked(text, made)
    kernels = [told(each) for each in made]
    proofs = {file: text for each in made for file, text in each.smt2.items()}
    edits = tuple(edit for each in made for edit in each.edits)
    report = _report(name, arch, begin, kernels)
    if options.unsafe_bound is not None and edits:
        warning = _WRONG.format(options.unsafe_bound)
        edits = (insert(0, f"// WARNING: {warning}{line_end(text)}"), *edits)
        report = replace(report, warning=warning)
    return Result(apply(text, edits), report, proofs, edits)


@dataclass(frozen=True, slots=True)
class _Made:
    """What becomes of one kernel."""

    trace: Trace
    kernel: model.Kernel
    plan: Plan | None = None
    edits: tuple[Edit, ...] = ()
    smt2: Mapping[str, str] = field(default_factory=dict)


def _make(
    trace: Trace, solver: Solver, options: Options, arch: str | None, unfit: str | None
) -> _Made:
    if unfit is None and trace.statistics.timed_out:
        unfit = f"the symbolic run took more than {options.budget_s:g} s"
    if unfit is not None:
        return _Made(trace, _left_alone(trace, unfit))
    judge = Judge(trace, solver, options.assume)
    decision = decide(trace, judge, options, arch)
    decision = replace(decision, plan=as_written(decision.plan))
    smt2 = _proofs(trace, judge, solver, decision.plan) if options.smt2 else {}
    edits = emit(trace.module.source.text, decision.plan)
    return _Made(trace, _described(trace, decision), decision.plan, edits, smt2)


def _spliced(text: str, made: list[_Made]) -> str:
    return apply(text, [edit for each in made for edit in each.edits])


def _checked(text: str, made: list[_Made]) -> list[_Made]:
    """Check that the spliced lines say what the plans say. Where they do not, which is a bug of
    ours, the kernel stays as it was and the report says so."""
    if not any(each.edits for each in made):
        return made
    rewritten = parse(_spliced(text, made), "the rewritten text")
    good = []
    for each in made:
        plan = each.plan if each.edits else None
        safe = plan is not None and plan.unsafe_bound is None
        problem = check(plan, rewritten) if plan is not None and safe else None
        if problem is not None:
            each = _Made(each.trace, _left_alone(each.trace, f"a bug of ptxsw: {problem}"))
        good.append(each)
    return good


def _with_accesses(made: _Made, block: tuple[int, int, int] | None) -> model.Kernel:
    found, rows = describe(made.trace, made.kernel, block)
    shape = block and (made.trace.function.block_shape or block)
    return replace(made.kernel, accesses=found, rows=rows, block=shape)


def _unfit(module: Module) -> str | None:
    """Why no kernel of the module can hold a shuffle; None where it can."""
    if module.version < _FIRST_VERSION:
        major, minor = module.version
        return f"PTX {major}.{minor} has no activemask; it takes .version 6.2"
    if module.sm < _FIRST_ARCH:
        return f"the target {module.targets[0] if module.targets else '?'} has no shuffle"
    return None


def _kernels(module: Module, only: str | None) -> Iterator[Function]:
    """The kernels of a module that have bodies."""
    for function in module.functions:
        if (
            function.kind == "entry"
            and function.body_span is not None
            and (only is None or matches(function.name, only))
        ):
            yield function


def kernel_names(text: str) -> tuple[str, ...]:
    """The kernels of a text that have bodies, C++ names where there are some. Raises ParseError."""
    return tuple(readable(k.name) or k.name for k in _kernels(parse(text), None))


# ---------------------------------------------------------------- reporting


def _report(name: str, arch: str | None, begin: float, kernels: list[model.Kernel]) -> model.Report:
    return model.Report(
        ptxsw.__version__, name, arch, round(perf_counter() - begin, 6),
        tuple(replace(kernel, readable=readable(kernel.name)) for kernel in kernels),
    )  # fmt: skip


def _arch(module: Module) -> str | None:
    return next((t for t in module.targets if t.startswith(("sm_", "compute_"))), None)


def _line(trace: Trace, index: int) -> int:
    return trace.module.source.line(trace.cfg.instructions[index].span.start)


def _left_alone(trace: Trace, reason: str) -> model.Kernel:
    loads = global_loads(trace)
    return model.Kernel(
        trace.function.name,
        len(loads),
        0,
        0,
        None,
        trace.statistics.instructions,
        rewrites=(),
        refusals=tuple(model.Refusal(_line(trace, a.index), None, None, reason) for a in loads),
    )


def _described(trace: Trace, decision: Decision) -> model.Kernel:
    plan = decision.plan
    deltas = [abs(r.delta) for r in plan.rewrites]
    copies = sum(r.is_copy for r in plan.rewrites)
    return model.Kernel(
        trace.function.name,
        len(global_loads(trace)),
        len(plan.rewrites) - copies,
        copies,
        round(sum(deltas) / len(deltas), 4) if deltas else None,
        trace.statistics.instructions,
        rewrites=tuple(_rewrite(trace, r, plan.unsafe_bound) for r in plan.rewrites),
        refusals=tuple(
            model.Refusal(
                _line(trace, kept.dest.index),
                _line(trace, kept.candidate.source.index) if kept.candidate else None,
                kept.candidate.delta if kept.candidate else None,
                kept.reason,
            )
            for kept in decision.kept
        ),
        choice=model.Choice(
            decision.choice.by,
            None if decision.choice.gain is None else round(100 * decision.choice.gain, 2),
            decision.choice.reason,
        ),
        loops=_loops(trace, decision),
    )


def _loops(trace: Trace, decision: Decision) -> tuple[model.Loop, ...] | None:
    """What became of loops that were to be uniform; None where none was."""
    made = [model.Loop(_line(trace, one.header), "uniform", None) for one in decision.plan.loops]
    kept = [model.Loop(_line(trace, one.header), "keep", one.reason) for one in decision.loops]
    return tuple(sorted([*made, *kept], key=lambda loop: loop.line)) or None


def _rewrite(trace: Trace, rewrite: Rewrite, bound: str | None) -> model.Rewrite:
    proof = rewrite.proof
    guards = [
        f"{g.reg.name}{_added(g.addend)}{_added(g.step)} does not wrap "
        f"(line {_line(trace, g.index)})"
        for g in proof.guards
    ]
    if proof.block_shape:
        guards.append("no row of the block wraps inside a warp")
    if not rewrite.is_copy:
        guards.append("whole warp")
    if bound is not None and not rewrite.is_copy:
        proof, guards = Proof(assumptions=("that results do not matter",)), []
    status = "guarded" if proof.guards else "assumed" if proof.assumptions else "proved"
    return model.Rewrite(
        _line(trace, rewrite.dest),
        _line(trace, rewrite.source),
        rewrite.delta,
        rewrite.scheme if bound is None or rewrite.is_copy else bound,
        rewrite.form,
        model.Proof(status, proof.assumptions, tuple(guards)),
        _parts(trace, rewrite),
    )


def _parts(trace: Trace, rewrite: Rewrite) -> tuple[model.Part, ...]:
    """Nothing where the one source and its lane say it all."""
    if len(rewrite.parts) == 1 and not rewrite.parts[0].mirror and not rewrite.parts[0].element:
        return ()
    return tuple(
        model.Part(_line(trace, part.source), part.element, part.delta, part.mirror)
        for part in rewrite.parts
    )


def _added(value: int) -> str:
    return f" {'-' if value < 0 else '+'} {abs(value)}" if value else ""


def _proofs(trace: Trace, judge: Judge, solver: Solver, plan: Plan) -> dict[str, str]:
    """The obligations of each rewrite as SMT-LIB 2, by file name."""
    texts: dict[str, str] = {}
    for rewrite in plan.rewrites:
        line, other = _line(trace, rewrite.dest), _line(trace, rewrite.source)
        stem = f"{trace.function.name}-{line}-from-{other}"
        claims = dict.fromkeys(
            solver.smt2(proved.claim, proved.given)
            for source, delta in _taken(rewrite)
            for proved in judge.obligations.get((rewrite.dest, source, delta), ())
        )
        texts.update((f"{stem}-{number}.smt2", claim) for number, claim in enumerate(claims))
    return texts


def _taken(rewrite: Rewrite) -> Iterator[tuple[int, int]]:
    """The loads and deltas that a rewrite takes values from, those beyond the warp's ends that
    a halo holds among them."""
    for part in rewrite.parts:
        yield part.source, part.delta
        if rewrite.scheme == "halo" and part.delta:
            yield part.source, part.delta - 32 if part.delta > 0 else part.delta + 32
