"""What the wrapper costs a build, beside ptxas alone in the same run.

    python -m benchmarks.shim [--rounds 15]

Elapsed milliseconds of `wrappers/ptxas` less those of the real ptxas, run in turn, for a file
with nothing to rewrite, for cached answers, and for a file met for the first time. The yardstick
is `python -I -c pass`; the budget of the first three is 2 of it, that of the last what
`ptxsw optimize` costs. Where the text is rewritten, ptxas alone gets the rewritten text too:
assembling it takes longer, and that is not what is measured here.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

from benchmarks.children import cost
from ptxsw.toolchain import ptxas

ROOT = Path(__file__).parents[1]
KERNELS = ROOT / "benchmarks" / "kernelgen" / "ptx"
STAND_IN = ROOT / "wrappers" / "ptxas"
BUDGET = 2.0
YARDSTICK = (sys.executable, "-I", "-c", "pass")
ONE_LOAD = """\
.version 7.0
.target sm_80
.address_size 64
.visible .entry one(.param .u64 p)
{
\t.reg .b32 %r<3>;
\t.reg .b64 %rd<3>;
\tld.param.u64 %rd1, [p];
\tcvta.to.global.u64 %rd2, %rd1;
\tld.global.u32 %r1, [%rd2];
\tst.global.u32 [%rd2+4], %r1;
\tret;
}
"""


def extra(
    file: Path,
    alone: Path,
    environ: Mapping[str, str],
    rounds: int,
    before: Callable[[], object] = bool,
) -> float:
    """Median of the wrapper's elapsed seconds for `file` less those of ptxas for `alone`;
    `before` goes before each run of the wrapper."""
    real = environ["PTXSW_REAL_PTXAS"]
    differences = []
    for _ in range(rounds):
        before()
        stand_in = cost([str(STAND_IN), *_arguments(file)], environ).elapsed
        differences.append(stand_in - cost([real, *_arguments(alone)], environ).elapsed)
    return median(differences)


def _arguments(file: Path) -> list[str]:
    return ["-arch=sm_80", str(file), "-o", str(file.with_suffix(".cubin"))]


def main() -> int:
    parser = argparse.ArgumentParser(description="What the wrapper costs beside ptxas alone.")
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    real = ptxas.locate()
    with tempfile.TemporaryDirectory(prefix="ptxsw-") as directory:
        work = Path(directory)
        one, jacobi = work / "one.ptx", work / "jacobi.ptx"
        one.write_text(ONE_LOAD)
        jacobi.write_text((KERNELS / "jacobi.ptx").read_text())
        cache = work / "cache"
        base = {k: v for k, v in os.environ.items() if not k.startswith("PTXSW_")}
        environ = {**base, "PTXSW_REAL_PTXAS": real, "PTXSW_CACHE": str(cache)}
        forced = {**environ, "PTXSW_MODE": "force"}

        def forget() -> None:
            for path in cache.iterdir():
                path.unlink()

        optimize = [sys.executable, "-m", "ptxsw", "optimize", str(jacobi), "--mode", "force"]
        rewritten = work / "rewritten.ptx"
        cost([*optimize, "-o", str(rewritten)])
        for settings in (environ, forced):  # keeps the answers
            cost([str(STAND_IN), *_arguments(jacobi)], settings)
        rows = [
            ("nothing to rewrite", extra(one, one, environ, rounds)),
            ("cached: left alone", extra(jacobi, jacobi, environ, rounds)),
            ("cached: rewritten", extra(jacobi, rewritten, forced, rounds)),
        ]
        cold = extra(jacobi, rewritten, forced, rounds, forget)
        whole = median(cost([*optimize, "-o", os.devnull]).elapsed for _ in range(rounds))
    yardstick = median(cost(YARDSTICK).elapsed for _ in range(rounds))
    return _print(rows, cold, yardstick, whole)


def _print(rows: list[tuple[str, float]], cold: float, yardstick: float, whole: float) -> int:
    print(f"real ptxas with and without the wrapper; python -I -c pass: {yardstick * 1e3:.1f} ms")
    within = True
    for name, seconds in rows:
        ratio = seconds / yardstick
        within = within and ratio <= BUDGET
        print(f"{name:20} {seconds * 1e3:7.1f} ms more  {ratio:5.2f} x (budget {BUDGET:g})")
    within = within and cold <= whole
    print(f"{'cold':20} {cold * 1e3:7.1f} ms more  ptxsw optimize alone: {whole * 1e3:.1f} ms")
    print("within the budget" if within else "OVER the budget")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
