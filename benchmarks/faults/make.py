"""Make the PTX of the programs with nvcc: `python -m benchmarks.faults.make [NAME…]`.

The PTX is committed, so that nothing else needs a compiler. Sources in PTX are copied without the
half that is not asked for.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.faults.programs import HERE, MENDED, SOURCES, Program, programs

FLAGS = ("-fmad=false", "-lineinfo", "-ptx", "-diag-suppress=550,177")


def main() -> int:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("nvcc is not on PATH; the committed PTX needs it only to be made anew")
        return 2
    (HERE / "ptx").mkdir(exist_ok=True)
    for program in programs(names=tuple(sys.argv[1:])):
        for twin in program.twins:
            _make(nvcc, program, twin)
            print(program.path(twin).relative_to(HERE))
    return 0


def _make(nvcc: str, program: Program, twin: str) -> None:
    out = program.path(twin)
    if program.source.suffix == ".ptx":
        out.write_text(one_half(program.source.read_text(), mended=twin == MENDED))
        return
    defines = ["-DMENDED"] * (twin == MENDED)
    source = str(program.source.relative_to(SOURCES))
    command = [nvcc, f"-arch={program.target}", *FLAGS, *defines, source, "-o", str(out)]
    subprocess.run(command, cwd=SOURCES, check=True)
    out.write_text(_without_paths(out.read_text(), program.source))


def one_half(text: str, *, mended: bool) -> str:
    """The lines of a text that are there with or without MENDED; the others are empty, so that
    each line keeps its number."""
    lines, kept = [], True
    for line in text.splitlines():
        if line.startswith("#"):
            kept = {"#ifdef MENDED": mended, "#ifndef MENDED": not mended, "#else": not kept,
                    "#endif": True}[line]  # fmt: skip
            lines.append("")
        else:
            lines.append(line if kept else "")
    return "\n".join(lines) + "\n"


def _without_paths(text: str, source: Path) -> str:
    """The text without the directories of this machine."""
    text = text.replace(f'"{source.parent.resolve()}/', f'"../sources/{source.parent.name}/')
    return re.sub(r'"/[^"]*/include/', '"/cuda/include/', text)


if __name__ == "__main__":
    sys.exit(main())
