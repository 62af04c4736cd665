"""What was worked out for a text serves for the same text with another target.

A build for nine architectures asks for one kernel nine times. Its instructions, its symbolic run,
what most rewrites have to say of it and the proofs do not depend on the target. What ptxas makes of
it does, and is asked each time. A process that gets many texts keeps these for the last of them, by
the text without the number of its target. What was not finished in time is not kept.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ptxsw.emulator.budget import PLANNING
from ptxsw.emulator.run import emulate
from ptxsw.excerpt import Excerpt
from ptxsw.parser import parse
from ptxsw.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ptxsw.emulator.solver import Solver
    from ptxsw.emulator.trace import Trace
    from ptxsw.ir import Function, Module
    from ptxsw.rewrites.base import Kernel, Outcome, Rewrite
    from ptxsw.source import Source

_TARGET = pattern(r"^[ \t]*\.target[ \t]+sm_(\d+)", re.MULTILINE)
_MOST = 24  # texts, of which each rewrite of a kernel makes one
_LONGEST = 100_000  # characters of one


class _Shared:
    """What is kept of a text: its instructions, its symbolic runs, what rewrites say of it, and
    what was proved of others to do the same."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.traces: dict[Hashable, Trace] = {}
        self.outcomes: dict[Hashable, tuple[Outcome, ...]] = {}
        self.proved: set[Hashable] = set()


_kept: OrderedDict[str, _Shared] | None = None


def remember(wanted: bool = True) -> None:
    """From now on this process keeps what it works out, or nothing any more."""
    global _kept
    _kept = OrderedDict() if wanted else None


def parsed(source: Source) -> Module:
    """As `parse`; the bodies of a text that differs in its target are not read again. Raises
    ParseError."""
    return _with_shared_bodies(parse(source))


def shared(excerpt: Excerpt) -> Excerpt:
    """The same kernel; its body is that of one with another target, where there was one."""
    if _kept is None:
        return excerpt
    module = _with_shared_bodies(excerpt.module)
    return Excerpt(excerpt.name, excerpt.source, module, excerpt.origins)


def traced(
    module: Module,
    function: Function,
    *,
    budget_s: float,
    solver: Solver | None = None,
    follow: frozenset[str] = frozenset(),
    note: frozenset[str] = frozenset(),
) -> Trace:
    """As `emulate`."""
    kept = _kept_of(module)
    key = (function.name, follow, note)
    trace = kept.traces.get(key) if kept is not None else None
    if trace is not None:
        return replace(trace, module=module, function=function)
    trace = emulate(module, function, budget_s=budget_s, solver=solver, follow=follow, note=note)
    if kept is not None and not trace.statistics.timed_out:
        kept.traces[key] = trace
    return trace


def outcomes(one: Rewrite, kernel: Kernel) -> list[Outcome]:
    """What a rewrite finds in a kernel."""
    kept = None if getattr(one, "asks_target", True) else _kept_of(kernel.module)
    name, line = kernel.function.name, kernel.module.source.line(kernel.function.span.start)
    terms = kernel.trace.terms
    if kept is None or all(run.terms is not terms for run in kept.traces.values()):
        return list(one.find(kernel))
    options = replace(kernel.options, arch=None)
    key = (one.name, name, line, options, kernel.considered, kernel.block)
    before = kept.outcomes.get(key)
    if before is not None:
        return list(before)
    now = list(one.find(kernel))
    if not kernel.budget.spent(PLANNING):
        kept.outcomes[key] = tuple(now)
    return now


def was_proved(before: Module, after: Module, asked: Hashable) -> bool:
    """Is it known that two texts do the same? `asked` tells all that a proof is given besides."""
    kept = _kept_of(before)
    return kept is not None and (_without_target(after.source.text), asked) in kept.proved


def keep_proof(before: Module, after: Module, asked: Hashable) -> None:
    """It is known from now on."""
    kept = _kept_of(before)
    if kept is not None:
        kept.proved.add((_without_target(after.source.text), asked))


# ---------------------------------------------------------------- what is kept


def _with_shared_bodies(module: Module) -> Module:
    """The module with the functions of one that differs in its target; kept where there was none
    yet."""
    if _kept is None or len(module.source.text) > _LONGEST:
        return module
    text = _without_target(module.source.text)
    one = _kept.get(text)
    if one is None:
        _kept[text] = _Shared(module)
        if len(_kept) > _MOST:
            _kept.popitem(last=False)
        return module
    _kept.move_to_end(text)
    return replace(module, functions=one.module.functions)


def _kept_of(module: Module) -> _Shared | None:
    """What is kept of a text whose instructions are those of `module`."""
    if _kept is None:
        return None
    one = _kept.get(_without_target(module.source.text))
    return one if one is not None and one.module.functions is module.functions else None


def _without_target(text: str) -> str:
    """A text without the number of its target, but for how long that is: places stay."""
    match = _TARGET.search(text)
    if match is None:
        return text
    return f"{text[: match.start(1)]}{'?' * len(match[1])}{text[match.end(1) :]}"
