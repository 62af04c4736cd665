"""Loaded values as terms: the epoch of a load, and the stores before it that may have hit.

`Memory` makes such a term from what a load is of: `("load", space, epoch, sizes)` over the address,
then place, value and guard of each store that may have hit the bytes, with their spaces and sizes.
"""

from __future__ import annotations

from typing import Any

from ptxsw.facts.loads import is_load
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, bottom_up
from ptxsw.terms.terms import Terms
from ptxsw.validate.chain import Bytes


def holds_first(value: Term) -> bool:
    """Is some of a loaded value what memory held before any store of an epoch?"""
    if value.kind in op.OPAQUE:  # nearly always
        return _may_be_first(value)
    seen: set[Term] = set()
    for node in bottom_up(seen, lambda n: () if n.kind in op.OPAQUE else n.args, value):
        seen.add(node)
        if node.kind in op.OPAQUE and _may_be_first(node):
            return True
    return False


def _may_be_first(node: Term) -> bool:
    """May what is not taken apart be what memory held before any store?"""
    name: Any = node.value[0] if node.kind is op.APPLY else ()
    return node.kind is not op.FLOAT and not (len(name) == 4 and name[0] == "load" and name[3])


def stores_before(value: Term) -> frozenset[Bytes]:
    """Those stores that may have hit whatever a loaded value has of memory: each part of it is
    told by what they have left there."""
    behind: frozenset[Bytes] | None = None
    seen: set[Term] = set()
    for node in bottom_up(seen, lambda n: () if n.kind in op.OPAQUE else n.args, value):
        seen.add(node)
        if node.kind in op.OPAQUE:
            kinds = node.value[0][3] if is_load(node) else ()
            stores = zip(kinds, node.args[1::3], strict=True) if kinds else ()
            targets = frozenset(Bytes(space, place, size) for (space, size), place in stores)
            behind = targets if behind is None else behind & targets
    return behind or frozenset()


def used_part(terms: Terms, value: Term, mask: int | None, at: int) -> Term:
    """What a load leaves of a value that lies `at` so many bytes behind its address. Where the mask
    says that some of its bytes are not used, nothing is known of it but that it is the same each
    time."""
    every = (1 << value.width // 8) - 1
    used = every if mask is None else (mask >> at) & every
    if used == every:
        return value
    return terms.apply(("used bytes", used), value.width, (value,), Variance.UNIFORM)
