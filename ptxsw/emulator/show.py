"""Terms as people read them, in the manner of the CC'23 paper's Listing 5.

`0xc + (load(p) + %tid.x + iter(L)) << 0x2`: constants in hexadecimal, a common power of two
pulled out as a shift, sign and zero extensions left out unless asked for.
"""

from __future__ import annotations

from ptxsw.bits import wrapped
from ptxsw.emulator.node import Term, signed, split

_INFIX = {
    "udiv": "/u", "urem": "%u", "sdiv": "/", "srem": "%", "and": "&", "or": "|", "xor": "^",
    "shl": "<<", "lshr": ">>u", "ashr": ">>", "eq": "==", "ult": "<u", "ule": "<=u",
    "slt": "<", "sle": "<=",
}  # fmt: skip

_TOO_LONG = 2000


def show(term: Term, *, extensions: bool = False) -> str:
    """A term as text. `extensions` shows `sext64(…)` and `zext64(…)`."""
    if term.size > 50_000:
        return "…"
    text = _show(term, extensions)
    return text if len(text) <= _TOO_LONG else text[:_TOO_LONG] + "…"


def _show(term: Term, extensions: bool) -> str:
    args = [*term.args]
    match term.kind:
        case "const":
            return _hex(signed(term) if term.width >= 8 else int(term.value))
        case "atom":
            return str(term.value).partition("#")[0]
        case "sum":
            return _sum(term, extensions)
        case "mul":
            return " * ".join(_tight(a, extensions) for a in args)
        case "zext" | "sext":
            inner = _show(args[0], extensions)
            return f"{term.kind}{term.width}({inner})" if extensions else inner
        case "extract":
            inner = _show(args[0], extensions)
            if term.value == 0 and not extensions and term.width >= 16:
                return inner
            return f"({inner})[{term.value + term.width - 1}:{term.value}]"
        case "concat":
            return "{" + ", ".join(_show(a, extensions) for a in args) + "}"
        case "not":
            return "!" + _tight(args[0], extensions)
        case "ite":
            c, yes, no = (_tight(a, extensions) for a in args)
            return f"({c} ? {yes} : {no})"
        case "float":
            return f"{term.value}({', '.join(_show(a, extensions) for a in args)})"
        case "apply":
            name = term.value[0][0]
            return f"{name}({', '.join(_show(a, extensions) for a in args)})"
        case _:
            left, right = (_tight(a, extensions) for a in args)
            return f"{left} {_INFIX[term.kind]} {right}"


def _sum(term: Term, extensions: bool) -> str:
    constant, items = split(term)
    groups: dict[int, list[Term]] = {}
    for atom, coefficient in items:
        groups.setdefault(wrapped(coefficient, term.width), []).append(atom)
    parts = [_hex(wrapped(constant, term.width))] if constant else []
    for coefficient in sorted(groups, key=lambda c: (c != 1, abs(c), c < 0)):
        atoms = sorted(groups[coefficient], key=_appearance)
        parts.append(_scaled(atoms, coefficient, extensions))
    return " + ".join(parts)


def _scaled(atoms: list[Term], coefficient: int, extensions: bool) -> str:
    texts = [_show(a, extensions) for a in atoms]
    if coefficient == 1:
        return " + ".join(
            t if extensions or a.kind not in ("zext", "sext") else _tight(a, extensions)
            for a, t in zip(atoms, texts, strict=True)
        )
    inner = texts[0] if len(atoms) == 1 else " + ".join(_tight(a, extensions) for a in atoms)
    call = extensions and atoms[0].kind in ("zext", "sext")
    compound = len(atoms) > 1 or (" " in inner and not call)
    inner = f"({inner})" if compound else inner
    if coefficient == -1:
        return f"(- {inner})"
    if coefficient > 1 and coefficient & (coefficient - 1) == 0:
        return f"{inner} << {_hex(coefficient.bit_length() - 1)}"
    return f"{_hex(coefficient)} * {inner}"


def _tight(term: Term, extensions: bool) -> str:
    text = _show(term, extensions)
    return f"({text})" if " " in text and not _wrapped(text) else text


def _wrapped(text: str) -> bool:
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
    return int(term.variance), repr(term.value) if term.kind == "atom" else "~"


def _hex(value: int) -> str:
    return f"-{-value:#x}" if value < 0 else f"{value:#x}"
