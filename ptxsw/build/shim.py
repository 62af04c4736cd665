"""The wrapper around ptxas: rewrites its inputs in passing, and otherwise is not there.

What can go wrong here must not be seen: the real ptxas then gets the original file, and one
line goes to `PTXSW_LOG`. The analysis runs in a child, so that neither an endless search, nor a
crash in a library, nor memory running out can take the build with it.

Nothing heavy is imported before it is known that a file can profit.
"""

from __future__ import annotations

import os
import sys

from ptxsw import __version__
from ptxsw.build.arguments import CommandLine, expand, has_options_file
from ptxsw.build.real_assembler import Target
from ptxsw.toolchain import find
from ptxsw.toolchain.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from ptxsw.build.assembler_job import Call, Tell
    from ptxsw.codegen.splice import Edit
    from ptxsw.report import Kernel, Report
    from ptxsw.toolchain.cache import Answer
    from ptxsw.toolchain.process import Finished

    Read = Callable[[Sequence[str]], CommandLine]

NOT_FOUND = 127  # what a shell says of a command that it does not find
_OF_TRITON = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")


def main() -> NoReturn:
    """Acts as ptxas with the arguments of this process; does not return."""
    prefix, arguments = find.split_prefix(sys.argv[1:])
    assembler = find.real_ptxas(os.environ, prefix)
    if assembler is None:
        _missing("ptxas", "PTXSW_REAL_PTXAS", " (`ptxsw doctor` shows where ptxsw looked)")
    # Objects have the name by which ptxas was called: Triton's is ptxas-blackwell for some targets.
    _act(assembler.path, arguments, os.path.basename(assembler.path), _ptxas_line)


def nvptx_as() -> NoReturn:
    """Acts as GCC's nvptx-none-as with the arguments of this process; does not return."""
    from ptxsw.build import gcc

    assembler = gcc.real_nvptx_as(os.environ)
    if assembler is None:
        _missing(gcc.NAME, gcc.VARIABLE)
    _act(assembler.path, sys.argv[1:], assembler.path, gcc.AsCommandLine)


def _missing(name: str, variable: str, more: str = "") -> NoReturn:
    reason = f"no {name} found besides the wrapper; set {variable} to its path{more}"
    sys.stderr.write(f"ptxsw: {reason}\n")
    sys.exit(NOT_FOUND)


def _act(path: str, arguments: Sequence[str], called: str, read: Read) -> NoReturn:
    """Does the job of the assembler at `path`, or becomes it."""

    def target(log: str | None, *, strict: bool) -> Target:
        return Target(path, arguments, log, strict=strict, called=called)

    # until the settings are known to make sense
    one = target(os.environ.get("PTXSW_LOG"), strict=bool(os.environ.get("PTXSW_STRICT")))
    done = None
    try:
        settings = Settings(os.environ, os.getcwd())
        one = target(settings.log, strict=settings.strict)
        if not settings.disabled and not os.environ.get(find.TRIED):
            done = _work(settings, one, read)
    except KeyboardInterrupt:
        import signal

        from ptxsw.toolchain.process import end_by

        end_by(signal.SIGINT)
        sys.exit(1)
    except Exception as error:  # the one place for it: no mistake of ours may stop a build
        plain = type(error).__name__ in ("Lost", "SettingsError", "ValueError")
        one.leave_alone(str(error) if plain else f"{type(error).__name__}: {error}")
    if done is not None:
        from ptxsw.toolchain.process import end_as

        end_as(done)
    one.replace_us()


def _ptxas_line(arguments: Sequence[str]) -> CommandLine:
    if has_options_file(arguments):
        arguments = expand(arguments, _read_text)
    return CommandLine(arguments)


def _work(settings: Settings, target: Target, read: Read) -> Finished | None:
    """Does the job with rewritten inputs; None where the real one is to do it."""
    line = read(target.arguments)
    if line.informing and target.is_ptxas:
        return _version(settings, target, line)
    if not line.worthwhile:
        return None
    texts = _read_inputs(line, target)
    for item in line.inputs:
        if settings.skip.has_file(item.value, texts.get(item.index, b"")):
            texts.pop(item.index, None)
    if not texts:
        return None
    from ptxsw.build.assembler_job import Job

    def answer(call: Call, tell: Tell) -> Answer:
        return optimize(settings, call, tell)

    return Job(settings, target, line, texts, answer).run()


def _version(settings: Settings, target: Target, line: CommandLine) -> Finished | None:
    """Triton keeps kernels by what `--version` says: one more line there tells ours apart."""
    if {"--version", "-V"}.isdisjoint(line.arguments) or not any(map(os.environ.get, _OF_TRITON)):
        return None
    from ptxsw.toolchain.process import Finished

    done = target.run()
    ours = f"ptxsw {__version__} {settings.key()}\n".encode() if done.status == 0 else b""
    return Finished(done.status, done.stdout + ours, done.stderr)


def _read_text(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def _read_inputs(line: CommandLine, target: Target) -> dict[int, bytes]:
    """The text of each input that can be read, by its index. What comes from standard input is
    kept for ptxas."""
    texts: dict[int, bytes] = {}
    for item in line.inputs:
        if item.is_text:
            texts[item.index] = os.fsencode(item.value)
        elif item.is_stdin:
            if target.stdin == 0:
                from ptxsw.toolchain.process import PrivateFile

                with open(0, "rb", closefd=False) as file:
                    texts[item.index] = file.read()
                target.stdin = PrivateFile(texts[item.index]).descriptor
        elif os.path.isfile(item.value):  # not a pipe, which can be read only once
            try:
                with open(item.value, "rb") as file:
                    texts[item.index] = file.read()
            except OSError:
                continue  # ptxas says it better
    return texts


class _Teller:
    """Tells the process that waits for an answer of each kernel that is finished."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def begin(self, waiting: Report) -> None:
        from ptxsw.build.partial import beginning
        from ptxsw.report import to_json

        self._tell(beginning(to_json(waiting)))

    def finished(self, number: int, kernel: Kernel, edits: tuple[Edit, ...]) -> None:
        from ptxsw.build.partial import finished
        from ptxsw.report.serial import kernel_to_json

        replaced = ((edit.span.start, edit.span.end, edit.text) for edit in edits)
        self._tell(finished(number, kernel_to_json(kernel), replaced))


def optimize(settings: Settings, call: Call, tell: Tell) -> Answer:
    """What ptxsw makes of a text under these settings; `tell` is told of it on the way. To be
    called in a process of its own, in which garbage is seldom collected from now on."""
    from ptxsw.driver import lean_start

    lean_start.collect_seldom()
    import msgspec

    from ptxsw.report import Report, to_json
    from ptxsw.toolchain.cache import Answer

    teller = _Teller(tell)
    teller.begin(Report(__version__, call.name, call.arch, None))

    from ptxsw.driver import pipeline

    names = settings.rewrites
    options = pipeline.Options(
        rewrites=None if names is None else tuple(names.split(",")),
        mode=settings.mode,
        scheme=settings.scheme,
        max_delta=settings.max_delta,
        assume=settings.assume,
        arch=call.arch,
        skip=settings.skip.kernels,
    )
    result = pipeline.optimize(
        call.text, options, call.name, watch=teller, jobs=call.jobs, keep=call.keep
    )
    changed = None if result.text == call.text else result.text.encode("ascii")
    failed = [f"{k.name} {k.failed}" for k in result.report.kernels if k.failed is not None]
    return Answer(changed, msgspec.json.encode(to_json(result.report)), "; ".join(failed))


if __name__ == "__main__":
    main()
