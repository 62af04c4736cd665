"""How fast the parser is, beside a bare regular expression over the same text.

    python -m benchmarks.parse [--collect] [FILE.ptx ...]

For each file (by default `benchmarks/texts/special.ptx`, 444 kB from nvcc, the largest fixtures
and, where it is there, the largest of each folder of the corpus):

- *cold*: the first full parse of a fresh process, imports left out;
- *lazily*: `parse(text)`, bodies found but not read; *fully*: every body read as well;
- *yardstick*: one match of one compiled expression per statement, in the same run, which finds
  guard, opcode with its modifiers and operands (`STATEMENT`); *lean* is the same for an
  expression that only finds where an instruction's operands begin and end.

Then memory per byte of input, and the growth of time with size from 10 kB to 10 MB. Times are CPU
times, so that a busy machine disturbs them less, and the ways take turns. Python's
collector of cycles is off, as a short-lived process would have it: the parser makes no cycles, and
what the collector spends on walking the tree depends on the heap around it. `--collect` leaves it
on.
"""

from __future__ import annotations

import gc
import math
import re
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from ptxsw.parser import parse
from ptxsw.parser.scan import skip_blank
from ptxsw.ptx.ir import Module

_NAME = r"[A-Za-z_$%][\w$%]*"
_OPERAND = r"(?:\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,;\[\](){}]+)"
STATEMENT = re.compile(
    rf"""\s*(?://[^\n]*\s*)*(?:
    (?:@\s*!?\s*({_NAME})\s+)?([A-Za-z][\w.:]*)(?:\s*({_OPERAND})(?:\s*,\s*({_OPERAND}))?
      (?:\s*,\s*({_OPERAND}))?(?:\s*,\s*({_OPERAND}))?(?:\s*,\s*{_OPERAND})*)?\s*;
    |({_NAME})\s*:|\.loc[^\n]*|(\.[^;]*;)|[{{}}])""",
    re.VERBOSE | re.ASCII,
)
LEAN = re.compile(
    r"\s*(?://[^\n]*\s*)*(?:(@\s*!?\s*\S+\s+)?([A-Za-z][\w.:]*)(?:\s+([^;]*))?;"
    r"|([\w$%]+)\s*:|\.loc[^\n]*|(\.[^;]*;)|[{}])",
    re.ASCII,
)
ROUNDS = 9
HERE = Path(__file__).resolve().parents[1]


def best(*runs: Callable[[], object]) -> list[float]:
    """CPU seconds of the quickest round of each, taken in turn; results freed outside the clock."""
    quickest = [math.inf] * len(runs)
    for _ in range(ROUNDS):
        for index, run in enumerate(runs):
            start = time.process_time()
            kept = run()
            quickest[index] = min(quickest[index], time.process_time() - start)
            del kept
    return quickest


def fully(text: str) -> Module:
    """Parse a text and all its bodies."""
    module = parse(text)
    for function in module.functions:
        _ = function.body
    return module


def matches(expression: re.Pattern[str], module: Module) -> int:
    """One match per statement of all bodies; how many there were. They cover the bodies."""
    count, text, match = 0, module.source.text, expression.match
    for function in module.functions:
        if function.body_span is None:
            continue
        at, end = function.body_span.start + 1, function.body_span.end - 1
        while (found := match(text, at, end)) is not None:
            at = found.end()
            count += 1
        assert skip_blank(text, at, end) == end, text[at : at + 60]
    return count


def cold(path: Path) -> float:
    """Seconds of the first full parse in a new process."""
    code = (
        "import sys, time; from pathlib import Path; from benchmarks.parse import fully\n"
        "text = Path(sys.argv[1]).read_bytes().decode(errors='replace')\n"
        "start = time.process_time(); fully(text); print(time.process_time() - start)"
    )
    command = [sys.executable, "-c", code, str(path)]
    return float(subprocess.run(command, cwd=HERE, capture_output=True, text=True).stdout)


def memory(text: str) -> float:
    """Bytes kept per byte of input by a fully parsed text."""
    fully(text)
    gc.collect()
    tracemalloc.start()
    module = fully(text)
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del module
    return used / len(text)


def measure(path: Path) -> None:
    """Print the rates of one file."""
    text = path.read_bytes().decode(errors="replace")
    module = fully(text)
    statements = sum(len(f.body.statements) for f in module.functions)
    instructions = sum(len(f.body.instructions) for f in module.functions)
    yard, lean, full, lazy = best(
        lambda: matches(STATEMENT, module),
        lambda: matches(LEAN, module),
        lambda: fully(text),
        lambda: parse(text),
    )
    yard, lean = yard / matches(STATEMENT, module), lean / matches(LEAN, module)
    first = cold(path)
    size = len(text) / 1e6
    each = full / statements
    print(
        f"{path.parent.name}/{path.name}: {size * 1e3:.0f} kB, {instructions} instructions\n"
        f"  cold {instructions / first:,.0f}/s {size / first:.1f} MB/s; "
        f"lazily {size / lazy:.0f} MB/s; "
        f"fully {instructions / full:,.0f}/s {size / full:.1f} MB/s\n"
        f"  fully / yardstick {yard / each:.3f} (>= 0.3 wanted), / lean {lean / each:.3f}; "
        f"lazily / fully {full / lazy:.0f} (>= 20 wanted); "
        f"{memory(text):.1f} bytes per byte (< 60 wanted)"
    )


def growth(path: Path) -> None:
    """Print time against size for repeated functions of a file, and the exponent between."""
    text = path.read_bytes().decode(errors="replace")
    module = parse(text)
    head = text[: module.functions[0].span.start]
    shortest = min(
        (f for f in module.functions if f.body_span), key=lambda f: f.span.end - f.span.start
    )
    one = text[shortest.span.start : shortest.span.end] + "\n"
    points = []
    for size in (10_000, 100_000, 1_000_000, 10_000_000):
        many = head + one * max(1, size // len(one))
        start = time.process_time()
        kept = fully(many)
        points.append((len(many), time.process_time() - start))
        del kept
    for length, seconds in points:
        print(
            f"  {length / 1e3:9.0f} kB {seconds * 1e3:9.1f} ms {length / seconds / 1e6:6.1f} MB/s"
        )
    (small, quick), (large, slow) = points[1], points[-1]
    print(f"  exponent {math.log(slow / quick) / math.log(large / small):.2f} (1 is linear)")


def defaults() -> list[Path]:
    """The big file, the largest fixtures and corpus files."""
    found = [HERE / "benchmarks" / "texts" / "special.ptx"]
    found += sorted(HERE.glob("tests/fixtures/*.ptx"), key=lambda p: -p.stat().st_size)[:2]
    corpus = HERE.parent / "shared" / "corpus" / "ptx"
    for folder in (
        "nvcc13.0",
        "clang16_cuda",
        "clang_omp",
        "nvrtc12.4",
        "triton",
        "gcc12",
        "nvhpc_public",
    ):
        files = sorted((corpus / folder).glob("*.ptx"), key=lambda p: -p.stat().st_size)
        found += files[:1]
    return found


def main() -> None:
    """Measure the files of the command line."""
    arguments = sys.argv[1:]
    if "--collect" in arguments:
        arguments.remove("--collect")
    else:
        gc.disable()
    paths = [Path(name) for name in arguments] or defaults()
    for path in paths:
        measure(path)
    print("growth:")
    growth(paths[0])


if __name__ == "__main__":
    main()
