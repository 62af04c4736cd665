"""A check of many files: each by itself, in several processes, and what is told of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from ptxsw.cli.files import failed_kernels
from ptxsw.driver import check_rules
from ptxsw.driver.workers import Workers, spread
from ptxsw.findings import LEVELS, baseline, severity
from ptxsw.findings.baseline import Usage, free, usages, worse
from ptxsw.ptx.cxx_names import readable
from ptxsw.ptx.errors import PtxError
from ptxsw.report.messages import Located, located
from ptxsw.report.model import Finding, Kernel
from ptxsw.report.serial import Report
from ptxsw.report.source_files import SourceFiles
from ptxsw.toolchain import inputs

if TYPE_CHECKING:
    from ptxsw.verify.launches import Launch

Block = tuple[int, int, int]


class Task(Struct, frozen=True):
    """One file, and what is asked of it. `rules` are full names; `seconds` is what the rules of
    correctness may take for a kernel."""

    path: str
    block: Block | None = None
    arch: str | None = None
    options: tuple[str, ...] = ()
    rules: frozenset[str] = field(default_factory=check_rules.chosen)
    ptxas: bool = True
    findings: bool = True
    resources: bool = False
    launches: Mapping[str, Launch] = field(default_factory=dict)
    source_roots: tuple[str, ...] = ()
    data: bytes | None = None  # of standard input
    seconds: float = check_rules.SECONDS
    accesses: bool = False

    def ptx(self) -> tuple[inputs.Ptx, ...]:
        return inputs.ptx_of(self.path, self.arch, self.options, self.data)


class CheckedFile(Struct, frozen=True):
    """What was found in one file; `problems` are messages for the user, `notes` say what could not
    be asked beside."""

    path: str
    reports: tuple[Report, ...] = ()
    findings: tuple[Located, ...] = ()
    usages: Mapping[str, Usage] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Summary(Struct, frozen=True):
    """What is told of all files: findings that are new, kernels that use more than was pinned
    among them."""

    reports: tuple[Report, ...]
    findings: tuple[Located, ...]
    usages: Mapping[str, Usage]
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    def lacks(self, required: frozenset[str]) -> tuple[str, ...]:
        """The kernels of which not all of these rules, by their full names, are proved absent."""
        return tuple(
            kernel.name
            for report in self.reports
            for kernel in report.kernels
            if not required <= _absent(kernel)
        )

    def fails(self, level: str) -> bool:
        """Is anything of this level told, or of one above? Nothing is of the level "never"."""
        if level not in LEVELS:
            return False
        least = LEVELS.index(level)
        return any(LEVELS.index(each.finding.level) >= least for each in self.findings)


def _absent(kernel: Kernel) -> frozenset[str]:
    verdicts = (kernel.verdicts or {}).items()
    return frozenset(
        f"{check_rules.PREFIX}{rule}" for rule, said in verdicts if said.verdict == "absent"
    )


# ---------------------------------------------------------------- one file


Finished = Callable[[int, int, Kernel], None]


def answer(task: Task, jobs: Workers = 1, finished: Finished | None = None) -> CheckedFile:
    """What is asked of one file; whatever is wrong with it is in the answer. `finished` is told of
    each kernel: how many of how many of its text are done."""
    try:
        checked = _findings(task, jobs, finished) if task.findings else CheckedFile(task.path)
        used = _usages(task) if task.resources else {}
        return replace(checked, usages=used)
    except (PtxError, inputs.UnreadableInput, ValueError) as error:
        return CheckedFile(task.path, problems=(str(error),))
    except OSError as error:
        return CheckedFile(
            task.path, problems=(f"{error.filename or task.path}: {error.strerror}",)
        )


def _findings(task: Task, jobs: Workers, finished: Finished | None) -> CheckedFile:
    from ptxsw.driver.checking import check

    reports: list[Report] = []
    findings: list[Located] = []
    hidden: list[str] = []
    for ptx in task.ptx():
        sources = SourceFiles(ptx.directory, task.source_roots)
        report = check(
            ptx.text, ptx.name, select=task.rules, block=task.block, ptxas=task.ptxas,
            launches=task.launches, sources=sources, seconds=task.seconds,
            accesses=task.accesses, jobs=jobs, finished=finished,
        )  # fmt: skip
        reports.append(report)
        findings += located(report, ptx.text, sources)
        hidden += sources.notes()
    notes = (*(report.warning for report in reports if report.warning), *hidden)
    problems = tuple(m.rstrip() for report in reports for m in failed_kernels(report))
    return CheckedFile(task.path, tuple(reports), tuple(findings), problems=problems, notes=notes)


def _usages(task: Task) -> Mapping[str, Usage]:
    threads = None
    if task.block is not None:
        x, y, z = task.block
        threads = x * y * z
    machines = [one.data for one in inputs.cubins_of(task.path, task.data)]
    return usages(machines or _assembled(task), threads)


def _assembled(task: Task) -> list[bytes]:
    """The cubins of the PTX of a file, for the target that it names or that is asked for."""
    from ptxsw.parser import parse
    from ptxsw.toolchain.ptxas import AssemblyError, NoPtxas, assemble

    cubins = []
    for ptx in task.ptx():
        targets = parse(ptx.text, ptx.name).targets
        arch = task.arch or next((t for t in targets if t.startswith("sm_")), None)
        if arch is None:
            raise inputs.UnreadableInput(f"{ptx.name}: it has no target; use --arch")
        try:
            cubins.append(assemble(ptx.text, arch, name=ptx.name).cubin)
        except (NoPtxas, AssemblyError) as error:
            raise inputs.UnreadableInput(f"{ptx.name}: {error}") from error
    return cubins


# ---------------------------------------------------------------- many files


class CheckWatch(Protocol):
    """Told how many of `total` things are done, and what was found on the way."""

    total: int

    def __call__(self, done: int, name: str) -> None: ...
    def say(self, line: str) -> None: ...


def answers(
    paths: Sequence[str], task: Task, jobs: Workers, step: CheckWatch
) -> tuple[CheckedFile, ...]:
    """What is asked of each file, in their order. `step` is told how many files are done, or how
    many kernels of the only one."""
    tasks = [
        replace(task, path=path, data=task.data if path == inputs.STDIN else None) for path in paths
    ]
    by_number: dict[int, CheckedFile] = {}

    def finished(done: int, of: int, kernel: Kernel) -> None:
        step.total = of
        for finding in kernel.findings or ():
            _say(step, paths[0], finding)
        step(done, readable(kernel.name) or kernel.name)

    step(0, paths[0] if len(paths) == 1 else "")
    if len(tasks) == 1:
        return (answer(tasks[0], jobs, finished),)
    each = max(1, jobs // len(tasks)) if isinstance(jobs, int) else 1
    for number, one in spread(range(len(tasks)), lambda n: answer(tasks[n], each), jobs):
        by_number[number] = one
        for found in one.findings:
            _say(step, one.path, found.finding)
        step(len(by_number), paths[number])
    return tuple(by_number[number] for number in range(len(tasks)))


def _say(step: CheckWatch, path: str, finding: Finding) -> None:
    """A finding of more than a note, on one line: all of it is told at the end."""
    if finding.level == "note":
        return
    place = f"{finding.file}:{finding.source_line}" if finding.file else f"{path}:{finding.line}"
    kernel = readable(finding.kernel) or finding.kernel
    step.say(f"{place}: {finding.level}: {finding.measure} in {kernel} [{finding.rule}]")


def told(every: Sequence[CheckedFile], known: baseline.Baseline | None, drift: float) -> Summary:
    """What is to be told of all files, beyond a baseline, the worst first."""
    findings = tuple(each for one in every for each in one.findings)
    paths = _by_name(every)
    used = {name: usage for name, (_, usage) in paths.items()}
    if known is not None:
        findings = baseline.new(findings, known) + tuple(
            _regression(paths[name][0], name, what)
            for name, what in worse(used, known.resources, drift)
        )
    return Summary(
        tuple(report for one in every for report in one.reports),
        tuple(sorted(findings, key=lambda each: severity(each.finding))),
        used,
        tuple(problem for one in every for problem in one.problems),
        (
            *dict.fromkeys(note for one in every for note in one.notes),
            *([] if known is None else _unpinned(used, known)),
        ),
    )


def _unpinned(used: Mapping[str, Usage], known: baseline.Baseline) -> Iterator[str]:
    """A check that compares nothing, because a kernel or the target is new or the baseline is
    another, has to be told from one that passes."""
    names = [name for name in used if name not in known.resources]
    if not names:
        return
    noun, be, whose, them = (
        ("kernels", "are", "their", "them") if len(names) > 1 else ("kernel", "is", "its", "it")
    )
    arch, _, kernel = names[0].partition(" ")
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    yield (
        f"{len(names)} of {len(used)} {noun} {be} not in the baseline, so {whose} resources are "
        f"not compared: {readable(kernel) or kernel} ({arch}){others}; "
        f"`--resources --write-baseline` pins {them}"
    )


def _by_name(every: Sequence[CheckedFile]) -> dict[str, tuple[str, Usage]]:
    """File and usage of each kernel; of kernels of one name each has a number but the first."""
    by_kernel: dict[str, tuple[str, Usage]] = {}
    for one in every:
        for name, usage in one.usages.items():
            by_kernel[free(name, by_kernel)] = one.path, usage
    return by_kernel


def _regression(path: str, name: str, what: str) -> Located:
    arch, _, kernel = name.partition(" ")
    finding = Finding(
        check_rules.RESOURCES, "error", kernel, 1, 1, arch,
        f"{readable(kernel) or kernel} ({arch}) {what}.",
        "Find the change that caused it; if it is intended, record the new figures with "
        "`--write-baseline`.",
        0.0,
    )  # fmt: skip
    return Located(finding, path, 0, 0, "", path)


def read_baseline(path: str | None) -> baseline.Baseline | None:
    """Raises OSError, ValueError."""
    try:
        return None if path is None else baseline.read(path)
    except FileNotFoundError as error:
        advice = f"`--write-baseline {path}` writes it"
        raise ValueError(f"{path}: {error.strerror}; {advice}") from error


def new_baseline(every: Sequence[CheckedFile]) -> str:
    """The text of a baseline in which all of this is known."""
    findings = [each for one in every for each in one.findings]
    used = {name: usage for name, (_, usage) in _by_name(every).items()}
    return baseline.written(findings, used)
