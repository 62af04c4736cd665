"""Indices in CUDA source, compared with what the PTX computes, and counted where others stand in
their place: so every line that a finding tells to write was tried.

The line is read, and what it says of an address has to be what the PTX computes. Then the address
that the new line stands for is counted as the old one was:

    sum += a[i * n + k];        a[param_1*(ctaid.x*ntid.x + tid.x) + k]: 32 sectors
    sum += a[k * m + i];        4 sectors: told
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.traffic import Traffic
from ptxsw.findings.base import Scene, Site
from ptxsw.findings.subscripts import (
    Meaning,
    NameSum,
    Subscript,
    definitions,
    names_in,
    plus,
    product,
    subscripts,
    summed,
)
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Monomial, Polynomial
from ptxsw.terms.readings import UnwrappedReading

_BUILTINS = {"tid": "threadIdx", "ctaid": "blockIdx", "ntid": "blockDim", "nctaid": "gridDim"}
SPECIALS = {f"{cuda}.{a}": f"%{ptx}.{a}" for ptx, cuda in _BUILTINS.items() for a in "xyz"}
_NAMES = {special: name for name, special in SPECIALS.items()}
LANE = "threadIdx.x"
HEIGHTS = ("rows", "height", "row_count")  # for a number that the source does not name
READINGS = 3  # of names with several definitions
LONGEST = 160  # characters of a line that is told


class TriedLine(Struct, frozen=True):
    """A line, the sectors of its heaviest access before and with it, the arrays whose accesses
    differ, and the name in it for a number of rows for which the source has none."""

    text: str
    before: int
    after: int
    arrays: tuple[str, ...] = ()
    rows: str = ""


class IndexReader:
    """Reads indices of a kernel's source, and compares them with what the PTX does."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.source = scene, scene.source
        start, end = self.source.body
        self.body = self.source.text[start:end]
        self.defined = definitions(self.body)
        self._known: list[dict[str, NameSum]] = [{} for _ in range(READINGS)]
        self.parameters = {
            f"{scene.trace.function.name}_param_{number}": name
            for number, name in enumerate(self.source.parameters)
        }
        taken = names_in(self.body) | set(self.source.parameters)
        self.rows = next((name for name in HEIGHTS if name not in taken), "rows_")

    def meaning(self, reading: int) -> Meaning:
        """What names stand for; of several definitions that of a number."""

        def of(name: str) -> str | int | None:
            texts = self.defined.get(name)
            if texts:
                return texts[min(reading, len(texts) - 1)]
            axis = name[-1]
            if name[:-2] == "blockDim" and self.scene.trace.function.block_shape is not None:
                return self.scene.trace.function.block_shape["xyz".index(axis)]
            return None if name in self.defined else self.source.number(name)

        return of

    def value(self, index: str, reading: int) -> NameSum | None:
        return summed(index, self.meaning(reading), self._known[reading])

    def is_unknown(self, name: str) -> bool:
        """Is a name in a sum one of a variable that is not followed, such as that of a loop?"""
        changed = name in self.defined and not self.defined[name]
        return changed or (name not in SPECIALS and name not in self.source.parameters)

    def rest(self, site: Site, array: str, index: NameSum, size: int) -> int | None:
        """The bytes from `array[index]`, in elements of `size` bytes, to where a site accesses
        memory; None where the index is not what the PTX computes."""
        polynomial = self.scene.polynomial(site.access)
        if polynomial is None or not polynomial.is_whole:
            return None
        known = {names: n for names, n in index.items() if not any(map(self.is_unknown, names))}
        base: NameSum = {(f"*{array}",): 1}
        left = plus(self._named(polynomial), plus(base, known, size), -1)
        offset = left.pop((), 0) if isinstance(left, dict) else 0
        if len(known) == len(index):
            return offset if not left else None
        # What a loop counts adds what is the same for all lanes.
        uniform = all(names and all(map(self._is_uniform, names)) for names in left)
        return offset % size if uniform else None

    def _named(self, polynomial: Iterable[tuple[Monomial, int]]) -> NameSum:
        total: NameSum = {}
        for monomial, factor in polynomial:
            one: NameSum = {(): factor}
            for term in monomial:
                one = product(one, self._name(term))
            total = plus(total, one)
        return total

    def _name(self, term: Term) -> NameSum:
        name = str(term.value)
        shape = self.scene.trace.function.block_shape
        if shape is not None and name.startswith("%ntid."):
            return {(): shape["xyz".index(name[-1])]}
        if term.origin is Origin.PARAMETER and name in self.parameters:
            own = self.parameters[name]
            return {(f"*{own}" if term.width == 64 and self._is_pointer(own) else own,): 1}
        return {(_NAMES.get(name) or f"{'~' if term.variance is Variance.LANE else '='}{name}",): 1}

    def _is_pointer(self, parameter: str) -> bool:
        at = self.source.parameters.index(parameter)
        return "*" in self.source.declared[at] or "[" in self.source.declared[at]

    @staticmethod
    def _is_uniform(name: str) -> bool:
        return not name.startswith(("threadIdx", "~", "*"))

    def sectors(self, site: Site, index: NameSum, size: int) -> int | None:
        """Sectors of an access that goes to `array[index]` in place of where it goes."""
        items = list[tuple[Monomial, int]]()
        for names, factor in index.items():  # what is not followed is the same for all lanes
            if not any(name != self.rows and self.is_unknown(name) for name in names):
                items.append((tuple(map(self._term, names)), factor * size))
        return sectors_at(self.scene, site, Polynomial.of(items))

    def _term(self, name: str) -> Term:
        special = SPECIALS.get(name)
        terms = self.scene.trace.terms
        return terms.special(special) if special else terms.atom(name, 32, Variance.UNIFORM)


def sectors_at(scene: Scene, site: Site, offset: Polynomial) -> int | None:
    """Sectors of an access that goes so many bytes behind the start of an array."""
    terms = scene.trace.terms
    items = [(terms.atom("array", 64, Variance.UNIFORM), 1)]
    for monomial, factor in offset:
        one = terms.const(1, 64)
        for term in monomial:
            one = terms.mul(one, terms.zext(term, 64))
        items.append((one, factor))
    address = terms.sum(64, 0, items)
    views = tuple(replace(view, address=address) for view in site.access.variants)
    moved = replace(site.access, variants=views)
    return Traffic.of(moved, UnwrappedReading(), scene.warps).sectors()[0]


@lru_cache(maxsize=1)
def reader_of(scene: Scene) -> IndexReader:
    return IndexReader(scene)


def line_of(scene: Scene, site: Site) -> tuple[int, str] | None:
    """The number and text of the source line of an access; None where it is not known."""
    place = scene.place(site.index)
    if place is None or place.file != scene.source.file:
        return None
    text = scene.source.line(place.line)
    return (place.line, text) if text and len(text) <= LONGEST else None


class Turned(Struct, frozen=True):
    """A subscript written anew, with figures as those of a line."""

    text: str
    before: int
    after: int
    rows: str = ""


def with_each(text: str, turn: Callable[[Subscript], Turned | None]) -> TriedLine | None:
    """A line with all subscripts that can be turned."""
    found = [(one, new) for one in subscripts(text) if (new := turn(one)) is not None]
    if not found:
        return None
    for one, new in reversed(found):
        text = text[: one.start] + new.text + text[one.end :]
    return TriedLine(
        text, max(new.before for _, new in found), max(new.after for _, new in found),
        tuple(dict.fromkeys(one.array for one, _ in found)),
        max(new.rows for _, new in found),
    )  # fmt: skip
