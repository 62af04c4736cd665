"""What a launch has to see to, as polynomials that are at most 0, and in words.

4·ntid.x - 132    "blockDim.x <= 33"
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Monomial, Polynomial
from ptxsw.terms.show import show

_WARP = 32  # threads
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
    one block, thread, row or column, nor to have so many blocks that no loop goes round."""
    if not excess.atoms or any(atom.kind is not op.ATOM for atom in excess.atoms):
        return False
    if len(excess.items) > _LONGEST:
        return False
    if _needs_one(excess) or _needs_short_rows(excess):
        return False
    larger = {str(atom.value) for m, f in excess if f < 0 for atom in m}
    smaller = {atom.origin for m, f in excess if f > 0 for atom in m}
    return not (any(map(_is_of_grid, larger)) and Origin.PARAMETER in smaller)


def _needs_one(excess: Polynomial) -> bool:
    """Is a polynomial at most 0 only where one of its sizes is 1 or 0, as `w·h + 4·w <= w` is? Each
    is written as 2 and what is more."""
    for atom in excess.atoms:
        parted = excess.parted(atom)
        if parted is None:
            return True  # a square, or more
        excess = parted[0] * (Polynomial.atom(atom) + 2) + parted[1]
    return excess.offset > 0 and all(factor >= 0 for _, factor in excess)


def _needs_short_rows(excess: Polynomial) -> bool:
    """Does a polynomial stay below 0 for more and more rows only where these are shorter than a
    warp, as `w·h <= 8·h + 1` does where `w` is at most 8? Nobody launches that, and it would hide a
    fault of all who do not."""
    for atom in excess.atoms:
        parted = excess.parted(atom)
        if parted is None:
            continue
        factor, rest = parted
        grows = any(m for m, _ in factor) and all(f > 0 for m, f in factor if m)
        if grows and -_WARP < factor.offset < 0 and all(f > 0 for m, f in rest if m):
            return True
    return False


def agree(condition: Polynomial, others: Iterable[Polynomial]) -> bool:
    """May a launch see to a condition besides others? Not to `w·h + 2 <= ntid.x` and `ntid.x <= w`
    but for one row or none: sums in which a product cancels out have to be possible, too."""
    factors = {m: f for m, f in condition if m}
    for other in others:
        for monomial, factor in other:
            own = factors.get(monomial, 0)
            if own * factor < 0 and _needs_one(condition * abs(factor) + other * abs(own)):
                return False
    return True


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


def in_words(need: Polynomial) -> str:
    """That a polynomial is at most 0, as a user reads it: `16·a + 4·b - 1088 <= 0` as
    "4·a + b <= 272"."""
    varying = [(monomial, factor) for monomial, factor in need if monomial]
    shared = gcd(*(factor for _, factor in varying))
    left = [(m, f // shared) for m, f in varying if f > 0]
    right = [(m, -f // shared) for m, f in varying if f < 0]
    number = -need.offset // shared
    first = _sum(left, max(-number, 0) if right else 0)
    second = _sum(right, max(number, 0) if left else number)
    if not left:
        return f"{_sum(right, 0)} >= {-number:,}"
    return f"{first} <= {second}"


def _sum(items: Sequence[tuple[Monomial, int]], number: int) -> str:
    parts = []
    for monomial, factor in items:
        product = "·".join(map(name_in_cuda, monomial))
        parts.append(product if factor == 1 else f"{factor:,}·{product}")
    if number or not parts:
        parts.append(f"{number:,}")
    return " + ".join(parts)


def name_in_cuda(atom: Term) -> str:
    """As people write it."""
    name, _, axis = str(atom.value).partition(".")
    return f"{_NAMES[name]}.{axis}" if name in _NAMES else show(atom)
