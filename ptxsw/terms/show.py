"""Terms as people read them, in the manner of the CC'23 paper's Listing 5.

`0xc + (load(p) + %tid.x + iter(L)) << 0x2`: constants in hexadecimal, a common power of two
pulled out as a shift, sign and zero extensions left out unless asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, signed, split, walk_until

Texts = Mapping[Term, str]

_INFIX = {
    op.UDIV: "/u", op.UREM: "%u", op.SDIV: "/", op.SREM: "%", op.AND: "&", op.OR: "|", op.XOR: "^",
    op.SHL: "<<", op.LSHR: ">>u", op.ASHR: ">>", op.EQ: "==", op.ULT: "<u", op.ULE: "<=u",
    op.SLT: "<", op.SLE: "<=",
}  # fmt: skip

_TOO_LONG = 2000
"""Characters. A term shares its parts, a text repeats them: it may be longer than the term by any
factor. So the text of every part is cut, too."""

_LARGE, _SHORT = 5000, 200
"""Of the parts of a term of more nodes than this only so many characters are kept."""


def show(term: Term, *, extensions: bool = False) -> str:
    """A term as text, cut where that is long. `extensions` shows `sext64(…)` and `zext64(…)`."""
    texts: dict[Term, str] = {}
    most = _TOO_LONG if term.size <= _LARGE else _SHORT
    for node in walk_until(texts, term):
        text = _shown(node, texts, extensions)
        texts[node] = text if len(text) <= most else text[:most] + "…"
    return texts[term]


def _shown(term: Term, texts: Texts, extensions: bool) -> str:
    """A term whose arguments' texts are known."""
    args = [texts[a] for a in term.args]
    match term.kind:
        case op.CONST:
            return _hex(signed(term) if term.width >= 8 else int(term.value))
        case op.ATOM:
            return str(term.value).partition("#")[0]
        case op.SUM:
            return _sum(term, texts, extensions)
        case op.MUL:
            return " * ".join(map(_tight, args))
        case op.ZEXT | op.SEXT:
            return f"{term.kind}{term.width}({args[0]})" if extensions else args[0]
        case op.EXTRACT:
            if term.value == 0 and not extensions and term.width >= 16:
                return args[0]
            return f"({args[0]})[{term.value + term.width - 1}:{term.value}]"
        case op.CONCAT:
            return "{" + ", ".join(args) + "}"
        case op.NOT:
            return "!" + _tight(args[0])
        case op.ITE:
            c, yes, no = map(_tight, args)
            return f"({c} ? {yes} : {no})"
        case op.FLOAT:
            return f"{term.value}({', '.join(args)})"
        case op.APPLY:
            return f"{term.value[0][0]}({', '.join(args)})"
        case _:
            left, right = map(_tight, args)
            return f"{left} {_INFIX[term.kind]} {right}"


def _sum(term: Term, texts: Texts, extensions: bool) -> str:
    constant, items = split(term)
    groups: dict[int, list[Term]] = {}
    for atom, coefficient in items:
        groups.setdefault(wrapped(coefficient, term.width), []).append(atom)
    parts = [_hex(wrapped(constant, term.width))] if constant else []
    for coefficient in sorted(groups, key=lambda c: (c != 1, abs(c), c < 0)):
        atoms = sorted(groups[coefficient], key=_appearance)
        parts.append(_scaled(atoms, coefficient, texts, extensions))
    return " + ".join(parts)


def _scaled(atoms: list[Term], coefficient: int, texts: Texts, extensions: bool) -> str:
    if coefficient == 1:
        return " + ".join(
            texts[a] if extensions or a.kind not in op.EXTENSIONS else _tight(texts[a])
            for a in atoms
        )
    first = texts[atoms[0]]
    inner = first if len(atoms) == 1 else " + ".join(_tight(texts[a]) for a in atoms)
    call = extensions and atoms[0].kind in op.EXTENSIONS
    compound = len(atoms) > 1 or (" " in inner and not call)
    inner = f"({inner})" if compound else inner
    if coefficient == -1:
        return f"(- {inner})"
    if coefficient > 1 and coefficient & (coefficient - 1) == 0:
        return f"{inner} << {_hex(coefficient.bit_length() - 1)}"
    return f"{_hex(coefficient)} * {inner}"


def _tight(text: str) -> str:
    return f"({text})" if " " in text and not is_enclosed(text) else text


def is_enclosed(text: str) -> bool:
    """Does one pair of parentheses enclose the whole text?"""
    if not text.startswith("("):
        return False
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return at == len(text) - 1
    return False


def _appearance(term: Term) -> tuple[int, str]:
    """Pointers and other uniform values first, then what varies, then by name."""
    return int(term.variance), repr(term.value) if term.kind is op.ATOM else "~"


def _hex(value: int) -> str:
    return f"-{-value:#x}" if value < 0 else f"{value:#x}"
