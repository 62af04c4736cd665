"""Every local rule is proved by Z3 for all values under its condition.

Both sides are run by `semantics` over the integers of Z3, where a quotient is what SMT-LIB says it
is. (With bit vectors of 64 bits Z3 proves no division equal to another.)
"""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import z3
from msgspec.structs import replace

from ptxsw.changes.change import Change
from ptxsw.changes.plan import Proof
from ptxsw.changes.rule import LocalRule
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_rules import LocalChange, lower
from ptxsw.codegen.splice import apply
from ptxsw.parser import parse
from ptxsw.ptx.ir import Body, Int, Module, Reg
from ptxsw.rewrites import REWRITES
from ptxsw.rewrites.rules import NARROWING, LocalRewrite, nonzero
from ptxsw.semantics import meaning
from tests.heads import head

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin" / "ptxsw_example" / "__init__.py"
TOY = runpy.run_path(str(EXAMPLE))["SHIFT_FOR_PRODUCT"]
_NAMED = [
    (rule, name, f"{one.name} {number} {name}")
    for one in (*REWRITES, TOY)
    if isinstance(one, LocalRewrite)
    for number, rule in enumerate(one.rules)
    for name in rule.names
]
RULES = [pytest.param(rule, name, id=told) for rule, name, told in _NAMED]
TESTED = [pytest.param(rule, name, id=told) for rule, name, told in _NAMED if rule.slow]


class Value(NamedTuple):
    """A bit vector as a number of Z3, which counts modulo 2^width. Where the sign is known, it is
    the signed number."""

    number: Any
    width: int
    sign: bool | None = None

    @property
    def unsigned(self) -> Any:
        """The number that is at least 0 and below 2^width."""
        if self.sign is None:
            return self.number % (1 << self.width)
        return self.number + (1 << self.width) if self.sign else self.number

    @property
    def is_negative(self) -> Any:
        return self.unsigned >= 1 << (self.width - 1) if self.sign is None else self.sign

    @property
    def signed(self) -> Any:
        if self.sign is not None:
            return self.number
        return z3.If(self.is_negative, self.unsigned - (1 << self.width), self.unsigned)

    @property
    def absolute(self) -> Value:
        assert self.sign is not None
        size = z3.simplify(-self.number) if self.sign else self.number
        return Value(size, self.width, sign=False)


class Integers:
    """As much of `Algebra` as rules take."""

    def const(self, value: int, width: int) -> Value:
        return Value(z3.IntVal(value % (1 << width)), width)

    def width(self, a: Value) -> int:
        return a.width

    def mul(self, a: Value, b: Value) -> Value:
        return Value(a.number * b.number, a.width)

    def sub(self, a: Value, b: Value) -> Value:
        return Value(a.number - b.number, a.width)

    def shl(self, a: Value, b: Value) -> Value:
        return Value(a.number * (1 << z3.simplify(b.unsigned).as_long()), a.width)

    def udiv(self, a: Value, b: Value) -> Value:
        return Value(z3.If(b.unsigned == 0, -1, a.unsigned / b.unsigned), a.width)

    def urem(self, a: Value, b: Value) -> Value:
        return Value(z3.If(b.unsigned == 0, a.number, a.unsigned % b.unsigned), a.width)

    def sdiv(self, a: Value, b: Value) -> Value:
        quotient = self.udiv(a.absolute, b.absolute).number
        return Value(-quotient if a.sign != b.sign else quotient, a.width)

    def srem(self, a: Value, b: Value) -> Value:
        rest = self.urem(a.absolute, b.absolute).number
        return Value(-rest if a.sign else rest, a.width)

    def extract(self, a: Value, low: int, width: int) -> Value:
        assert low == 0
        return Value(a.number, width)

    def zext(self, a: Value, width: int) -> Value:
        return Value(a.unsigned, width)

    def sext(self, a: Value, width: int) -> Value:
        return Value(a.signed, width)

    def eq(self, a: Value, b: Value) -> Value:
        return self._bit(a.unsigned == b.unsigned)

    def ult(self, a: Value, b: Value) -> Value:
        return self._bit(a.unsigned < b.unsigned)

    def not_(self, a: Value) -> Value:
        return self._bit(a.unsigned == 0)

    def ite(self, condition: Value, yes: Value, no: Value) -> Value:
        return Value(z3.If(condition.unsigned == 1, yes.number, no.number), yes.width)

    def _bit(self, condition: Any) -> Value:
        return Value(z3.If(condition, 1, 0), 1)


GROUND = Integers()


def results(body: Body, given: dict[str, Value]) -> dict[str, Value]:
    """The registers behind a straight line of code."""
    registers = dict(given)
    for instruction in body.instructions:
        if instruction.opcode == "ret":
            break
        built = meaning(instruction.opcode, instruction.modifiers)
        assert built is not None
        dest, *sources = instruction.operands
        assert isinstance(dest, Reg)
        values = [registers[s.name] if isinstance(s, Reg) else s.value for s in sources
                  if isinstance(s, Reg | Int)]  # fmt: skip
        (registers[dest.name],) = built.run(GROUND, values, (body.width(dest),))  # type: ignore[arg-type]
    return registers


def before(rule: LocalRule, name: str, literal: int | None) -> str:
    """A kernel in which the rule applies to the first instruction, or to the first two."""
    width = name[-2:]
    last = "%b" if literal is None else str(literal)
    twin = rule.beside and f"{rule.beside}{name[name.index('.') :]} %e, %a, {last};"
    return (
        head()
        + f""".visible .entry k()
{{
    .reg .b{width} %a, %b, %d, %e;
    {name} %d, %a, {last};
    {twin}
    ret;
}}
"""
    )


def literals(rule: LocalRule) -> Iterator[int | None]:
    """All that the rule takes; None where it takes no literal."""
    if rule.number is None:
        yield None
        return
    yield from (1 << bit for bit in range(32) if rule.number(1 << bit) is not None)


@pytest.mark.parametrize(("rule", "name"), RULES)
def test_a_rule_holds_for_all_values(rule: LocalRule, name: str) -> None:
    signs = list(product((False, True), repeat=2))
    applies = 0
    for literal in literals(rule):
        number = None if literal is None or rule.number is None else rule.number(literal)
        old = parse(before(rule, name, literal))
        new = changed(old, LocalChange(0, rule, number, 1 if rule.beside else None))
        applies += sum(holds(rule, old, new, negative) for negative in signs)
    assert applies, "no values satisfy its condition"


@pytest.mark.parametrize(("rule", "name"), TESTED)
def test_the_slow_lines_do_what_the_instruction_did(rule: LocalRule, name: str) -> None:
    way = {"shared": rule.slow} if rule.beside else {"result": rule.slow}
    test_a_rule_holds_for_all_values(replace(rule, given=(), low="", **way), name)


def changed(old: Module, detail: LocalChange) -> Module:
    """What the change makes of a module."""
    (function,) = old.kernels
    builder = Builder(old.source.text, function, function.body.instructions)
    lower(builder, [Change("rules", 0, frozenset(), Proof(), detail)])
    return parse(apply(old.source.text, builder.edits()))


def holds(rule: LocalRule, old: Module, new: Module, negative: tuple[bool, ...]) -> bool:
    """Is there something to prove for sources of these signs? Then it is proved."""
    body = old.kernels[0].body
    width = body.width(Reg("%a"))
    solver, given = z3.Solver(), dict[str, Value]()
    solver.set("timeout", 60_000)
    for name, sign in zip(("%a", "%b"), negative, strict=True):
        size, half = z3.Int(name), 1 << (width - 1)  # divisions are by the absolute value itself
        solver.add(*((size > 0, size <= half) if sign else (size >= 0, size < half)))
        given[name] = Value(-size if sign else size, width, sign)
    for condition, letters in rule.given:
        claims = [condition(GROUND, given[f"%{letter}"]) for letter in letters]  # type: ignore[arg-type]
        solver.add(*(claim.unsigned == 1 for claim in claims))  # type: ignore[attr-defined]
    if solver.check() == z3.unsat:
        return False
    one, other = results(body, given), results(new.kernels[0].body, given)
    for name in {"%d", "%e"} & one.keys():
        difference = Value(one[name].number - other[name].number, width)
        assert solver.check(difference.unsigned != 0) == z3.unsat, (name, negative)
    return True


def test_a_rule_that_does_not_always_hold_is_refuted() -> None:
    """A quotient by zero is not zero-extended."""
    right = next(r for r in NARROWING.rules if r.given and any(c is nonzero for c, _ in r.given))
    wrong = replace(right, given=tuple((c, of) for c, of in right.given if c is not nonzero))
    with pytest.raises(AssertionError):
        test_a_rule_holds_for_all_values(wrong, "div.u64")
