"""Command lines that do with one kernel what was done with a file."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.changes.assumptions import DEFAULT_ASSUME
from ptxsw.changes.options import Options


def check_command(name: str) -> list[str]:
    """What checks a file; `check` takes no kernel."""
    return ["ptxsw", "check", name]


def optimize_command(name: str, kernel: str, options: Options) -> list[str]:
    """What rewrites one kernel of a file with these options."""
    return ["ptxsw", "optimize", name, "--kernel", kernel, "-o", "/dev/null",
            *_words(options)]  # fmt: skip


def analyze_command(
    name: str, kernel: str, options: Options, block: tuple[int, int, int] | None
) -> list[str]:
    """What describes one kernel of a file; `report` takes no kernel."""
    shape = [] if block is None else ["--block", "x".join(map(str, block))]
    plain = Options(mode="force", scheme="paper")
    if (options.scheme, options.form, options.rewrites) == (plain.scheme, plain.form, None):
        return ["ptxsw", "analyze", name, "--kernel", kernel, *shape]
    words = [] if options.rewrites is None else ["--rewrites", ",".join(options.rewrites)]
    return ["ptxsw", "report", name, "--scheme", options.scheme, "--form", options.form,
            *words, *shape]  # fmt: skip


def predict_command(
    name: str, kernel: str, gpu: str | None, arch: str | None, block: tuple[int, int, int] | None
) -> list[str]:
    """What predicts one kernel of a file."""
    shape = None if block is None else "x".join(map(str, block))
    given = {"--gpu": gpu, "--arch": arch, "--block": shape}
    words = [word for option, value in given.items() if value is not None
             for word in (option, value)]  # fmt: skip
    return ["ptxsw", "predict", name, "--kernel", kernel, *words]


def tune_command(name: str, kernel: str) -> list[str]:
    """What measures one kernel of a file."""
    return ["ptxsw", "tune", name, "--kernel", kernel]


def _words(options: Options) -> Iterator[str]:
    """The options that are not the default."""
    default = Options()
    for name in ("mode", "scheme", "form", "max_delta", "arch", "min_gain"):
        value = getattr(options, name)
        if value != getattr(default, name):
            yield from (f"--{name.replace('_', '-')}", str(value))
    if options.hoist is not None:
        yield "--hoist" if options.hoist else "--no-hoist"
    if options.rewrites is not None:
        yield from ("--rewrites", ",".join(options.rewrites))
    if options.assume != DEFAULT_ASSUME:
        yield from ("--assume", ",".join(sorted(options.assume)) or "none")
    if options.block is not None:
        yield from ("--block", "x".join(map(str, options.block)))
