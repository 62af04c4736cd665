"""`verify`: do two PTX texts do the same? By proof first, then on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.changes.assumptions import DEFAULT_ASSUME, NO_ALIAS, NO_WRAP
from ptxsw.changes.options import block_shape
from ptxsw.parser import parse
from ptxsw.ptx.documented import Documented
from ptxsw.ptx.errors import Unsupported
from ptxsw.ptx.failures import Failure, failure, is_ours, stage
from ptxsw.ptx.ir import Function, Module, type_width
from ptxsw.ptx.printable import InNotebooks
from ptxsw.simt.run import require_64_bits
from ptxsw.verify.arguments import Argument
from ptxsw.verify.blocks import in_blocks
from ptxsw.verify.branch_inputs import branch_inputs, traced
from ptxsw.verify.comparison import Comparison, Difference
from ptxsw.verify.constants import constants
from ptxsw.verify.contraction import Contraction, MachineCode, is_open, settled, totalled
from ptxsw.verify.differential import compare
from ptxsw.verify.invented import Inventor
from ptxsw.verify.launches import Fields, Launch, Shape
from ptxsw.verify.proving import Proof, Unproved, beyond_runs, open_bits, prove

SEEDS = (1, 2, 3)


class Proved(InNotebooks, Documented, frozen=True):
    """Every kernel has a proof that both versions do the same."""

    launches: int = 0
    """Launches that also ran on both versions and showed no difference: 0 unless requested."""
    runs: int = 0
    """Kernel runs in total, under several schedules."""
    assumptions: tuple[str, ...] = ()
    """Assumptions of the proof, by the names of `optimize --assume`."""
    contraction: Contraction | None = None
    """How ptxas treated sums that it may fuse with products; None without machine code, or if it
    does not matter. If ptxas provably chose alike, `same-contraction` is not assumed."""

    def __str__(self) -> str:
        said = [f", assuming {', '.join(self.assumptions)}" if self.assumptions else ""]
        if self.contraction is not None:
            said.append(str(self.contraction))
        if self.launches:
            said.append(_tested(self.launches, self.runs))
        return "proved" + "; ".join(said)


class Different(InNotebooks, Documented, frozen=True):
    """The two versions differ."""

    kernel: str
    """The name of the kernel in the PTX."""
    difference: Difference | None
    """The smallest launch found that shows it, and its schedule; None if the second version lacks
    the kernel."""
    reason: str
    """The first element that differs, both values, and who stored it; or the error of the second
    kernel."""

    def __str__(self) -> str:
        if self.difference is None:
            return f"different: {self.kernel}: {self.reason}"
        seed, condition = self.difference.seed, self.difference.condition
        how = f" {condition}" if condition else ""
        how += "" if seed is None else f" under schedule {seed}"
        return f"different: {self.kernel}{how}: {self.reason}\nlaunch: {self.difference.launch}"


class Undecided(InNotebooks, Documented, frozen=True):
    """There is neither a proof nor a launch that shows a difference."""

    reason: str
    """Why there is no proof, a line for each kernel, and why runs do not tell, if they do not."""
    launches: int = 0
    """Launches that ran on both texts to their end, and did something."""
    runs: int = 0
    """Runs of a kernel in all, those in vain included."""
    runs_tell: bool = False
    """At least one launch ran on both texts of each kernel without a proof, and runs could have
    shown all that is open."""
    failures: tuple[Failure, ...] = ()
    """Faults of ptxsw itself, for which nothing is known of a kernel."""
    branch_coverage: tuple[int, int] = (0, 0)
    """How many outcomes of guards and branches the launches took, of how many, in both texts."""
    contraction: Contraction | None = None
    """As for `Proved`."""

    def __str__(self) -> str:
        taken, every = self.branch_coverage
        covered = f" ({taken} of {every} outcomes of branches and guards ran)" if every else ""
        tested = _tested(self.launches, self.runs)
        said = "" if self.contraction is None else f"\n{self.contraction}"
        return f"not decided: {tested}{covered}; not proved\n{self.reason}{said}"


def _tested(launches: int, runs: int) -> str:
    """What launches tell: no more than this."""
    words = [f"{n} {one}{'' if n == 1 else more}" for n, one, more in (
        (launches, "launch", "es"), (runs, "run", "s"),
    )]  # fmt: skip
    return f"no difference in {', '.join(words)}"


Verdict: TypeAlias = Proved | Different | Undecided


class Question(Struct, frozen=True):
    """Two texts, and how to compare their kernels."""

    first: Module
    second: Module
    names: tuple[str, str] = ("<first>", "<second>")
    """What the texts are called in messages."""
    launches: Sequence[Launch] | None = None
    """What to compare them on; None: launches are invented."""
    seeds: Sequence[int] = SEEDS
    """The fuzzed schedules."""
    block: Shape | None = None
    """Threads of a block along x, y and z, if all launches have such."""
    assume: frozenset[str] = DEFAULT_ASSUME
    """What a proof may rest on."""
    symbolic: bool = True
    """Is a proof tried?"""
    also_run: bool = False
    """Do launches run if there is a proof?"""
    machine_code: tuple[MachineCode, MachineCode] | None = None
    """What ptxas made of the products and sums of both texts, if that is known."""

    def kernels(self, name: str | None) -> list[Function]:
        """Those of the first text, or the one of a name. Raises ValueError where there is none."""
        kernels = [f for f in self.first.kernels if name in (None, f.name)]
        if not kernels:
            there = ", ".join(f.name for f in self.first.kernels)
            which = "with a body" if name is None else f"{name!r} with a body"
            ending = there and f"; available: {there}"
            raise ValueError(f"{self.names[0]}: no kernel {which}{ending}")
        return kernels

    def verdict(self, function: Function) -> Verdict:
        """That on one kernel of the first text. A fault of ours is kept to it."""
        if function.name not in {f.name for f in self.second.kernels}:
            return Different(function.name, None, "the second file has no kernel of this name")
        try:
            return _one(self, function)
        except Exception as error:
            if not is_ours(error):
                raise
            command = ("ptxsw", "verify", *self.names, "--kernel", function.name)
            failed = failure(error, self.first, function, command)
            return Undecided(f"{function.name}: {failed}", failures=(failed,))


def question(
    a: str,
    b: str,
    names: tuple[str, str] = ("<first>", "<second>"),
    *,
    block: Shape | None = None,
    **how: Any,
) -> Question:
    """Two texts as a question. Raises ParseError; Unsupported for 32-bit addresses; ValueError for
    a kernel that does not run in such a `block`."""
    first, second = parse(a, names[0]), parse(b, names[1])
    for module in (first, second):
        require_64_bits(module)
    if block is not None:
        first, second = in_blocks(first, block), in_blocks(second, block)
    return Question(first, second, names, block=block, **how)


def verify(
    a: str,
    b: str,
    *,
    kernel: str | None = None,
    launches: Sequence[Launch] | None = None,
    seeds: Sequence[int] = SEEDS,
    block: int | Sequence[int] | None = None,
    assume: Iterable[str] = DEFAULT_ASSUME,
    names: tuple[str, str] = ("<first>", "<second>"),
    symbolic: bool = True,
    also_run: bool = False,
    machine_code: tuple[MachineCode, MachineCode] | None = None,
    step: Callable[[str], None] | None = None,
) -> Verdict:
    """Do two PTX texts do the same? Compares all kernels of the first text, or one, with those of
    the same names in the second.

    Returns `Proved`, `Different` (with a launch that shows it) or `Undecided` (with the reason).
    Only a proof says yes: launches can show a difference, and never that there is none.

    Args:
        a: The first PTX text; its kernels are compared.
        b: The second PTX text.
        kernel: Only the kernel with this PTX name. `verify` stops at the first difference.
        launches: What to run both on where there is no proof; None: ptxsw invents some.
        seeds: Of the random schedules; each launch runs under each.
        block: Block shape of all launches, one to three numbers; None: any.
        assume: Assumptions that a proof may use, by the names of `optimize --assume`.
        names: Names of the texts in messages.
        symbolic: Try to prove it.
        also_run: Run launches even if there is a proof.
        machine_code: Of each text, from `ptxsw.cost.fused.assembled` or `given`: the products
            and sums that ptxas has fused.
        step: Called with the name of each kernel before its comparison.

    Raises:
        ParseError: If a text is not PTX.
        Unsupported: If the PTX has 32-bit addresses.
        ValueError: For an unknown kernel or assumption, or a block in which a kernel cannot run.
    """
    asked = question(
        a, b, names, launches=launches, seeds=seeds, symbolic=symbolic, also_run=also_run,
        machine_code=machine_code, block=None if block is None else block_shape(block),
        assume=frozenset(assume),
    )  # fmt: skip
    verdicts: list[Verdict] = []
    for function in asked.kernels(kernel):
        if step is not None:
            step(function.name)
        verdicts.append(asked.verdict(function))
        if isinstance(verdicts[-1], Different):
            break
    return together(verdicts)


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict on all kernels: the first difference, else what is not decided, else a proof."""
    for verdict in verdicts:
        if isinstance(verdict, Different):
            return verdict
    return _together([v for v in verdicts if not isinstance(v, Different)])


def _one(asked: Question, function: Function) -> Verdict:
    first, second = asked.first, asked.second
    with stage("proof"):
        proof, contraction = _proof(asked, function)
    assumed = proof.assumptions if isinstance(proof, Proof) else ()
    if asked.block is not None:
        assumed = (*assumed, f"blocks of {'x'.join(map(str, asked.block))} threads")
    if isinstance(proof, Proof) and (proof.unchanged or not asked.also_run):
        return Proved(assumptions=assumed, contraction=contraction)
    invented = asked.launches is None
    given: Inventor | Sequence[Launch] = asked.launches or ()
    if asked.launches is None:
        given = inventor(first, second, function, overlaps=NO_ALIAS not in asked.assume)
    try:
        # What a proof assumes, such as that buffers do not overlap, launches may not deny.
        compared = compare(
            first, second, function.name, given, seeds=asked.seeds, repair_launch=invented,
            conditions=isinstance(proof, Unproved),
        )  # fmt: skip
    except Unsupported as error:
        compared = Comparison(skipped=[str(error)])
    found = compared.difference
    if found is not None:
        unusual = found.condition or any(map(_is_large, found.launch.args))
        more = _sufficient(asked, function, proof) if unusual else ""
        return Different(function.name, found, found.what + (more and f"\n{more}"))
    if isinstance(proof, Proof):
        return Proved(compared.launches, compared.runs, assumed, contraction)
    more = _sufficient(asked, function, proof)
    undecided = _undecided(asked, function, proof.reason + (more and f"; {more}"), compared)
    apart = contraction is not None and contraction.alike is False
    return replace(undecided, contraction=contraction, runs_tell=undecided.runs_tell and not apart)


_LARGE = 1 << 24  # a number that no size is, as a rule


def _is_large(argument: Argument | Fields) -> bool:
    return isinstance(argument, int) and abs(argument) >= _LARGE


def _sufficient(asked: Question, function: Function, tried: Proof | Unproved) -> str:
    """What more a proof would have to assume, of what the caller may know, in words."""
    more = {NO_WRAP, NO_ALIAS} - asked.assume
    if not more or not asked.symbolic or isinstance(tried, Proof) or not tried.in_time:
        return ""
    proof = prove(asked.first, asked.second, function.name, asked.assume | more)
    needed = proof.assumptions if isinstance(proof, Proof) else ()
    return "" if more.isdisjoint(needed) else f"it is proved with --assume {','.join(needed)}"


def _proof(asked: Question, function: Function) -> tuple[Proof | Unproved, Contraction | None]:
    """A proof, if there is one. If it hangs on which products and sums ptxas has fused, and the
    machine code is there, that says what ptxas has done."""
    if not asked.symbolic:
        return Unproved("no proof was tried"), None
    first, second, name = asked.first, asked.second, function.name
    proof = prove(first, second, name, asked.assume)
    if asked.machine_code is None or not is_open(first, second, name, proof):
        return proof, None
    settled_proof, contraction = settled(first, second, name, asked.machine_code, asked.assume)
    if settled_proof is not None:
        return settled_proof, contraction
    if contraction.alike is False and isinstance(proof, Proof):
        proof = Unproved(contraction.reason)
    return proof, contraction


def inventor(
    first: Module, second: Module, function: Function, *, overlaps: bool = True
) -> Inventor:
    """Launches for a kernel of both modules, invented; with buffers that overlap, or without."""
    other = next(f for f in second.kernels if f.name == function.name)
    trace, goals = traced(first, function)
    _, more = traced(second, other)
    return Inventor(
        trace, constants((first, function), (second, other)), branch_inputs((*goals, *more)),
        {v.name: f"{v.type}:{v.size * 8 // type_width(v.type)}" for v in first.variables
         if v.space in ("global", "const") and not v.initialised and v.size},
        overlaps=overlaps,
    )  # fmt: skip


def _undecided(
    asked: Question, function: Function, unproved: str, compared: Comparison
) -> Undecided:
    other = next(f for f in asked.second.kernels if f.name == function.name)
    hidden = beyond_runs((asked.first, function), (asked.second, other))
    reasons = [unproved] if hidden is None else [unproved, hidden]
    if not compared.launches:
        reasons += compared.skipped[-1:] or ["no launch could be compared"]
    if compared.race:
        reasons.append(
            f"threads race in the second kernel, and not in the first, but no order that was tried "
            f"shows it in the results: {compared.race}"
        )
    if compared.open:
        reasons.append("launches differ, but not if ptxas fuses products and sums")
    one, two = compared.taken(0, asked.first), compared.taken(1, asked.second)
    return Undecided(
        f"{function.name}: {'; '.join(reasons)}", compared.launches, compared.runs,
        runs_tell=compared.launches > 0 and hidden is None and not open_bits(function, other),
        branch_coverage=(one[0] + two[0], one[1] + two[1]),
    )  # fmt: skip


def _together(verdicts: Sequence[Proved | Undecided]) -> Verdict:
    launches, runs = sum(v.launches for v in verdicts), sum(v.runs for v in verdicts)
    undecided = [v for v in verdicts if isinstance(v, Undecided)]
    contraction = totalled([v.contraction for v in verdicts if v.contraction is not None])
    if undecided:
        coverage = [v.branch_coverage for v in undecided]
        return Undecided(
            "\n".join(v.reason for v in undecided), launches, runs,
            all(v.runs_tell for v in undecided),
            tuple(failed for v in undecided for failed in v.failures),
            (sum(taken for taken, _ in coverage), sum(every for _, every in coverage)), contraction,
        )  # fmt: skip
    names = dict.fromkeys(name for v in verdicts if isinstance(v, Proved) for name in v.assumptions)
    return Proved(launches, runs, tuple(names), contraction)
