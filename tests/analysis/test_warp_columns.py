"""Columns hold what each thread evaluates in each iteration."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ptxsw.analysis.warps import REGISTERS, Columns, WarpColumns, WarpLanes
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.terms import Terms
from tests.terms.shapes import random_term

ITERATIONS = 3
LANES = WarpLanes(((2, 2, 1), (3, 1, 1)), 4)


def at(columns: Columns, iteration: int, lane: int) -> int:
    column = columns[iteration % len(columns)]
    return column[lane % len(column)]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32))
def test_columns_are_what_each_thread_evaluates(seed: int) -> None:
    """Atoms change from lane to lane, from iteration to iteration, both, or neither."""
    source = random.Random(seed)
    terms = Terms()
    atoms: list[Term] = []
    widths = [source.choice([1, 8, 32]) for _ in range(3)]
    several = [random_term(terms, source, width, 4, atoms) for width in widths]
    known = {
        atom: tuple(
            tuple(source.getrandbits(atom.width) for _ in range(lanes)) for _ in range(iterations)
        )
        for atom in atoms
        for lanes in [source.choice([1, LANES.count])]
        for iterations in [source.choice([1, ITERATIONS])]
    }
    columns = WarpColumns(LANES, known.__getitem__)
    conditions = [term for term in several if term.width == 1]
    taking = columns.taking(conditions)
    for iteration in range(ITERATIONS):
        met = taking[iteration % len(taking)]
        for lane in range(LANES.count):
            values = {atom: at(known[atom], iteration, lane) for atom in atoms}
            expected = [evaluate(term, values) for term in several]
            assert [at(columns.of(term), iteration, lane) for term in several] == expected
            takes = all(evaluate(condition, values) for condition in conditions)
            assert takes == (met is None or bool(met and met[lane]))


def test_chosen_values_come_first() -> None:
    terms = Terms()
    given_atom, chosen = (
        terms.atom(name, width, Variance.LANE) for name, width in (("a", 32), ("b", 8))
    )
    columns = WarpColumns(LANES, lambda _: ((1,),), {chosen: 0x107})
    assert columns.of(terms.add(terms.zext(chosen, 32), given_atom)) == ((8,),)


def test_registers_of_each_lane() -> None:
    """Blocks of which warps may have fewer than 32 lanes, of each at most two warps."""
    blocks = ((4, 3, 7), (32, 8, 1), (5, 1, 1))
    lanes = WarpLanes(blocks, 2)
    threads = [(block, n) for block in blocks for n in range(block[0] * block[1] * block[2])]
    threads = [(block, n) for block, n in threads if n < 64]
    assert lanes.count == len(threads) == 64 + 64 + 5
    spans = [(warp.start, warp.stop) for warp in lanes.warps]
    assert spans == [(0, 32), (32, 64), (64, 96), (96, 128), (128, 133)]
    for lane, ((x, y, z), thread) in enumerate(threads):
        expected = {
            "%tid.x": thread % x, "%tid.y": thread // x % y, "%tid.z": thread // (x * y),
            "%laneid": thread % 32, "%ntid.x": x, "%ntid.y": y, "%ntid.z": z,
        }  # fmt: skip
        assert expected.keys() == REGISTERS
        for name, value in expected.items():
            column = lanes.register(name)
            assert column[lane % len(column)] == value


def test_warps_ask_without_the_lanes_that_do_not_take_part() -> None:
    lanes = WarpLanes(((40, 1, 1),), 4)
    addresses, odd = tuple(range(100, 140)), tuple(lane & 1 for lane in range(40))
    assert list(lanes.requests(addresses, None)) == [addresses[:32], addresses[32:]]
    assert list(lanes.requests(addresses, odd)) == [addresses[1:32:2], addresses[33::2]]
    assert list(lanes.requests((7,), odd)) == [(7,) * 16, (7,) * 4]
    assert list(lanes.requests(addresses, ())) == []
    assert list(lanes.requests(addresses, (1,) + (0,) * 39)) == [(100,)]
