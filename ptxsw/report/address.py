"""Addresses as a CUDA programmer would write them.

`jacobi_param_5 + (0x1 + %tid.x) << 0x2` of four-byte elements is `param_5[tid.x + 1]`. Sums are
read as if nothing wrapped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ptxsw.emulator.affine import Affine, Monomial, Polynomial
from ptxsw.emulator.node import Term
from ptxsw.emulator.show import show

_LONGEST = 400  # characters


@dataclass(frozen=True)
class Writer:
    """Writes the terms of one function."""

    affine: Affine
    function: str

    def address(self, term: Term, size: int) -> str:
        """`base[index]` in elements of `size` bytes, else `base + bytes`."""
        return self.polynomial(self.affine.polynomial(term), size)

    def polynomial(self, address: Polynomial, size: int) -> str:
        """The same for an address that is a polynomial."""
        polynomial = dict(address)
        bases = [m for m, factor in polynomial.items() if factor == 1 and _is_pointer(m)]
        if len(bases) == 1 and size:
            base = self._product(bases[0])
            del polynomial[bases[0]]
            if all(factor % size == 0 for factor in polynomial.values()):
                index = {m: factor // size for m, factor in polynomial.items()}
                return _short(f"{base}[{self.sum(index) or '0'}]")
        return _short(self.sum(address) or "0")

    def sum(self, polynomial: Polynomial) -> str:
        """Uniform parts first, then what varies by lane, the constant last."""
        text = ""
        for monomial in sorted(polynomial, key=self._order):
            factor = polynomial[monomial]
            sign = "-" if factor < 0 else "+"
            part = self._scaled(monomial, abs(factor))
            if text:
                text += f" {sign} {part}"
            else:
                text = f"-{part}" if factor < 0 else part
        return text

    def _scaled(self, monomial: Monomial, factor: int) -> str:
        if not monomial:
            return str(factor)
        return self._product(monomial) if factor == 1 else f"{factor}*{self._product(monomial)}"

    def _product(self, monomial: Monomial) -> str:
        return "*".join(sorted(self._factor(term) for term in monomial))

    def _factor(self, term: Term) -> str:
        if term.kind == "apply" and term.value[0][0] == "load" and len(term.args) == 1:
            return self.address(term.args[0], term.width // 8)
        text = self.clean(show(term))
        loose = " " in text and not re.match(r"(\w+\(|\()", text)
        return f"({text})" if loose else text

    def clean(self, text: str) -> str:
        """Names without what every name of the kernel has in front."""
        text = text.replace(f"{self.function}_param_", "param_").replace("$L__", "")
        text = re.sub(r"&(\w+)", lambda match: _plain(match[1]), text)
        return re.sub(r"%(?=[a-z])", "", text)

    def _order(self, monomial: Monomial) -> tuple[bool, int, int, str]:
        varies = max((int(t.variance) for t in monomial), default=0)
        return not monomial, varies, -len(monomial), self._product(monomial)


def _is_pointer(monomial: Monomial) -> bool:
    """A parameter, a variable or a loaded value, as wide as an address."""
    if len(monomial) != 1:
        return False
    [term] = monomial
    if term.kind == "apply":
        return term.width == 64 and term.value[0][0] == "load"
    if term.kind != "atom":
        return False
    name = str(term.value)
    return name.startswith("&") or (term.width == 64 and "(" not in name and name[0] != "%")


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
