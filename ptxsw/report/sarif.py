"""Findings as SARIF 2.1.0, the format in which editors and code hosts take results.

Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", 2020.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from ptxsw.ptx.printable import one_line
from ptxsw.report.messages import Located

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
Json = dict[str, Any]


class RulePage(Struct, frozen=True):
    """A rule: its name, a sentence, its page as Markdown, or an empty text, and its group."""

    name: str
    sentence: str
    page: str
    group: str = "performance"


def sarif(
    findings: Sequence[Located], rules: Sequence[RulePage], version: str, pages: str | None
) -> Json:
    """One run. `pages` is the address of the page that explains the rules, a section each, where
    it is on the web."""
    names = [rule.name for rule in rules]
    driver = {
        "name": "ptxsw",
        "version": version,
        "rules": [_rule(rule, pages) for rule in rules],
    } | ({"informationUri": pages} if pages else {})
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(each, names.index(each.finding.rule)) for each in findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: RulePage, pages: str | None) -> Json:
    words = rule.name.removeprefix("ptxsw-").split("-")
    help_ = {"text": rule.sentence} | ({"markdown": rule.page} if rule.page else {})
    return {
        "id": rule.name,
        "name": "".join(word.capitalize() for word in words),
        "shortDescription": {"text": rule.sentence},
        "help": help_,
        "defaultConfiguration": {"level": "warning"},
        "properties": {"tags": [rule.group, "cuda"]},
    } | ({"helpUri": f"{pages}#{rule.name}"} if pages else {})


def _result(each: Located, index: int) -> Json:
    finding = each.finding
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.level,
        "message": {"text": one_line(f"{finding.what} {finding.advice}")},
        "locations": [
            {
                "physicalLocation": _place(each.path, each.line, each.column),
                "logicalLocations": [{"name": finding.kernel, "kind": "function"}],
            }
        ],
        "relatedLocations": [
            {
                "physicalLocation": _place(each.ptx, line, 1),
                "message": {"text": f"line {line} of the PTX"},
            }
            for line in finding.lines
        ],
        "partialFingerprints": {"ptxsw/v1": each.key},
        "rank": _rank(finding.weight),
        "properties": {
            "measure": finding.measure, "weight": finding.weight, "figures": dict(finding.figures),
        } | ({"witness": dict(finding.witness)} if finding.witness is not None else {}),
    }  # fmt: skip


def _rank(weight: float) -> float:
    """From 0 to 100: SARIF's measure of how urgent a result is."""
    return round(100 * weight / (weight + 100), 1)


def _place(path: str, line: int, column: int) -> Json:
    pure = PurePath(path)
    uri = pure.as_uri() if pure.is_absolute() else quote(os.fsencode(pure.as_posix()))
    region = {"region": {"startLine": line, "startColumn": max(1, column)}} if line else {}
    return {"artifactLocation": {"uri": uri}, **region}
