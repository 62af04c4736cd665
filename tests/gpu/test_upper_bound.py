"""Kernels without the loads that shuffles could serve: wrong, for timing, and nothing else is."""

from __future__ import annotations

import json
import os

import jsonschema
import numpy as np
import pytest

from benchmarks.kernelgen import operators
from ptxsw.changes.options import Options
from ptxsw.driver import pipeline
from ptxsw.gpu.upper_bound import optimize
from ptxsw.report import from_json, schema, to_json
from ptxsw.rewrites import every
from ptxsw.simt import launch
from ptxsw.toolchain import ptxas
from ptxsw.toolchain.find import real_ptxas
from tests.parsed import parsed
from tests.rewrites.test_planning import styles, text_of


@pytest.mark.parametrize(
    ("bound", "options", "message"),
    [
        ("all", Options(mode="force"), "unsafe_bound is 'all'; it can be noload, nocorner"),
        ("noload", Options(), "unsafe_bound gives wrong results: it needs mode force"),
        (
            "noload",
            Options(mode="force", scheme="halo"),
            "unsafe_bound goes with scheme paper and form keep",
        ),
    ],
)
def test_what_makes_no_sense(bound: str, options: Options, message: str) -> None:
    with pytest.raises(ValueError) as error:
        optimize("", options, bound)
    assert str(error.value) == message


@pytest.mark.parametrize(("bound", "shuffles"), [("noload", 0), ("nocorner", 6)])
def test_bounds_compute_nonsense_and_say_so(bound: str, shuffles: int) -> None:
    text = text_of("jacobi")
    result = optimize(text, Options(mode="force"), bound)
    (kernel,) = result.report.kernels
    assert kernel.shuffles == 6 and styles(kernel) == {(bound, "keep")}
    warning = f"made with --unsafe-bound {bound}: the kernels compute WRONG RESULTS"
    assert result.text.startswith(f"// WARNING: {warning}")
    assert (result.report.warning or "").startswith(warning)
    assert all(r.proof.status == "assumed" and not r.proof.guards for r in kernel.rewrites or ())
    assert result.text.count("shfl.sync") == shuffles
    assert result.text.count("ld.global") == text.count("ld.global") - 6
    operator = operators.OPERATORS["jacobi"]
    arrays = operators.make_inputs(operator, (34, 3), np.dtype("f4"))
    scalars = operator.scalars
    args = [34, 3, *(scalars[p] if p in scalars else arrays[p] for p in operator.params)]
    before = launch(parsed(text), operator.entry, (1, 1, 1), (32, 1, 1), args)
    after = launch(parsed(result.text), operator.entry, (1, 1, 1), (32, 1, 1), args)
    pairs = zip(before.buffers, after.buffers, strict=True)
    assert any(one.tobytes() != other.tobytes() for one, other in pairs)
    if real_ptxas(os.environ) is not None:
        assert ptxas.assemble(result.text, "sm_80").resources


def test_without_anything_to_rewrite_a_bound_changes_nothing() -> None:
    text = text_of("vecadd")
    result = optimize(text, Options(mode="force"), "noload")
    assert result.text is text and result.report.warning is None


def test_its_report_fits_the_schema() -> None:
    report = optimize(text_of("gaussblur"), Options(mode="force"), "nocorner").report
    data = json.loads(json.dumps(to_json(report)))
    jsonschema.validate(data, schema())
    assert from_json(data) == report


def test_no_rewrite_that_optimize_knows_is_wrong() -> None:
    """It is handed in for one text, and is not there for the next."""
    text = text_of("jacobi")
    asked = Options(mode="force", scheme="paper")
    proved = pipeline.optimize(text, asked)
    optimize(text, asked, "noload")
    assert pipeline.optimize(text, asked).text == proved.text
    assert "NONSENSE" not in proved.text
    assert not any("wrong" in one.summary for one in every())
