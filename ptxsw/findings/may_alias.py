"""Loads that are made again because a store through another pointer may have changed the bytes."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.analysis.pointers import pointers
from ptxsw.findings.base import Rule, Scene, Site, plural, these
from ptxsw.findings.repeats import Repeat, repeats
from ptxsw.report.model import Finding

NAME = "ptxsw-may-alias"


def is_aliasing(repeat: Repeat) -> bool:
    """Does nothing but a store through another pointer keep the compiler from using the value
    again? Of an earlier iteration of a loop it would use none but that of the same load."""
    same = repeat.iterations == 0 or repeat.site.index == repeat.source.index
    constant = "nc" in repeat.site.access.instruction.modifiers
    return bool(repeat.stores) and repeat.barrier is None and same and not constant


def find(scene: Scene) -> Iterator[Finding]:
    by_store: dict[str, list[Repeat]] = {}
    for repeat in repeats(scene):
        if is_aliasing(repeat):
            by_store.setdefault(_name(scene, repeat.site), []).append(repeat)
    for name, several in by_store.items():
        yield _finding(scene, name, several)


def _finding(scene: Scene, name: str, several: list[Repeat]) -> Finding:
    sites = [repeat.site for repeat in several]
    stores = {store.index: store for repeat in several for store in repeat.stores}
    written = sorted({_name(scene, store) for store in stores.values()})
    ago = (
        "had since the previous iteration"
        if any(r.iterations for r in several)
        else "loaded before"
    )
    return scene.finding(
        NAME, "warning", [site.index for site in sites],
        measure=f"{plural(len(sites), 'load')} made again",
        what=f"{these(sites).capitalize()} fetch{'es' * (len(sites) == 1)} from {name} what the "
        f"thread has {ago}. As far as the compiler knows, {plural(len(stores), 'store')} "
        f"through {' and '.join(written)} in between may have changed it.",
        advice=f"If the arrays do not overlap, declare {' and '.join([name, *written])} "
        "`__restrict__`; or keep the value in a local variable.",
        weight=sum(site.times * (1 + (site.shown.sectors or 1)) for site in sites),
        stores=[scene.line(index) for index in stores], times=sites[0].times,
    )  # fmt: skip


def _name(scene: Scene, site: Site) -> str:
    """The pointer of an access, as the report names it."""
    names = sorted(str(term.value) for term in pointers(site.access) or () if term.kind == "atom")
    prefix = f"{scene.trace.function.name}_"
    return " or ".join(f"`{name.removeprefix(prefix)}`" for name in names) or "a loaded pointer"


RULE = Rule(NAME, "A store that may alias makes the compiler load a value again.", find)
