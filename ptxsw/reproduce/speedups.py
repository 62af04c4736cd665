"""Figures 2 and 3: how fast the versions of an operator are, and what holds them up.

The times are those of the paper's own logs. Beside them stands what `predict` expects of the same
launches on the same GPUs, with the registers that were measured; no number of the model was chosen
by these rows. What ptxas makes of each version is counted for Turing, which stands for Volta: CUDA
13 has left Volta out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Final

from msgspec import Struct

from ptxsw.changes.options import Options
from ptxsw.cost import sass
from ptxsw.cost.estimate import Estimate, estimate
from ptxsw.cost.gpu import find
from ptxsw.cost.launched import account
from ptxsw.cost.machine_code import MachineKernel
from ptxsw.cost.occupancy import occupancy
from ptxsw.cost.sampled import Sample, sample
from ptxsw.driver.pipeline import optimize
from ptxsw.gpu import upper_bound
from ptxsw.parser import parse
from ptxsw.report.layout import draw_text
from ptxsw.report.tables import Table
from ptxsw.reproduce.operators import OPERATORS, launched, measured_text
from ptxsw.reproduce.paper import GPUS, SECTION_7, SHOWN, TITLE, VARIANTS, Log, logs

ARCH: Final = "sm_75"
_VOLTA: Final = "sm_70"
_MUCH: Final = 0.15
"""A speed-up that is off by more is told with what it was bound by."""
_SHORT: Final = {
    "Tesla K40c": "K40",
    "GeForce GTX TITAN X": "TITAN X",
    "Tesla V100-SXM2-16GB": "V100",
}
_COUNTS: Final = ("instructions", "loads", "shuffles", "registers")
_MEANING: Final = (
    "NO LOAD and NO CORNER compute nonsense: they show what could be gained at most.",
    "The paper's numbers are from the logs published with it, which have nine operators on three",
    "GPUs; ours are predictions for the same launches of nvcc's PTX. Instructions, loads, shuffles",
    f"and registers are those of ptxas for {ARCH}, original -> version.",
)
_LOADS, _SHUFFLES = frozenset({"LDG", "LD"}), frozenset({"SHFL"})


class Counts(Struct, frozen=True):
    """What ptxas makes of a version: instructions of the kernel, loads of global memory and
    shuffles among them, registers of a thread."""

    instructions: int
    loads: int
    shuffles: int
    registers: int


class Timed(Struct, frozen=True):
    """A measured version, and what is predicted for it."""

    log: Log
    predicted: Estimate

    @property
    def bound(self) -> str:
        return self.predicted.bound


class Speedup(Struct, frozen=True):
    """A version of an operator on one GPU: the original's time over its own, as measured and as
    predicted; the registers that it takes more, as measured. `waits` are the three reasons for
    which the profiler saw its warps wait most, in percent; `bound` the resource that is predicted
    to be busiest. `before` and `after` are the original and this version by ptxas, None where there
    is none."""

    gpu: str
    operator: str
    variant: str
    measured: float
    predicted: float
    registers: int
    waits: tuple[tuple[str, float], ...]
    bound: str
    before: Counts | None
    after: Counts | None


class Predictor:
    """Predicts rows of the logs; what a version does is looked at once."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}
        self._samples: dict[tuple[str, str], Sample] = {}
        self._codes: dict[tuple[str, str], MachineKernel | None] = {}
        self.note = ""
        """Why there is no machine code, if there is none."""

    def timed(self, log: Log) -> Timed:
        """One row of the logs, predicted. Raises OSError where there is no text of it."""
        operator, gpu = OPERATORS[log.operator], find(GPUS[log.gpu])
        launch = launched(operator, log.sizes)
        fits = occupancy(gpu.arch, block_threads=launch.block[0], registers=log.registers)
        resident = int(fits.blocks * gpu.of("sms").high)
        text = self.text(operator.name, log.variant)
        module = parse(text, operator.name)
        (function,) = module.kernels
        key = operator.name, log.variant
        if key not in self._samples:
            self._samples[key] = sample(module, function.name, launch, resident)
        code = self._code(*key) if gpu.arch == _VOLTA else None
        asked = account(gpu, function, self._samples[key], launch.grid[0], fits, 0, code)
        return Timed(log, estimate(gpu, asked))

    def text(self, operator: str, variant: str) -> str:
        """The PTX of a version."""
        key = operator, variant
        if key not in self._texts:
            text = measured_text(operator)
            asked = Options(mode="force", scheme="paper", form="keep")
            if variant == "paper":
                text = optimize(text, asked).text
            elif variant != "original":
                text = upper_bound.optimize(text, asked, variant).text
            self._texts[key] = text
        return self._texts[key]

    def counts(self, operator: str, variant: str) -> Counts | None:
        """What ptxas makes of a version; None where there is no ptxas, or no nvdisasm."""
        code = self._code(operator, variant)
        if code is None:
            return None
        roots = [instruction.root for instruction in code.instructions]
        loads, shuffles = (sum(root in some for root in roots) for some in (_LOADS, _SHUFFLES))
        return Counts(len(roots), loads, shuffles, code.registers)

    def _code(self, operator: str, variant: str) -> MachineKernel | None:
        key = operator, variant
        if key not in self._codes:
            try:
                made = sass.read(self.text(*key), ARCH)
            except sass.NOT_MADE as error:
                self._codes[key], self.note = None, str(error)
            else:
                (code,) = made.kernels
                self._codes[key] = code if code.instructions else None
                self.note = self.note or made.note
        return self._codes[key]


def speedups(predictor: Predictor, operators: Sequence[str]) -> Iterator[Speedup]:
    """Of each operator that was timed each version, GPU by GPU."""
    for name in operators:
        timed = {(t.log.gpu, t.log.variant): t for t in _timed(predictor, name)}
        for variant in VARIANTS[1:]:
            for gpu in GPUS:
                if (gpu, variant) in timed:
                    counts = predictor.counts(name, "original"), predictor.counts(name, variant)
                    yield _beside(timed[gpu, variant], timed[gpu, "original"], *counts)


def _timed(predictor: Predictor, operator: str) -> Iterator[Timed]:
    return (predictor.timed(log) for log in logs() if log.operator == operator)


def _beside(one: Timed, original: Timed, before: Counts | None, after: Counts | None) -> Speedup:
    log = one.log
    waits = sorted(log.stalls.items(), key=lambda item: -item[1])[:3]
    return Speedup(
        log.gpu, log.operator, log.variant, original.log.seconds / log.seconds,
        original.predicted.expected / one.predicted.expected,
        log.registers - original.log.registers, tuple(waits), one.bound,
        before, after,
    )  # fmt: skip


# ---------------------------------------------------------------- shown


def figure2(found: Sequence[Speedup], note: str = "") -> str:
    """The speed-ups: a line for each operator and version, a pair of columns for each GPU. `note`
    says why there is no machine code, if there is none."""
    header = ["operator", "version"]
    for gpu in GPUS:
        header += [_SHORT[gpu], f"{_SHORT[gpu]} ours"]
    header += _COUNTS
    table = Table(tuple(header), tuple(_lines(found)), frozenset(header[2:]))
    title = f"Figure 2 of {TITLE}: how many times as fast as the original"
    return "\n".join([
        title, "", *draw_text(table), "", *_summaries(found), _registers(found), "", *_far(found),
        *([f"Not known: {note}"] if note else []), *_MEANING, "",
    ])  # fmt: skip


def _lines(found: Sequence[Speedup]) -> Iterator[tuple[str, ...]]:
    for versions in _grouped(found):
        one = next(iter(versions.values()))
        cells = [one.operator, SHOWN[one.variant]]
        for gpu in GPUS:
            timed = versions.get(gpu)
            cells += ["-", "-"] if timed is None else _pair(timed)
        for name in _COUNTS:
            pair = getattr(one.before, name, None), getattr(one.after, name, None)
            cells.append("-" if None in pair else f"{pair[0]} -> {pair[1]}")
        yield tuple(cells)


def _pair(one: Speedup) -> list[str]:
    return [f"{one.measured:.2f}", f"{one.predicted:.2f}"]


def _grouped(found: Sequence[Speedup]) -> Iterator[dict[str, Speedup]]:
    """Of each version in turn the speed-ups by GPU."""
    for operator, variant in dict.fromkeys((one.operator, one.variant) for one in found):
        some = [one for one in found if (one.operator, one.variant) == (operator, variant)]
        yield {one.gpu: one for one in some}


def _summaries(found: Sequence[Speedup]) -> Iterator[str]:
    """What section 7 says of all operators, beside the same of those that are here."""
    for gpu, said in SECTION_7.items():
        some = [one for one in found if (one.gpu, one.variant) == (gpu, "paper")]
        ways = ([one.measured for one in some], [one.predicted for one in some])
        if some:
            logged, ours = (_best_and_mean([100 * (x - 1) for x in way]) for way in ways)
            yield (
                f"{_SHORT[gpu]}: PTXASW gains {said.best:+.1f} % at best and {said.mean:+.1f} % on "
                f"average of 16 operators (section 7), of the {len(some)} here {logged} in the "
                f"logs, {ours} as predicted"
            )


def _best_and_mean(gains: Sequence[float]) -> str:
    return f"{max(gains):+.1f} and {mean(gains):+.1f} %"


def _registers(found: Sequence[Speedup]) -> str:
    """The registers that versions take more, on average."""
    (volta,) = (gpu for gpu in GPUS if find(GPUS[gpu]).arch == _VOLTA)
    logged, counted = [], []
    for variant in SHOWN:
        some = [one for one in found if (one.gpu, one.variant) == (volta, variant)]
        more = [x.after.registers - x.before.registers for x in some if x.before and x.after]
        logged.append(f"{mean(one.registers for one in some):+.1f}" if some else "-")
        counted.append(f"{mean(more):+.1f}" if more else "-")
    said = [f"{more:+.1f}" for more in SECTION_7[volta].registers]
    three = ["/".join(each) for each in (said, logged, counted)]
    return (
        f"registers, {'/'.join(SHOWN.values())} on Volta, on average: {three[0]} (section 7), "
        f"{three[1]} in the logs, {three[2]} by ptxas for {ARCH}"
    )


def _far(found: Sequence[Speedup]) -> Iterator[str]:
    """The speed-ups that are not expected as they were measured, and what there is to say."""
    far = [one for one in found if abs(one.predicted / one.measured - 1) > _MUCH]
    if far:
        yield f"further apart than {100 * _MUCH:.0f} % ({len(far)} of {len(found)}):"
        yield from (f"  {_place(one)}: {_reason(one)}" for one in far)
        yield ""


def _place(one: Speedup) -> str:
    return f"{_SHORT[one.gpu]}, {one.operator}, {SHOWN[one.variant]}"


def _reason(one: Speedup) -> str:
    seen = ", ".join(f"{name} {share:.0f} %" for name, share in one.waits)
    return (
        f"{one.measured:.2f}, expected {one.predicted:.2f}: bound by {one.bound} in the model; "
        f"warps were seen to wait for {seen or 'nothing: it was not profiled'}"
    )


def figure3(found: Sequence[Speedup]) -> str:
    """What the profiler saw warps wait for, beside the busiest resource of the model."""
    header = ("operator", "version", "gpu", "the profiler saw warps wait for", "ours: bound by")
    rows = tuple(
        (
            one.operator, SHOWN[one.variant], _SHORT[one.gpu],
            ", ".join(f"{name} {share:.0f} %" for name, share in one.waits) or "-", one.bound,
        )
        for one in found
    )  # fmt: skip
    title = f"Figure 3 of {TITLE}: what holds each version up"
    note = (
        "The model has resources and no stalls: one that is bound by dram or l2 waits for memory, "
        "one that is\nbound by compute for its pipes, one by latency for its own results."
    )
    return "\n".join([title, "", *draw_text(Table(header, rows)), "", note, ""])
