"""One process on the GPU: `python -m benchmarks.gpu.child ORDER`, where ORDER is JSON.

First it says what the device is, then what `job` tells of items.

Exit 0 where all items have a result, 2 without a GPU, 3 where a kernel failed: the device can't be
used any more by this process, and the items behind are for another one.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.gpu.job import Order
from benchmarks.gpu.parts import PARTS
from benchmarks.gpu.prepared import Prepared
from ptxsw.gpu.driver import Driver, GpuError, NoGpu
from ptxsw.gpu.measure import Unfit
from ptxsw.toolchain.ptxas import AssemblyError

NO_GPU, FAILED = 2, 3


def opened(name: str) -> Driver:
    """The driver that a function of a module opens. Raises NoGpu."""
    module, _, function = name.partition(":")
    open_device: Callable[[], Driver] = getattr(importlib.import_module(module), function)
    return open_device()


def main() -> int:
    order = msgspec.json.decode(sys.argv[1], type=Order)
    part, prepared = PARTS[order.job.part], Prepared(Path(order.folder))
    try:
        driver = opened(order.driver)
    except NoGpu as error:
        print(error, file=sys.stderr)
        return NO_GPU
    with closing(driver):
        _say(device=msgspec.to_builtins(driver.device))
        for item in order.job.items:
            if item in order.skip:
                continue
            _say(begin=item)
            try:
                result = part.work(driver, prepared, order, item)
            except (Unfit, AssemblyError, ValueError) as error:
                _say(item=item, failed=str(error))  # and the device is as good as before
                continue
            except GpuError as error:
                _say(item=item, failed=str(error))
                return FAILED
            _say(item=item, result=msgspec.to_builtins(result))
    return 0


def _say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
