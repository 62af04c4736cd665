"""What `read-only-loads`, `scalar-replacement` and `load-elimination` make of loads that stores may
hit, or why they leave them: a few words beside the access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ptxsw.changes.change import INDEX_MAY_WRAP
from ptxsw.emulator.trace import Trace
from ptxsw.report.model import Access, Kernel, Rewrite
from ptxsw.terms.node import Term

REWRITES = ("read-only-loads", "scalar-replacement", "load-elimination")
_READ_ONLY, _IN_REGISTERS, _KEPT = REWRITES
_SPACES = ("global", "shared")


def concerned(trace: Trace) -> bool:
    """Does the kernel load from memory that somebody may write, in a loop or the same again?"""
    cfg = trace.cfg
    accesses = [
        a for a in trace.accesses if a.space in _SPACES and cfg.block_of[a.index] in cfg.rank
    ]
    seen: set[Term] = set()
    for access in accesses:
        places = {variant.address for variant in access.variants}
        looped = cfg.loops_around(cfg.block_of[access.index])
        if access.kind == "load" and (looped or not seen.isdisjoint(places)):
            return True
        seen |= places
    return False


def with_over_stores(kernel: Kernel, accesses: Sequence[Access]) -> tuple[Access, ...]:
    """Accesses with what becomes of them, as the report of a kernel tells it that has been sent
    through `REWRITES`. Why another rewrite leaves a load that these change is told no more."""
    reasons = _reasons(kernel, accesses)
    changes = _changes(kernel.rewrites or ())
    return tuple(_told(access, reasons, changes) for access in accesses)


def _told(access: Access, reasons: Mapping[int, str], changes: Mapping[int, str]) -> Access:
    outlook = access.optimizer
    change = changes.get(access.line)
    if change is not None and outlook is not None and outlook.action == "keep":
        outlook = replace(outlook, source_line=None, delta=None, reason=None)
    said = change or reasons.get(access.line)
    return replace(access, over_stores=said, optimizer=outlook)


def _reasons(kernel: Kernel, accesses: Iterable[Access]) -> dict[int, str]:
    """Why accesses stay, by line. Of an address that cannot be followed it is told only where the
    thread is known to have loaded the same bytes an iteration ago."""
    again = {a.line for a in accesses if any(not c.delta for c in a.carried)}
    return {
        refusal.line: refusal.reason
        for refusal in reversed(kernel.refusals or ())
        if refusal.rewrite == _IN_REGISTERS
        and (refusal.reason != INDEX_MAY_WRAP or refusal.line in again)
    }


def _changes(rewrites: Iterable[Rewrite]) -> dict[int, str]:
    """What is made of accesses, by line."""
    constant = {r.line: r for r in rewrites if r.rewrite == _READ_ONLY}
    sentences = {line: _constant(rewrite) for line, rewrite in constant.items()}
    for rewrite in rewrites:
        if rewrite.rewrite == _IN_REGISTERS:
            for line, text in _kept(rewrite.line, rewrite.detail).items():
                tested = rewrite.detail.get("tested")
                if line in constant:
                    tested = constant[line].detail.get("tested")
                sentences[line] = f"{text}, with a test" if tested else text
        elif rewrite.rewrite == _KEPT and "tested" in rewrite.detail:
            text = f"register of {rewrite.detail['source_line']}"
            sentences[rewrite.line] = f"{text}, with a test" if rewrite.detail["tested"] else text
    return sentences


def _constant(rewrite: Rewrite) -> str:
    return f"read-only{', with a test' if rewrite.detail.get('tested') else ''}"


def _kept(line: int, detail: Mapping[str, Any]) -> dict[int, str]:
    """The accesses of one change of `scalar-replacement`."""
    match detail.get("kind"):
        case "invariant":
            return {line: "once, before the loop"}
        case "rotated":
            return {line: f"register of {detail['source_line']}, an iteration ago"}
        case "repeated":
            return {line: f"register of {detail['source_line']}"}
        case "promoted":
            stores = dict.fromkeys(detail["store_lines"], "once, after the loop")
            loads = dict.fromkeys(detail["load_lines"], "in a register during the loop")
            asks = "compares its address with that of the store after the loop"
            return stores | loads | dict.fromkeys(detail.get("compared_lines", ()), asks)
    return {}
