"""Divisions that a compiler does in 32 bits where both operands fit, seen as the division they are.

    or.b64 %rd3, %rd1, %rd2;   shr.u64 %rd4, %rd3, 32;   setp.ne.s64 %p1, %rd4, 0;
    @%p1 bra $wide;
    div.u32 %r3, %r1, %r2;   cvt.u64.u32 %rd5, %r3;      the low halves
    bra $both;
    $wide: div.u64 %rd5, %rd1, %rd2;
    $both:                                               %rd5 is the same on both paths

Both paths end with one value, which would be two as terms: each path would be followed on its own,
and no lane's address would be known behind it. A quotient by zero has no defined value (manual,
`div`), so it may be the same one, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ptxsw.emulator.state import State
from ptxsw.ptx.ir import Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term, ones
from ptxsw.terms.terms import Terms

_HALF = 32  # bits


class _Division(Struct, frozen=True):
    """A wide quotient or remainder, or its low half; and the same made of the low halves."""

    operands: tuple[Term, ...]
    wide: Term
    narrow: Term


def widened(states: Sequence[State], live: Iterable[Reg], terms: Terms) -> list[State]:
    """The states that come to a block, what is made of a narrow quotient as what another of them
    has in its place, made of the wide one."""
    wider = list(states)
    for reg in live:
        values = [state.env.get(reg) for state in states]
        different = dict.fromkeys(values)
        for value in different if len(different) > 1 else ():
            division = None if value is None else _read(value, terms)
            if division is None:
                continue
            for number, state in enumerate(wider):
                if values[number] is division.narrow and _both_fit(division.operands, state, terms):
                    env = {**state.env, reg: division.wide}
                    wider[number] = State(env, state.conditions, state.epochs)
    return wider


def _read(value: Term, terms: Terms) -> _Division | None:
    whole = value
    if value.kind is op.EXTRACT and value.value == 0 and value.width == _HALF:
        whole = value.args[0]
    if whole.width != 2 * _HALF:
        return None
    quotient = _quotient(whole, terms)
    if quotient is None:
        return None
    a, b = (terms.extract(arg, 0, _HALF) for arg in quotient.args)
    narrow = terms.udiv(a, b) if quotient.kind in (op.UDIV, op.SDIV) else terms.urem(a, b)
    if quotient is not whole:
        narrow = terms.sub(a, terms.mul(b, narrow))
    return _Division(quotient.args, value, terms.zext(narrow, value.width))


def _quotient(term: Term, terms: Terms) -> Term | None:
    """The division that a term is the result of, or whose remainder `a - b * (a / b)` it is."""
    if term.kind in op.QUOTIENTS:
        return term
    if term.kind is not op.SUM:
        return None
    for part in {t for item in term.args for t in (item, *item.args)}:
        if part.kind in (op.UDIV, op.SDIV) and part.width == term.width:
            a, b = part.args
            if terms.sub(a, terms.mul(b, part)) is term:
                return part
    return None


def _both_fit(operands: Sequence[Term], state: State, terms: Terms) -> bool:
    """Are the high halves of both zero, by their bits or by what is known on this path?"""
    large = [term for term in operands if ones(term) >> _HALF]
    if all(_fits(term, state, terms) for term in large):
        return True
    return len(large) == 2 and _fits(terms.or_(*large), state, terms)


def _fits(term: Term, state: State, terms: Terms) -> bool:
    width, high = term.width, (1 << term.width) - (1 << _HALF)
    zero = terms.const(0, width)
    tests = (
        terms.eq(terms.and_(term, terms.const(high, width)), zero),
        terms.eq(terms.lshr(term, terms.const(_HALF, width)), zero),
        terms.ult(term, terms.const(1 << _HALF, width)),
    )
    return any(test in state.conditions for test in tests)
