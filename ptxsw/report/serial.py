"""Reports to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptxsw.report.model import (
    SCHEMA,
    Access,
    Carried,
    Choice,
    Cost,
    Decision,
    Finding,
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
    Turn,
)
from ptxsw.report.shown import Report

Json = dict[str, Any]


def to_json(report: Report) -> Json:
    """A report as the contract's objects, ready for `json.dumps`."""
    data = {
        "schema": SCHEMA,
        "ptxsw": report.ptxsw,
        "file": report.file,
        "arch": report.arch,
        "seconds": report.seconds,
        "kernels": [kernel_to_json(kernel) for kernel in report.kernels],
    }
    return data if report.warning is None else data | {"warning": report.warning}


def _fields(item: Any) -> Json:
    """The fields of a flat struct; tuples become lists."""
    values = {name: getattr(item, name) for name in item.__struct_fields__}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def kernel_to_json(kernel: Kernel) -> Json:
    """One kernel of a report, as in `to_json`."""
    data = {name: value for name, value in _fields(kernel).items() if value is not None}
    if kernel.shuffles is not None:
        data.setdefault("mean_delta", None)
    if kernel.accesses is not None:
        data["accesses"] = [_access_to_json(access) for access in kernel.accesses]
    if kernel.rewrites is not None:
        data["rewrites"] = [_rewrite_to_json(rewrite) for rewrite in kernel.rewrites]
    if kernel.refusals is not None:
        data["refusals"] = [_fields(refusal) for refusal in kernel.refusals]
    if kernel.rows is not None:
        data["rows"] = [_fields(row) for row in kernel.rows]
    if kernel.loops is not None:
        data["loops"] = [_fields(loop) for loop in kernel.loops]
    if kernel.choice is not None:
        data["choice"] = _fields(kernel.choice)
    if kernel.decision is not None:
        data["decision"] = _decision_to_json(kernel.decision)
    if kernel.findings is not None:
        data["findings"] = [_finding_to_json(finding) for finding in kernel.findings]
    if kernel.totals is not None:
        data["totals"] = _fields(kernel.totals)
    return data


def _decision_to_json(decision: Decision) -> Json:
    costs = {"before": decision.before, "after": decision.after}
    known = {name: _fields(cost) for name, cost in costs.items() if cost is not None}
    return {"kept": decision.kept, "by": decision.by, "reason": decision.reason} | known


def _finding_to_json(finding: Finding) -> Json:
    return {name: value for name, value in _fields(finding).items() if value is not None}


def _rewrite_to_json(rewrite: Rewrite) -> Json:
    data = _fields(rewrite) | {"proof": _fields(rewrite.proof)}
    data = {name: value for name, value in data.items() if value is not None}
    if rewrite.parts:
        data["parts"] = [_fields(part) for part in rewrite.parts]
    else:
        del data["parts"]
    return data


def _access_to_json(access: Access) -> Json:
    data = _fields(access) | {
        "reuse": [_fields(reuse) for reuse in access.reuse],
        "carried": [_fields(carried) for carried in access.carried],
    }
    if access.turns:
        data["turns"] = [_fields(turn) for turn in access.turns]
    else:
        del data["turns"], data["changing"]
    for name in ("contention", "loop_depth", "weight", "hidden", "over_stores"):
        if data[name] is None:
            del data[name]
    if access.optimizer is None:
        del data["optimizer"]
    else:
        data["optimizer"] = _fields(access.optimizer)
    return data


def from_json(data: object) -> Report:
    """The report that `to_json` made. Raises ValueError where `data` is no such report."""
    try:
        if not isinstance(data, Mapping) or data["schema"] != SCHEMA:
            raise ValueError(f"not a ptxsw report of schema {SCHEMA}")
        return Report(
            ptxsw=data["ptxsw"],
            file=data["file"],
            arch=data["arch"],
            seconds=data["seconds"],
            kernels=tuple(_kernel_from_json(kernel) for kernel in data["kernels"]),
            warning=data.get("warning"),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a ptxsw report: {error}") from error


def _kernel_from_json(data: Json) -> Kernel:
    lists: Json = {}
    if "accesses" in data:
        lists["accesses"] = tuple(_access_from_json(access) for access in data["accesses"])
    if "rewrites" in data:
        lists["rewrites"] = tuple(_rewrite_from_json(rewrite) for rewrite in data["rewrites"])
    if "refusals" in data:
        lists["refusals"] = tuple(Refusal(**refusal) for refusal in data["refusals"])
    if "rows" in data:
        lists["rows"] = tuple(
            Row(row["name"], row["address"], tuple(row["lines"])) for row in data["rows"]
        )
    if "block" in data:
        x, y, z = data["block"]
        lists["block"] = (x, y, z)
    if "loops" in data:
        lists["loops"] = tuple(Loop(**loop) for loop in data["loops"])
    if "choice" in data:
        lists["choice"] = Choice(**data["choice"])
    if "decision" in data:
        given = data["decision"]
        costs = {name: Cost(**given[name]) for name in ("before", "after") if name in given}
        lists["decision"] = Decision(**{**given, **costs})
    if "findings" in data:
        lists["findings"] = tuple(
            Finding(**{**finding, "lines": tuple(finding["lines"])}) for finding in data["findings"]
        )
    if "totals" in data:
        lists["totals"] = Totals(**data["totals"])
    return Kernel(**{**data, **lists})


def _access_from_json(data: Json) -> Access:
    more: Json = {
        "reuse": tuple(Reuse(**reuse) for reuse in data.get("reuse", ())),
        "carried": tuple(Carried(**carried) for carried in data.get("carried", ())),
        "turns": tuple(Turn(**turn) for turn in data.get("turns", ())),
    }
    if data.get("lanes") is not None:
        more["lanes"] = tuple(data["lanes"])
    if "optimizer" in data:
        more["optimizer"] = Outlook(**data["optimizer"])
    return Access(**{**data, **more})


def _rewrite_from_json(data: Json) -> Rewrite:
    proof = data["proof"]
    nothing: Json = dict.fromkeys(("source_line", "delta", "scheme", "form"))
    return Rewrite(
        **{
            **nothing,
            **data,
            "proof": Proof(
                status=proof["status"],
                assumptions=tuple(proof["assumptions"]),
                guards=tuple(proof["guards"]),
            ),
            "parts": tuple(Part(**part) for part in data.get("parts", ())),
        }
    )
