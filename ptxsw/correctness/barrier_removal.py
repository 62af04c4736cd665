"""Does a kernel race without a barrier? One launch tells, with the barrier and without it.

    st.shared.f32 [%r1], %f1;
    bar.sync 0;                     without it the load races with the store of another thread
    ld.shared.f32 %f2, [%r2];

That is no fault of the kernel: it shows that the barrier is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from time import thread_time

from ptxsw.correctness.caller_launches import Natural
from ptxsw.correctness.evidence import Raced, raced
from ptxsw.correctness.subject import Subject
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.verify.launches import Launch

_SECONDS = 1.0
"""Of CPU time, for all runs of a kernel."""


class Runs:
    """Launches of a kernel, with its barriers and without some."""

    def __init__(self, subject: Subject) -> None:
        self._subject, self._kernel = subject, subject.function.name
        self._end = thread_time() + _SECONDS

    def race_without(self, barriers: Sequence[int]) -> bool:
        """Does a launch race without some barriers that does not with them?"""
        subject, source = self._subject, self._subject.module.source
        text = list(source.text)
        for barrier in barriers:
            span = subject.cfg.instructions[barrier].span
            text[span.start : span.end] = " " * (span.end - span.start)
        module = parse("".join(text), source.name)
        return any(
            before is not None and (after := self._raced(module, launch)) is not None
            and not after <= before
            for launch, before in self._with_all
        )  # fmt: skip

    @cached_property
    def _with_all(self) -> list[tuple[Launch, Raced | None]]:
        launches = [self._subject.launch]
        if self._subject.launch is None:
            natural = Natural(self._subject)
            block = natural.shapes[0]
            launches = [natural.launch(block, natural.extent(block))]
        module = self._subject.module
        return [(each, self._raced(module, each)) for each in launches if each is not None]

    def _raced(self, module: Module, launch: Launch) -> Raced | None:
        left = min(
            self._end - thread_time(), self._subject.budget.seconds - self._subject.budget.used
        )
        return raced(module, self._kernel, launch, left) if left > 0 else None
