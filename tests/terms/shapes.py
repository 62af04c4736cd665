"""Terms of every form that the rules of `Terms` look at, and the plain Z3 operations."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import z3

from ptxsw.terms.node import Term, Variance
from ptxsw.terms.terms import Terms

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "udiv": z3.UDiv,
    "urem": z3.URem,
    "sdiv": lambda a, b: a / b,
    "srem": z3.SRem,
    "and_": lambda a, b: a & b,
    "or_": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "lshr": z3.LShR,
    "ashr": lambda a, b: a >> b,
    "eq": lambda a, b: a == b,
    "ult": z3.ULT,
    "ule": z3.ULE,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
}
COMPARISONS = frozenset({"eq", "ult", "ule", "slt", "sle"})
DIVISIONS = frozenset({"udiv", "urem", "sdiv", "srem"})


def constants(width: int) -> list[int]:
    full = (1 << width) - 1
    half = width // 2
    return [0, 1, 2, 3, width, full, full - 1, 1 << (width - 1), (1 << half) - 1, 0xF << 2]


def shapes(terms: Terms, width: int) -> dict[str, Term]:
    """Named terms of one width over a few shared atoms."""
    half = width // 2

    def atom(name: str, size: int = width) -> Term:
        return terms.atom(f"{name}{size}", size, Variance.LANE)

    def const(value: int, size: int = width) -> Term:
        return terms.const(value, size)

    x, y, p = atom("x"), atom("y"), atom("p", 1)
    small, wide = atom("s", half), atom("w", 2 * width)
    return {
        "x": x,
        "x+1": terms.add(x, const(1)),
        "x-y": terms.sub(x, y),
        "-x": terms.neg(x),
        "4x+4y+8": terms.add(terms.scale(terms.add(x, y), 4), const(8)),
        "xy": terms.mul(x, y),
        "x&y": terms.and_(x, y),
        "x&0x55": terms.and_(x, const(0x55)),
        "x|1": terms.or_(x, const(1)),
        "x^y": terms.xor(x, y),
        "x>>y": terms.lshr(x, y),
        "x/3": terms.udiv(x, const(3)),
        "x%5": terms.urem(x, const(5)),
        "zext": terms.zext(small, width),
        "4zext+1": terms.add(terms.scale(terms.zext(small, width), 4), const(1)),
        "sext": terms.sext(small, width),
        "sext(s+1)": terms.sext(terms.add(small, const(1, half)), width),
        "extract": terms.extract(wide, 3, width),
        "concat": terms.concat(small, atom("t", half)),
        "p?x:1": terms.ite(p, x, const(1)),
        "p?1:0": terms.ite(p, const(1), const(0)),
        "p?5:-2": terms.ite(p, const(5), const(-2)),
        "zext(p)": terms.zext(p, width),
        "sext(p)": terms.sext(p, width),
        **{f"{value:#x}": const(value) for value in constants(width)},
    }


def conditions(terms: Terms) -> dict[str, Term]:
    """Terms of width 1."""
    x, y = (terms.atom(f"{n}8", 8, Variance.LANE) for n in "xy")
    p, q = (terms.atom(f"{n}1", 1, Variance.LANE) for n in "pq")
    return {
        "p": p,
        "q": q,
        "!p": terms.not_(p),
        "p&q": terms.and_(p, q),
        "p|q": terms.or_(p, q),
        "p^q": terms.xor(p, q),
        "x<y": terms.ult(x, y),
        "y<=x": terms.ule(y, x),
        "x<sy": terms.slt(x, y),
        "x==y": terms.eq(x, y),
        "x[0]": terms.extract(x, 0, 1),
        "p?q:x<y": terms.ite(p, q, terms.ult(x, y)),
        "0": terms.const(0, 1),
        "1": terms.const(1, 1),
    }


def random_term(
    terms: Terms, source: random.Random, width: int, depth: int, atoms: list[Term]
) -> Term:
    """A term of the given width. `atoms` collects the unknowns that it is made of."""

    def make(size: int) -> Term:
        return random_term(terms, source, size, depth - 1, atoms)

    if depth == 0 or source.random() < 0.1:
        if source.random() < 0.4:
            return terms.const(source.choice([*constants(64), source.getrandbits(64)]), width)
        known = terms.atom(f"{source.choice('xyz')}{width}", width, source.choice([*Variance]))
        if known not in atoms:
            atoms.append(known)
        return known
    if width == 1 and source.random() < 0.6:
        size = source.choice([1, 8, 16, 32])
        name = source.choice(sorted(COMPARISONS))
        if size == 1 and name != "eq":
            name = source.choice(["eq", "ult", "ule"])
        built: Term = getattr(terms, name)(make(size), make(size))
        return built
    match source.choice(["binary", "binary", "binary", "not", "extract", "concat", "ext", "ite"]):
        case "not":
            return terms.not_(make(width))
        case "extract":
            size = width + source.choice([1, 3, 8, width])
            return terms.extract(make(size), source.randrange(size - width + 1), width)
        case "concat" if width > 1:
            low = source.randrange(1, width)
            return terms.concat(make(width - low), make(low))
        case "ext" if width > 1:
            inner = make(source.randrange(1, width))
            return source.choice([terms.zext, terms.sext])(inner, width)
        case "ite":
            return terms.ite(make(1), make(width), make(width))
    names = sorted(set(BINARY) - COMPARISONS)
    if width == 1:
        names = ["add", "sub", "mul", "and_", "or_", "xor"]
    made: Term = getattr(terms, source.choice(names))(make(width), make(width))
    return made
