"""Kernels and what `optimize` makes of them with everything proved rewritten."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from benchmarks.kernelgen import operators
from ptxsw.driver import pipeline

KERNELGEN = Path(operators.__file__).parent / "ptx"
OWN = Path(__file__).parent / "ptx"


@cache
def original(name: str) -> str:
    own = OWN / f"{name}.ptx"
    return (own if own.exists() else KERNELGEN / f"{name}.ptx").read_text()


@cache
def rewritten(name: str, scheme: str = "paper", form: str = "keep") -> str:
    options = pipeline.Options(mode="force", scheme=scheme, form=form)
    return pipeline.optimize(original(name), options).text
