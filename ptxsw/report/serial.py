"""Reports as the Python interface hands them out, to JSON and back, and the schema of that JSON, by
the types of `ptxsw.report.model`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo

from ptxsw.ptx.printable import tree, well_formed
from ptxsw.report import model
from ptxsw.report.model import SCHEMA, Contents, Kernel

Json = dict[str, Any]

_TITLE: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "ptxsw report",
    "description": "What ptxsw found in a PTX file and did to it. Null: not known. Absent: not "
    "computed. Lines count from 1, sizes are bytes.",
}
_TOGETHER: Mapping[str, Json] = {
    "Kernel": {
        "shuffles": ["copies", "mean_delta"],
        "copies": ["shuffles"],
        "mean_delta": ["shuffles"],
    },
    "Rewrite": {"source_line": ["delta", "scheme", "form"]},
}
"""Fields that come with others."""


class Report(Contents, frozen=True):
    """The report on one PTX file: its accesses, findings and rewrites."""

    def __str__(self) -> str:
        """What `ptxsw analyze` prints."""
        from ptxsw.report.text import analysis_text
        from ptxsw.report.weights import ordered

        return analysis_text(ordered(self))

    def _repr_html_(self) -> str:
        """The same as tables, for a notebook."""
        from ptxsw.report.notebook import report_html

        return report_html(self)

    def to_dataframe(self) -> Any:
        """A row for each access, in pandas if it is installed, else in polars. Raises ImportError
        where neither is."""
        from ptxsw.report.notebook import dataframe

        return dataframe(self)


def to_json(report: Report) -> Json:
    """A report as plain objects, ready for `json.dumps`."""
    data = _objects(report)
    return {"schema": SCHEMA} | data | {"kernels": [_completed(one) for one in data["kernels"]]}


def kernel_to_json(kernel: Kernel) -> Json:
    """One kernel of a report, as in `to_json`."""
    return _completed(_objects(kernel))


def _objects(item: Struct) -> Json:
    data: Json
    try:
        data = msgspec.json.decode(msgspec.json.encode(item))
    except UnicodeEncodeError:  # the name of a file that is not UTF-8
        data = tree(msgspec.to_builtins(item), well_formed)
    return data


def _completed(kernel: Json) -> Json:
    """The mean is not known where there is neither copy nor shuffle; else it was not computed."""
    return kernel | {"mean_delta": kernel.get("mean_delta")} if "shuffles" in kernel else kernel


def from_json(data: object) -> Report:
    """A report from the objects of `to_json`. Raises ValueError if `data` is not such a report."""
    try:
        if not isinstance(data, Mapping) or data["schema"] != SCHEMA:
            raise ValueError(f"not a ptxsw report of schema {SCHEMA}")
        return msgspec.convert(data, Report)
    except (msgspec.ValidationError, KeyError) as error:
        raise ValueError(f"not a ptxsw report: {error}") from error


def schema() -> Json:
    """The JSON schema of a report."""
    (_,), objects = msgspec.json.schema_components([Report], ref_template="#/$defs/{name}")
    for name, written in objects.items():
        kind = getattr(model, name, Report)
        fields = msgspec.structs.fields(kind)
        omits, properties = kind.__struct_config__.omit_defaults, written["properties"]
        # What a factory makes is always written; but the first reports had fewer of an access.
        filled = () if name == "Access" else (one for one in fields if _has_factory(one))
        always = [one.encode_name for one in (filled if omits else fields)]
        written["required"] = list(dict.fromkeys([*written["required"], *always]))
        for one in fields:
            if omits and one.default is None:
                properties[one.encode_name] = _without_null(properties[one.encode_name])
            properties[one.encode_name].pop("default", None)
        written["description"] = " ".join(written["description"].split())
        written["additionalProperties"] = False
        if name in _TOGETHER:
            written["dependentRequired"] = _TOGETHER[name]
    objects["Kernel"]["properties"]["mean_delta"]["type"] = ["number", "null"]
    report: Json = objects.pop("Report")
    report["properties"] = {"schema": {"const": SCHEMA}} | report["properties"]
    report["required"] = ["schema", *report["required"]]
    return report | _TITLE | {"$defs": objects}


def _has_factory(one: FieldInfo) -> bool:
    return one.default_factory is not NODEFAULT


def _without_null(written: Json) -> Json:
    """The schema of a field that is absent where it is None."""
    others = {name: value for name, value in written.items() if name != "anyOf"}
    only: Json
    (only,) = (one for one in written["anyOf"] if one != {"type": "null"})
    return only | others
