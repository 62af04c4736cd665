"""The PTX that tests run: made from `cuda/*.cu` by `nvcc -ptx -arch=sm_80 -O3`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ptxsw.parser import parse
from ptxsw.ptx.ir import Module

HERE = Path(__file__).parent
SEEDS = [None, 1, 2, 3, 4, 5, 6, 7]
"""Schedules: converging, and some that are not."""


@cache
def program(name: str) -> Module:
    return parse((HERE / "ptx" / f"{name}.ptx").read_text())


def from_body(body: str, params: str = ".param .u64 out", version: str = "8.0") -> Module:
    """A module with one kernel `k`, which has registers of the usual names."""
    return parse(
        f".version {version}\n.target sm_90\n.address_size 64\n"
        f".visible .entry k({params})\n{{\n"
        ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<19>;\n"
        ".reg .f32 %f<19>; .reg .b64 %rd<19>;\n"
        f"{body}\n}}\n"
    )
