"""Addresses as a CUDA programmer would write them, and what hides them.

`jacobi_param_5 + (0x1 + %tid.x) << 0x2` of four-byte elements is `param_5[tid.x + 1]`. Sums are
read as if nothing wrapped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from ptxsw.emulator.spaces import may_point
from ptxsw.emulator.trace import Access, Trace
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.patterns import pattern
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, bottom_up, ones, signed, split, unknowns, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Monomial, Polynomial
from ptxsw.terms.readings import UnwrappedReading, is_lane_atom
from ptxsw.terms.show import is_enclosed, show

_MOST_LINES = 3
_LONGEST = 400  # characters, of every part: see `emulator.show`

_SPECIAL = pattern(r"%(n?tid|n?ctaid|n?cluster|clock|globaltimer|gridid|pm\d|total|dynamic)")
"""Special registers of 64 bits, or sums with others; GCC's parameters begin with % as well."""

_INFIX = {
    op.UDIV: "/", op.UREM: "%", op.SDIV: "/", op.SREM: "%", op.AND: "&", op.OR: "|", op.XOR: "^",
    op.SHL: "<<", op.LSHR: ">>", op.ASHR: ">>", op.EQ: "==", op.ULT: "<", op.ULE: "<=", op.SLT: "<",
    op.SLE: "<=",
}  # fmt: skip


class AddressWriter(Struct, frozen=True):
    """Writes the terms of one function."""

    unwrapped: UnwrappedReading
    function: str
    _texts: dict[Term, str] = field(default_factory=dict)

    def address(self, term: Term, size: int) -> str:
        """`base[index]` in elements of `size` bytes, else `base + bytes`."""
        return self.polynomial(self.unwrapped.polynomial(term), size)

    def polynomial(self, address: Polynomial, size: int) -> str:
        """The same for an address that is a polynomial."""
        parts = [(m, factor) for m, factor in address if not _is_window(m)]
        bases = [m for m, factor in parts if factor == 1 and is_pointer(m)]
        if len(bases) == 1 and size:
            index = Polynomial.of(part for part in parts if part[0] != bases[0]) / size
            if index.is_whole:
                base = self._product(bases[0])
                return _short(f"{base}[{_bare(self.sum(index)) or '0'}]")
        return _short(_bare(self.sum(address)) or "0")

    def sum(self, polynomial: Polynomial) -> str:
        """Uniform parts first, then what varies by lane, the constant last."""
        text = ""
        for monomial, factor in sorted(polynomial, key=self._order):
            sign = "-" if factor < 0 else "+"
            part = self._scaled(monomial, abs(factor))
            if part is None:
                continue
            if text:
                text += f" {sign} {part}"
            else:
                text = f"-{part}" if factor < 0 else part
        return text

    def _scaled(self, monomial: Monomial, factor: int) -> str | None:
        if not monomial:
            return str(factor)
        if any(self._text(term) == "0" for term in monomial):
            return None
        return self._product(monomial) if factor == 1 else f"{factor}*{self._product(monomial)}"

    def _product(self, monomial: Monomial) -> str:
        return "*".join(sorted(self._factor(term) for term in monomial))

    def _factor(self, term: Term) -> str:
        text = self._text(term)
        loose = " " in text and not re.fullmatch(r"[\w.]*(\[[^][]*\]|\([^()]*\))", text)
        return f"({text})" if loose else text

    def _text(self, term: Term) -> str:
        """A term that is no sum, as it would stand in CUDA C++."""
        text = self._texts.get(term)
        if text is None:
            for node in bottom_up(self._texts, self._parts, term):
                self._texts[node] = _short(self._written(node))
            text = self._texts[term]
        return text

    def _parts(self, term: Term) -> Iterable[Term]:
        """The terms whose texts stand in that of a term, or decide how it is written."""
        if term.kind is op.APPLY and term.value[0][0] == "load" and len(term.args) == 1:
            return self._atoms(term.args[0])
        if term.kind in op.POLYNOMIAL:
            return self._atoms(term)
        return term.args

    def _atoms(self, term: Term) -> Iterable[Term]:
        return (t for monomial, _ in self._polynomial(term) for t in monomial)

    def _polynomial(self, term: Term) -> Polynomial:
        """That of a term; of one that is too large for it, in terms of its arguments."""
        polynomial = self.unwrapped.polynomial(term)
        if (term,) not in polynomial.coefficients or term.kind not in (op.SUM, op.MUL):
            return polynomial
        if term.kind is op.MUL:
            return Polynomial.of([(term.args, 1)])
        constant, items = split(term)
        parts = [((t,), wrapped(factor, term.width)) for t, factor in items]
        return Polynomial.of([*parts, ((), wrapped(constant, term.width))])

    def _written(self, term: Term) -> str:
        """A term whose parts' texts are known."""
        if term.kind is op.APPLY and term.value[0][0] == "load" and len(term.args) == 1:
            place = self.polynomial(self._polynomial(term.args[0]), term.width // 8)
            return place if place.endswith("]") else f"*({place})"
        if term.kind in (op.CONST, op.ATOM):
            return self.clean(show(term))
        if term.kind in op.POLYNOMIAL:
            return _bare(self.sum(self._polynomial(term))) or "0"
        if term.kind is op.EXTRACT:
            return self._field(term.args[0], term.value, term.width)
        if term.kind is op.ITE:
            condition, yes, no = map(self._tight, term.args)
            return f"{condition} ? {yes} : {no}"
        if term.kind is op.NOT:
            return f"!{self._tight(term.args[0])}"
        if term.kind in _INFIX:
            left, right = map(self._tight, term.args)
            return f"{left} {_INFIX[term.kind]} {right}"
        if term.kind in (op.APPLY, op.FLOAT):
            name = term.value[0][0] if term.kind is op.APPLY else term.value
            return f"{name}({', '.join(map(self._text, term.args))})"
        return self.clean(show(term))

    def _field(self, term: Term, low: int, width: int) -> str:
        """Bits of a value, as quotient and remainder."""
        if ones(term) >> low & ((1 << width) - 1) == 0:
            return "0"
        if self.unwrapped.polynomial(term) != Polynomial.atom(term) and low == 0 and width >= 16:
            return self._text(term)
        text = self._tight(term)
        if width == 1 and low == term.width - 1:
            return f"{text} < 0"
        if low:
            text = f"{text} / {1 << low}"
        return text if low + width == term.width else f"{text} % {1 << width}"

    def _tight(self, term: Term) -> str:
        """A value as an operand."""
        text = str(signed(term)) if term.kind is op.CONST else self._text(term)
        whole = re.fullmatch(r"[\w.]*(\[[^][]*\]|\([^()]*\))?", text)
        return text if whole else f"({text})"

    def clean(self, text: str) -> str:
        """Names without what every name of the kernel has in front."""
        text = text.replace(f"{self.function}_param_", "param_").replace("$L__", "")
        text = re.sub(r"&%?(\w+)", lambda match: _plain(match[1]), text)
        return re.sub(r"%(?=[a-z])", "", text)

    def _order(self, part: tuple[Monomial, int]) -> tuple[bool, int, int, str]:
        monomial, _ = part
        varies = max((int(t.variance) for t in monomial), default=0)
        return not monomial, varies, -len(monomial), self._product(monomial)


def is_pointer(monomial: Monomial) -> bool:
    """A parameter, a variable or a loaded value, as wide as an address."""
    if len(monomial) != 1:
        return False
    [term] = monomial
    if term.origin is Origin.SYMBOL:
        return True
    return term.width == 64 and may_point(term) and term.origin is not Origin.VOLATILE


def _is_window(monomial: Monomial) -> bool:
    """Where a state space lies among generic addresses."""
    return len(monomial) == 1 and monomial[0].origin is Origin.WINDOW


def _bare(text: str) -> str:
    """A text without parentheses around all of it."""
    return text[1:-1] if is_enclosed(text) else text


def _plain(symbol: str) -> str:
    """The last name in a mangled local variable: `_ZZ4bestiE4tile` is `tile`."""
    if symbol.startswith("_ZZ"):
        for match in re.finditer(r"E(?=(\d+))", symbol):
            name = symbol[match.end() + len(match[1]) :]
            if len(name) == int(match[1]):
                return name
    return symbol


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


# ---------------------------------------------------------------- what hides an address


def cause(trace: Trace, access: Access) -> str:
    """Why it is not known where the lanes of a warp point, in a few words: "index loaded at line
    40". It is that part of an address which differs over lanes and is no function of their places.
    """
    if not access.bytes:
        return "no address by lane"
    addresses = list(dict.fromkeys(variant.address for variant in access.variants))
    hidden = [node for address in addresses for node in unknowns(address) if _hides(node)]
    lines = sorted({line for node in hidden for line in _loaded(trace, access, node)})
    if lines:
        return "index loaded at line " + ", ".join(map(str, lines[:_MOST_LINES]))
    if any(_is_load(inner) for node in hidden for inner in walk(node)):
        return "an index is loaded"
    origins = {node.origin for node in hidden}
    if origins & {Origin.LOOP_VALUE, Origin.LAST_LOOP_VALUE}:
        return "a register that a loop changes"
    if Origin.LAST_ITERATION in origins:
        return "the count of a loop that lanes leave at different times"
    if hidden:
        return f"{_instruction(hidden[0])} gives it"
    if len(addresses) > 1 and access.ways is not Variance.UNIFORM:
        return "it differs by the path"
    kinds = {node.kind for address in addresses for node in walk(address)}
    if kinds & op.QUOTIENTS:
        return "a division"
    return "a choice" if op.ITE in kinds else "bits of it"


def _hides(node: Term) -> bool:
    return node.variance is Variance.LANE and not is_lane_atom(node) and not _is_shared(node)


def _is_shared(node: Term) -> bool:
    """Is it loaded from one address by all lanes of a warp?"""
    # A load from an address that is the same for the warp gives all lanes one value, though the
    # trace, which does not know who writes there, calls it a value of each lane.
    shared: dict[Term, bool] = {}
    for one in bottom_up(shared, _made_with, node):
        parts = all(shared[leaf] for leaf in _made_with(one))
        shared[one] = one.variance < Variance.LANE or (_is_load(one) and parts)
    return shared[node]


def _made_with(node: Term) -> list[Term]:
    """The unknown values that make up the address of a load."""
    return [leaf for arg in node.args for leaf in unknowns(arg)] if _is_load(node) else []


def _is_load(node: Term) -> bool:
    return node.kind is op.APPLY and node.value[0][0] == "load"


def _loaded(trace: Trace, access: Access, term: Term) -> Iterator[int]:
    """The lines of the loads that a value was computed from; where one was made with an address
    that was loaded, that of the last."""
    # Of `a[b[i]]` the reader wants to hear of `a`, not of `b`.
    seen: dict[Term, None] = {}
    for node in bottom_up(seen, lambda n: () if _is_load(n) else n.args, term):
        seen[node] = None
    for node in filter(_is_load, seen):
        readers = trace.readers.get(node.args[0], [])
        earlier = [index for index in readers if index < access.index]
        for index in earlier[-1:] or readers[:1]:
            yield trace.module.source.line(trace.cfg.instructions[index].span.start)


def _instruction(node: Term) -> str:
    """The instruction that a value comes from."""
    name = node.value[0][0] if node.kind is op.APPLY else str(node.value)
    return name.partition("#")[0].partition("(")[0] or "something"
