"""What a launch has to see to, as polynomials that are at most 0, and in words.

4·ntid.x - 132    "blockDim.x <= 33"
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.show import show

_LONGEST = 6  # terms of a condition that a user reads
_NAMES = {"%ntid": "blockDim", "%nctaid": "gridDim"}


def plain_condition(excess: Polynomial) -> Polynomial:
    """A shorter polynomial that is at most 0 only if this one is: without what all of its terms are
    multiplied with."""
    excess *= excess.denominator
    common = [m for m, _ in excess]
    for atom in common[0] if common else ():
        parted = excess.parted(atom)
        if parted is not None and not parted[1].items:
            excess = parted[0]
    step = gcd(*(factor for monomial, factor in excess if monomial)) or 1
    items = [(m, f // step if m else -(-f // step)) for m, f in excess]
    return Polynomial.of(items)


def is_promise(excess: Polynomial) -> bool:
    """May a launch be asked to see to it, in words that a user reads? No launch is asked to have
    one block or thread, nor to have so many blocks that no loop goes round."""
    if not excess.atoms or any(atom.kind is not op.ATOM for atom in excess.atoms):
        return False
    if len(excess.items) > _LONGEST:
        return False
    if len(excess.varying) == 1 and any(f > 0 and -excess.offset // f <= 1 for m, f in excess if m):
        return False
    larger = {str(atom.value) for m, f in excess if f < 0 for atom in m}
    smaller = {atom.origin for m, f in excess if f > 0 for atom in m}
    return not (any(map(_is_of_grid, larger)) and Origin.PARAMETER in smaller)


def without_implied(conditions: Iterable[Polynomial]) -> list[Polynomial]:
    """Conditions, but for those that another one implies: `n <= 24` where `n <= 8`."""
    kept: list[Polynomial] = []
    for condition in conditions:
        rests = [(condition - other).number for other in kept]
        if any(rest is not None and rest <= 0 for rest in rests):
            continue
        kept = [o for o, rest in zip(kept, rests, strict=True) if rest is None]
        kept.append(condition)
    return kept


def _is_of_grid(name: str) -> bool:
    return name.startswith("%nctaid")


def told(excess: Polynomial) -> str:
    """That a polynomial is at most 0, as a user reads it."""
    left = Polynomial.of((m, f) for m, f in excess if f > 0)
    right = Polynomial.of((m, -f) for m, f in excess if f < 0)
    if left.number is not None:
        return f"{_sum(right)} >= {left.number}"
    return f"{_sum(left)} <= {_sum(right)}"


def _sum(value: Polynomial) -> str:
    parts = [
        "*".join([*((str(f),) if f != 1 or not m else ()), *map(_name, m)])
        for m, f in sorted(value, key=lambda item: not item[0])
    ]
    return " + ".join(parts) or "0"


def _name(atom: Term) -> str:
    register, _, axis = str(atom.value).partition(".")
    if atom.kind is op.ATOM and register in _NAMES:
        return f"{_NAMES[register]}.{axis}"
    return show(atom)
