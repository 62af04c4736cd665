"""Which pipeline of a multiprocessor runs an instruction of machine code.

The names are those of NVIDIA's profiler: "alu", "fma", "fp16", "fp64", "xu", "lsu", "adu", "cbu",
"uniform", "tensor", "tc", "tmem", "tex". What NVIDIA's documents do not say is "unknown".
`pipes.toml` has the opcodes, each group with its source. (How many lanes a pipe serves is in
`gpus/*.toml`.)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

UNKNOWN: Final = "unknown"
TENSOR: Final = frozenset({"tensor", "tc", "tmem"})
"""Pipes of tensor cores and their memory."""
_FILE: Final = os.path.join(os.path.dirname(__file__), "pipes.toml")


@lru_cache(maxsize=1 << 12)
def pipe(opcode: str, arch: int) -> str:
    """The pipeline of an opcode such as "LDG.E.128" on an architecture such as 80 (sm_80)."""
    exceptions, by_opcode = _tables(arch)
    root, _, modifiers = opcode.partition(".")
    first = f"{root}.{modifiers.partition('.')[0]}"
    return exceptions.get(first) or by_opcode.get(root, UNKNOWN)


@lru_cache(maxsize=1)
def _given() -> Mapping[str, Any]:
    import tomllib

    with open(_FILE, "rb") as file:
        return tomllib.load(file)


@lru_cache(maxsize=32)
def _tables(arch: int) -> tuple[Mapping[str, str], Mapping[str, str]]:
    given = _given()
    by_opcode: dict[str, str] = {}
    for rule in given["rule"]:
        if rule.get("from", 0) <= arch < rule.get("below", 1000):
            for opcode in rule["opcodes"]:
                assert opcode not in by_opcode, f"{opcode} has two pipes on {arch}"
                by_opcode[opcode] = rule["pipe"]
    return given["exceptions"], by_opcode
