"""How many equal pairs does `verify` prove, by the way in which they were made?

    python -m benchmarks.proofs [WAY ...] [--every N] [--offset M] [--nvcc] [--corpus DIR] [--show]

Pairs are made from `benchmarks/programs` and KernelGen by each way of `benchmarks.equal_pairs`;
with `--nvcc`, those that nvcc makes of their sources with other flags, too; by the way "optimize",
those that mode force makes of them and of the texts below `--corpus`. Prints, for each way, how
many kernels changed, how many of these pairs are proved, the CPU time, and the commonest reasons
for "not decided". `--every N` takes every Nth text.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import process_time
from typing import NamedTuple
from zlib import crc32

from msgspec import Struct, field

from benchmarks.equal_pairs import ORDER, SPELLING, WAYS
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.parser import parse
from ptxsw.ptx.errors import PtxError
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
OPTIMIZED = "optimize"
LONGEST = 60_000  # characters of a text of the corpus
POOLS = {
    "spelling and order": (*SPELLING, *ORDER, "nvcc -lineinfo", "nvcc sm_90"),
    "other code": ("dead code", "products", "selections", "peeled", "rotated", "nvcc -Xcicc -O2"),
}
FLAGS = ("-ptx", "-fmad=false", "-w")


class Pair(NamedTuple):
    """Two texts and where they come from."""

    name: str
    first: str
    second: str


def pairs(way: str, options: Namespace) -> Iterator[Pair]:
    """The pairs of one way."""
    found = sorted(HERE.rglob("ptx/**/*.ptx"))
    if way == OPTIMIZED and options.corpus is not None:
        found += sorted(p for p in options.corpus.rglob("*.ptx") if p.stat().st_size < LONGEST)
    compiled = way in (*COMPILED, UNROLLED)
    if compiled:
        found = sorted([*HERE.glob("programs/cuda/*.cu"), *HERE.glob("kernelgen/cuda/*.cu")])
    for path in found[options.offset :: options.every]:
        if compiled:
            yield from _compiled(shutil.which("nvcc") or "nvcc", path, way)
            continue
        text = path.read_bytes().decode("utf-8", errors="surrogateescape")
        if way == OPTIMIZED:
            other = _optimized(text)
        else:
            other = WAYS[way](text, Random(crc32(f"{way} {path.name}".encode())))
        if other is not None:
            yield Pair(
                str(path.relative_to(HERE) if path.is_relative_to(HERE) else path), text, other
            )


def _optimized(text: str) -> str | None:
    """What `ptxsw optimize --mode force` writes; None for the text itself."""
    try:
        result = optimize(text, Options(mode="force"))
    except (PtxError, ValueError):
        return None
    return None if result.text == text else result.text_with_steps


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


class Share(Struct):
    """How many pairs of a way there were, and why some were not proved."""

    pairs: int = 0
    proved: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        share = f"{100 * self.proved / self.pairs:.0f} %" if self.pairs else ""
        return f"{self.pairs:6} {self.proved:7} {share:>6}"


def counted(way: str, options: Namespace) -> Share:
    """What becomes of the pairs of one way."""
    share = Share()
    for pair in pairs(way, options):
        first, second = parse(pair.first), parse(pair.second)
        for kernel in _kernels(first, second, changed=way == OPTIMIZED):
            outcome = prove(first, second, kernel)
            share.pairs += 1
            if isinstance(outcome, Proof):
                share.proved += 1
                continue
            share.reasons[re.sub(r"\(.*?\)|%\w+", "", outcome.reason).strip()] += 1
            if options.show:
                print(f"    {pair.name} {kernel}: {outcome.reason}", flush=True)
    return share


def _kernels(first: Module, second: Module, *, changed: bool) -> Iterator[str]:
    there = {f.name: f for f in second.kernels}
    for f in first.kernels:
        if f.name in there:
            texts = [[i[:4] for i in k.body.instructions] for k in (f, there[f.name])]
            if not changed or texts[0] != texts[1]:
                yield f.name


def main() -> int:
    parser = argparse.ArgumentParser(description="Count the equal pairs that are proved.")
    parser.add_argument("ways", nargs="*", metavar="WAY")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--nvcc", action="store_true")
    parser.add_argument("--corpus", type=Path, help="more texts for the way optimize")
    parser.add_argument("--reasons", type=int, default=3)
    parser.add_argument("--show", action="store_true", help="list what is not proved")
    options = parser.parse_args()
    ways = options.ways or [*WAYS, *((*COMPILED, UNROLLED) if options.nvcc else ()), OPTIMIZED]
    print(f"{'way':18} {'pairs':>6} {'proved':>7} {'share':>6} {'CPU s':>7}")
    shares: dict[str, Share] = {}
    for way in ways:
        began = process_time()
        share = shares[way] = counted(way, options)
        print(f"{way:18} {share} {process_time() - began:7.1f}", flush=True)
        for reason, count in share.reasons.most_common(options.reasons):
            print(f"    {count:4} {reason}")
    for name, members in POOLS.items():
        own = [shares[way] for way in members if way in shares]
        if own:
            print(f"{name:18} {Share(sum(s.pairs for s in own), sum(s.proved for s in own))}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
