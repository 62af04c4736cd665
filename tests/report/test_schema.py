"""The schema of the JSON says what the types say: `schema.json` adds words and bounds."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import msgspec
import pytest

from ptxsw.report.model import Kernel
from ptxsw.report.serial import OMITTED
from ptxsw.report.shown import Report

WRITTEN = json.loads(resources.files("ptxsw.report").joinpath("schema.json").read_text())
(_,), MADE = msgspec.json.schema_components([Report], ref_template="#/$defs/{name}")
OBJECTS = {"Report": WRITTEN} | {
    name.title(): entry for name, entry in WRITTEN["$defs"].items() if "properties" in entry
}
OBJECTS["Proof"] = WRITTEN["$defs"]["rewrite"]["properties"]["proof"]  # written where it stands
BY_NAME = {kind.__name__: names for kind, names in OMITTED.items()}


def names_of(schema: Any) -> set[str]:
    """The types that a field may have, references by the name of what they lead to. A reference
    to a number with bounds is a number."""
    if "anyOf" in schema or "oneOf" in schema:
        return set().union(*map(names_of, schema.get("anyOf", schema.get("oneOf"))))
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        other = WRITTEN["$defs"].get(name)
        simple = other is not None and "properties" not in other
        return names_of(other) if simple else {name.lower()}
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return {
            "null" if v is None else "string" if isinstance(v, str) else "integer" for v in values
        }
    if schema is OBJECTS["Proof"]:
        return {"proof"}
    found = schema.get("type", ())
    return {found} if isinstance(found, str) else set(found)


def test_every_type_has_its_schema() -> None:
    assert set(OBJECTS) == set(MADE)


@pytest.mark.parametrize("name", sorted(MADE))
def test_fields(name: str) -> None:
    made, written = MADE[name], OBJECTS[name]
    fields = made["properties"]
    assert set(written["properties"]) - {"schema"} == set(fields)
    for field, schema in fields.items():
        types, said = names_of(schema), names_of(written["properties"][field])
        if field in BY_NAME.get(name, ()):
            types -= {"null"}  # absent instead, but for what is not known
            said -= {"null"} if (name, field) == ("Kernel", "mean_delta") else set()
        assert said == types or (said, types) == ({"integer"}, {"number"}), (name, field)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_what_may_be_absent_is_not_required(name: str) -> None:
    needed = {"name", "loads"} if name == Kernel.__name__ else set()
    assert not (BY_NAME[name] - needed) & set(OBJECTS[name]["required"])
