"""Which accesses have no bounds over the grid, however small the numbers of a launch are.

`ranges` finds that out, too, but only where it has read the address and all that it depends on, and
once for each limit that is tried. Here a look at the address is enough: nothing bounds an index
that was loaded, nor the turns of a loop whose end is not known.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.analysis.comparisons import comparisons
from ptxsw.analysis.grid import Grid, loop_counted, per_thread
from ptxsw.analysis.ranges import OPAQUE_BITS
from ptxsw.emulator.node import Term, ones, split
from ptxsw.emulator.trace import Access


def is_boundless(grid: Grid, access: Access) -> bool:
    """Has an access surely no range of bytes that all threads share? A no may mean that it is not
    seen."""
    return any(
        grid.pointer(variant.address) is None
        or any(_is_boundless(grid, atom) for atom in _atoms(grid, variant.address))
        for variant in access.variants
    )


def _is_boundless(grid: Grid, atom: Term) -> bool:
    """Does an atom surely have no bounds?"""
    if grid.is_uniform(atom) or per_thread((atom,)):
        return False
    label = loop_counted(atom)
    if label in grid.again:
        _, again = grid.again[label]
        (condition,) = again if len(again) == 1 else (None,)
        if condition is None:
            return True
        until_equal = condition.kind == "not" and condition.args[0].kind == "eq"
        return not until_equal and len(list(comparisons([condition], grid.terms))) != 1
    return bool(ones(atom) >> OPAQUE_BITS)


def _atoms(grid: Grid, address: Term) -> Iterator[Term]:
    """What is left of an address that is read as a polynomial."""
    work = [address]
    while work:
        term = work.pop()
        match term.kind:
            case "const":
                continue
            case "sum":
                work += (part for part, _ in split(term)[1])
            case "mul":
                work += term.args
            case "zext" | "sext" if term.args[0].width >= OPAQUE_BITS:
                work.append(term.args[0])
            case "zext" if term.args[0].kind == "extract":
                work.append(term.args[0])
            case "extract" if term.value and grid.is_uniform(term.args[0]):
                continue
            case "concat" if term.args[1].kind == "const":
                work.append(term.args[0])
            case "extract" if term.value == 0 and term.width >= OPAQUE_BITS:
                work.append(term.args[0])
            case _:
                yield term
