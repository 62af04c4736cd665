"""Which kinds of operands an opcode takes: how many, and where an address, a vector or a pair may
stand.

Whoever works with an instruction may rely on this. Types and widths of registers are left to
ptxas, and so are opcodes without a row here, those of matrices, tensors and textures: whoever meets
them looks at nothing but the registers that they name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from ptxsw.ptx.operand import (
    Args,
    Float,
    Int,
    Mem,
    Not,
    Operand,
    Pair,
    Reg,
    RegisterPart,
    Sink,
    Special,
    Sum,
    Symbol,
    Vec,
)

VECTOR_SPECIALS = frozenset({
    "%tid", "%ntid", "%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_ctaid",
    "%cluster_nctaid",
})  # fmt: skip
"""Special registers of several parts, `%tid.x` and so on (chapter 10 of the manual)."""

# A letter for each operand, those that may be left out in brackets:
#   d  a register to write      D  the same, or a vector of them        P  the same, or a pair
#   s  a source                 v  the same, or a vector                n  the same, or a name
#   w  a name or a vector, too  x  a source, or a part of a register    y  a part to write, too
#   m  an address in brackets
_ROWS = """
    abs brev clz cnot cos ex2 lg2 neg not popc rcp rsqrt sin sqrt tanh      ds
    bfind isspacep istypep testp movmatrix                                  ds
    cvta getctarank                                                         dn
    add addc and bmsk copysign div mul mul24 or rem shl shr sub subc        dss
    szext xor redux vote.sync                                               dss
    mapa                                                                    dns
    max min set                                                             dss[s]
    vabsdiff vadd vmax vmin vset vshl vshr vsub                             yxx[x]
    vabsdiff2 vabsdiff4 vadd2 vadd4 vavrg2 vavrg4 vmax2 vmax4 vmin2 vmin4   yxx[x]
    vset2 vset4 vsub2 vsub4                                                 yxx[x]
    vmad                                                                    yxxx
    bfe dp2a dp4a fma fns mad mad24 madc prmt sad selp shf slct             dsss
    bfi                                                                     dssss
    lop3                                                                    Pssss[s]
    setp                                                                    Pss[s]
    shfl                                                                    Psss
    shfl.sync                                                               Pssss
    match                                                                   Pss
    elect                                                                   Ps
    vote                                                                    ds
    alloca                                                                  ds[s]
    activemask stacksave                                                    d
    cvt                                                                     dv[sss]
    mov                                                                     Dw
    ld ldu                                                                  Dm[s]
    st                                                                      mw[s]
    st.async red.async                                                      mvm
    st.bulk                                                                 mss
    atom                                                                    Dmv[vs]
    red                                                                     mv[s]
    prefetch prefetchu                                                      m
    discard applypriority                                                   ms
    bar barrier                                                             [sss]
    bar.red barrier.red barrier.cta.red                                     dss[s]
    bar.warp                                                                s
    barrier.cluster                                                         -
    nanosleep pmevent setmaxnreg stackrestore                               s
    brx                                                                     sn
    membar ret exit trap brkpt griddepcontrol                               -
"""


class Misplaced(Exception):
    """An operand that its opcode does not take, by its number; None: there are too few or many."""

    def __init__(self, message: str, at: int | None = None) -> None:
        super().__init__(message)
        self.at = at


class _Shape(NamedTuple):
    letters: str
    least: int


def _shapes() -> Mapping[str, _Shape]:
    shapes: dict[str, _Shape] = {}
    for line in _ROWS.strip().splitlines():
        *names, letters = line.split()
        needed, _, more = letters.strip("-").partition("[")
        shape = _Shape(needed + more.rstrip("]"), len(needed))
        assert not shapes.keys() & set(names), names
        shapes.update(dict.fromkeys(names, shape))
    return shapes


class _VectorToWrite:
    """The kind of a vector that cannot be read: `{%r1, _}`."""


class _VectorToRead:
    """The kind of a vector that cannot be written: `{%r1, 0}`."""


COMPOUND = frozenset({Vec, RegisterPart, Special})
"""Operands whose kind is not their type."""


def kind(operand: Operand) -> type:
    """The kind of an operand: its type, if its parts say no more. `[a].unified` is an address."""
    if type(operand) is RegisterPart and type(operand.base) is Mem:
        return Mem
    if type(operand) is Special and operand.name in VECTOR_SPECIALS:
        return _VectorSpecial
    if type(operand) is not Vec:
        return type(operand)
    kinds = set(map(type, operand.elements))
    if Sink in kinds:
        return _VectorToWrite if kinds <= _WRITTEN else _Neither
    return Vec if kinds <= _WRITTEN else _VectorToRead


def length(operand: Operand) -> int:
    """How many elements a vector has; 0 for what is none."""
    return len(operand.elements) if type(operand) is Vec else 0


class _VectorSpecial:
    """The kind of `%tid` without `.x`: all of it, which only `mov` reads."""


class _Neither:
    """The kind of a vector that can be neither: `{0, _}`."""


_SOURCE = frozenset({Reg, Special, Int, Float, Not, Sum})
_WRITTEN = frozenset({Reg, Sink})
_CALLED = frozenset({Reg, Symbol})
_NAMES: Mapping[type, str] = {
    Mem: "an address in brackets", Vec: "a vector", Pair: "a pair", Args: "a list", Sink: "'_'",
    Int: "a number", Float: "a number", Symbol: "a name", Special: "a special register",
    Not: "a negated predicate", Sum: "a sum", RegisterPart: "a part of a register",
    Reg: "a register", _VectorToWrite: "a vector with '_'", _Neither: "a vector with '_'",
    _VectorToRead: "a vector of something other than registers",
    _VectorSpecial: "a vector: name a part of it, as in %tid.x",
}  # fmt: skip
_TAKES: Mapping[str, tuple[frozenset[type], str]] = {
    "d": (_WRITTEN, "a register to write"),
    "D": (_WRITTEN | {Vec, _VectorToWrite}, "a register to write, or a vector of them"),
    "P": (_WRITTEN | {Pair}, "a register to write"),
    "s": (_SOURCE, "a register or a number"),
    "v": (_SOURCE | {Vec, _VectorToRead}, "a register, a number or a vector"),
    "n": (_SOURCE | {Symbol}, "a register, a number or a name"),
    "w": (
        _SOURCE | {Symbol, Vec, _VectorToRead, _VectorSpecial},
        "a register, a number, a name or a vector",
    ),
    "x": (_SOURCE | {RegisterPart}, "a register or a number"),
    "y": (_WRITTEN | {RegisterPart}, "a register to write"),
    "m": (frozenset({Mem}), "an address in brackets"),
}


@cache
def _shape(opcode: str, modifiers: tuple[str, ...]) -> _Shape | None:
    """The row of the longest prefix of an instruction's name."""
    words = (opcode, *(m.partition("::")[0] for m in modifiers[:2]))
    names = (".".join(words[:count]) for count in range(len(words), 0, -1))
    return next((_SHAPES[name] for name in names if name in _SHAPES), None)


_SHAPES = _shapes()


def shaped() -> frozenset[str]:
    """The first words of all opcodes whose operands are known."""
    return frozenset(name.partition(".")[0] for name in _SHAPES)


def misplaced(
    opcode: str, modifiers: tuple[str, ...], kinds: tuple[type, ...], lengths: tuple[int, ...]
) -> None:
    """Raises Misplaced where an instruction has operands of other kinds than its opcode takes, or
    vectors of other lengths."""
    if opcode == "call":
        return _call(kinds)
    shape = _shape(opcode, modifiers)
    if shape is None:
        return
    most = len(shape.letters)
    if not shape.least <= len(kinds) <= most:
        few = f"{shape.least} to {most}" if shape.least < most else str(most)
        word = "operand" if few == "1" else "operands"
        raise Misplaced(f"takes {few} {word}, not {len(kinds)}")
    for at, (letter, kind) in enumerate(zip(shape.letters, kinds, strict=False)):
        taken, name = _TAKES[letter]
        if kind not in taken:
            raise Misplaced(f"takes {name} here, not {_NAMES[kind]}", at)

    allowed = _lengths(opcode, modifiers, lengths) if lengths else ()
    for at, elements in enumerate(lengths):
        if elements and elements not in allowed:
            few = " or ".join(map(str, allowed))
            raise Misplaced(f"takes a vector of {few} here, not of {elements}", at)


_ACCESSES = frozenset({"ld", "ldu", "st", "atom", "red"})
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}


def _lengths(opcode: str, modifiers: tuple[str, ...], lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Elements that the vectors of an instruction may have."""
    if opcode in _ACCESSES:
        return (next((_VECTORS[m] for m in modifiers if m in _VECTORS), 1),)
    if opcode == "mov" and all(lengths):  # a vector into another
        return (lengths[0],)
    return (2, 4)


def _call(kinds: tuple[type, ...]) -> None:
    """`call (results), function, (arguments), prototype`: only the function has to be there."""
    at = 1 if kinds[:1] == (Args,) else 0
    if len(kinds) <= at:
        raise Misplaced("needs a function to call")
    for where in range(at, len(kinds), 2):
        if kinds[where] not in _CALLED:
            named = _NAMES[kinds[where]]
            raise Misplaced(f"takes a name or a register here, not {named}", where)
    if kinds[at + 1 : at + 2] not in ((), (Args,)) or len(kinds) > at + 3:
        raise Misplaced("takes (results), a function, (arguments) and a prototype")
