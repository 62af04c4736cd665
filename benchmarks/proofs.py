"""How many equal pairs does `verify` prove, by the way in which they were made?

    python -m benchmarks.proofs [WAY ...] [--every N] [--offset M] [--nvcc] [--reasons N] [--show]

Pairs are made from `benchmarks/programs` and KernelGen by each way of `benchmarks.equal_pairs`;
with `--nvcc`, those that nvcc makes of their sources with other flags, too. Prints, for each way,
how many kernels changed, how many of these pairs are proved, the CPU time, and the commonest
reasons for "not decided". `--every N` takes every Nth text.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import process_time
from typing import NamedTuple
from zlib import crc32

from benchmarks.equal_pairs import WAYS
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.verify.proving import Proof, prove

HERE = Path(__file__).parent
COMPILED = {
    "nvcc -lineinfo": ("-lineinfo",),
    "nvcc -Xcicc -O2": ("-Xcicc", "-O2"),
    "nvcc sm_90": ("-arch=sm_90",),
    "nvcc -Xcicc -O1": ("-Xcicc", "-O1"),
}
UNROLLED = "nvcc unroll 4"
FLAGS = ("-ptx", "-fmad=false", "-w")


class Pair(NamedTuple):
    """Two texts and where they come from."""

    name: str
    first: str
    second: str


def pairs(way: str, *, every: int, offset: int) -> Iterator[Pair]:
    """The pairs of one way."""
    if way in WAYS:
        for number, path in enumerate(sorted(HERE.rglob("ptx/**/*.ptx"))):
            if number % every == offset:
                text = path.read_text()
                random = Random(crc32(f"{way} {path.name}".encode()))
                other = WAYS[way](text, random)
                if other is not None:
                    yield Pair(str(path.relative_to(HERE)), text, other)
        return
    nvcc = shutil.which("nvcc")
    sources = sorted([*HERE.glob("programs/cuda/*.cu"), *HERE.glob("kernelgen/cuda/*.cu")])
    for number, path in enumerate(sources):
        if nvcc is not None and number % every == offset:
            yield from _compiled(nvcc, path, way)


def _compiled(nvcc: str, path: Path, way: str) -> Iterator[Pair]:
    source = path.read_text()
    sources = [source, source]
    if way == UNROLLED:
        sources = [
            re.sub(r"^(\s*)(for \()", rf'\1_Pragma("unroll {n}") \2', source, flags=re.MULTILINE)
            for n in (1, 4)
        ]
    flags = [("-arch=sm_80",), COMPILED.get(way, ())]
    if not any("-arch" in flag for flag in flags[1]):
        flags[1] = ("-arch=sm_80", *flags[1])
    texts = []
    for text, more in zip(sources, flags, strict=True):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, path.name)
            file.write_text(text)
            command = [nvcc, *FLAGS, *more, f"-I{path.parent}", str(file), "-o", f"{folder}/a.ptx"]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                return
            texts.append(Path(folder, "a.ptx").read_text())
    if texts[0] != texts[1]:
        yield Pair(f"{path.parent.parent.name}/{path.name}", texts[0], texts[1])


def _kernels(first: Module, second: Module) -> Iterator[str]:
    there = {f.name for f in second.kernels}
    yield from (f.name for f in first.kernels if f.name in there)


def main() -> int:
    parser = argparse.ArgumentParser(description="Count the equal pairs that are proved.")
    parser.add_argument("ways", nargs="*", metavar="WAY")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--nvcc", action="store_true")
    parser.add_argument("--reasons", type=int, default=3)
    parser.add_argument("--show", action="store_true", help="list what is not proved")
    options = parser.parse_args()
    ways = options.ways or [*WAYS, *((*COMPILED, UNROLLED) if options.nvcc else ())]
    print(f"{'way':18} {'pairs':>6} {'proved':>7} {'share':>6} {'CPU s':>7}")
    for way in ways:
        proved, total, reasons, began = 0, 0, Counter[str](), process_time()
        for pair in pairs(way, every=options.every, offset=options.offset):
            first, second = parse(pair.first), parse(pair.second)
            for kernel in _kernels(first, second):
                outcome = prove(first, second, kernel)
                total += 1
                if isinstance(outcome, Proof):
                    proved += 1
                    continue
                reasons[re.sub(r"\(.*?\)|%\w+", "", outcome.reason).strip()] += 1
                if options.show:
                    print(f"    {pair.name} {kernel}: {outcome.reason}", flush=True)
        share = f"{100 * proved / total:.0f} %" if total else ""
        print(f"{way:18} {total:6} {proved:7} {share:>6} {process_time() - began:7.1f}", flush=True)
        for reason, count in reasons.most_common(options.reasons):
            print(f"    {count:4} {reason}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
