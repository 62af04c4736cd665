"""Every form of every integer opcode over numpy: the same results as plain Python integers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptxsw.semantics import meaning
from ptxsw.simt.lanes import Bits, Lanes, dtype_of
from tests.semantics.reference import FORMS, Form
from tests.semantics.test_forms import name_of

COUNT = 96
BORDERS = (0, 1, 2, 7, 8, 31, 32, 33, 63, 64, 65, 255, 256)


def draw(source: random.Random, width: int) -> int:
    top = 1 << width
    few = [b for b in (*BORDERS, top // 2 - 1, top // 2, top - 1) if b < top]
    return source.choice(few) if source.random() < 0.5 else source.randrange(top)


@pytest.mark.parametrize("form", FORMS, ids=name_of)
def test_numpy(form: Form) -> None:
    opcode, *modifiers = form.name.split(".")
    built = meaning(opcode, tuple(modifiers))
    assert built is not None
    source = random.Random(form.name)
    widths = (*form.inputs, *((1,) if form.carry_in else ()))
    columns = [[draw(source, width) for _ in range(COUNT)] for width in widths]
    if form.literal is not None:
        columns[form.literal] = [columns[form.literal][0]] * COUNT
    values = [
        column[0] if index == form.literal else Bits(np.array(column, dtype_of(width)), width)
        for index, (column, width) in enumerate(zip(columns, widths, strict=True))
    ]
    carry = values.pop() if form.carry_in else None
    assert not isinstance(carry, int)
    with np.errstate(all="ignore"):
        out = built.run(Lanes(), values, form.outputs, carry)
    assert [o.width for o in out] == [*form.outputs, *((1,) if form.carry_out else ())]
    got = list(zip(*(map(int, np.broadcast_to(o.array, COUNT)) for o in out), strict=True))
    want = [form.reference(*row) for row in zip(*columns, strict=True)]
    assert got == want


@pytest.mark.parametrize("form", FORMS, ids=name_of)
def test_literals_broadcast(form: Form) -> None:
    """One element may stand for all threads, as literals do."""
    opcode, *modifiers = form.name.split(".")
    built = meaning(opcode, tuple(modifiers))
    assert built is not None
    source = random.Random(form.name)
    row = [draw(source, width) for width in form.inputs]
    carry = 1 if form.carry_in else None
    with np.errstate(all="ignore"):
        out = built.run(
            Lanes(), row, form.outputs, None if carry is None else Lanes().const(carry, 1)
        )
    arguments = row if carry is None else [*row, carry]
    assert tuple(int(o.array[0]) for o in out) == form.reference(*arguments)
