"""ptxas and nvdisasm from NVIDIA's wheels, so that what is expected does not change with PATH."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from ptxsw.cost import sass
from ptxsw.cost.sass import Sass

KERNELS = Path(__file__).parent / "kernels"
ARCHES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


class Tools(NamedTuple):
    """Paths of programs."""

    ptxas: str
    nvdisasm: str


@pytest.fixture(scope="session")
def tools() -> Tools:
    found = []
    for name in ("ptxas", "nvdisasm"):
        places = sorted(Path(sysconfig.get_path("purelib")).glob(f"nvidia/*/bin/{name}"))
        if not places:
            pytest.skip(f"{name} is not installed; the dev extra has it")
        found.append(str(places[-1]))
    return Tools(*found)


@pytest.fixture(scope="session")
def made(tools: Tools) -> Callable[[str, str], Sass]:
    """What ptxas makes of a text for an architecture, asked once for each."""

    @cache
    def read(text: str, arch: str) -> Sass:
        return sass.read(text, arch, ptxas=tools.ptxas, disassembler=tools.nvdisasm)

    return read
