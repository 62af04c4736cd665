"""The command line. Each command imports what it needs when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ptxsw import __version__
from ptxsw.manual import Manual

if TYPE_CHECKING:
    from ptxsw.report import Report
    from ptxsw.report.text import Paint
    from ptxsw.toolchain.arguments import CommandLine
    from ptxsw.toolchain.cache import Cache
    from ptxsw.toolchain.doctor import Finding

BAD_INPUT = 2

_MOST_NAMES = 8  # kernels named in an error
_MOST_THREADS = 1024  # of a block

app = typer.Typer(
    name="ptxsw",
    cls=Manual,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Format(StrEnum):
    text = "text"
    json = "json"
    markdown = "markdown"


class Space(StrEnum):
    """State spaces that `analyze --only` knows."""

    global_ = "global"
    shared = "shared"
    local = "local"
    const = "const"
    generic = "generic"


class Mode(StrEnum):
    auto = "auto"
    force = "force"


class CommandError(Exception):
    """Bad input or usage; the message is for the user."""


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False,
) -> None:
    """ptxsw - see what a CUDA kernel loads, and let neighbouring threads share it

    It reads PTX, finds out symbolically, without a GPU, which address each thread of a warp
    touches, and prints it. Loads of what a neighbour has just loaded it can turn into shuffles,
    each one proved; standing in for ptxas, it does so inside any build.
    """
    if version:
        typer.echo(f"ptxsw {__version__}")
        raise typer.Exit


def run() -> None:
    """Runs the command line of this process: errors are drawn on stderr, never traced."""
    from ptxsw.errors import PtxError

    try:
        app(prog_name="ptxsw")
    except (CommandError, PtxError) as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        _fail(f"{error.name} is not installed for {sys.executable} (`ptxsw doctor` says more)")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads on; Python flushes at exit
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _fail(message: str) -> None:
    sys.stderr.write(f"{message}\n")
    sys.exit(BAD_INPUT)


# ---------------------------------------------------------------- files


def _read(path: str) -> tuple[str, str]:
    """The text of a file, `-` for standard input, and the name under which to speak of it."""
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    name = "<stdin>" if path == "-" else path
    try:
        return data.decode("utf-8"), name
    except UnicodeDecodeError as error:
        raise CommandError(f"{name}: not a PTX text: byte {error.start} is no UTF-8") from error


@contextmanager
def _written(path: str) -> Iterator[Path]:
    """A private path beside `path` that is renamed to it if all goes well, and removed if not."""
    target = Path(path)
    if target.exists() and not target.is_file():  # a device or a pipe is written as it is
        yield target
        return
    private = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield private
        private.replace(target)
    except OSError as error:
        if error.filename == str(private):
            error.filename = path
        raise
    finally:
        private.unlink(missing_ok=True)


def _write(path: str, text: str) -> None:
    if path == "-":
        sys.stdout.write(text)
        return
    with _written(path) as private, private.open("w", encoding="utf-8", newline="") as file:
        file.write(text)


def _json(report: Report) -> str:
    import json

    from ptxsw.report import to_json

    return json.dumps(to_json(report), indent=2) + "\n"


# ---------------------------------------------------------------- analyze, optimize, assemble

_File = Annotated[str, typer.Argument(metavar="FILE", help="PTX, or - for standard input.")]


@app.command()
def analyze(
    file: _File,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.text,
    kernel: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this kernel, by its PTX or C++ name.")
    ] = None,
    only: Annotated[
        list[Space] | None, typer.Option(help="Only this state space; may be given again.")
    ] = None,
    block: Annotated[
        str | None,
        typer.Option(metavar="X[xY[xZ]]", help="Threads of a block. Default: rows of whole warps."),
    ] = None,
) -> None:
    """Print every memory access: address, lane stride, coalescing, reuse, bank conflicts.

    \b
    Columns, each about one request of a full warp:
      stride      bytes from each lane's address to the next lane's
      sectors     32-byte sectors of memory that are touched; 4 is best for 4-byte elements
      used        how much of these sectors is asked for; "one": all lanes want the same
      banks       shared memory: n-way conflicts take n passes
      same bytes  an earlier load of the same bytes: by a lane nearby, by this thread, or in an
                  earlier turn of a loop

    \b
      ptxsw analyze jacobi.ptx
      ptxsw analyze jacobi.ptx --format json | jq '.kernels[].accesses[]'
      ptxsw analyze jacobi.ptx --kernel jacobi --only global --only shared
      ptxsw analyze matmul.ptx --block 16x16
      nvcc -arch=sm_80 -lineinfo -ptx -o - jacobi.cu | ptxsw analyze -
    """
    from ptxsw import pipeline
    from ptxsw.report.text import analysis_markdown, analysis_text, only_spaces

    text, name = _read(file)
    report = pipeline.analyze(text, name, kernel=kernel, block=_block(block))
    _check_kernel(report, kernel, text)
    if only:
        report = only_spaces(report, frozenset(space.value for space in only))
    draw: dict[Format, Callable[[Report], str]] = {
        Format.text: lambda found: analysis_text(found, _paint()),
        Format.json: _json,
        Format.markdown: analysis_markdown,
    }
    sys.stdout.write(draw[format](report))


def _block(text: str | None) -> tuple[int, int, int] | None:
    """The shape of a block, as in 256, 16x16 or 8x8x4."""
    if text is None:
        return None
    parts = text.replace(",", "x").split("x")
    if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise CommandError(f"--block: {text!r} is no shape; write 256, 16x16 or 8x8x4")
    x, y, z = (*(int(part[:9]) for part in parts), 1, 1)[:3]
    if not 1 <= x * y * z <= _MOST_THREADS:
        raise CommandError(
            f"--block: {text} is {x * y * z} threads; it can be 1 to {_MOST_THREADS}"
        )
    return x, y, z


def _paint() -> Paint:
    """Colours on a terminal, none where the output goes elsewhere or NO_COLOR is set."""
    from ptxsw.report.text import coloured, plain

    wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return coloured if wanted and os.environ.get("TERM") != "dumb" else plain


def _check_kernel(report: Report, wanted: str | None, text: str) -> None:
    if wanted is None or report.kernels:
        return
    from ptxsw.pipeline import kernel_names

    names = kernel_names(text)
    there = f"; there are: {', '.join(names[:_MOST_NAMES])}" if names else ""
    more = ", …" if len(names) > _MOST_NAMES else ""
    raise CommandError(f"{report.file}: no kernel {wanted!r} with a body{there}{more}")


@app.command()
def optimize(
    file: _File,
    output: Annotated[str, typer.Option("-o", "--output", metavar="OUT", help="PTX, or -.")],
    arch: Annotated[
        str | None, typer.Option(metavar="sm_XX", help="Judge gains for this target.")
    ] = None,
    mode: Annotated[
        Mode, typer.Option(help="auto: where it pays; force: whatever is proved.")
    ] = Mode.auto,
    scheme: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Code for a shuffled load: auto, keep, paper, early, halo."
        ),
    ] = "auto",
    form: Annotated[
        str, typer.Option(metavar="NAME", help="Code around it: auto, keep, versioned, uniform.")
    ] = "auto",
    hoist: Annotated[
        bool | None,
        typer.Option(
            "--hoist/--no-hoist",
            show_default=False,
            help="Move the middle load of a row up, so that values travel less far. [default: in "
            "scheme halo only]",
        ),
    ] = None,
    min_gain: Annotated[
        float | None,
        typer.Option(
            metavar="PCT",
            help="Mode auto: the least gain that shuffles have to promise, in percent. Default: "
            "what the model of the target can tell.",
        ),
    ] = None,
    max_delta: Annotated[
        int, typer.Option(min=0, max=31, help="Take values from lanes at most this far away.")
    ] = 31,
    only: Annotated[str | None, typer.Option(metavar="NAME", help="Only this kernel.")] = None,
    assume: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="none, or some of lockstep-iterations, no-lane-race (both on by default), "
            "no-index-wrap.",
        ),
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="R.json", help="Say there what was done, as JSON.")
    ] = None,
    emit_smt2: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the proofs there, as SMT-LIB 2.")
    ] = None,
    unsafe_bound: Annotated[
        str | None,
        typer.Option(
            metavar="noload|nocorner",
            help="Write a kernel that computes NONSENSE, to time what shuffles could gain at most: "
            "without the loads, or without those of lanes that have no such neighbour.",
        ),
    ] = None,
) -> None:
    """Turn loads of what a neighbour has loaded into shuffles.

    Whatever is not proved is left as it is, and said so. With nothing to do the output is the
    input, byte for byte.

    \b
    Mode auto makes copies, and shuffles where ptxsw tune measured or the model of the target
    predicts that they pay; it says for each load why it was left alone. Mode force makes all
    that are proved: with scheme and form auto those that the model rates best.

    \b
    Schemes  paper      the shuffle, then the load in lanes without such a neighbour (CC'23)
             early      that load first, merged with the shuffled value: both take one wait
             halo       one partial load for a whole row of loads instead of one for each
             keep       copies only
    Forms    keep       the code around stays as it is
             versioned  a copy of the code for whole warps, the original for the rest
             uniform    loops that lanes leave apart are gone round together (sm_70 and later)

    \b
      ptxsw optimize jacobi.ptx -o out.ptx
      ptxsw optimize jacobi.ptx -o out.ptx --arch sm_60 --min-gain 5
      ptxsw optimize jacobi.ptx -o out.ptx --mode force --scheme paper --report r.json
      ptxsw optimize jacobi.ptx -o out.ptx --mode force --scheme halo --form versioned
      ptxsw optimize a.ptx -o out.ptx --mode force --only "void blur<float>" --max-delta 2
      ptxsw optimize a.ptx -o bound.ptx --mode force --unsafe-bound noload
      ptxsw optimize - -o - --assume none < in.ptx > out.ptx
    """
    from ptxsw import pipeline
    from ptxsw.report.text import optimization_text

    text, name = _read(file)
    try:
        options = pipeline.Options(
            mode=mode.value, scheme=scheme, form=form, max_delta=max_delta, only=only, arch=arch,
            assume=_assumptions(assume), smt2=emit_smt2 is not None, hoist=hoist,
            min_gain=min_gain, unsafe_bound=unsafe_bound,
        )  # fmt: skip
    except ValueError as error:
        raise CommandError(str(error)) from error
    result = pipeline.optimize(text, options, name)
    _check_kernel(result.report, only, text)
    _write(output, result.text)
    if report is not None:
        _write(report, _json(result.report))
    if emit_smt2 is not None:
        emit_smt2.mkdir(parents=True, exist_ok=True)
        for file_name, proof in result.smt2.items():
            _write(str(emit_smt2 / file_name), proof)
    where = sys.stderr if "-" in (output, report) else sys.stdout
    where.write(optimization_text(result.report, *([_paint()] if where is sys.stdout else [])))
    if result.report.warning is not None:
        sys.stderr.write(f"\nWARNING: {result.report.warning}\n")


def _assumptions(text: str | None) -> frozenset[str]:
    from ptxsw.toolchain.settings import parse_assume

    try:
        return parse_assume(text)
    except ValueError as error:
        raise CommandError(f"--assume: {error}") from error


# ---------------------------------------------------------------- verify, run


@app.command()
def verify(
    first: Annotated[str, typer.Argument(metavar="A.ptx", help="PTX, or - for standard input.")],
    second: Annotated[str, typer.Argument(metavar="B.ptx", help="PTX, or - for standard input.")],
    kernel: Annotated[str | None, typer.Option(metavar="NAME", help="Only this kernel.")] = None,
    launch: Annotated[
        Path | None,
        typer.Option(metavar="SPEC.json", help="Launches to compare on. Default: invented."),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=0, max=1000, help="Fuzzed schedules for each small launch.")
    ] = 3,
) -> None:
    """Say whether two PTX texts do the same.

    By proof where one is found, and by running both without a GPU, as unkindly as PTX allows. Exit
    0: equal, 1: different, 2: bad input, 3: could not decide.

    \b
      ptxsw verify jacobi.ptx out.ptx
      ptxsw verify a.ptx b.ptx --kernel jacobi --seeds 20
      ptxsw verify a.ptx b.ptx --launch spec.json
        [{"grid": [2, 1, 1], "block": [48, 1, 1], "args": [48, "random:1000:f32:1"]}]
    """
    from ptxsw import commands

    one, other = _read(first), _read(second)
    spec = None if launch is None else _read(str(launch))[0]
    try:
        verdict, code = commands.compare(
            (one[0], other[0]), (one[1], other[1]), kernel, spec, seeds
        )
    except ValueError as error:
        raise CommandError(str(error)) from error
    typer.echo(str(verdict))
    raise typer.Exit(code)


@app.command("run")
def run_(
    file: _File,
    grid: Annotated[str, typer.Option(metavar="X[,Y[,Z]]", help="Blocks.")],
    block: Annotated[str, typer.Option(metavar="X[,Y[,Z]]", help="Threads of a block.")],
    kernel: Annotated[
        str | None, typer.Option(metavar="NAME", help="Default: the only one.")
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUE",
            help="In order: a number, FILE.npy, zeros:N:f32, iota:N:u32, random:N:f32:SEED.",
        ),
    ] = None,
    shared: Annotated[int, typer.Option(min=0, metavar="BYTES", help="Dynamic shared memory.")] = 0,
    seed: Annotated[int | None, typer.Option(help="Run under a fuzzed schedule.")] = None,
    races: Annotated[bool, typer.Option(help="Look for races between barriers.")] = False,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Give up after about so many instructions.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the buffers there, as .npy.")
    ] = None,
) -> None:
    """Run a kernel without a GPU, and print what it counted.

    \b
      ptxsw run vecadd.ptx --grid 4 --block 128 --arg 512 --arg 1 --arg 1 \\
        --arg random:512:f32:1 --arg random:512:f32:2 --arg zeros:512:f32 --out results
    """
    from ptxsw import commands

    text, name = _read(file)
    try:
        counted = commands.run(
            text, name, kernel, grid, block, arg or [], shared=shared, seed=seed, races=races,
            out=out, steps=steps,
        )  # fmt: skip
    except ValueError as error:
        raise CommandError(str(error)) from error
    sys.stdout.write(counted)


@app.command()
def tune(
    file: _File,
    kernel: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this kernel, by its PTX or C++ name.")
    ] = None,
    launch: Annotated[
        Path | None,
        typer.Option(
            metavar="SPEC.json", help="Launches to time, as for verify. Default: invented."
        ),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(metavar="sm_XX", help="What the build compiles for. Default: the device's."),
    ] = None,
    block: Annotated[
        list[int] | None,
        typer.Option(
            min=1, max=1024, help="Threads of a block in invented launches; again for more."
        ),
    ] = None,
    samples: Annotated[int, typer.Option(min=3, help="Of each of two series.")] = 15,
    device: Annotated[int, typer.Option(min=0, metavar="N", help="The GPU.")] = 0,
    assume: Annotated[str | None, typer.Option(metavar="LIST", help="As for optimize.")] = None,
    store: Annotated[bool, typer.Option(help="Keep the choice.")] = True,
    csv: Annotated[Path | None, typer.Option(metavar="OUT.csv")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT.png|OUT.svg", help="Speed-ups as bars.")
    ] = None,
) -> None:
    """Measure on a GPU which scheme and form a kernel is to have, and remember it.

    Every variant has to give the original's results bit for bit, and is timed beside it. From then
    on optimize in mode auto and the stand-in do to this kernel, for this architecture, what was
    fastest; where nothing was, they leave it alone.

    The choice is kept in tuned.json beside the cache, or in the file that PTXSW_TUNED names: it can
    be copied to a machine without a GPU, or committed. A kernel is known by its own text, whatever
    else is in its file. Exit 0: measured, 1: a variant gave other results, 2: no GPU or bad input.

    \b
      ptxsw tune jacobi.ptx
      ptxsw tune jacobi.ptx --kernel jacobi --launch spec.json --arch sm_80
      ptxsw tune jacobi.ptx --no-store --block 128 --block 256 --csv t.csv --plot t.png
    """
    from ptxsw.gpu.cuda import open_device
    from ptxsw.gpu.driver import GpuError, NoGpu

    text, name = _read(file)
    resources = ExitStack()
    try:
        driver = resources.enter_context(closing(open_device(device)))
        from ptxsw import tuning
        from ptxsw.gpu.invent import BLOCKS
        from ptxsw.gpu.measure import Effort
        from ptxsw.verify.launches import from_json

        given = () if launch is None else from_json(_read(str(launch))[0])
        request = tuning.Request(
            kernel, arch, given, tuple(block or BLOCKS), _assumptions(assume),
            Effort(samples=samples),
        )  # fmt: skip
        equal = tuning.run(
            text, name, driver, request, keep=store, csv=csv, plot=plot, say=typer.echo,
            step=_working,
        )  # fmt: skip
    except (ValueError, NoGpu, GpuError) as error:
        raise CommandError(str(error)) from error
    finally:
        resources.close()
    raise typer.Exit(0 if equal else 1)


def _working(on: str) -> None:
    """Says on a terminal what is being done; an empty text removes that."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{on and f'timing {on}'}")
        sys.stderr.flush()


_RAW = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@app.command(context_settings=_RAW)
def assemble(
    arguments: Annotated[
        list[str], typer.Argument(metavar="FILE -o CUBIN [PTXAS OPTIONS]", help="As for ptxas.")
    ],
) -> None:
    """Assemble PTX with the real ptxas, wherever it is.

    Without -arch the target is that of the PTX. The cubin appears whole or not at all.

    \b
      ptxsw assemble out.ptx -o out.cubin
      ptxsw assemble out.ptx -o out.cubin -arch=sm_90 -v
    """
    from ptxsw.toolchain.arguments import CommandLine

    line = CommandLine(arguments)
    if not line.inputs or line.output is None:
        raise CommandError("usage: ptxsw assemble FILE -o CUBIN [ptxas options]")
    first, stdin = line.inputs[0], None
    text, _ = ("", "") if first.is_text else _read(first.value)
    if first.is_stdin:
        stdin = text.encode()
    own = [] if line.arch is not None else _own_target(text)
    _ptxas(line, own, stdin)


def _own_target(text: str) -> list[str]:
    """The option that names the architecture for which a PTX text was made."""
    import re

    found = re.search(r"^\s*\.target\s+(sm_\w+)", text, re.MULTILINE)
    return [f"-arch={found[1]}"] if found else []


def _ptxas(line: CommandLine, more: list[str], stdin: bytes | None) -> None:
    """Runs ptxas; its words go to the user. Ends the program where it fails."""
    import subprocess

    from ptxsw.toolchain.ptxas import NoPtxas, locate

    try:
        program = locate()
    except NoPtxas as error:
        raise CommandError(str(error)) from error
    with _cubin(str(line.output)) as private:
        command = [program, *line.replace({}, str(private)), *more]
        if subprocess.run(command, input=stdin, check=False).returncode != 0:
            raise SystemExit(BAD_INPUT)


@contextmanager
def _cubin(output: str) -> Iterator[Path]:
    """Where to write a cubin for `output`, which may be standard output."""
    if output != "-":
        with _written(output) as private:
            yield private
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ptxsw-") as directory:
        path = Path(directory, "cubin")
        yield path
        sys.stdout.buffer.write(path.read_bytes())


@app.command("exec", context_settings=_RAW)
def exec_(command: Annotated[list[str], typer.Argument(metavar="-- COMMAND")]) -> None:
    """Run a build in which every ptxas is the stand-in.

    \b
      ptxsw exec -- make -j8
      PTXSW_MODE=force PTXSW_REPORT=reports ptxsw exec -- cmake --build build
    """
    from ptxsw.toolchain.standin import ToolkitError, build_environment

    try:
        environ = build_environment(os.environ)
    except ToolkitError as error:
        raise CommandError(str(error)) from error
    try:
        os.execvpe(command[0], command, environ)
    except OSError as error:
        raise CommandError(f"{command[0]}: {error.strerror}") from error


# ---------------------------------------------------------------- the stand-in


@app.command()
def toolkit(
    cuda: Annotated[Path, typer.Argument(metavar="CUDA", help="A CUDA toolkit.")],
    destination: Annotated[Path, typer.Argument(metavar="DEST", help="Where to put its shadow.")],
) -> None:
    """Make a shadow of a CUDA toolkit with the stand-in as its ptxas.

    All but bin/ptxas are links; the toolkit itself is not touched. Doing it again is harmless.

    \b
      ptxsw toolkit /usr/local/cuda ~/cuda-ptxsw
      ~/cuda-ptxsw/bin/nvcc -arch=sm_80 -c kernel.cu
    """
    from ptxsw.toolchain.standin import ToolkitError, make_toolkit

    try:
        made = make_toolkit(cuda, destination)
    except ToolkitError as error:
        raise CommandError(str(error)) from error
    typer.echo(f"{made}/bin/ptxas is the stand-in; everything else is {cuda}'s")


@app.command()
def env(
    tool: Annotated[
        str, typer.Argument(metavar="TOOL", help="nvcc, clang, nvhpc, gcc, triton, cmake or jax.")
    ],
) -> None:
    """Print the lines that lead a build tool to the stand-in.

    \b
      eval "$(ptxsw env nvcc)"
    """
    from ptxsw.toolchain.standin import ToolkitError, advice

    try:
        typer.echo(advice(tool, os.environ), nl=False)
    except (ToolkitError, ValueError) as error:
        raise CommandError(str(error)) from error


@app.command()
def doctor() -> None:
    """Say which ptxas would be used, which settings hold, and what is wrong."""
    from ptxsw.toolchain.doctor import examine

    findings = [*examine(os.environ), *_unknown_to_pipeline()]
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        mark = " " if finding.good else "!"
        typer.echo(f"{mark} {finding.subject.ljust(width)}  {finding.value}")
    if not all(finding.good for finding in findings):
        typer.echo("The lines marked ! say what is wrong.")
        raise typer.Exit(1)
    typer.echo("Nothing is wrong.")


def _unknown_to_pipeline() -> Iterator[Finding]:
    """What the variables may ask for, but this version cannot do."""
    from ptxsw.toolchain.doctor import Finding
    from ptxsw.toolchain.settings import Settings

    try:
        settings = Settings(os.environ)
    except ValueError:  # has been said
        return
    from ptxsw import pipeline

    try:
        pipeline.Options(mode=settings.mode, scheme=settings.scheme)
    except ValueError as error:
        yield Finding("settings", f"every file is left alone: {error}", good=False)


cache_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look at the stand-in's answers, or drop them.",
)
app.add_typer(cache_app, name="cache")


@cache_app.command()
def info() -> None:
    """Print where the answers and the results of tune are, how many, and their size."""
    cache = _cache()
    entries, size = cache.size()
    typer.echo(f"{cache.directory}: {entries} answers, {size / 1e6:.1f} MB")
    from ptxsw.toolchain.settings import tuned_file
    from ptxsw.toolchain.tuned import everything

    path = tuned_file(os.environ)
    if path is None:
        return
    try:
        typer.echo(f"{path}: {len(everything(path))} results of ptxsw tune")
    except ValueError as error:
        raise CommandError(str(error)) from error


@cache_app.command()
def clear() -> None:
    """Remove all answers. What tune has measured stays."""
    cache = _cache()
    typer.echo(f"{cache.directory}: {cache.clear()} answers removed")


def _cache() -> Cache:
    from ptxsw.toolchain.cache import Cache
    from ptxsw.toolchain.settings import cache_directory

    directory = cache_directory(os.environ)
    if directory is None:
        raise CommandError("the cache is off: PTXSW_CACHE")
    cache = Cache(directory)
    if cache.problem is not None:
        raise CommandError(f"{directory} {cache.problem}")
    return cache


@app.command()
def report(
    path: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="PTX, or the directory of PTXSW_REPORT.")
    ],
    html: Annotated[
        str | None, typer.Option(metavar="OUT.html", help="Write one self-contained page.")
    ] = None,
    scheme: Annotated[
        str, typer.Option(metavar="NAME", help="Code for the rewrites, as for optimize.")
    ] = "paper",
    form: Annotated[
        str, typer.Option(metavar="NAME", help="Code around them, as for optimize.")
    ] = "auto",
    block: Annotated[
        str | None,
        typer.Option(metavar="X[xY[xZ]]", help="Threads of a block. Default: rows of whole warps."),
    ] = None,
) -> None:
    """Show all about one PTX file, or sum up the reports of a build.

    The page needs no network: the PTX with every rewrite, the lanes and memory lines of each
    access, which lane serves which, the proofs. Rewrites are those of optimize --mode force.

    \b
      ptxsw report jacobi.ptx --html jacobi.html
      ptxsw report jacobi.ptx --html halo.html --scheme halo --form versioned
      PTXSW_REPORT=reports ptxsw exec -- make
      ptxsw report reports
    """
    if path.is_dir() or not (path.exists() or str(path) == "-"):
        if html is not None:
            raise CommandError(f"{path}: --html takes a PTX file")
        _report_build(path)
    else:
        _report_file(str(path), html, scheme, form, _block(block))


def _report_build(directory: Path) -> None:
    from ptxsw.report.build import load, summary

    build = load(directory)
    for problem in build.problems:
        sys.stderr.write(f"{problem}\n")
    sys.stdout.write(summary(build))
    if build.problems:
        raise typer.Exit(BAD_INPUT)


def _report_file(
    path: str, html: str | None, scheme: str, form: str, block: tuple[int, int, int] | None
) -> None:
    from ptxsw import pipeline
    from ptxsw.report.text import analysis_text, optimization_text

    text, name = _read(path)
    try:
        options = pipeline.Options("force", scheme, form, smt2=html is not None)
    except ValueError as error:
        raise CommandError(str(error)) from error
    result = pipeline.inspect(text, options, name, block=block)
    if html is None:
        sys.stdout.write(analysis_text(result.report, _paint()))
        sys.stdout.write("\n" + optimization_text(result.report, _paint()))
        return
    from ptxsw.report.html import page

    _write(html, page(result.report, text, result.edits, result.smt2))
