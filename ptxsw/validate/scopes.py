"""Nested scopes of a rewritten body under the numbers that they have in the original.

A stretch that is there twice repeats the `{ }` in it, and so all scopes behind get other numbers.
Here both copies of a scope get that of the original's, and stand for the same registers. That is
right only where no copy can find what another has left: each declares the same names, has no
labels, and sets its registers before it reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial

from msgspec.structs import replace

from ptxsw.flow.cfg import build
from ptxsw.flow.dataflow import live_at, liveness
from ptxsw.ptx.ir import (
    Body,
    Close,
    Function,
    Guard,
    Instruction,
    Label,
    Open,
    Operand,
    Reg,
    Statement,
    Symbol,
    Variable,
)
from ptxsw.ptx.operand import mapped

Numbers = Mapping[int, int]


def renumbered(first: Body, second: Function) -> Function | None:
    """`second` with the scopes of `first`; None where two copies of a scope are not alike."""
    numbers = dict(_numbers(first, second.body))
    if all(old == new for old, new in numbers.items()):
        return second
    if not _same_declarations(second.body, numbers) or not _set_first(second.body, numbers):
        return None
    statements = tuple(_statement(s, numbers) for s in second.body.statements)
    body = replace(second.body, statements=statements)
    return replace(second, load_body=lambda _: body)


def _numbers(first: Body, second: Body) -> Iterator[tuple[int, int]]:
    """For each scope of `second` the number that it has in `first`: scopes come in the same
    order, and at the label to which an added branch goes the count is that at the branch."""
    if not any(isinstance(s, Open) for s in second.others):
        return
    opened = [s.scope for s in first.others if isinstance(s, Open)]
    labels = {s.name for s in first.others if isinstance(s, Label)}
    counts: dict[str, int] = {}  # of scopes begun where a branch stands, by its label
    begun = 0
    for statement in second.statements:
        match statement:
            case Open(scope):
                surplus = max(opened, default=0) + scope
                yield scope, opened[begun] if begun < len(opened) else surplus
                begun += 1
            case Instruction(opcode="bra", guard=Guard()):
                # A guarded branch to a label that the first text does not have leads to a second
                # copy of the code that it skips. The scopes of that copy are counted again from
                # the branch on.
                target = statement.operands[-1]
                if isinstance(target, Symbol) and target.name not in labels:
                    counts.setdefault(target.name, begun)
            case Label(name):
                begun = counts.get(name, begun)
            case _:
                pass


def _same_declarations(body: Body, numbers: Numbers) -> bool:
    """Do scopes that get one number declare the same, and none of them a label?"""
    declared: dict[int, list[tuple[object, ...]]] = {scope: [] for scope in numbers}
    labelled = {s.scope for s in body.statements if isinstance(s, Label)}
    for v in body.variables:
        if v.scope in declared:
            declared[v.scope].append((v.space, v.type, v.name, v.count, v.dims, v.vector))
    first: dict[int, int] = {}  # scope by its new number
    for scope, number in numbers.items():
        other = first.setdefault(number, scope)
        if other != scope and (declared[other] != declared[scope] or labelled & {other, scope}):
            return False
    return True


def _set_first(body: Body, numbers: Numbers) -> bool:
    """Does each of several scopes that get one number set its registers before it reads them?"""
    times = Counter(numbers.values())
    several = {scope for scope, number in numbers.items() if times[number] > 1}
    if not several:
        return True
    cfg = build(body)
    # A register of the scope that is live where it opens may be read before it is set, and would
    # then hold what the other copy has left.
    live = liveness(cfg)
    before = 0
    for statement in body.statements:
        if isinstance(statement, Instruction):
            before += 1
        elif isinstance(statement, Open) and statement.scope in several:
            at = live_at(cfg, lambda number: live.get(number, frozenset()), before)
            if any(reg.scope == statement.scope for reg in at):
                return False
    return True


def _statement(statement: Statement, numbers: Numbers) -> Statement:
    match statement:
        case Instruction():
            guard = statement.guard
            if guard is not None:
                guard = Guard(_moved(guard.reg, numbers), guard.negated)
            operands = tuple(mapped(o, partial(_leaf, numbers)) for o in statement.operands)
            return statement._replace(operands=operands, guard=guard)
        case Label() | Variable():
            return statement._replace(scope=numbers.get(statement.scope, statement.scope))
        case Open() | Close():
            return replace(statement, scope=numbers[statement.scope])
        case _:
            return statement


def _moved(reg: Reg, numbers: Numbers) -> Reg:
    return Reg(reg.name, numbers.get(reg.scope, reg.scope))


def _leaf(numbers: Numbers, operand: Operand) -> Operand:
    match operand:
        case Reg():
            return _moved(operand, numbers)
        case Symbol(name, offset, scope):
            return Symbol(name, offset, numbers.get(scope, scope))
    return operand
