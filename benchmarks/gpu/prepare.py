"""Make ready what a GPU is to run: texts, machine code, launches, expected results, forecasts.

All of it is settled before the GPU is seen. The expected results are those of the interpreter, in
which each launch is run first: where the original does something that PTX does not define there,
such as a race, the launch is left out.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing
from datetime import date
from functools import partial
from pathlib import Path

from msgspec.structs import replace

import ptxsw
from benchmarks import provenance
from benchmarks.gpu import faults, random_programs
from benchmarks.gpu.forecasts import forecasts
from benchmarks.gpu.interpreter import InterpreterDriver
from benchmarks.gpu.prepared import (
    ORIGINAL,
    Fault,
    Kernel,
    Manifest,
    Timed,
    Version,
    stem,
    write,
)
from benchmarks.gpu.subjects import Subject, subjects
from benchmarks.gpu.trials import USUAL, Trial, digest, hostile, inputs, prepared
from benchmarks.machine_loops import count
from benchmarks.wavefronts import execute, wavefronts
from ptxsw.cost import sass
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.gpu.driver import GpuError
from ptxsw.gpu.problem import Stage
from ptxsw.parser import parse
from ptxsw.toolchain.ptxas import AssemblyError, assemble

ARCH = "sm_90"
GPUS = ("h100", "h200")
MODES = ("auto", "force")
_OPEN = re.compile(r"\b((?:ex2|lg2|sin|cos|tanh|rsqrt|rcp|sqrt|div)\.(?:approx|full)[.\w]*)")
_CODE = ("ptxsw", "benchmarks")
_KEPT = (".py", ".toml", ".lark")

_LIMIT, _SHORT = 1 << 18, 1 << 14
"""Instructions of groups of threads after which a launch is taken to run for ever; of random
programs, many of which do."""
Texts = dict[str, bytes | None]


class Request:
    """What is to be prepared: names of kernels (all if none), how many random programs and faulty
    kernels, the share of the launches that are timed."""

    def __init__(
        self, names: Sequence[str] = (), programs: int = 200, faults: int = 20, share: float = 1.0
    ) -> None:
        self.names, self.programs, self.faults, self.share = tuple(names), programs, faults, share


def prepare(folder: Path, request: Request, jobs: int) -> Manifest:
    """Writes the folder. Raises KeyError for a name that no subject has, NoPtxas."""
    chosen = [subjects()[name].name for name in request.names or subjects()]
    texts: Texts = {}
    kernels = _gathered([partial(of_subject, each, request.share) for each in chosen], jobs, texts)
    programs = _programs(request.programs, jobs, texts)
    faulty = list(_faults(faults.KERNELS[: request.faults], texts))
    manifest = Manifest(
        date.today().isoformat(), provenance.tree(), f"ptxsw {ptxsw.__version__}", ARCH,
        request.share, tuple(kernels), tuple(programs), tuple(faulty),
    )  # fmt: skip
    every = (*kernels, *programs, *(fault.kernel for fault in faulty))
    used = {version.text for kernel in every for version in kernel.versions}
    write(folder, manifest, {t: cubin for t, cubin in texts.items() if stem(t) in used})
    copy_code(folder)
    return manifest


def _gathered(
    works: Sequence[partial[tuple[Kernel, Texts]]], jobs: int, texts: Texts
) -> list[Kernel]:
    """What some processes make, in order."""
    found: dict[int, Kernel] = {}
    for number, (kernel, made) in _made(works, jobs):
        found[number] = kernel
        texts.update(made)
        print(f"prepared {len(found)} of {len(works)}: {kernel.name}", file=sys.stderr)
    return [found[number] for number in range(len(works))]


def _made(
    works: Sequence[partial[tuple[Kernel, Texts]]], jobs: int
) -> Iterator[tuple[int, tuple[Kernel, Texts]]]:
    if jobs == 1:
        yield from enumerate(work() for work in works)
        return
    # Few for each process: it keeps the arrays of large launches.
    with ProcessPoolExecutor(jobs, max_tasks_per_child=16) as pool:
        waiting = {pool.submit(work): number for number, work in enumerate(works)}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def _programs(count: int, jobs: int, texts: Texts) -> list[Kernel]:
    """So many random programs that `ptxas` takes and the interpreter runs without a fault."""
    found: list[Kernel] = []
    for kind, wanted in random_programs.wanted(count).items():
        make, seeds = random_programs.KINDS[kind][0], itertools.count()
        clean: list[Kernel] = []
        while len(clean) < wanted:
            some = [make(next(seeds)) for _ in range(wanted)]
            made = _gathered([partial(of_program, each) for each in some], jobs, texts)
            taken = {stem(text) for text, cubin in texts.items() if cubin is not None}
            clean += [k for k in made if k.trials and k.versions[0].text in taken]
        found += clean[:wanted]
    return found


# ---------------------------------------------------------------- one kernel


def of_subject(name: str, share: float) -> tuple[Kernel, Texts]:
    """A program of ours in all versions, with its trials and forecasts."""
    subject = subjects()[name]
    large = subject.large(share) if subject.large is not None else None
    block = large.launch.block if large is not None else subject.runs[0]().block
    versions, texts = _versions(subject, block)
    launches = [prepared(run()) for run in subject.runs]
    wanted = [Trial(number, USUAL) for number in range(len(launches))]
    wanted += [Trial(0, change) for change in hostile(launches[0])]
    timed = None
    if large is not None:
        said = forecasts({v.name: _named(texts, v) for v in versions}, subject.entry,
                         large, GPUS)  # fmt: skip
        timed = Timed(str(large.launch), large.moved, said)
    bare = Kernel(
        subject.name, subject.group, subject.entry, versions, (), open=_open(subject.text),
        timed=timed,
    )  # fmt: skip
    return _with_trials(bare, subject.text, wanted), texts


def of_program(program: random_programs.RandomProgram) -> tuple[Kernel, Texts]:
    """A random program, which the interpreter runs without a fault."""
    text, words = program.text, (program.words,)
    bare = Kernel(
        program.name, "random", "k", (Version(ORIGINAL, stem(text)),), (), open=_open(text),
        words=words,
    )  # fmt: skip
    return _with_trials(bare, text, [Trial(0, USUAL)], _SHORT), {text: _cubin(text)}


def _faults(kernels: Iterable[faults.Faulty], texts: Texts) -> Iterator[Fault]:
    for each in kernels:
        texts[each.text] = _cubin(each.text)
        version = Version(ORIGINAL, stem(each.text))
        kernel = Kernel(
            each.name, each.tool, "k", (version,), (Trial(0, USUAL),), words=(each.words,)
        )
        yield Fault(kernel, each.tool, each.faulty, _fault(each.text, kernel) or "")


def _fault(text: str, kernel: Kernel) -> str | None:
    """What the interpreter finds wrong with the first trial."""
    outcome = _outcome(text, kernel, kernel.trials[0])
    return outcome if isinstance(outcome, str) else None


def _with_trials(kernel: Kernel, text: str, wanted: Iterable[Trial], limit: int = _LIMIT) -> Kernel:
    """The kernel with those trials that its original bears in the interpreter."""
    kept, left_out = [], []
    for trial in wanted:
        outcome = _outcome(text, kernel, trial, limit)
        if isinstance(outcome, Trial):
            kept.append(outcome)
        else:
            left_out.append(f"{trial.name}: {outcome}")
    return replace(kernel, trials=tuple(kept), left_out=tuple(left_out))


def _outcome(text: str, kernel: Kernel, trial: Trial, limit: int = _LIMIT) -> Trial | str:
    """The trial with its digests, or why it can't be run."""
    function = next(f for f in parse(text).functions if f.name == kernel.entry)
    with closing(InterpreterDriver(races=True, limit=limit)) as driver:
        try:
            launch = kernel.launch(trial)
            with Stage(driver, function, launch) as stage:
                found = stage.results(driver.load(text, kernel.entry, ARCH))
        except (GpuError, ValueError) as error:
            return str(error).splitlines()[0]
    return replace(trial, inputs=inputs(launch), expected=digest(found))


# ---------------------------------------------------------------- its versions


def _versions(subject: Subject, block: tuple[int, int, int]) -> tuple[tuple[Version, ...], Texts]:
    """The original and what each mode makes of it, the same text under several names."""
    made = [Version(ORIGINAL, stem(subject.text))]
    texts: Texts = {subject.text: _cubin(subject.text)}
    for mode in MODES:
        options = Options(mode=mode, arch=ARCH, only=subject.entry, block=block)
        result = optimize(subject.text, options, subject.path.name)
        (told,) = (k for k in result.report.kernels if k.name == subject.entry)
        names = tuple(sorted({one.rewrite for one in told.rewrites or ()}))
        reason = told.decision.reason if told.decision is not None else ""
        made.append(Version(mode, stem(result.text), names, reason))
        texts.setdefault(result.text, None)
        texts[result.text] = texts[result.text] or _cubin(result.text)
    return tuple(_counted(subject, v, _named(texts, v)) for v in made), texts


def _named(texts: Mapping[str, bytes | None], version: Version) -> str:
    return next(text for text in texts if stem(text) == version.text)


def _counted(subject: Subject, version: Version, text: str) -> Version:
    kernel = sass.read(text, ARCH).kernel(subject.entry)
    known = any(each.ptx is not None for each in kernel.instructions)
    executed = execute(parse(text), subject.entry, subject.runs[0]())
    asked = sum(wavefronts(executed, kernel.instructions).values()) if known else None
    return replace(
        version, instructions=count(kernel.instructions).instructions, wavefronts=asked,
        registers=kernel.registers,
    )  # fmt: skip


def _cubin(text: str) -> bytes | None:
    try:
        return assemble(text, ARCH).cubin
    except AssemblyError:
        return None


def _open(text: str) -> tuple[str, ...]:
    """The functions whose last bits PTX leaves open."""
    return tuple(sorted(set(_OPEN.findall(text))))


# ---------------------------------------------------------------- the program


def copy_code(folder: Path) -> None:
    """The packages that run it, so that the folder needs no checkout beside it."""
    for package in _CODE:
        for path in sorted((provenance.ROOT / package).rglob("*")):
            inside = path.relative_to(provenance.ROOT)
            if path.suffix in _KEPT and "results" not in inside.parts:
                (folder / inside).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, folder / inside)
    (folder / "__main__.py").write_text(_MAIN)


_MAIN = '''"""Runs what was prepared here: `python FOLDER [--minutes 8] [--out DIR]`."""

import sys
from importlib.util import find_spec
from pathlib import Path

missing = [name for name in ("numpy", "msgspec", "lark") if find_spec(name) is None]
if missing:
    sys.exit(f"not installed: {' '.join(missing)} (pip install {' '.join(missing)})")

from benchmarks.gpu.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["--prepared", str(Path(__file__).resolve().parent), *sys.argv[1:]]))
'''


# ---------------------------------------------------------------- its packages

WHEELS = ("numpy", "msgspec", "lark", "cuda-bindings", "cuda-pathfinder")
"""All that the run needs, for machines where nothing is installed."""
_PLATFORMS = tuple(f"manylinux_2_{n}_x86_64" for n in (17, 24, 27, 28))


def wheels(folder: Path, python: str) -> None:
    """Fetches them, by pip. Raises subprocess.CalledProcessError."""
    asked = ["--dest", str(folder / "wheels"), "--python-version", python, "--no-deps"]
    asked += ["--only-binary=:all:", *(f"--platform={name}" for name in _PLATFORMS)]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", *asked, *WHEELS], check=True
    )
