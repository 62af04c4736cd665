"""What is remembered of terms is what a walk through them finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.emulator.run import emulate
from ptxsw.facts.lane_views import (
    OTHER_LANE,
    OWN_VALUE,
    Mentioned,
    ShiftedLane,
    is_thread_bits,
    needs_rows,
)
from ptxsw.parser import parse
from ptxsw.terms import op
from ptxsw.terms.node import Variance, walk
from ptxsw.terms.origin import Origin

TEXTS = Path(__file__).parents[2] / "benchmarks"
INDICES = {"%tid.x", "%tid.y", "%tid.z"}


@pytest.mark.parametrize(
    "name", ["kernelgen/ptx/gaussblur", "programs/ptx/wavelet-nvcc", "programs/ptx/transpose-float"]
)
def test_as_a_walk_finds(name: str) -> None:
    module = parse((TEXTS / f"{name}.ptx").read_text())
    trace = emulate(module, next(iter(module.kernels)))
    mentioned = Mentioned()
    moved = ShiftedLane(trace.terms, 1, mentioned=mentioned)
    own = [v.address for access in trace.accesses for v in access.variants]
    for address in (*own, *map(moved, own)):
        nodes = list(walk(address))
        flags = mentioned.of(address)
        assert bool(flags & OWN_VALUE) == any(
            t.kind is op.APPLY and t.variance == Variance.LANE for t in nodes
        )
        assert bool(flags & OTHER_LANE) == any(t.origin is Origin.OTHER_LANE for t in nodes)
        assert needs_rows(mentioned, address) == any(
            (t.kind is op.ATOM and t.value in INDICES) or t.variance == Variance.ROW for t in nodes
        )


def test_the_bits_of_a_thread_are_known_only_where_an_address_has_them() -> None:
    module = parse((TEXTS / "kernelgen/ptx/gaussblur.ptx").read_text())
    terms = emulate(module, next(iter(module.kernels))).terms
    thread = terms.atom("%tid.x", 32, Variance.LANE)
    bits = terms.zext(terms.extract(thread, 0, 5), 32)
    assert is_thread_bits(bits.args[0])
    lane = ShiftedLane(terms, 1, mentioned=Mentioned())
    assert len(lane.exists(thread)) == 1  # there is such a thread
    assert len(lane.exists(bits)) == 2  # in the same row, too
    assert lane.exists(terms.const(0, 32)) == frozenset()
