"""`verify`: do two PTX texts do the same? By proof first, then on the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.ptx.errors import Unsupported
from ptxsw.ptx.failures import Failure, failure, is_ours, stage
from ptxsw.ptx.ir import Function, Module
from ptxsw.simt.run import require_64_bits
from ptxsw.verify.differential import Comparison, Difference, compare
from ptxsw.verify.launches import Launch, invent
from ptxsw.verify.proving import Proof, Unproved, beyond_runs, prove

SEEDS = (1, 2, 3)


class Proved(Struct, frozen=True):
    """Of every kernel there is a proof that both do the same, on the assumptions named; and in
    `launches`, each run under several schedules, there was no difference."""

    launches: int = 0
    runs: int = 0
    assumptions: tuple[str, ...] = ()

    def __str__(self) -> str:
        resting = f", assuming {', '.join(self.assumptions)}" if self.assumptions else ""
        if not self.launches:
            return f"proved{resting}"
        return f"proved{resting}; {_tested(self.launches, self.runs)}"


class Different(Struct, frozen=True):
    """They differ: the smallest launch found that shows it, and where."""

    kernel: str
    difference: Difference | None
    reason: str

    def __str__(self) -> str:
        if self.difference is None:
            return f"different: {self.kernel}: {self.reason}"
        seed = self.difference.seed
        how = "" if seed is None else f" under schedule {seed}"
        return f"different: {self.kernel}{how}: {self.reason}\nlaunch: {self.difference.launch}"


class Undecided(Struct, frozen=True):
    """There is no proof, and in `launches` no difference. `runs_tell`: at least one launch ran on
    both texts of each kernel without a proof, and runs could have shown all that is open.
    `failures` are faults of ptxsw itself, for which it is not known."""

    reason: str
    launches: int = 0
    runs: int = 0
    runs_tell: bool = False
    failures: tuple[Failure, ...] = ()

    def __str__(self) -> str:
        return f"not decided: {_tested(self.launches, self.runs)}; not proved\n{self.reason}"


def _tested(launches: int, runs: int) -> str:
    """What launches tell: no more than this."""
    words = [f"{n} {one}{'' if n == 1 else more}" for n, one, more in (
        (launches, "launch", "es"), (runs, "run", "s"),
    )]  # fmt: skip
    return f"no difference in {', '.join(words)}"


Verdict: TypeAlias = Proved | Different | Undecided


def verify(
    a: str,
    b: str,
    *,
    kernel: str | None = None,
    launches: Sequence[Launch] | None = None,
    seeds: Sequence[int] = SEEDS,
    names: tuple[str, str] = ("<first>", "<second>"),
    symbolic: bool = True,
    step: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """Do two PTX texts do the same? Of all kernels, or of one.

    Only a proof says yes: launches can show a difference, and never that there is none.
    `launches` are those to compare on (default: invented from the parameters), `seeds` the
    fuzzed schedules. A proof does not keep the launches from being run; without `symbolic` none
    is tried. `step` is told each kernel when its turn comes. Raises ParseError; Unsupported
    for 32-bit addresses; ValueError where there is no such kernel.
    """
    first, second = parse(a, names[0]), parse(b, names[1])
    for module in (first, second):
        require_64_bits(module)
    kernels = [f for f in first.kernels if kernel in (None, f.name)]
    if not kernels:
        there = ", ".join(f.name for f in first.kernels)
        which = "with a body" if kernel is None else f"{kernel!r} with a body"
        raise ValueError(f"{names[0]}: no kernel {which}{there and f'; there are: {there}'}")
    verdicts: list[Proved | Undecided] = []
    for function in kernels:
        if function.name not in {f.name for f in second.kernels}:
            return Different(function.name, None, "the second text does not have it")
        step(function.name)
        try:
            verdict = _one(first, second, function, launches, seeds, symbolic)
        except Exception as error:
            if not is_ours(error):
                raise
            command = ("ptxsw", "verify", *names, "--kernel", function.name)
            failed = failure(error, first, function, command)
            verdict = Undecided(f"{function.name}: {failed}", failures=(failed,))
        if isinstance(verdict, Different):
            return verdict
        verdicts.append(verdict)
    return _together(verdicts)


def _one(
    first: Module, second: Module, function: Function, launches: Sequence[Launch] | None,
    seeds: Sequence[int], symbolic: bool,
) -> Verdict:  # fmt: skip
    with stage("proof"):
        proof = prove(first, second, function.name) if symbolic else Unproved("no proof was tried")
    if isinstance(proof, Proof) and proof.unchanged:
        return Proved(assumptions=proof.assumptions)
    given = invent(emulate(first, function)) if launches is None else launches
    try:
        compared = compare(first, second, function.name, given, seeds=seeds, amend=launches is None)
    except Unsupported as error:
        compared = Comparison(skipped=[str(error)])
    if compared.difference is not None:
        return Different(function.name, compared.difference, compared.difference.what)
    if isinstance(proof, Unproved):
        other = next(f for f in second.kernels if f.name == function.name)
        hidden = beyond_runs((first, function), (second, other))
        return _undecided(function.name, proof.reason, compared, hidden)
    return Proved(compared.launches, compared.runs, proof.assumptions)


def _undecided(kernel: str, unproved: str, compared: Comparison, hidden: str | None) -> Undecided:
    reasons = [unproved] if hidden is None else [unproved, hidden]
    if not compared.launches:
        reasons += compared.skipped[-1:] or ["there was no launch to compare"]
    told = compared.launches > 0 and hidden is None
    reason = f"{kernel}: {'; '.join(reasons)}"
    return Undecided(reason, compared.launches, compared.runs, runs_tell=told)


def _together(verdicts: Sequence[Proved | Undecided]) -> Verdict:
    launches, runs = sum(v.launches for v in verdicts), sum(v.runs for v in verdicts)
    undecided = [v for v in verdicts if isinstance(v, Undecided)]
    if undecided:
        reasons = "\n".join(v.reason for v in undecided)
        return Undecided(
            reasons, launches, runs, all(v.runs_tell for v in undecided),
            tuple(failed for v in undecided for failed in v.failures),
        )  # fmt: skip
    names = dict.fromkeys(name for v in verdicts if isinstance(v, Proved) for name in v.assumptions)
    return Proved(launches, runs, tuple(names))
