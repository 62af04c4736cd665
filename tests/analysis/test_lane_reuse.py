"""The candidates for each load are those that a plain look at all pairs of loads gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.analysis.lane_reuse import Candidate, Place, Places, candidates
from ptxsw.codegen.excerpt import Excerpts
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Access, Trace
from ptxsw.parser import parse
from tests.real import FIXTURES, text_of
from tests.shuffle.random_kernels import Writer

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
KERNELGEN = sorted((BENCHMARKS / "kernelgen" / "ptx").glob("*.ptx"))
PROGRAMS = sorted((BENCHMARKS / "programs" / "ptx").glob("*.ptx"))
TRIED = 4

Earlier = list[tuple[Access, Place]]


def traces(text: str) -> list[Trace]:
    module = parse(text)
    excerpts = map(Excerpts(module).of, module.kernels)
    return [emulate(each.module, each.function) for each in excerpts]


def at(earlier: Earlier, key: object, stride: int, offset: int) -> list[tuple[Access, int]]:
    """The elements of loads that lie at an offset, newest first; of many the newest and the
    first."""
    elements = [
        (load, element)
        for load, place in earlier
        for element in range(load.elements)
        if (place.key, place.stride) == (key, stride)
        and place.offset + element * load.bits // 8 == offset
    ]
    return (elements[:1] + elements[1:][1 - TRIED :])[::-1]


def of_element(earlier: Earlier, load: Access, place: Place, element: int) -> list[Candidate]:
    offset, stride = place.offset + element * load.bits // 8, place.stride
    found: list[Candidate] = []
    for delta in sorted(range(-31, 32) if stride else [0], key=lambda n: (abs(n), n)):
        for source, number in at(earlier, place.key, stride, offset - delta * stride):
            found.append(Candidate(load, source, delta, number, element))
    for total in sorted(range(1, 62) if stride else (), key=lambda n: abs(n - 31)):
        for source, number in at(earlier, place.mirrored, -stride, offset + total * stride):
            found.append(Candidate(load, source, total, number, element, mirror=True))
    return found


def by_pairs(trace: Trace) -> list[tuple[Access, tuple[list[Candidate], ...]]]:
    places = Places(trace)
    earlier: Earlier = []
    found: list[tuple[Access, tuple[list[Candidate], ...]]] = []
    for load in trace.global_loads:
        place = places.of(load)
        if place is None:
            found.append((load, tuple([] for _ in range(load.elements))))
            continue
        parts = tuple(of_element(earlier, load, place, n) for n in range(load.elements))
        found.append((load, parts))
        earlier.append((load, place))
    return found


@pytest.mark.parametrize("path", [*KERNELGEN, *FIXTURES[::3], *PROGRAMS[::3]], ids=lambda p: p.stem)
def test_candidates_of_real_kernels(path: Path) -> None:
    for trace in traces(text_of(path)):
        if len(trace.global_loads) < 100:  # pairs take long
            assert list(candidates(trace, 31)) == by_pairs(trace)


@pytest.mark.parametrize("seed", range(24))
def test_candidates_of_random_kernels(seed: int) -> None:
    (trace,) = traces(Writer(seed).pair().text("right"))
    assert list(candidates(trace, 31)) == by_pairs(trace)
