"""The schema of the JSON is made of the types; its contract stands in `golden/schema.txt`. After a
wanted change write it anew with --update-golden: fields are only added."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ptxsw.report import Finding, Kernel, Proof, Report, Rewrite, from_json, schema, to_json

GOLDEN = Path(__file__).parent / "golden" / "schema.txt"
RIGHT = Finding("ptxsw-spills", "note", "k", 1, 1, "8 bytes", "It spills.", "Do not.", 0.5)


def lines(whole: dict[str, Any]) -> Iterator[str]:
    """One for each field, without what it says to people, and one for what an object needs."""
    for name, written in {"Report": whole, **whole["$defs"]}.items():
        for field, told in written["properties"].items():
            yield f"{name}.{field}: {json.dumps(_bare(told))}"
        rest = ("required", "additionalProperties", "dependentRequired")
        yield f"{name}: {json.dumps({word: written[word] for word in rest if word in written})}"


def _bare(told: Any) -> Any:
    if isinstance(told, list):
        return [_bare(one) for one in told]
    if not isinstance(told, dict):
        return told
    return {word: _bare(one) for word, one in told.items() if word != "description"}


def test_the_contract(golden: Callable[[Path, str], None]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    golden(GOLDEN, "\n".join(lines(schema())) + "\n")


def report(**fields: Any) -> dict[str, Any]:
    kernel = Kernel("k", 1, findings=(RIGHT,), **fields)
    return to_json(Report("0", "a.ptx", None, None, (kernel,)))


def test_nothing_that_is_absent_may_be_null() -> None:
    data = report(shuffles=0, copies=0)
    jsonschema.validate(data, schema())
    assert data["kernels"][0]["mean_delta"] is None
    with pytest.raises(jsonschema.ValidationError, match="None is not of type"):
        jsonschema.validate(data | {"warning": None}, schema())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), {"more": 1}),
        (("kernels", 0), {"shuffles": 1}),  # without `copies`
        (("kernels", 0, "findings", 0), {"level": "worse"}),
        (("kernels", 0, "findings", 0), {"line": 0}),
        (("kernels", 0, "rewrites", 0), {"source_line": 3}),
        (("kernels", 0, "rewrites", 0, "proof"), {"status": "hoped"}),
    ],
)
def test_what_does_not_fit(path: tuple[str | int, ...], value: dict[str, Any]) -> None:
    rewrite = Rewrite(line=3, proof=Proof("proved"), rewrite="narrowing", detail={})
    data = report(rewrites=(rewrite,))
    jsonschema.validate(data, schema())
    part: Any = data
    for step in path:
        part = part[step]
    part |= value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema())


def test_bounds_are_checked_where_a_report_is_read() -> None:
    data = report()
    data["kernels"][0]["loads"] = -1
    with pytest.raises(ValueError, match="loads"):
        from_json(data)
