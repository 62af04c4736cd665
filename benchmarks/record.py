"""Take the figures that the documents quote: `python -m benchmarks.record [--gpu] [--dirty]`.

Writes the KernelGen tables (float, double) and those of the further programs, with their plots, and
what the other benchmarks print, into a folder of `benchmarks/results` named after the machine; with
`--gpu` the times on a GPU, in a folder named after that. Each file says when, from what command,
versions and commit. A tree that is not what was committed is refused, or with `--dirty` marked in
each file. To be run alone on the machine: some figures are elapsed time. With names only the
tables, of these operators. Exit 0: written, 1: written, but something is wrong with a kernel or
over its budget, 2: refused.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchmarks import provenance
from benchmarks.kernelgen import __main__ as kernelgen
from benchmarks.kernelgen import gpu
from benchmarks.programs.loads import LOADS
from benchmarks.rewrites import AUTO, TOGETHER
from ptxsw.gpu.cuda import open_device
from ptxsw.gpu.driver import NoGpu

TABLES = {
    "kernelgen-float": ("--real", "float"),
    "kernelgen-double": ("--real", "double"),
    "programs": ("--programs",),
}


_PARSED = ("benchmarks/texts", "tests/fixtures", "benchmarks/kernelgen/ptx")
_H200 = "benchmarks/results/gpu-nvidia-h200"  # what was measured, for what is held against it
_OVER_STORES = ("read-only-loads", "scalar-replacement", *TOGETHER, AUTO)
PRINTED = {
    "optimize": ("benchmarks.synthesis",),
    "stand-in": ("benchmarks.shim",),
    "interpreter": ("benchmarks.simt", "--operator", "jacobi", "gaussblur", "whispering"),
    "emulator": ("benchmarks.emulate", "--growth"),
    "parser": ("benchmarks.parse",),
    "scale": ("benchmarks.scale",),
    "builds": ("benchmarks.builds", "--rounds", "2"),
    "rewrites": ("benchmarks.rewrites",),
    "loads-over-stores": ("benchmarks.rewrites", *LOADS, "--rewrite", *_OVER_STORES),
    "auto-programs": ("benchmarks.auto",),
    "predict": ("benchmarks.predict",),
    "demotion": ("benchmarks.demotion",),
    "regdem": ("benchmarks.regdem", "--measured", f"{_H200}/tune.csv"),
    "orion": ("benchmarks.orion", "--gpu", "h200", "--measured", f"{_H200}/occupancy.csv"),
    "correctness": ("benchmarks.faults",),
}
"""What else is recorded: the name of the file, the module and its arguments."""


def main(argv: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(argv)
    changed = provenance.changes()
    if (changed is None or changed) and not asked.dirty:
        why = "there is no git" if changed is None else f"not committed: {', '.join(changed[:5])}"
        print(f"figures are taken from a clean tree; {why} (--dirty marks them)", file=sys.stderr)
        return 2
    try:
        importable("matplotlib")
        folder = provenance.machine(_gpu(asked.device) if asked.gpu else None)
    except (NoGpu, ImportError) as error:
        print(error, file=sys.stderr)
        return 2
    into = asked.into / folder
    into.mkdir(parents=True, exist_ok=True)
    run = gpu.main if asked.gpu else kernelgen.main
    own = ["--bounds", "--device", str(asked.device)] if asked.gpu else ["--jobs", str(asked.jobs)]
    worst = 0
    for stem, options in TABLES.items():
        if asked.name and "--programs" in options:
            continue
        print(f"-- {stem}", flush=True)
        worst = max(worst, run([*asked.name, *options, *own, *_files(into, stem)]))
    if not asked.gpu and not asked.name:
        for stem, command in PRINTED.items():
            print(f"-- {stem}", flush=True)
            worst = max(worst, record(into / f"{stem}.txt", command))
    print(f"written to {_shown(into)}")
    return worst


def record(path: Path, command: Sequence[str]) -> int:
    """Writes what a benchmark prints under where it comes from; 1 where it fails or is over its
    budget."""
    words = [*command, *(_largest() if command[0] == "benchmarks.parse" else ())]
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=provenance.ROOT, capture_output=True, text=True
    )
    sys.stderr.write(done.stderr)
    notes = provenance.provenance(shlex.join(["python", "-m", *words]))
    path.write_text("".join(f"# {note}\n" for note in notes) + "\n" + done.stdout)
    print(done.stdout, end="", flush=True)
    return min(done.returncode, 1)


def _largest() -> list[str]:
    """The largest committed texts, for the parser: what else lies on a machine is not named."""
    found = [p for folder in _PARSED for p in (provenance.ROOT / folder).rglob("*.ptx")]
    found.sort(key=lambda path: (-path.stat().st_size, path))
    return [str(path.relative_to(provenance.ROOT)) for path in found[:4]]


def _gpu(number: int) -> str:
    with closing(open_device(number)) as driver:
        return driver.device.name


def importable(module: str) -> None:
    """Raises ImportError with a sentence for the user."""
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise ImportError(f"{module} is not installed (pip install 'ptxsw[bench]')")


def _files(into: Path, stem: str) -> list[str]:
    """Options that write a table in all its forms, relative to the repository where they can be:
    the command stands in the files."""
    where = _shown(into)
    return [
        word
        for option, suffix in (("--csv", "csv"), ("--markdown", "md"), ("--plot", "svg"))
        for word in (option, f"{where}/{stem}.{suffix}")
    ]


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.record", description="Take the figures the documents quote."
    )
    parser.add_argument("name", nargs="*", help="operators (default: all)")
    parser.add_argument("--gpu", action="store_true", help="times on a GPU")
    parser.add_argument("--device", type=int, default=0, help="number of the GPU")
    parser.add_argument("--dirty", action="store_true", help="take them from any tree, and say so")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--into", type=Path, default=provenance.RESULTS, metavar="DIR")
    return parser


if __name__ == "__main__":
    sys.exit(main())
