"""Why it is not known where the lanes of a warp point: that part of an address which differs over
lanes and is no function of their places."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.emulator.trace import Access, Trace
from ptxsw.terms import op
from ptxsw.terms.affine import is_lane_atom
from ptxsw.terms.node import Term, Variance, bottom_up, unknowns, walk
from ptxsw.terms.origin import Origin

_MOST_LINES = 3


def cause(trace: Trace, access: Access) -> str:
    """What hides it, in a few words: "index loaded at line 40"."""
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
        return f"{_shown(hidden[0])} gives it"
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


def _shown(node: Term) -> str:
    """The instruction that a value comes from."""
    name = node.value[0][0] if node.kind is op.APPLY else str(node.value)
    return name.partition("#")[0].partition("(")[0] or "something"
