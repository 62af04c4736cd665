"""The address of an access that lanes reach by different paths, as one choice.

Of an unrolled loop compilers put what is left over into a loop of its own. What comes behind goes
on from where that ended, or from its start where there was nothing left over:

    i + 256 * left    if left = ((n - i) / 256) & 3 is not 0
    i                 if it is 0

How often the lanes went round that loop, each for itself, is told by the condition under which they
left it. With that put in, both are functions of the lane, and the lanes of almost all warps agree.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from ptxsw.emulator.trace import Access, AccessView
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, signed, split, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.substitution import MAX_CHOICES, choice, substitute
from ptxsw.terms.terms import Terms

_LARGEST = 500  # nodes of an address


def with_one_path(terms: Terms, access: Access) -> Access:
    """The access with one variant for all lanes, where conditions tell which address is that of a
    lane; else as it is."""
    if any(variant.address.size > _LARGEST for variant in access.variants):
        return access
    if not any(_counts_itself(variant) for variant in access.variants):
        return access
    if len(access.variants) > MAX_CHOICES or len({v.guard for v in access.variants}) > 1:
        return access
    facts: dict[Term, frozenset[Term]] = {}
    for variant in access.variants:
        counts = dict(_last_counts(terms, variant.conditions))
        address = substitute(terms, variant.address, counts.get)
        known = frozenset(substitute(terms, c, counts.get) for c in variant.conditions)
        facts[address] = known & facts.get(address, known)
    chosen = choice(terms, facts)
    if chosen is None or chosen.size > _LARGEST:
        return access
    common = frozenset.intersection(*facts.values())
    (guard,) = {variant.guard for variant in access.variants}
    return replace(access, variants=(AccessView(chosen, guard, common),))


def _counts_itself(variant: AccessView) -> bool:
    """Is the address made of the iterations of a loop that lanes have left at different times?"""
    return any(_is_count(node) for node in walk(variant.address))


def _is_count(node: Term) -> bool:
    return node.origin is Origin.LAST_ITERATION and node.variance is Variance.LANE


def _last_counts(terms: Terms, conditions: frozenset[Term]) -> Iterator[tuple[Term, Term]]:
    """The iterations of loops that ended where two values met, as functions of what was before."""
    for condition in sorted(conditions, key=lambda c: c.id):
        if condition.kind is not op.EQ:
            continue
        difference = terms.sub(*condition.args)
        for item, factor in split(difference)[1]:
            count = item.args[0] if item.kind is op.EXTRACT and item.value == 0 else item
            sign = signed(terms.const(factor, item.width))
            if not _is_count(count) or abs(sign) != 1:
                continue
            rest = terms.sub(difference, terms.scale(item, sign))
            if not any(map(_is_count, walk(rest))):
                # The first time that they meet: the count is the least number that is equal to it.
                yield count, terms.zext(terms.scale(rest, -sign), count.width)
