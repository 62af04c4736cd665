"""What ptxsw says of the texts of a directory: where their figures are from, roles of warps, how
far the lower end of each tensor loop is from its multiply-adds over the rate, and all findings.

    python -m benchmarks.modern DIR
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from math import prod
from pathlib import Path

from ptxsw.cost.gpu import of_target
from ptxsw.driver.checking import check
from ptxsw.driver.prediction import predict
from ptxsw.parser import parse
from ptxsw.report.prediction import Kernel
from ptxsw.report.warp_roles import named

_TILE = re.compile(r"_(\d+)x(\d+)x(\d+)(?:_|$)")
_RATES = {"tf32": "tf32", "f8": "f8_f32"}
_ONE_THREAD = ("tcgen05",)


def main(folder: Path) -> None:
    print("text | figures | roles | tensor loop | findings")
    for path in sorted(folder.glob("*.ptx")):
        text = path.read_text()
        answer = predict(text, path.name, rewrites=False)
        found = check(text, path.name)
        for kernel, judged in zip(answer.kernels, found.kernels, strict=True):
            rules = Counter(f"{one.rule[6:]} ({one.level})" for one in judged.findings or ())
            cells = (
                path.stem, kernel.figures.source if kernel.figures else "none",
                "; ".join(_roles(kernel)), "; ".join(_loops(path.stem, text, kernel)),
                ", ".join(rules),
            )  # fmt: skip
            print(" | ".join(cells))


def _roles(kernel: Kernel) -> Iterator[str]:
    for role in kernel.roles:
        works = [work for loop in role.loops for work in loop.work] or [*role.work]
        yield f"{named(role.warps)}: {', '.join(dict.fromkeys(works)) or 'nothing'}"


def _loops(name: str, text: str, kernel: Kernel) -> Iterator[str]:
    """The lower end of a block in the tensor loop, in tiles by their multiply-adds over the rate: a
    whole number, as loops are unrolled."""
    tile = _TILE.search(name)
    module = parse(text)
    function = module.kernel(kernel.name)
    if tile is None:
        return
    size = prod(map(int, tile.groups()))
    kind = next((rate for word, rate in _RATES.items() if f"_{word}_" in name), "f16_f32")
    opcode = next(word for word in ("tcgen05", "wgmma", "mma") if f"{word}." in text)
    rate = of_target(module.targets[0]).tensor_rate(kind, opcode)
    assert rate is not None
    threads = function.most_threads or 128
    warps = {loop.label: len(role.warps) for role in kernel.roles for loop in role.loops}
    total = 0.0
    for stretch in kernel.stretches:
        own = next((r.time.low for r in stretch.resources if r.name == "tensor"), 0.0)
        count = warps.get(stretch.label or "", -(-threads // 32))
        total += own * (1 if opcode in _ONE_THREAD else count)
    tiles = total / (size / rate.high)
    yield f"{total:.0f} cycles a block, {tiles:.2f} tiles"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
