"""What a body has to be beyond its grammar, before anybody works with it: every name is declared,
every branch leads somewhere, and each operand is of a kind that its opcode takes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from ptxsw.parser.operands import operand_spans
from ptxsw.ptx.errors import ParseError
from ptxsw.ptx.ir import (
    Body,
    Directive,
    Instruction,
    Label,
    Mem,
    Operand,
    Special,
    Statement,
    Symbol,
    leaves,
)
from ptxsw.ptx.operand_shapes import COMPOUND, Misplaced, kind, length, misplaced, shaped
from ptxsw.ptx.source import Source

_BRANCHES = frozenset({"bra", "brx"})
# What takes names of memory and functions. GCC's linker declares some that a module only names.
_NAMING = frozenset({"mov", "cvta", "call"})
_COMPUTING = shaped() - _NAMING


def require_targets(source: Source, body: Body) -> None:
    """Raises ParseError for a branch that leads to no label of its body: where control goes is then
    unknown."""
    branches = [i for i in body.instructions if i[0] in _BRANCHES]
    if not branches:
        return
    labels = {(s.name, s.scope) for s in body.statements if type(s) is Label}
    for branch in branches:
        if branch.opcode == "brx":
            if len(branch.operands) < 2:
                message = f"'{branch.name}' needs an index and a table of labels"
                raise ParseError(message, source, branch.span)
            continue
        target = branch.operands[0] if len(branch.operands) == 1 else None
        if type(target) is not Symbol or (target.name, target.scope) not in labels:
            name = target.name if type(target) is Symbol else branch.name
            what = "is not a label of this function" if name != branch.name else "needs one label"
            where = operand_spans(source, branch)[:1] or (branch.span,)
            raise ParseError(f"'{name}' {what}", source, where[0])


def require_declared(
    source: Source,
    statements: Sequence[Statement],
    unknown: Collection[str],
    functions: Collection[str] | None,
) -> None:
    """Raises ParseError where a name of `unknown`, which no declaration around it explains, is no
    label either, and none of the `functions` of the module (None: those are not known)."""
    labels = {s.name for s in statements if type(s) is Label and not s.scope}
    labels |= {s.label for s in statements if type(s) is Directive and s.label is not None}
    left = {
        name
        for name in unknown
        if name not in labels and (name[0] == "%" if functions is None else name not in functions)
    }
    for statement in statements if left else ():
        if type(statement) is Instruction and statement.opcode not in _BRANCHES:
            _require_none_of(source, statement, left)


def _require_none_of(source: Source, instruction: Instruction, names: Collection[str]) -> None:
    for at, operand in enumerate(instruction.operands):
        only_registers = instruction.opcode in _COMPUTING and type(operand) is not Mem
        for leaf in leaves((operand,)):
            name = _unresolved(leaf)
            if name in names and (only_registers or name[0] == "%"):
                message = f"'{name}' is not a declared register"
                raise ParseError(message, source, operand_spans(source, instruction)[at])


def _unresolved(leaf: Operand) -> str:
    """The name that was looked up for an operand, if no declaration was found."""
    if type(leaf) is Special:
        return leaf.name.partition(".")[0]
    return leaf.name if type(leaf) is Symbol and not leaf.scope else ""


Shape: TypeAlias = tuple[str, tuple[str, ...], tuple[type, ...], tuple[int, ...]]


def require_shapes(source: Source, body: Body, known: set[Shape]) -> None:
    """Raises ParseError for an operand that its opcode does not take. `known` are the shapes that
    were right before."""
    for instruction in body.instructions:
        kinds: tuple[type, ...] = tuple(map(type, instruction[2]))
        lengths: tuple[int, ...] = ()
        if not COMPOUND.isdisjoint(kinds):
            lengths = tuple(map(length, instruction[2]))
            kinds = tuple(map(kind, instruction[2]))
        shape = instruction[0], instruction[1], kinds, lengths
        if shape in known:
            continue
        try:
            misplaced(*shape)
        except Misplaced as wrong:
            spans = operand_spans(source, instruction)
            span = instruction.span if wrong.at is None else spans[wrong.at]
            raise ParseError(f"'{instruction.name}' {wrong}", source, span) from None
        known.add(shape)
