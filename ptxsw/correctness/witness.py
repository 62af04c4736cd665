"""Launches that show a fault: run in the interpreter, which names it or does not."""

from __future__ import annotations

from collections.abc import Mapping

from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Fault, Proof


def search(subject: Subject, open: Mapping[str, Proof]) -> tuple[Fault, ...]:
    """The faults that launches of the kernel show, of the rules that proofs leave open."""
    return ()
