"""Bit patterns as numbers."""

from __future__ import annotations


def wrapped(value: int, width: int) -> int:
    """The low `width` bits of an integer, read as two's complement."""
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value
