"""Extended-precision integer arithmetic: PTX ISA 9.0, section 9.7.2.

The carry bit CC.CF is a value of width 1 that comes in last and goes out last. The manual calls it
the borrow of a subtraction (9.7.2.3). What ptxas makes of it for every target is the carry of
a + ~b + 1, which is 1 where nothing is borrowed: `IADD3 R, P0, a, -b` and `IADD3.X R, a, ~b, P0`.
Within chains of `sub.cc` and `subc` both readings give the same numbers; `addc` or `madc` behind
`sub.cc`, and `subc` behind `add.cc`, read the bit that is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxsw.semantics.algebra import Algebra
from ptxsw.semantics.integer import product
from ptxsw.semantics.registry import Meaning, Modifiers, NoForm, V, semantics

WORDS = ("u32", "s32", "u64", "s64")


def _sum(g: Algebra[V], a: V, b: V, carry: V | None) -> tuple[V, V]:
    """a + b + carry and its carry-out."""
    # A sum that wraps is less than either summand. Of the two additions at most one wraps.
    total = g.add(a, b)
    out = g.ult(total, a)
    if carry is None:
        return total, out
    final = g.add(total, g.zext(carry, g.width(a)))
    return final, g.or_(out, g.ult(final, total))


def _difference(g: Algebra[V], a: V, b: V, carry: V | None) -> tuple[V, V]:
    """a + ~b + carry (without one: + 1) and its carry-out."""
    rest = g.sub(a, b)
    if carry is None:
        return rest, g.ule(b, a)
    # a + ~b + carry is a - b - 1 + carry. It carries out if a >= b + 1 - carry.
    borrow = g.zext(g.not_(carry), g.width(a))
    return g.sub(rest, borrow), g.or_(g.ult(b, a), g.and_(g.eq(a, b), carry))


def _chain(
    m: Modifiers, step: Callable[..., Any], count: int, reads: bool, writes: bool
) -> Meaning:
    width = m.type(*WORDS).width

    def compute(g: Algebra[Any], *values: Any) -> Any:
        *sources, carry = values if reads else (*values, None)
        result, out = step(g, *sources, carry)
        return (result, out) if writes else result

    return Meaning((width,) * count, (width,), compute, reads_carry=reads, writes_carry=writes)


def _required(m: Modifiers) -> bool:
    """Without `.cc` the opcode is another section's."""
    if not m.flag("cc"):
        raise NoForm
    return True


@semantics("add", "9.7.2.1")
def add_cc(m: Modifiers) -> Meaning:
    """d = a + b; CC = its carry-out."""
    return _chain(m, _sum, 2, reads=False, writes=_required(m))


@semantics("addc", "9.7.2.2")
def addc(m: Modifiers) -> Meaning:
    """d = a + b + CC; with `.cc` CC = the carry-out."""
    return _chain(m, _sum, 2, reads=True, writes=m.flag("cc"))


@semantics("sub", "9.7.2.3")
def sub_cc(m: Modifiers) -> Meaning:
    """d = a - b; CC = the carry-out of a + ~b + 1: 0 where the difference borrows."""
    return _chain(m, _difference, 2, reads=False, writes=_required(m))


@semantics("subc", "9.7.2.4")
def subc(m: Modifiers) -> Meaning:
    """d = a + ~b + CC; with `.cc` CC = the carry-out."""
    return _chain(m, _difference, 2, reads=True, writes=m.flag("cc"))


def _multiply_add(m: Modifiers, reads: bool, writes: bool) -> Meaning:
    half = m.choice("lo", "hi")
    type_ = m.type(*WORDS)
    times = product(type_, half)

    def step(g: Algebra[V], a: V, b: V, c: V, carry: V | None) -> tuple[V, V]:
        return _sum(g, times(g, a, b), c, carry)

    return _chain(Modifiers([type_.name]), step, 3, reads, writes)


@semantics("mad", "9.7.2.5")
def mad_cc(m: Modifiers) -> Meaning:
    """d = the chosen half of a * b, plus c; CC = the carry-out of that addition."""
    return _multiply_add(m, reads=False, writes=_required(m))


@semantics("madc", "9.7.2.6")
def madc(m: Modifiers) -> Meaning:
    """d = the chosen half of a * b, plus c + CC; with `.cc` CC = the carry-out."""
    return _multiply_add(m, reads=True, writes=m.flag("cc"))
