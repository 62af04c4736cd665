"""What each rewrite makes of each program: a row for each target.

    python -m benchmarks.rewrites [PROGRAM ...] [--rewrite NAME[+NAME] ...] [--arch sm_80 ...]
        [--mode auto] [--jobs N]

Each rewrite is made alone, some together (`read-only-loads+scalar-replacement`, where that is more
than one of them makes), and `auto` is what mode auto makes with all of them.

Figures are those before and after. Instructions, loads, stores and registers are counted in SASS by
ptxas: of the hot loop, that inner loop which has most, and of the whole kernel; what the launch
does not execute, such as the way of misaligned buffers, counts neither there nor there.
`iterations` are the iterations of the source's loop that one of the hot loop makes, where the
program tells: its executed FADD, FMUL and FFMA over those of one iteration of the source. `an
iteration` is `loop` over `iterations`: the executed instructions of one iteration of the source.
`executed` are the loads of global memory that the warps of the launch execute, and wavefronts those
of the launch, for all its warps (`benchmarks/wavefronts.py`). The verdict is that of `ptxsw
verify`: proved, or tested where only launches were compared, as where a proof takes claims on
registers that a loop carries, which only `optimize` knows. The text is rewritten once, for the
target that it names, and assembled for all; only with `strength-reduction` behind others, which
keeps what ptxas makes shorter, it is rewritten for each.

Below: why rewrites left programs alone, why mode auto kept what it was given, and which shared
accesses still conflict. Exit 0 where every rewritten program agrees with its original and with
numpy, 1 where one does not.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from msgspec import Struct

from benchmarks.kernelgen.cases import Case, Run
from benchmarks.kernelgen.measure import SEED, as_launch
from benchmarks.machine_loops import count, inner_loops
from benchmarks.programs.cases import PROGRAMS
from benchmarks.programs.loads import LOADS
from benchmarks.programs.memory import MEMORY
from benchmarks.programs.program import Program
from benchmarks.programs.straight import STRAIGHT
from benchmarks.programs.unoptimized import UNOPTIMIZED
from benchmarks.wavefronts import Executed, execute, wavefronts
from ptxsw.analysis.banks import Banks
from ptxsw.analysis.shared_banks import BankTraffic
from ptxsw.changes.permutation import Permutation
from ptxsw.codegen.excerpt import Excerpts
from ptxsw.codegen.lower_bank_conflicts import PermutedBanks
from ptxsw.cost import machine_code, sass
from ptxsw.cost.occupancy import occupancy
from ptxsw.driver.passes import Passes
from ptxsw.driver.pipeline import MODES, Options, Result, optimize
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.report.model import Kernel as Told
from ptxsw.rewrites import REWRITES
from ptxsw.rewrites.bank_choice import PermutationCosts, family, ways
from ptxsw.rewrites.bank_conflicts import scene_behind
from ptxsw.simt.run import launch
from ptxsw.verify import verify
from ptxsw.verify.verdict import Different, Proved, Undecided

ARCHS = ("sm_75", "sm_80", "sm_90", "sm_120")
TOGETHER = (
    "read-only-loads+scalar-replacement",
    "read-only-loads+scalar-replacement+vectorize",
    "read-only-loads+scalar-replacement+vectorize+strength-reduction",
)
AUTO = "auto"
_SHORTER = frozenset(one.name for one in REWRITES if one.requires.shorter_code)
"""Rewrites of which mode force keeps what ptxas makes shorter."""
_ACCESSES = ("LDG", "STG", "LDS", "STS")
_SUMS = ("FADD", "FMUL", "FFMA")
_VERSION = (8, 7)  # of PTX: that takes all targets
_NAME = 7  # letters of a target's name, at most


def programs() -> dict[str, Program]:
    """All that have a launch."""
    further = {
        name: Program(name, case.entry, {}, (partial(_first, case),))
        for name, case in PROGRAMS.items()
    }
    return MEMORY | LOADS | STRAIGHT | UNOPTIMIZED | further


def _first(case: Case) -> Run:
    return case.runs(case.reals[0])[0]


@dataclass(frozen=True, slots=True)
class Loop:
    """The hot loop, as far as the launch executes it. One iteration of it makes `iterations` of the
    source's; None where that is not known."""

    instructions: int
    loads: int  # of global memory
    stores: int
    iterations: float | None

    @property
    def each_iteration(self) -> float | None:
        """Instructions for one iteration of the source's loop."""
        return self.instructions / self.iterations if self.iterations else None


@dataclass(frozen=True, slots=True)
class Figures:
    """What ptxas made of a kernel, and what a launch of it asks of memory. `loop` is None where
    there is no loop, `wavefronts` where the places of instructions are not known."""

    instructions: int
    loop: Loop | None
    accesses: tuple[int, ...]  # in the order of _ACCESSES
    registers: int
    occupancy: float
    executed: int  # loads of global memory, by warp
    wavefronts: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """What one rewrite made of one program for one target."""

    program: str
    rewrite: str
    arch: str
    before: Figures
    after: Figures
    verdict: str

    @property
    def good(self) -> bool:
        return self.verdict in ("proved", "tested")


@dataclass(frozen=True, slots=True)
class Note:
    """Why a rewrite left something of a program alone, or what remains behind it. `line` is None
    where it is about the whole kernel."""

    program: str
    rewrite: str
    line: int | None
    text: str


class Subject:
    """One program, and what is known of the texts that are made of it."""

    def __init__(self, program: Program, archs: Sequence[str], mode: str) -> None:
        self.program, self.archs, self.mode = program, archs, mode
        self.text = program.path.read_text()
        self.runs = [run() for run in program.launches]
        self._made: dict[Options, Result] = {}
        self._counted: dict[str, dict[str, Figures]] = {}  # by text
        self._judged: dict[str, str] = {}
        self._before = self._figures(self.text)

    def rewritten(self, rewrite: str) -> Iterator[Row | Note]:
        """The rows of one rewrite, of several joined by +, or of mode auto with all of them; or the
        reasons why nothing was made."""
        names, auto = tuple(rewrite.split("+")), rewrite == AUTO
        if len(names) > 1 and not _SHORTER.isdisjoint(names):
            yield from self._for_each_target(rewrite, names)
            return
        result, told, options = self._optimized(
            None if auto else names, AUTO if auto else self.mode
        )
        if len(names) > 1:
            if result.text in self._with_fewer(names):
                return
        elif not auto:
            yield from self._refusals(rewrite, told)
        if result.text == self.text:
            if auto and told.decision is not None:
                yield Note(self.program.name, AUTO, None, told.decision.reason)
            return
        verdict = self._verdict(result)
        for arch, after in self._figures(result.text).items():
            yield Row(self.program.name, rewrite, arch, self._before[arch], after, verdict)
        if rewrite == "bank-conflicts":
            yield from self._conflicts(rewrite, options)

    def _for_each_target(self, rewrite: str, names: tuple[str, ...]) -> Iterator[Row]:
        """The rows of several rewrites, one of which asks ptxas what it makes for the target."""
        _, told, _ = self._optimized(names, self.mode)
        possible = [one.rewrite for one in told.rewrites or ()]
        possible += [
            one.rewrite for one in told.refusals or () if "output gets longer" in one.reason
        ]
        if _SHORTER.isdisjoint(possible):
            return
        for arch in self.archs:
            result, told, _ = self._optimized(names, self.mode, arch)
            if result.text in self._with_fewer(names):
                continue
            after = self._figures(result.text)[arch]
            yield Row(
                self.program.name, rewrite, arch, self._before[arch], after, self._verdict(result)
            )

    def _with_fewer(self, names: tuple[str, ...]) -> list[str]:
        """What each of some rewrites makes alone, and what the first of them make."""
        fewer = [(n,) for n in names] + [names[:n] for n in range(2, len(names))]
        return [self._optimized(some, self.mode)[0].text for some in fewer]

    def _optimized(
        self, names: tuple[str, ...] | None, mode: str, arch: str | None = None
    ) -> tuple[Result, Told, Options]:
        """What some rewrites make of the text, or all of them, for a target (None: its own)."""
        shape = self.runs[0].block
        options = Options(mode, rewrites=names, only=self.program.entry, block=shape, arch=arch)
        if options not in self._made:
            self._made[options] = optimize(self.text, options, self.program.path.name)
        result = self._made[options]
        (told,) = result.report.kernels
        return result, told, options

    def _refusals(self, rewrite: str, told: Told) -> Iterator[Note]:
        """Each reason once."""
        first = {refusal.reason: refusal.line for refusal in reversed(told.refusals or ())}
        for reason, line in sorted(first.items(), key=lambda item: item[1]):
            yield Note(self.program.name, rewrite, line, reason)

    # ------------------------------------------------------------ counted

    def _figures(self, text: str) -> dict[str, Figures]:
        """The launch executes the same for all targets, at the same places of their texts."""
        if text not in self._counted:
            executed = execute(parse(_aimed(text, "")), self.program.entry, self.runs[0])
            self._counted[text] = {
                a: self._of_arch(_aimed(text, a), a, executed) for a in self.archs
            }
        return self._counted[text]

    def _of_arch(self, aimed: str, arch: str, executed: Executed) -> Figures:
        kernel = sass.read(aimed, arch).kernel(self.program.entry)
        x, y, z = self.runs[0].block
        resident = occupancy(
            arch,
            block_threads=x * y * z,
            registers=kernel.registers,
            shared=kernel.shared + self.runs[0].shared,
        ).fraction
        loops = [of_loop(loop, executed, self.program.sums) for loop in inner_loops(kernel)]
        whole = count(_done(kernel.instructions, executed))
        known = any(i.ptx is not None for i in kernel.instructions)
        asked = sum(wavefronts(executed, kernel.instructions).values()) if known else None
        return Figures(
            whole.instructions,
            max(loops, key=lambda loop: loop.instructions, default=None),
            tuple(whole.of(root) for root in _ACCESSES),
            kernel.registers,
            resident,
            executed.loads,
            asked,
        )

    def _conflicts(self, rewrite: str, options: Options) -> Iterator[Note]:
        """The shared accesses that still conflict, as `bank-conflicts` counts them, and why."""
        module = parse(self.text)
        function = next(f for f in module.kernels if f.name == self.program.entry)
        passes = Passes(options, module.targets[0])
        (made,) = passes.run(Excerpts(module).of(function)).attempts
        (change,) = made.changes
        assert isinstance(change.detail, PermutedBanks)
        chosen = change.detail.permutation
        lines: defaultdict[str, list[int]] = defaultdict(list)
        for left in conflicts_left(scene_behind(made.kernel, chosen), chosen):
            why = "no permutation serves it better"
            if left.least < left.after:
                why = f"{left.least:.3g} with another, which serves the whole less well"
            text = f"{left.before:.3g}-way to {left.after:.3g}-way: {why}"
            lines[text] += [made.line(at) for at in left.members[:1]]
        for text, where in lines.items():
            also = f" (and {len(where) - 1} more)" if len(where) > 1 else ""
            yield Note(self.program.name, rewrite, where[0], text + also)

    # ------------------------------------------------------------ checked

    def _verdict(self, result: Result) -> str:
        """ "proved", "tested", or what is wrong."""
        text = result.text_with_steps
        if text not in self._judged:
            self._judged[text] = self._judgement(text)
        return self._judged[text]

    def _judgement(self, text: str) -> str:
        module = parse(text)
        if not all(_like_numpy(module, self.program.entry, run) for run in self.runs):
            return "NOT NUMPY'S"
        launches = tuple(as_launch(run) for run in self.runs if not run.placed)
        verdict = verify(
            self.text, text, kernel=self.program.entry, launches=launches, seeds=(SEED,)
        )
        if isinstance(verdict, Proved):
            return "proved"
        if isinstance(verdict, Undecided) and verdict.launches:
            return "tested"
        return "DIFFERS" if isinstance(verdict, Different) else "NOT DECIDED"


def _aimed(text: str, arch: str) -> str:
    """The text for a target, or for its own; texts for all targets are equally long."""
    if parse(text).version < _VERSION:
        newer = ".".join(map(str, _VERSION))
        text = re.sub(r"(?m)^(\s*\.version\s+)[\d.]+", rf"\g<1>{newer}", text)
    return re.sub(
        r"(?m)^(\s*\.target\s+)(sm_\d+)", lambda m: m[1] + (arch or m[2]).ljust(_NAME), text
    )


class Left(Struct, frozen=True):
    """An access, or several that ptxas merges, that still has conflicts after a permutation: by
    how many ways before and after, and with the member of the family that suits it best."""

    members: tuple[int, ...]
    before: float
    after: float
    least: float


def conflicts_left(scene: PermutationCosts, permutation: Permutation) -> Iterator[Left]:
    """What a permutation leaves."""
    before = {at: ways(t) for t in scene.before for at in t.members}
    others = [(other, Banks(other.banks_of).wavefronts) for other in family(scene)]
    moved = Banks(permutation.banks_of).wavefronts
    for one in scene.after(permutation):
        now = ways(one, moved)
        if now > 1:
            least = min(ways(t, count) for p, count in others for t in _serving(scene, p, one))
            yield Left(one.members, before[one.members[0]], now, least)


def _serving(
    scene: PermutationCosts, permutation: Permutation, one: BankTraffic
) -> Iterator[BankTraffic]:
    """What an access, or its first member, belongs to under another permutation."""
    return (t for t in scene.after(permutation) if one.members[0] in t.members)


def of_loop(loop: Sequence[machine_code.MachineInstruction], executed: Executed, sums: int) -> Loop:
    """A loop whose source takes so many FADD, FMUL and FFMA an iteration; 0 where that is not
    known. Both are counted in what the launch executes."""
    done = _done(loop, executed)
    counts = count(done)
    iterations = sum(i.root in _SUMS for i in done) / sums if sums else None
    return Loop(counts.instructions, counts.of("LDG"), counts.of("STG"), iterations)


def _done(
    instructions: Sequence[machine_code.MachineInstruction], executed: Executed
) -> list[machine_code.MachineInstruction]:
    """Those that the launch executes, or whose place in the PTX is not known."""
    return [i for i in instructions if i.ptx is None or i.ptx in executed.instructions]


def _like_numpy(module: Module, kernel: str, run: Run) -> bool:
    done = launch(
        module, kernel, run.grid, run.block, run.args, shared=run.shared, memory=run.memory
    )
    return run.wrong(done) is None


# ---------------------------------------------------------------- the table

MEANING = """\
before > after. loop: executed SASS instructions in one iteration of the hot loop. iterations:
iterations of the source's loop that it makes, by its executed FADD, FMUL and FFMA. an iteration:
loop / iterations."""
HEAD = (
    "program", "rewrite", "arch", "loop", "iterations", "an iteration", "its LDG", "its STG",
    "kernel", *_ACCESSES, "regs", "occupancy", "executed", "wavefronts", "verdict",
)  # fmt: skip


def cells(row: Row) -> tuple[str, ...]:
    """A line of the table, below `HEAD`."""
    a, b = row.before, row.after
    loops = zip(_cells(a.loop), _cells(b.loop), strict=True)
    return (
        row.program, row.rewrite, row.arch,
        *(_pair(x, y) for x, y in loops), _pair(a.instructions, b.instructions),
        *(_pair(x, y) for x, y in zip(a.accesses, b.accesses, strict=True)),
        _pair(a.registers, b.registers),
        _pair(f"{100 * a.occupancy:.0f}", f"{100 * b.occupancy:.0f}") + " %",
        _pair(a.executed, b.executed),
        _pair(a.wavefronts and round(a.wavefronts), b.wavefronts and round(b.wavefronts)),
        row.verdict,
    )  # fmt: skip


def _cells(loop: Loop | None) -> tuple[object, ...]:
    """Its figures in the order of `HEAD`."""
    if loop is None:
        return (None,) * 5
    iterations, each = (
        None if n is None else f"{n:.3g}" for n in (loop.iterations, loop.each_iteration)
    )
    return loop.instructions, iterations, each, loop.loads, loop.stores


def _pair(before: object, after: object) -> str:
    if before == after:
        return "-" if before is None else str(before)
    return f"{'-' if before is None else before} > {'-' if after is None else after}"


def lines(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned columns, the last one as long as it is."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def show(found: Sequence[Row | Note]) -> str:
    """The table below what its words mean, and the notes."""
    parts = [[HEAD, *(cells(row) for row in found if isinstance(row, Row))]]
    parts.append([
        ("program", "rewrite", "line", "left alone, or still in conflict"),
        *((n.program, n.rewrite, str(n.line or "-"), n.text) for n in found if isinstance(n, Note)),
    ])  # fmt: skip
    return "\n\n".join((MEANING, *("\n".join(lines(part)) for part in parts if len(part) > 1)))


# ---------------------------------------------------------------- all of them


def measured(
    name: str, rewrites: Sequence[str], archs: Sequence[str], mode: str
) -> list[Row | Note]:
    """Rows and notes of one program."""
    subject = Subject(programs()[name], archs, mode)
    return [one for rewrite in rewrites for one in subject.rewritten(rewrite)]


def main(argv: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(argv)
    names = asked.program or list(programs())
    count = len(names)
    given = [asked.rewrite] * count, [asked.arch] * count, [asked.mode] * count
    with ProcessPoolExecutor(asked.jobs) as pool:
        found = [one for part in pool.map(measured, names, *given) for one in part]
    print(show(found))
    return 0 if all(row.good for row in found if isinstance(row, Row)) else 1


def _parser() -> argparse.ArgumentParser:
    known = [*(one.name for one in REWRITES), *TOGETHER, AUTO]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rewrites", description="What rewrites make of programs."
    )
    parser.add_argument("program", nargs="*", choices=[[], *programs()], metavar="PROGRAM")
    parser.add_argument("--rewrite", nargs="+", choices=known, default=known, metavar="NAME")
    parser.add_argument("--arch", nargs="+", default=ARCHS, metavar="sm_XX")
    parser.add_argument("--mode", choices=MODES, default="force")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
