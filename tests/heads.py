"""The lines that every PTX text begins with."""

from __future__ import annotations


def head(version: str = "8.0", target: str = "sm_80", address_size: int = 64) -> str:
    """`.version`, `.target` and `.address_size`, a line each."""
    return f".version {version}\n.target {target}\n.address_size {address_size}\n"
