"""Functions that a kernel may call, equal but for names.

    .func (.reg .f32 %out) half(.reg .f32 %in)     .func (.reg .f32 %y) h2(.reg .f32 %x)
    { mul.f32 %out, %in, 0f3F000000; ret; }        { mul.f32 %y, %x, 0f3F000000; ret; }

Functions that stand at the same place in both modules are taken for the same under two names, and
are the same if each has the statements of the other, under that and any names of its own. What a
linker may put in place of a function is found by name: names of weak functions, and of those
without a body, must be equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ptxsw.parser.scan import blank_comments
from ptxsw.ptx.ir import (
    Directive,
    Function,
    Instruction,
    Label,
    Module,
    Operand,
    Reg,
    Statement,
    Symbol,
    Variable,
)
from ptxsw.ptx.operand import mapped
from ptxsw.ptx.source import Source, Span

_BOUND = frozenset({"extern", "weak", "common"})


def functions_alike(first: Module, second: Module) -> Mapping[str, str] | None:
    """What the first module calls the second one's functions; None where any two differ."""
    ours, theirs = ([f for f in m.functions if f.kind == "func"] for m in (first, second))
    if len(ours) != len(theirs):
        return None
    names: dict[str, str] = {}
    for a, b in zip(ours, theirs, strict=True):
        bound = a.body_span is None or not _BOUND.isdisjoint({*a.linkage, *b.linkage})
        if (bound and a.name != b.name) or names.setdefault(b.name, a.name) != a.name:
            return None
    if len(set(names.values())) != len(names):
        return None
    alike = all(
        _said(first, a, {}) == _said(second, b, names) for a, b in zip(ours, theirs, strict=True)
    )
    return names if alike else None


class _Locals:
    """Names of a function's own as numbers, in the order in which they come."""

    def __init__(self, function: Function, names: Mapping[str, str]) -> None:
        self._body, self._names = function.body, names
        own = (*function.params, *function.returns, *function.body.variables)
        labels = (s.name for s in function.body.others if isinstance(s, Label))
        tables = (s.label for s in function.body.others if isinstance(s, Directive) and s.label)
        self._own = {*(v.name for v in own if v.space != "reg"), *labels, *tables}
        self._numbers: dict[object, int] = {}

    def name(self, name: str, scope: int = 0) -> str:
        """A label, variable, parameter or function."""
        if name in self._own:
            return f"{self._numbers.setdefault((name, scope), len(self._numbers))}"
        return self._names.get(name, name)

    def register(self, reg: Reg) -> Reg:
        declared = self._body.declaration(reg)
        kind = "" if declared is None else declared.type
        return Reg(f"{self._numbers.setdefault(reg, len(self._numbers))} {kind}")

    def leaf(self, operand: Operand) -> Operand:
        match operand:
            case Reg():
                return self.register(operand)
            case Symbol(name, offset, scope):
                return Symbol(self.name(name, scope), offset)
        return operand


def _said(module: Module, function: Function, names: Mapping[str, str]) -> list[object]:
    """All that a function says, under names that do not depend on its own."""
    own = _Locals(function, names)
    parts: list[object] = [function.linkage, function.directives, function.body_span is None]
    for variables in (function.returns, function.params):
        parts.append(len(variables))
        parts += [_variable(module.source, own, v) for v in variables]
    if function.body_span is not None:
        statement = partial(_statement, module.source, own)
        parts += [part for part in map(statement, function.body.code) if part is not None]
    return parts


def _statement(source: Source, own: _Locals, statement: Statement) -> object:
    match statement:
        case Instruction():
            guard = statement.guard
            held = guard and (own.register(guard.reg), guard.negated)
            operands = tuple(mapped(o, own.leaf) for o in statement.operands)
            return statement.opcode, statement.modifiers, operands, held
        case Label(name, _, scope):
            return "label", own.name(name, scope)
        case Variable():
            return None if statement.space == "reg" else _variable(source, own, statement)
        case Directive():
            if statement.name == "pragma":
                return None
            label = statement.label or ""
            text = "" if statement.name == "branchtargets" else words(source, statement.span)
            return (
                text.replace(label, "", 1),
                own.name(label),
                [own.name(n) for n in statement.names],
            )
        case _:
            return type(statement).__name__


def _variable(source: Source, own: _Locals, v: Variable) -> object:
    declared = v._replace(name="", span=Span(0, 0), scope=0)
    initial = words(source, v.span).partition("=")[2] if v.initialised else ""
    named = (
        own.register(Reg(v.name, v.scope)).name if v.space == "reg" else own.name(v.name, v.scope)
    )
    return declared, initial, named


def words(source: Source, span: Span) -> str:
    """Part of a text without comments, its words divided by one blank each."""
    return " ".join(blank_comments(source.slice(span)).split())
