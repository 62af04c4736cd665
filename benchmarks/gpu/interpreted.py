"""Is the interpreter right? Random programs on the GPU, bit for bit as it ran them."""

from __future__ import annotations

from benchmarks.gpu import correct
from benchmarks.gpu.correct import Ran
from benchmarks.gpu.job import Job, Order
from benchmarks.gpu.prepared import Manifest, Prepared
from ptxsw.gpu.driver import Driver

NAME, TITLE, SHARE, ALONE = "interpreter", "The interpreter?", 0.1, False
_TOGETHER = 20  # programs in one process: none of them fails in the interpreter


def jobs(manifest: Manifest) -> list[Job]:
    made = []
    for start in range(0, len(manifest.programs), _TOGETHER):
        some = manifest.programs[start : start + _TOGETHER]
        items = tuple(item for kernel in some for item in correct.items(kernel))
        made.append(Job(NAME, f"programs from {start}", items, 20 + 0.5 * len(items)))
    return made


def work(driver: Driver, prepared: Prepared, order: Order, item: str) -> Ran:
    return correct.work(driver, prepared, order, item)
