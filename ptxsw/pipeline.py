"""The whole way, from a text to a report and a rewritten text. The steps, in order:

parse, emulate each kernel, find candidates, judge them, choose, emit edits, splice them in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter

import ptxsw
from ptxsw.codegen.edit import Edit, apply
from ptxsw.codegen.emit import emit
from ptxsw.emulator.affine import Affine, constant
from ptxsw.emulator.node import Variance
from ptxsw.emulator.run import emulate
from ptxsw.emulator.show import show
from ptxsw.emulator.solver import Solver
from ptxsw.emulator.trace import Access, Trace
from ptxsw.ir import Function, Loc, Module
from ptxsw.parser import parse
from ptxsw.report import model
from ptxsw.shuffle.choose import Choice, choose
from ptxsw.shuffle.find import candidates, global_loads
from ptxsw.shuffle.legal import ASSUMPTIONS, LOCKSTEP, NO_RACE, Judge, segments
from ptxsw.shuffle.plan import Plan, Rewrite

MODES = ("auto", "force")
SCHEMES = ("auto", "paper")
FORMS = ("auto", "keep")
DEFAULT_ASSUME = frozenset({LOCKSTEP, NO_RACE})

_FIRST_VERSION = (6, 2)  # activemask
_FIRST_ARCH = 30  # shfl


@dataclass(frozen=True, slots=True)
class Options:
    """What `optimize` is asked for. Raises ValueError for a value that makes no sense."""

    mode: str = "auto"
    scheme: str = "auto"
    form: str = "auto"
    max_delta: int = 31
    only: str | None = None  # the one kernel to rewrite
    arch: str | None = None  # "sm_80"; default: the module's target
    assume: frozenset[str] = DEFAULT_ASSUME
    budget_s: float = 10.0  # for the symbolic work on one kernel
    smt2: bool = False  # keep the proofs as SMT-LIB 2 texts

    def __post_init__(self) -> None:
        for name, known in (("mode", MODES), ("scheme", SCHEMES), ("form", FORMS)):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"{name} is {value!r}; it can be {', '.join(known)}")
        if not 0 <= self.max_delta <= 31:
            raise ValueError(f"max_delta is {self.max_delta}; it can be 0 to 31")
        if not self.assume <= ASSUMPTIONS:
            raise ValueError(f"unknown assumption {min(self.assume - ASSUMPTIONS)!r}")


@dataclass(frozen=True, slots=True)
class Result:
    """The rewritten text (the very input where nothing was rewritten), and the report.

    `smt2` holds the proofs by file name, where they were asked for: each is unsatisfiable.
    """

    text: str
    report: model.Report
    smt2: Mapping[str, str] = field(default_factory=dict)


def analyze(text: str, name: str = "<ptx>", *, kernel: str | None = None) -> model.Report:
    """What the memory accesses of every kernel are. Raises ParseError."""
    begin = perf_counter()
    module = parse(text, name)
    kernels = []
    for function in _kernels(module, kernel):
        trace = emulate(module, function)
        kernels.append(
            model.Kernel(
                function.name,
                len(global_loads(trace)),
                instructions=trace.statistics.instructions,
                accesses=tuple(_accesses(trace)),
            )
        )
    return _report(name, _arch(module), begin, kernels)


def optimize(text: str, options: Options | None = None, name: str = "<ptx>") -> Result:
    """Rewrite the loads that neighbouring lanes have made. Raises ParseError."""
    begin = perf_counter()
    options = options or Options()
    module = parse(text, name)
    arch = options.arch or _arch(module)
    edits: list[Edit] = []
    kernels: list[model.Kernel] = []
    proofs: dict[str, str] = {}
    unfit = _unfit(module)
    for function in _kernels(module, options.only):
        kernel, made = _kernel(module, function, options, arch, unfit, proofs)
        kernels.append(kernel)
        edits.extend(made)
    return Result(apply(text, edits), _report(name, arch, begin, kernels), proofs)


def _kernel(
    module: Module,
    function: Function,
    options: Options,
    arch: str | None,
    unfit: str | None,
    proofs: dict[str, str],
) -> tuple[model.Kernel, tuple[Edit, ...]]:
    solver = Solver()
    trace = emulate(module, function, budget_s=options.budget_s, solver=solver)
    if unfit is None and trace.statistics.timed_out:
        unfit = f"the symbolic run took more than {options.budget_s:g} s"
    if unfit is not None:
        return _left_alone(trace, unfit), ()
    judge = Judge(trace, solver, options.assume)
    choice = choose(
        candidates(trace, options.max_delta),
        judge.legal,
        shuffles=options.mode == "force",
        scheme="paper",
        form="keep",
        why_not=f"no measurement shows that a shuffle pays on {arch or 'this target'}; "
        "force rewrites it",
    )
    plan = Plan(function, trace.cfg.instructions, choice.rewrites, segments(trace))
    if options.smt2:
        proofs.update(_proofs(trace, judge, solver, choice))
    return _described(trace, choice), emit(module.source.text, plan)


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
            and only in (None, function.name)
        ):
            yield function


# ---------------------------------------------------------------- reporting


def _report(name: str, arch: str | None, begin: float, kernels: list[model.Kernel]) -> model.Report:
    return model.Report(
        ptxsw.__version__, name, arch, round(perf_counter() - begin, 6), tuple(kernels)
    )


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


def _described(trace: Trace, choice: Choice) -> model.Kernel:
    deltas = [abs(r.delta) for r in choice.rewrites]
    return model.Kernel(
        trace.function.name,
        len(global_loads(trace)),
        sum(r.delta != 0 for r in choice.rewrites),
        sum(r.delta == 0 for r in choice.rewrites),
        round(sum(deltas) / len(deltas), 4) if deltas else None,
        trace.statistics.instructions,
        rewrites=tuple(_rewrite(trace, r) for r in choice.rewrites),
        refusals=tuple(
            model.Refusal(
                _line(trace, kept.dest.index),
                _line(trace, kept.candidate.source.index) if kept.candidate else None,
                kept.candidate.delta if kept.candidate else None,
                kept.reason,
            )
            for kept in choice.kept
        ),
    )


def _rewrite(trace: Trace, rewrite: Rewrite) -> model.Rewrite:
    proof = rewrite.proof
    guards = [
        f"{g.reg.name}{f' + {g.addend}' if g.addend else ''} + {g.step} does not overflow "
        f"(tested at line {_line(trace, g.index)})"
        for g in proof.guards
    ]
    if proof.block_shape:
        guards.append("the width of the block is a multiple of 32, or the block is one row")
    if rewrite.delta:
        guards.append("all 32 lanes of the warp are active")
    status = "guarded" if proof.guards else "assumed" if proof.assumptions else "proved"
    return model.Rewrite(
        _line(trace, rewrite.dest),
        _line(trace, rewrite.source),
        rewrite.delta,
        rewrite.scheme,
        rewrite.form,
        model.Proof(status, proof.assumptions, tuple(guards)),
    )


def _accesses(trace: Trace) -> Iterator[model.Access]:
    """The accesses to memory in program order, parameters left out."""
    affine = Affine()
    sources = _source_lines(trace)
    for access in trace.accesses:
        if access.space == "param":
            continue
        stride = _stride(affine, access)
        yield model.Access(
            _line(trace, access.index),
            sources.get(access.index),
            access.kind,
            access.space,
            access.instruction.name,
            access.bytes or None,
            show(access.variants[0].address) if len(access.variants) == 1 else None,
            stride,
            _sectors(access, stride),
            _is_uniform(access),
        )


def _stride(affine: Affine, access: Access) -> int | None:
    """Bytes from lane to lane, where it is one number on all paths."""
    found = set()
    for variant in access.variants:
        step = affine.lane_step(variant.address)
        found.add(None if step is None else constant(step))
    return found.pop() if len(found) == 1 else None


def _is_uniform(access: Access) -> bool:
    """One address for the whole warp: no path's address varies, and if paths differ, all lanes
    take the same."""
    if any(v.address.variance != Variance.UNIFORM for v in access.variants):
        return False
    if len({v.address for v in access.variants}) == 1:
        return True
    return all(c.variance == Variance.UNIFORM for v in access.variants for c in v.conditions)


def _sectors(access: Access, stride: int | None) -> int | None:
    """32-byte sectors of global memory that a full warp touches when lane 0's address is
    aligned to a sector; None where the stride is not known."""
    if stride is None or not access.bytes or access.space not in ("global", "generic", "local"):
        return None
    touched: set[int] = set()
    for lane in range(32):
        first = lane * stride
        touched.update(range(first // 32, (first + access.bytes - 1) // 32 + 1))
    return len(touched)


def _source_lines(trace: Trace) -> dict[int, str]:
    """`file:line` of each instruction behind a `.loc`."""
    files = trace.module.files
    found: dict[int, str] = {}
    current: Loc | None = None
    index = 0
    for statement in trace.function.body.statements:
        if isinstance(statement, Loc):
            current = statement
        elif index < len(trace.cfg.instructions) and statement is trace.cfg.instructions[index]:
            if current is not None and current.line > 0:
                name = files.get(current.file, f"file {current.file}")
                found[index] = f"{name}:{current.line}"
            index += 1
    return found


def _proofs(trace: Trace, judge: Judge, solver: Solver, choice: Choice) -> dict[str, str]:
    """The obligation of each rewrite as SMT-LIB 2, by file name."""
    texts: dict[str, str] = {}
    for rewrite in choice.rewrites:
        obligations = judge.obligations[rewrite.dest, rewrite.source, rewrite.delta]
        for number, (claim, given) in enumerate(obligations):
            line, other = _line(trace, rewrite.dest), _line(trace, rewrite.source)
            stem = f"{trace.function.name}-{line}-from-{other}-{number}"
            texts[f"{stem}.smt2"] = solver.smt2(claim, given)
    return texts
