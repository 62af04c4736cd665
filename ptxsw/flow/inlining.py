"""A function with the bodies of those that it calls in place of the calls.

    { .param .b32 a; st.param.b32 [a], %r1;        { .param .b32 a; st.param.b32 [a], %r1;
      call f, (a); }                                 { ld.param.u32 %r1, [a]; …
                                                       bra $END; …  $END: } }

Each copy is a scope of its own, so nothing is renamed but scopes. Instructions keep the places that
they have in the text. Calls stay that go round in circles, through pointers, or to what has no body
here; so do those that would make the whole too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from ptxsw.flow.cfg import build
from ptxsw.flow.promotion import promoted
from ptxsw.ptx.ir import (
    Args,
    Body,
    Close,
    Directive,
    Function,
    Guard,
    Instruction,
    Int,
    Label,
    Loc,
    Mem,
    Module,
    Not,
    Open,
    Operand,
    Pair,
    Reg,
    RegisterPart,
    Signature,
    Statement,
    Sum,
    Symbol,
    Variable,
    Vec,
    leaves,
    type_width,
)
from ptxsw.ptx.isa import call_parts

MOST = 20_000
"""Instructions of the whole, past which calls stay."""

_OWN = frozenset({"reg", "local", "param"})
"""Spaces of which each call has its own variables."""


Known = Callable[[str, tuple[int | None, ...]], Function | None]
"""What a function does that has no body in the module, by its name and the numbers among its
arguments."""


class CallCopy(NamedTuple):
    """A function in place of a call: all that has one of these scopes. `around` is the number of
    the copy in which the call stands, if it stands in one."""

    call: Instruction
    callee: Function
    scopes: range
    around: int | None


_REPLACEABLE = frozenset({"extern", "weak", "common"})
"""Linkage of functions in whose place a linker may put others."""


def without_own_calls(module: Module, function: Function) -> tuple[Function, tuple[CallCopy, ...]]:
    """The function with no calls left of functions that are certain to be those of the module, and
    the copies of these, outer ones first. Raises ParseError where a body does not parse."""
    body, bodies = function.body, _bodies(module)

    def find(call: Instruction) -> Function | None:
        results, _, given = parts = call_parts(call)
        callee = bodies.get(parts.callee or "")
        if callee is None or is_replaceable(callee) or keeps_parameters(callee):
            return None
        # A copy reads and writes the caller's variables, a function reads what they were.
        return callee if {*results}.isdisjoint(given) else None

    if not any(i.opcode == "call" for i in body.instructions):
        return function, ()
    inlining = _Inlining(find, body, elsewhere=False)
    statements = tuple(inlining.expanded(body.statements, (function.name,)))
    return with_body(function, replace(body, statements=statements)), tuple(inlining.copies)


def in_one_piece(module: Module, kernel: Function) -> tuple[Function, tuple[CallCopy, ...]]:
    """The same, and with registers for the variables that are left."""
    function, copies = without_own_calls(module, kernel)
    return with_body(function, promoted(function.body)), copies


def shared_by_calls(function: Function) -> Variable | None:
    """A variable of a function that is the same one for all of its calls."""
    return next((v for v in function.body.variables if v.space not in _OWN), None)


def is_replaceable(function: Function) -> bool:
    """May a linker put another function in its place?"""
    return not _REPLACEABLE.isdisjoint(function.linkage)


def keeps_parameters(function: Function) -> bool:
    """Does a function use the address of a parameter or result of its own? By that it may change
    what, in a copy, is the caller's variable."""
    names = {v.name for v in (*function.params, *function.returns) if v.space == "param"}
    return any(
        type(leaf) is Symbol and leaf.name in names
        for instruction in function.body.instructions
        for leaf in leaves(map(partial(_beside_place, instruction), instruction.operands))
    )


def _beside_place(instruction: Instruction, operand: Operand) -> Operand:
    """An operand, but for the place of a plain access to parameters."""
    plain = instruction.opcode in ("ld", "st") and "param" in instruction.modifiers
    return Int(0) if plain and isinstance(operand, Mem) else operand


def _bodies(module: Module) -> dict[str, Function]:
    return {f.name: f for f in module.functions if f.body_span is not None}


def inlined(
    module: Module, function: Function, known: Known = lambda name, given: None
) -> Function:
    """The function with no calls left that can be inlined; itself where there are none. Raises
    ParseError where a body does not parse."""
    bodies, body = _bodies(module), function.body
    if not any(i.opcode == "call" for i in body.instructions):
        return function

    def here(call: Instruction) -> Function | None:
        return bodies.get(call_parts(call).callee or "")

    for elsewhere in (False, True):
        find: Find = _Elsewhere(body, known) if elsewhere else here
        inlining = _Inlining(find, body, elsewhere=elsewhere)
        statements = tuple(inlining.expanded(body.statements, (function.name,)))
        body = replace(body, statements=statements)
    return with_body(function, body)


def with_body(function: Function, body: Body) -> Function:
    """The function with another body."""
    signature = Signature(function.params, function.returns, function.directives)
    return replace(function, load_signature=lambda: signature, load_body=lambda _: body)


Find = Callable[[Instruction], Function | None]
"""The function that a call calls, if it has a body somewhere."""


class _Elsewhere:
    """The functions that a body calls and that are known, though the module has no body of them."""

    def __init__(self, body: Body, known: Known) -> None:
        self._cfg, self._known = build(body), known
        self._stored: dict[Symbol, list[Operand]] = {}
        for instruction in body.instructions:
            if instruction.opcode == "st" and "param" in instruction.modifiers:
                memory, value = instruction.operands
                if isinstance(memory, Mem) and isinstance(memory.base, Symbol):
                    where = memory.base._replace(offset=memory.base.offset + memory.offset)
                    self._stored.setdefault(where, []).append(value)

    def __call__(self, call: Instruction) -> Function | None:
        parts = call_parts(call)
        return self._known(parts.callee or "", tuple(map(self._number, parts.given)))

    def _number(self, argument: Operand) -> int | None:
        """The number that an argument is, also where it lies in a variable that is stored once."""
        values = self._stored.get(argument, []) if isinstance(argument, Symbol) else [argument]
        return self._cfg.literal(values[0]) if len(values) == 1 else None


class _Inlining:
    """Of one function. Scopes are numbered on from those that it has. `find` tells what a call
    calls; `elsewhere`: that is in another text, so that instructions have the place of the call."""

    def __init__(self, find: Find, body: Body, *, elsewhere: bool) -> None:
        self._find, self._elsewhere = find, elsewhere
        self._scope = 1 + max((_scope(s) for s in body.statements), default=0)
        self._left = MOST - len(body.instructions)
        self._shared: dict[str, int] = {}  # the scope of what all copies of a function share
        self.copies: list[CallCopy] = []
        self._open: list[int] = []  # the numbers of those whose statements come now

    def expanded(
        self, statements: Sequence[Statement], around: tuple[str, ...]
    ) -> Iterator[Statement]:
        """Statements of the innermost of the functions `around`, with what they call."""
        place: Loc | None = None
        for statement in statements:
            if type(statement) is Loc:
                place = statement
            callee = self._callee(statement, around)
            if callee is None:
                yield statement
                continue
            assert isinstance(statement, Instruction)
            yield from self._copy(statement, callee, around)
            if place is not None:
                yield place

    def _callee(self, statement: Statement, around: tuple[str, ...]) -> Function | None:
        if type(statement) is not Instruction or statement.opcode != "call":
            return None
        callee = self._find(statement)
        if callee is None or callee.name in around:
            return None
        length = len(callee.body.instructions)
        results, _, given = call_parts(statement)
        fits = len(given) == len(callee.params) and len(results) == len(callee.returns)
        if length > self._left or not fits:
            return None
        self._left -= length
        return callee

    def _copy(
        self, call: Instruction, callee: Function, around: tuple[str, ...]
    ) -> Iterator[Statement]:
        base = self._scope
        self._scope += 2 + max((_scope(s) for s in callee.body.statements), default=0)
        self.copies.append(
            CallCopy(call, callee, range(base, self._scope), self._open[-1] if self._open else None)
        )
        self._open.append(len(self.copies) - 1)
        first = callee.name not in self._shared
        shared = self._shared.setdefault(callee.name, base)
        moved = _Moved(callee, base, shared, call if self._elsewhere else None)
        results, _, given = call_parts(call)
        end, past = Label("$end", call.span, base), Label("$past", call.span, base)
        yield Open(base, call.span)
        if call.guard is not None:
            yield _branch(call, past, Guard(call.guard.reg, not call.guard.negated))
        for formal, actual in zip(callee.params, given, strict=True):
            yield from moved.bound(formal, actual)
            if type(actual) is not Symbol:
                yield _moving(call, moved.variable(formal), actual, enters=True)
        for formal, actual in zip(callee.returns, results, strict=True):
            yield from moved.bound(formal, actual)
        own = tuple(moved.statements(end, with_shared=first))
        yield from self.expanded(own, (*around, callee.name))
        self._open.pop()
        yield end
        for formal, actual in zip(callee.returns, results, strict=True):
            if type(actual) is not Symbol:
                yield _moving(call, moved.variable(formal), actual, enters=False)
        if call.guard is not None:
            yield past
        yield Close(base, call.span)


class _Moved:
    """A function's statements in another scope: `base` stands for its outermost one, `shared` for
    that of variables that all copies share. `at` is where they stand, if not in this text."""

    def __init__(self, callee: Function, base: int, shared: int, at: Instruction | None) -> None:
        self._callee, self._base, self._shared, self._at = callee, base, shared, at
        body = callee.body
        self._names = {
            (s.name, s.scope) for s in body.statements if isinstance(s, Label | Variable)
        } | {(s.label, 0) for s in body.statements if isinstance(s, Directive) and s.label}
        self._common = {(v.name, v.scope) for v in body.variables if v.space not in _OWN}
        self._given: dict[str, Symbol] = {}
        self._memo: dict[Operand, Operand] = {}

    def bound(self, formal: Variable, actual: Operand) -> Iterator[Statement]:
        """A parameter that stands for what the caller gives; a variable where that is no
        variable."""
        if formal.space == "param" and type(actual) is Symbol:
            self._given[formal.name] = actual
        else:
            self._names.add((formal.name, 0))
            yield self.variable(formal)

    def variable(self, variable: Variable) -> Variable:
        shared = variable.space not in _OWN
        return variable._replace(scope=variable.scope + (self._shared if shared else self._base))

    def statements(self, end: Label, *, with_shared: bool) -> Iterator[Statement]:
        """`end` is where the function returns to."""
        for statement in self._callee.body.statements:
            match statement:
                case Instruction():
                    yield self._instruction(statement, end)
                case Variable():
                    if with_shared or statement.space in _OWN:
                        yield self.variable(statement)
                case Label():
                    yield statement._replace(scope=statement.scope + self._base)
                case Open(scope) | Close(scope):
                    yield replace(statement, scope=scope + self._base)
                case _:
                    yield statement

    def _instruction(self, instruction: Instruction, end: Label) -> Instruction:
        guard = instruction.guard
        if self._at is not None:
            instruction = instruction._replace(start=self._at.start, end=self._at.end)
        if guard is not None:
            guard = Guard(self._reg(guard.reg), guard.negated)
        if instruction.opcode == "ret":
            return _branch(instruction, end, guard)
        operands = tuple(map(self._operand, instruction.operands))
        return instruction._replace(operands=operands, guard=guard)

    def _reg(self, reg: Reg) -> Reg:
        return Reg(reg.name, reg.scope + self._base)

    def _operand(self, operand: Operand) -> Operand:
        moved = self._memo.get(operand)
        if moved is None:
            moved = self._memo[operand] = self._moved(operand)
        return moved

    def _moved(self, operand: Operand) -> Operand:
        match operand:
            case Reg():
                return self._reg(operand)
            case Symbol(name, offset, scope):
                if scope == 0 and name in self._given:
                    given = self._given[name]
                    return given._replace(offset=given.offset + offset)
                key = name, scope
                base = self._shared if key in self._common else self._base
                return Symbol(name, offset, scope + base) if key in self._names else operand
            case Mem(base, offset, extra):
                return Mem(self._operand(base), offset, tuple(map(self._operand, extra)))
            case Vec(elements):
                return Vec(tuple(map(self._operand, elements)))
            case Args(elements):
                return Args(tuple(map(self._operand, elements)))
            case Pair(first, second):
                return Pair(self._operand(first), self._operand(second))
            case Not(inner):
                return Not(self._operand(inner))
            case RegisterPart(base, selector):
                return RegisterPart(self._operand(base), selector)
            case Sum(base, offset):
                return Sum(self._operand(base), offset)
        return operand


def _branch(at: Instruction, end: Label, guard: Guard | None) -> Instruction:
    uniform = ("uni",) if "uni" in at.modifiers and guard is not None else ()
    return Instruction("bra", uniform, (Symbol(end.name, 0, end.scope),), guard, at.start, at.end)


def _moving(call: Instruction, formal: Variable, actual: Operand, *, enters: bool) -> Instruction:
    """Hands over what is in no variable: an argument, or a result."""
    width = type_width(formal.type)
    kind = "pred" if width == 1 else f"b{width}"
    if formal.space == "reg":
        here: Operand = Reg(formal.name, formal.scope)
        words: tuple[str, ...] = (kind,)
        opcode = "mov"
    else:
        here, words = Mem(Symbol(formal.name, 0, formal.scope)), ("param", kind)
        opcode = "st" if enters else "ld"
    operands = (here, actual) if enters else (actual, here)
    return Instruction(opcode, words, operands, None, call.start, call.end)


def _scope(statement: Statement) -> int:
    return statement.scope if isinstance(statement, Open) else 0
