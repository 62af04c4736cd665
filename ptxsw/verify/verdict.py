"""`verify`: are two PTX texts equal? By proof first, then on the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from ptxsw.emulator.run import emulate
from ptxsw.errors import Unsupported
from ptxsw.ir import Function, Module
from ptxsw.parser import parse
from ptxsw.simt.run import require_64_bits
from ptxsw.verify.differential import Comparison, Difference, compare
from ptxsw.verify.launches import Launch, invent
from ptxsw.verify.proving import Proof, Unproved, prove

SEEDS = (1, 2, 3)


class Equal(Struct, frozen=True):
    """No difference. `proved`: of every kernel there is a proof, on the assumptions named;
    else the kernels did the same in all `launches`, each run under several schedules."""

    proved: bool
    launches: int
    runs: int
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        tested = f"{self.launches} launches, {self.runs} runs"
        if not self.proved:
            return "\n".join((f"equal in {tested}; not proved", *self.notes))
        resting = f", assuming {', '.join(self.assumptions)}" if self.assumptions else ""
        if not self.launches:
            return f"equal: proved{resting}"
        return f"equal: proved{resting}; and in {tested}"


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
    """Neither is known."""

    reason: str

    def __str__(self) -> str:
        return f"not decided: {self.reason}"


Verdict: TypeAlias = Equal | Different | Undecided


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
    verdicts: list[Verdict] = []
    for function in kernels:
        if function.name not in {f.name for f in second.kernels}:
            return Different(function.name, None, "the second text does not have it")
        step(function.name)
        verdict = _one(first, second, function, launches, seeds, symbolic)
        if isinstance(verdict, Different):
            return verdict
        verdicts.append(verdict)
    return _together(verdicts)


def _one(
    first: Module, second: Module, function: Function, launches: Sequence[Launch] | None,
    seeds: Sequence[int], symbolic: bool,
) -> Verdict:  # fmt: skip
    proof = prove(first, second, function.name) if symbolic else Unproved("no proof was tried")
    if isinstance(proof, Proof) and proof.unchanged:
        return Equal(True, 0, 0)
    given = invent(emulate(first, function)) if launches is None else launches
    try:
        compared = compare(first, second, function.name, given, seeds=seeds, amend=launches is None)
    except Unsupported as error:
        compared = Comparison(skipped=[str(error)])
    if compared.difference is not None:
        return Different(function.name, compared.difference, compared.difference.what)
    if isinstance(proof, Unproved):
        notes = (f"{function.name}: {proof.reason}",)
        if compared.launches:
            return Equal(False, compared.launches, compared.runs, (), notes)
        why = compared.skipped[-1] if compared.skipped else "there was no launch to compare"
        return Undecided(f"{function.name}: {proof.reason}; {why}")
    return Equal(True, compared.launches, compared.runs, proof.assumptions)


def _together(verdicts: Sequence[Verdict]) -> Verdict:
    open_ones = [v for v in verdicts if isinstance(v, Undecided)]
    if open_ones:
        return open_ones[0]
    equal = [v for v in verdicts if isinstance(v, Equal)]
    return Equal(
        all(v.proved for v in equal),
        sum(v.launches for v in equal),
        sum(v.runs for v in equal),
        tuple(dict.fromkeys(name for v in equal for name in v.assumptions)),
        tuple(note for v in equal for note in v.notes),
    )
