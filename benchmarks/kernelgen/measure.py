"""One line of the table: a kernel rewritten by a scheme in a form, and what can be said of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.kernelgen.cases import Case, Run
from benchmarks.kernelgen.operators import Array
from ptxsw.cost.occupancy import occupancy
from ptxsw.driver.checked_texts import UNCHECKED
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.parser import parse
from ptxsw.simt.run import launch
from ptxsw.toolchain.ptxas import NoPtxas, assemble
from ptxsw.verify import verify
from ptxsw.verify.arguments import Data
from ptxsw.verify.launches import Launch
from ptxsw.verify.verdict import Different, Proved, Undecided

ARCHS = ("sm_75", "sm_80", "sm_90")
SEED = 7
THREADS = 128  # of the first launch's blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """What ptxas makes of a kernel for one architecture."""

    registers: int
    spilled: int  # bytes stored and loaded again, per thread
    occupancy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PerWarp:
    """Executed per warp, where every warp does one iteration."""

    loads: float  # load instructions in which some lane took part
    lane_loads: float  # loads of single lanes, in warps' worth (32 lanes)
    sectors: float
    shuffles: float


@dataclass(frozen=True)
class Row:
    """A kernel under a scheme and form; the scheme "original" is the text as it was."""

    name: str
    scheme: str
    form: str
    shuffles: int
    copies: int
    loads: int
    delta: float | None
    seconds: float  # to analyse and rewrite, imports left out
    verified: str
    numpy: str
    per_warp: PerWarp
    reasons: tuple[str, ...] = ()
    assembled: dict[str, Assembled] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Nothing found wrong with it."""
        return self.verified in ("proved", "tested", "same", "-") and self.numpy == "equal"


class Subject:
    """A kernel in float or double with what its original does, which each variant is held to."""

    def __init__(self, case: Case, real: str) -> None:
        self._case = case
        self._path = case.path(real)
        self._text = self._path.read_text()
        self._runs = case.runs(real)
        self._tiny = case.tiny(real)
        self._outcomes: dict[str, list[_Outcome]] = {}
        self._verdicts: dict[str, str] = {self._text: "same"}
        self._made: dict[str, dict[str, Assembled]] = {}

    def original(self) -> Row:
        """The row of the text as it was."""
        (kernel,) = optimize(self._text, Options(mode="auto")).report.kernels
        return Row(
            self._case.name, "original", "", 0, 0, kernel.loads, None, 0.0, "-",
            self._like_numpy(self._text), self._per_warp(self._text), (),
            self._assembled(self._text),
        )  # fmt: skip

    def rewritten(self, scheme: str, form: str) -> Row:
        """The row of what a scheme in a form makes of it."""
        options = Options(mode="force", scheme=scheme, form=form)
        begin = perf_counter()
        result = optimize(self._text, options, self._path.name)
        seconds = perf_counter() - begin
        (kernel,) = result.report.kernels
        reasons = tuple(refusal.reason for refusal in kernel.refusals or ())
        # What the check of the written lines refused is not "same": it should have been rewritten.
        wrong = any(reason.startswith(UNCHECKED) for reason in reasons)
        return Row(
            self._case.name, scheme, form, kernel.shuffles or 0, kernel.copies or 0, kernel.loads,
            kernel.mean_delta, seconds, "BUG" if wrong else self._verified(result.text),
            self._like_numpy(result.text), self._per_warp(result.text), reasons,
            self._assembled(result.text),
        )  # fmt: skip

    def _ran(self, text: str) -> list[_Outcome]:
        """What the launches with numpy's results leave behind. Equal texts run once."""
        if text not in self._outcomes:
            self._outcomes[text] = [_outputs(text, self._case, run) for run in self._runs]
        return self._outcomes[text]

    def _verified(self, text: str) -> str:
        """What `verify` says: "proved"; "tested" where it has no proof but a launch, also under a
        fuzzed schedule, shows no difference; "same" for an unchanged text; else what is wrong."""
        if text not in self._verdicts:
            self._verdicts[text] = self._compared(text)
        return self._verdicts[text]

    def _compared(self, text: str) -> str:
        for one, other in zip(self._ran(self._text), self._ran(text), strict=True):
            if any(a.tobytes() != b.tobytes() for a, b in zip(one[0], other[0], strict=True)):
                return "DIFFERS"
        verdict = verify(self._text, text, launches=(as_launch(self._tiny),), seeds=(SEED,))
        if isinstance(verdict, Proved):
            return "proved"
        if isinstance(verdict, Undecided) and verdict.launches:
            return "tested"
        return "DIFFERS" if isinstance(verdict, Different) else "NOT DECIDED"

    def _like_numpy(self, text: str) -> str:
        return _like_numpy(self._case, self._runs, self._ran(text))

    def _per_warp(self, text: str) -> PerWarp:
        return _per_warp(self._ran(text)[0][1], self._runs[0])

    def _assembled(self, text: str) -> dict[str, Assembled]:
        if text not in self._made:
            self._made[text] = _assembled(text)
        return self._made[text]


def measure(case: Case, scheme: str, form: str, real: str) -> tuple[Row, Row]:
    """The original's row and that of the rewritten kernel."""
    subject = Subject(case, real)
    return subject.original(), subject.rewritten(scheme, form)


_Outcome = tuple[list[Array], Any]


def _outputs(text: str, case: Case, run: Run) -> _Outcome:
    done = launch(parse(text), case.entry, run.grid, run.block, run.args)
    return done.buffers, done.counters


def as_launch(run: Run) -> Launch:
    """The launch as `verify` takes it, with random arrays of the same sizes."""
    return Launch(
        run.grid,
        run.block,
        tuple(
            Data("random", value.size, _TYPES[value.dtype.str], seed)
            if isinstance(value, np.ndarray)
            else np.asarray(value).item()
            for seed, value in enumerate(run.args, 1)
        ),
        run.shared,
    )


_TYPES = {
    "<f4": "f32", "<f8": "f64", "|u1": "u8", "<i2": "s16", "<i4": "s32", "<u4": "u32",
}  # fmt: skip


def _like_numpy(case: Case, runs: tuple[Run, Run], outcomes: list[_Outcome]) -> str:
    for run, (buffers, _) in zip(runs, outcomes, strict=True):
        for name, expected in run.expected.items():
            got = buffers[run.arrays.index(name)]
            if case.tolerance == 0 and got.tobytes() == expected.tobytes():
                continue
            try:
                np.testing.assert_array_max_ulp(got, expected, max(case.tolerance, 0))
            except AssertionError:
                return f"{name} DIFFERS"
    return "equal"


def _per_warp(counters: Any, run: Run) -> PerWarp:
    warps = int(np.prod(run.grid)) * -(-int(np.prod(run.block)) // 32)
    return PerWarp(
        loads=counters.warp_loads / warps,
        lane_loads=counters.lane_loads / 32 / warps,
        sectors=counters.load_sectors / warps,
        shuffles=counters.shuffles / warps,
    )


def _assembled(text: str) -> dict[str, Assembled]:
    """By architecture, in a copy with its `.target`; nothing where there is no ptxas."""
    found: dict[str, Assembled] = {}
    for arch in ARCHS:
        aimed = re.sub(r"(?m)^\.target\s+sm_\d+", f".target {arch}", text)
        try:
            (used,) = assemble(aimed, arch).resources
        except NoPtxas:
            return {}
        spilled = used.spill_stores + used.spill_loads
        found[arch] = Assembled(
            registers=used.registers, spilled=spilled, occupancy=resident(arch, used.registers)
        )
    return found


def resident(arch: str, registers: int) -> float:
    """The share of the warps that are resident; no kernel here has shared memory."""
    return occupancy(arch, block_threads=THREADS, registers=registers).fraction
