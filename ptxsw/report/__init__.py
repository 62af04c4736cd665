"""Reports on a PTX file: findings and changes, as data, JSON and text."""

from ptxsw.report.model import (
    Access,
    Carried,
    Choice,
    Finding,
    Iteration,
    Kernel,
    Loop,
    Outlook,
    Part,
    Proof,
    Refusal,
    Reuse,
    Rewrite,
    Row,
    Totals,
)
from ptxsw.report.serial import Report, from_json, schema, to_json

__all__ = [
    "Access", "Carried", "Choice", "Finding", "Iteration", "Kernel", "Loop", "Outlook", "Part",
    "Proof", "Refusal", "Report", "Reuse", "Rewrite", "Row", "Totals", "from_json", "schema",
    "to_json",
]  # fmt: skip
