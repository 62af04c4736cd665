"""Figures of an access whose stride changes from iteration to iteration of a loop (`s *= 2`)."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.banks import bank_ways
from ptxsw.analysis.coalescing import common_step
from ptxsw.analysis.shared_banks import inside_array
from ptxsw.analysis.traffic import Traffic
from ptxsw.analysis.warps import Warps
from ptxsw.emulator.loops import Iterations
from ptxsw.emulator.trace import Access, Trace
from ptxsw.report import model
from ptxsw.terms.affine import Affine
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, unknowns, walk
from ptxsw.terms.substitution import substitute


class Turning(Struct, frozen=True):
    """The iterations of one access. `register` is the one whose value they tell apart."""

    register: str
    figures: tuple[model.Iteration, ...]
    worst: Traffic  # of the iteration with most sectors

    @property
    def sectors(self) -> int | None:
        return _most([iteration.sectors for iteration in self.figures])

    @property
    def bank_conflicts(self) -> int | None:
        return _most([iteration.bank_conflicts for iteration in self.figures])


def iterations(trace: Trace, access: Access, warps: Warps) -> Turning | None:
    """The figures of each iteration, where one register decides how far lanes are apart and its
    values are known; None for any other access."""
    terms = [v.address for v in access.variants]
    changing = [node for node in walk(*terms) if node in trace.iterations]
    if len(changing) != 1:
        return None
    [atom] = changing
    values, ends = _values(trace.iterations[atom], warps)
    if not ends and access.space != "shared":
        return None
    cases: list[Traffic] = []
    figured: list[model.Iteration] = []
    for value in values:
        one = _with(trace, access, atom, value)
        asked = Traffic.of(one, Affine(), warps)
        figure = _figures(asked, value) if ends else _figures_inside(trace, asked, value, warps)
        if figure is None:
            break
        cases.append(asked)
        figured.append(figure)
    if len({iteration.lane_stride for iteration in figured}) < 2:
        return None  # it moves the whole warp, or nothing is known
    figures = tuple(figured)
    worst = max(cases, key=lambda one: one.sectors()[0] or 0)
    name = str(atom.value).rpartition(", ")[2].rstrip(")").lstrip("%")
    return Turning(name, figures, worst)


def _values(counted: Iterations, warps: Warps) -> tuple[list[int], bool]:
    """The register's values, as long as another iteration may follow, and whether it is known when
    none does; no values where they depend on what only the run knows."""
    values: list[int] = []
    for iteration in counted:
        value, again = _number(iteration.value, warps), _number(iteration.again, warps)
        if value is None:
            return [], False
        values.append(value)
        if again == 0:
            return values, True
    return values, False


def _number(term: Term, warps: Warps) -> int | None:
    """The value of a term in which there is nothing but sizes of the block."""
    leaves = unknowns(term)
    if any(leaf.value not in warps.sizes for leaf in leaves):
        return None
    return evaluate(term, {leaf: warps.sizes[leaf.value] for leaf in leaves})


def _with(trace: Trace, access: Access, atom: Term, value: int) -> Access:
    """The access in the iteration in which an atom has this value."""
    held = {atom: trace.terms.const(value, atom.width)}.get
    variants = tuple(
        replace(v, address=substitute(trace.terms, v.address, held)) for v in access.variants
    )
    return replace(access, variants=variants)


def _figures(asked: Traffic, value: int) -> model.Iteration:
    offsets = asked.offsets
    stride = None if offsets is None else common_step(offsets)
    return model.Iteration(value, stride, asked.sectors()[0], asked.banks(Affine()))


def _figures_inside(
    trace: Trace, asked: Traffic, value: int, warps: Warps
) -> model.Iteration | None:
    """The same of an iteration of a loop that goes on for no one knows how long, of the lanes that
    stay inside their array; None where no lane does, as behind the last iteration."""
    lanes = inside_array(trace, asked.access, warps.block)
    if not lanes or not asked.size:
        return None
    ways = max(bank_ways(one, asked.size) for one in lanes)
    return replace(_figures(asked, value), bank_conflicts=ways)


def _most(counts: list[int | None]) -> int | None:
    certain = [count for count in counts if count is not None]
    return max(certain) if len(certain) == len(counts) else None
