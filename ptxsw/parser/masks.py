"""Which bytes of a load are used, where a pragma before it tells (manual 12.2)."""

from __future__ import annotations

from ptxsw.ptx.ir import Directive, Instruction, Statement


def with_masks(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The statements, with what pragmas tell of the next instruction in that instruction."""
    if not any(type(s) is Directive and s.used_bytes is not None for s in statements):
        return statements
    told: list[Statement] = []
    mask: int | None = None
    for statement in statements:
        if type(statement) is Directive:
            mask = mask if statement.used_bytes is None else statement.used_bytes
        elif type(statement) is Instruction:
            if mask is not None:
                statement = statement.with_used_bytes(mask)
            mask = None
        told.append(statement)
    return tuple(told)
