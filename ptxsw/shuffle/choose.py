"""Which of the legal rewrites to make: a pure function of candidates and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ptxsw.emulator.trace import Access
from ptxsw.shuffle.find import Candidate
from ptxsw.shuffle.legal import Refused
from ptxsw.shuffle.plan import Part, Proof, Rewrite


@dataclass(frozen=True, slots=True)
class Kept:
    """A load that stays as it is although a source was in sight, or that may not take part."""

    dest: Access
    candidate: Candidate | None
    reason: str


@dataclass(frozen=True, slots=True)
class Choice:
    rewrites: tuple[Rewrite, ...]
    kept: tuple[Kept, ...]


def choose(
    found: Iterable[tuple[Access, list[Candidate]]],
    legal: Callable[[Candidate], Proof | Refused],
    *,
    shuffles: bool,
    scheme: str,
    form: str,
    why_not: str = "",
) -> Choice:
    """For each load the nearest legal source, whose value comes from memory: shuffles of
    shuffled values would queue up. Without `shuffles` only copies are made and `why_not` is
    the reason given for the rest. `legal` is asked no more than needed."""
    rewrites: list[Rewrite] = []
    kept: list[Kept] = []
    shuffled: set[int] = set()
    for dest, candidates in found:
        refused: Kept | None = None
        for candidate in candidates:
            if candidate.delta and candidate.source.index in shuffled:
                continue
            verdict = legal(candidate)
            if isinstance(verdict, Refused):
                refused = refused or Kept(dest, candidate, verdict.reason)
                continue
            if candidate.delta and not shuffles:
                refused = Kept(dest, candidate, why_not)
                break
            part = Part(candidate.source.index, 0, candidate.delta)
            rewrites.append(Rewrite(dest.index, (part,), scheme, form, verdict))
            if candidate.delta:
                shuffled.add(dest.index)
            refused = None
            break
        if refused is not None:
            kept.append(refused)
    return Choice(tuple(rewrites), tuple(kept))
