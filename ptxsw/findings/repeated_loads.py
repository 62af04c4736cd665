"""Loads of bytes that the thread has in a register, or had an iteration of the loop ago."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Rule, Scene, plural, these
from ptxsw.findings.may_alias import is_aliasing
from ptxsw.findings.repeats import Repeat, repeats
from ptxsw.report.model import Finding

NAME = "ptxsw-repeated-loads"


def find(scene: Scene) -> Iterator[Finding]:
    by_source: dict[object, list[Repeat]] = {}
    for repeat in repeats(scene):
        if not is_aliasing(repeat):
            block = scene.trace.cfg.block_of[repeat.site.index]
            by_source.setdefault((block, repeat.iterations > 0), []).append(repeat)
    for several in by_source.values():
        yield _finding(scene, several)


def _finding(scene: Scene, several: list[Repeat]) -> Finding:
    sites = [repeat.site for repeat in several]
    sources = sorted({repeat.source.shown.line for repeat in several})
    iterations = max(repeat.iterations for repeat in several)
    one = len(sites) == 1
    return scene.finding(
        NAME, "warning", [site.index for site in sites],
        measure=f"{plural(len(sites), 'load')} made again",
        what=f"{these(sites).capitalize()} fetch{'es' * one} bytes that the same thread has loaded "
        f"{_when(iterations)} ({_lines(sources)} of the PTX).",
        advice=_advice(several, iterations),
        weight=sum(site.times * (1 + (site.shown.sectors or 1)) for site in sites),
        sources=sources, iterations=iterations, times=sites[0].times,
    )  # fmt: skip


def _when(iterations: int) -> str:
    if iterations == 0:
        return "before"
    return "in the previous iteration" if iterations == 1 else f"up to {iterations} iterations ago"


def _lines(lines: list[int]) -> str:
    return f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"


def _advice(several: list[Repeat], iterations: int) -> str:
    if iterations:
        return (
            "Keep the values in local variables, and hand them on from one iteration to the next "
            "(`below = here; here = above;`)."
        )
    if any(repeat.barrier is not None for repeat in several):
        return (
            "Keep the value in a local variable: the compiler does not look beyond the barrier, "
            "fence or call between the loads."
        )
    return "Keep the value in a local variable."


RULE = Rule(NAME, "A thread loads bytes that it has in a register.", find)
