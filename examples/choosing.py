"""A host program that launches, each time, the version of a kernel that was fastest there.

    python examples/choosing.py KERNEL.ptx BLOCK... [--arch sm_90] [--tuned tuned.json]

`Versions` is what to take into a program of your own: it loads a version when a launch first asks
for it. Started by itself, the example only tells what it would load, and needs no GPU:

    128x1x1: load 'paper keep': 1.250 times as fast
    256x1x1: load the original: the best, paper keep, takes 1.111 times as long
    128x1x1: 'paper keep' is there
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import ptxsw
from ptxsw.gpu.driver import Driver, LoadedKernel

Shape = tuple[int, int, int]


class Versions:
    """One kernel in all versions that its launches have asked for, on a device."""

    def __init__(self, driver: Driver, text: str, tuned: Path | None = None) -> None:
        """`driver` is that of `ptxsw.gpu.cuda.open_device()`, or one of your own; `text` is PTX
        with one kernel."""
        self._driver, self._text, self._tuned = driver, text, tuned
        self._loaded: dict[str, LoadedKernel] = {}

    def launch(self, grid: Shape, block: Shape, arguments: bytes, shared: int = 0) -> str:
        """Starts the kernel in the version that was fastest in such blocks; returns its name."""
        arch = self._driver.device.arch
        asked = {"block": block, "shared": shared}
        choice = ptxsw.choose(self._text, asked, arch=arch, tuned=self._tuned)
        if choice.version not in self._loaded:
            loaded = self._driver.load(choice.text, choice.kernel, arch)
            self._loaded[choice.version] = loaded
        kernel = self._loaded[choice.version]
        self._driver.launch(kernel, grid, block, arguments, choice.shared)
        return choice.version


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernel", type=Path)
    parser.add_argument("block", nargs="+", metavar="X[xY[xZ]]")
    parser.add_argument("--arch", help="default: the target of the file")
    parser.add_argument("--tuned", type=Path, help="default: where ptxsw tune keeps results")
    given = parser.parse_args()
    there: set[str] = set()
    for words in given.block:
        block = tuple(int(size) for size in words.split("x"))
        choice = ptxsw.choose(given.kernel.read_text(), block, arch=given.arch, tuned=given.tuned)
        shape = "x".join(map(str, choice.block))
        original = choice.text == given.kernel.read_text()
        name = "the original" if original else repr(choice.version)
        if choice.shared:
            name += f" (launch it with {choice.shared} bytes of shared memory)"
        if choice.version in there:
            print(f"{shape}: {name} is there")
        else:
            print(f"{shape}: load {name}: {choice.reason.partition(': ')[2]}")
        there.add(choice.version)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:
        sys.exit(str(error))
