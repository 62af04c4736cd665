"""Every form of every integer opcode over symbolic terms, evaluated: plain integers again."""

from __future__ import annotations

import random

import pytest

from ptxsw.semantics import meaning
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.terms import Terms
from tests.semantics.reference import FORMS, Form
from tests.semantics.test_forms import name_of
from tests.semantics.test_lanes import draw

EVALUATIONS = 24


@pytest.mark.parametrize("form", FORMS, ids=name_of)
@pytest.mark.parametrize("literals", [0.0, 0.4])
def test_symbolic(form: Form, literals: float) -> None:
    """With all sources unknown, and with some of them literals or constants."""
    opcode, *modifiers = form.name.split(".")
    built = meaning(opcode, tuple(modifiers))
    assert built is not None
    source = random.Random(f"{form.name} {literals}")
    for _ in range(1 if literals == 0 else 4):
        terms = Terms()
        widths = (*form.inputs, *((1,) if form.carry_in else ()))
        fixed: dict[int, int] = {}
        operands: list[Term | int] = []
        for index, width in enumerate(widths):
            value = draw(source, width)
            if index == form.literal or (index < len(form.inputs) and source.random() < literals):
                fixed[index] = value
                literal = index == form.literal or source.random() < 0.5
                operands.append(value if literal else terms.const(value, width))
            else:
                operands.append(terms.atom(f"x{index}", width, Variance.LANE))
        carry = operands.pop() if form.carry_in else None
        assert not isinstance(carry, int)
        out = built.run(terms, operands, form.outputs, carry)
        assert [o.width for o in out] == [*form.outputs, *((1,) if form.carry_out else ())]
        atoms = {i: terms.atom(f"x{i}", w, Variance.LANE) for i, w in enumerate(widths)}
        for _ in range(EVALUATIONS):
            row = [fixed.get(i, draw(source, width)) for i, width in enumerate(widths)]
            values = {atoms[i]: row[i] for i in atoms if i not in fixed}
            assert tuple(evaluate(o, values) for o in out) == form.reference(*row)
