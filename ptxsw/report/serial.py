"""Reports to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptxsw.report.model import SCHEMA, Access, Kernel, Proof, Refusal, Report, Rewrite

Json = dict[str, Any]


def to_json(report: Report) -> Json:
    """A report as the contract's objects, ready for `json.dumps`."""
    return {
        "schema": SCHEMA,
        "ptxsw": report.ptxsw,
        "file": report.file,
        "arch": report.arch,
        "seconds": report.seconds,
        "kernels": [_kernel_to_json(kernel) for kernel in report.kernels],
    }


def _fields(item: Any) -> Json:
    """The fields of a flat dataclass; tuples become lists."""
    values = {name: getattr(item, name) for name in item.__dataclass_fields__}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def _kernel_to_json(kernel: Kernel) -> Json:
    data = {name: value for name, value in _fields(kernel).items() if value is not None}
    if kernel.shuffles is not None:
        data.setdefault("mean_delta", None)
    if kernel.accesses is not None:
        data["accesses"] = [_fields(access) for access in kernel.accesses]
    if kernel.rewrites is not None:
        data["rewrites"] = [_fields(r) | {"proof": _fields(r.proof)} for r in kernel.rewrites]
    if kernel.refusals is not None:
        data["refusals"] = [_fields(refusal) for refusal in kernel.refusals]
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
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a ptxsw report: {error}") from error


def _kernel_from_json(data: Json) -> Kernel:
    lists: Json = {}
    if "accesses" in data:
        lists["accesses"] = tuple(Access(**access) for access in data["accesses"])
    if "rewrites" in data:
        lists["rewrites"] = tuple(_rewrite_from_json(rewrite) for rewrite in data["rewrites"])
    if "refusals" in data:
        lists["refusals"] = tuple(Refusal(**refusal) for refusal in data["refusals"])
    return Kernel(**{**data, **lists})


def _rewrite_from_json(data: Json) -> Rewrite:
    proof = data["proof"]
    return Rewrite(
        **{
            **data,
            "proof": Proof(
                status=proof["status"],
                assumptions=tuple(proof["assumptions"]),
                guards=tuple(proof["guards"]),
            ),
        }
    )
