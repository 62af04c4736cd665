"""Loads of bytes that the thread, or another lane of its warp, has loaded before."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from ptxsw.analysis.pointers import Pointers, pointers, unrelated
from ptxsw.cost.resource_demand import lanes
from ptxsw.findings.base import Draft, Scene, Site, plural, rule, these
from ptxsw.findings.cost import gain, groups
from ptxsw.flow.loop_exits import executes_every_iteration
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction
from ptxsw.terms import op
from ptxsw.terms.node import Term

_ORDERED = frozenset({"volatile", "relaxed", "acquire", "mmio"})
_STOPS = isa.Effect.BARRIER | isa.Effect.FENCE | isa.Effect.CALL
_SEES_OTHERS = frozenset({"fence", "membar", "griddepcontrol", "mbarrier"})
"""Behind these a thread may read what other blocks or kernels have written meanwhile."""


class Repeat(Struct, frozen=True):
    """A load, and the one that had its bytes. `iterations` is how many iterations of a loop ago, 0
    for the same iteration; `stores` are accesses between them that may write there as far as the
    types tell, through other pointers; `barrier` is an instruction that orders memory between
    them. `may_differ`: does something between them make the writes of others visible?"""

    site: Site
    source: Site
    iterations: int
    stores: tuple[Site, ...]
    barrier: int | None
    may_differ: bool = False


@lru_cache(maxsize=1)
def _repeats(scene: Scene) -> tuple[Repeat, ...]:
    """Loads from global memory that a thread makes twice."""
    return tuple(_all_repeats(scene))


def _all_repeats(scene: Scene) -> Iterator[Repeat]:
    by_line = {site.shown.line: site for site in scene.sites}
    for site in scene.sites:
        plain = _ORDERED.isdisjoint(site.access.instruction.modifiers)
        if site.shown.kind != "load" or not site.is_global or not plain:
            continue
        repeat = _same_iteration(scene, site, by_line) or _earlier_iteration(scene, site, by_line)
        if repeat is not None and not repeat.may_differ:
            yield repeat


def _same_iteration(scene: Scene, site: Site, by_line: dict[int, Site]) -> Repeat | None:
    cfg = scene.trace.cfg
    for reuse in site.shown.reuse:
        source = by_line.get(reuse.line)
        if reuse.delta or source is None or source.index >= site.index:
            continue
        if _is_made_with(source, site) and cfg.dominates(
            cfg.block_of[source.index], cfg.block_of[site.index]
        ):
            return _repeat(scene, site, source, 0, range(source.index + 1, site.index))
    return None


def _is_made_with(source: Site, site: Site) -> bool:
    """Does a thread that makes an access make the other, too, where it comes past both?"""
    guards = {view.guard for view in source.access.variants}
    return source.access.instruction.guard is None or guards == {
        view.guard for view in site.access.variants
    }


def _earlier_iteration(scene: Scene, site: Site, by_line: dict[int, Site]) -> Repeat | None:
    cfg = scene.trace.cfg
    header = cfg.loop_of.get(cfg.block_of[site.index])
    if header is None:
        return None
    name = cfg.name(header).replace("$L__", "")
    for carried in site.shown.carried:
        source = by_line.get(carried.line)
        if carried.delta or carried.loop != name or source is None:
            continue
        every = executes_every_iteration(cfg, cfg.block_of[source.index], cfg.loops[header])
        if not every or source.access.instruction.guard is not None:
            continue
        inside = [i for n in cfg.loops[header].blocks for i in _block(scene, n)]
        return _repeat(scene, site, source, carried.iterations, inside)
    return None


def _block(scene: Scene, number: int) -> range:
    block = scene.trace.cfg.blocks[number]
    return range(block.start, block.end)


def _repeat(
    scene: Scene, site: Site, source: Site, iterations: int, between: range | list[int]
) -> Repeat:
    positions = set(between)
    own: Pointers = pointers(site.access)
    stores = tuple(
        other
        for other in scene.sites
        if other.index in positions
        and other.is_global
        and other.shown.kind != "load"
        and unrelated(own, pointers(other.access))
    )
    instructions = scene.trace.cfg.instructions
    barrier = next((i for i in sorted(positions) if _stops(instructions[i])), None)
    others = any(_sees_others(instructions[i]) for i in positions)
    return Repeat(site, source, iterations, stores, barrier, others)


def _sees_others(instruction: Instruction) -> bool:
    ordered = not {"acquire", "acq_rel", "volatile", "sc"}.isdisjoint(instruction.modifiers)
    return ordered or instruction.opcode in _SEES_OTHERS


def _stops(instruction: Instruction) -> bool:
    return bool(isa.effects(instruction.opcode, instruction.modifiers) & _STOPS)


@rule("ptxsw-repeated-loads", "A thread loads bytes that it already has in a register.")
def repeated_loads(scene: Scene) -> Iterator[Draft]:
    by_source: dict[object, list[Repeat]] = {}
    for repeat in _repeats(scene):
        if not _is_aliasing(repeat):
            block = scene.trace.cfg.block_of[repeat.site.index]
            by_source.setdefault((block, repeat.iterations > 0), []).append(repeat)
    for several in by_source.values():
        yield _repeated(scene, several)


def _repeated(scene: Scene, several: list[Repeat]) -> Draft:
    sites = [repeat.site for repeat in several]
    sources = sorted({repeat.source.shown.line for repeat in several})
    iterations = max(repeat.iterations for repeat in several)
    one = len(sites) == 1
    return scene.finding(
        repeated_loads, "warning", scene.heaviest_first(sites), by_lanes=False,
        measure=f"{plural(len(sites), 'load')} repeated",
        what=f"{these(sites).capitalize()} fetch{'es' * one} bytes that the same thread has loaded "
        f"{_when(iterations)} ({_lines(sources)} of the PTX).",
        advice=_advice(several, iterations),
        saves=_saved(sites), cause=iterations > 0,
        sources=sources, iterations=iterations, times=sites[0].times,
    )  # fmt: skip


def _saved(sites: list[Site]) -> dict[str, float]:
    return {
        "instructions": sum(site.times for site in sites),
        "lsu": sum(site.times for site in sites),
        **_passed(sites),
    }


def _passed(sites: list[Site]) -> dict[str, float]:
    """What loads pass through the first-level cache."""
    return {
        "sectors": sum(site.times * (site.shown.sectors or 1) for site in sites),
        "lanes": sum(site.times * lanes(site.shown.bytes or 4) for site in sites),
    }


def _when(iterations: int) -> str:
    if iterations == 0:
        return "before"
    return "in the previous iteration" if iterations == 1 else f"up to {iterations} iterations ago"


def _lines(lines: list[int]) -> str:
    return f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"


def _advice(several: list[Repeat], iterations: int) -> str:
    if iterations:
        return (
            "Keep the values in local variables, and pass them from one iteration to the next "
            "(`below = here; here = above;`)."
        )
    if any(repeat.barrier is not None for repeat in several):
        return (
            "Keep the value in a local variable: the compiler does not look beyond the barrier, "
            "fence or call between the loads."
        )
    return "Keep the value in a local variable."


def _addresses(site: Site) -> frozenset[Term]:
    return frozenset(view.address for view in site.access.variants)


def _is_aliasing(repeat: Repeat) -> bool:
    """Does nothing but a store through another pointer keep the compiler from using the value
    again? Of an earlier iteration of a loop it would use none but that of the same load."""
    same = repeat.iterations == 0 or _addresses(repeat.site) == _addresses(repeat.source)
    constant = "nc" in repeat.site.access.instruction.modifiers
    return bool(repeat.stores) and repeat.barrier is None and same and not constant


@rule("ptxsw-may-alias", "A store that may alias makes the compiler load a value again.")
def may_alias(scene: Scene) -> Iterator[Draft]:
    by_store: dict[str, list[Repeat]] = {}
    for repeat in _repeats(scene):
        if _is_aliasing(repeat):
            by_store.setdefault(_name(scene, repeat.site), []).append(repeat)
    for name, several in by_store.items():
        yield _aliasing(scene, name, several)


def _aliasing(scene: Scene, name: str, several: list[Repeat]) -> Draft:
    sites = [repeat.site for repeat in several]
    stores = {store.index: store for repeat in several for store in repeat.stores}
    written = sorted({_name(scene, store) for store in stores.values()})
    pointers_ = [scene.source.named(each.strip("`")) for each in (name, *written)]
    ago = (
        "had since the previous iteration"
        if any(r.iterations for r in several)
        else "loaded before"
    )
    return scene.finding(
        may_alias, "warning", scene.heaviest_first(sites), by_lanes=False,
        measure=f"{plural(len(sites), 'load')} repeated",
        what=f"{these(sites).capitalize()} fetch{'es' * (len(sites) == 1)} from {name} what the "
        f"thread has {ago}. As far as the compiler knows, {plural(len(stores), 'store')} "
        f"through {' and '.join(written)} in between may have changed it.",
        advice=f"If the arrays do not overlap, declare {' and '.join([name, *written])} "
        "`__restrict__`; or keep the value in a local variable.",
        edits=scene.source.restricted(pointers_), saves=_saved(sites), cause=(name, *written),
        stores=[scene.line(index) for index in stores], times=sites[0].times,
    )  # fmt: skip


def _name(scene: Scene, site: Site) -> str:
    """The pointer of an access, as the report names it."""
    names = sorted(str(term.value) for term in pointers(site.access) or () if term.kind is op.ATOM)
    prefix = f"{scene.trace.function.name}_"
    return " or ".join(f"`{name.removeprefix(prefix)}`" for name in names) or "a loaded pointer"


_MATTERS = 0.05  # of the kernel's bound


@rule("ptxsw-neighbour-loads", "Loads fetch what a neighbouring lane has just fetched.")
def neighbour_loads(scene: Scene) -> Iterator[Draft]:
    for group in groups(scene):
        again = [site for site in group.sites if any(reuse.delta for reuse in site.shown.reuse)]
        if not again:
            continue
        count = len(again)
        saves = _passed(again)
        shares = gain(scene, saves)
        matters = shares is not None and shares[1] >= _MATTERS
        rewrite = ", or try `ptxsw optimize --mode force --rewrites shuffle`"
        yield scene.finding(
            neighbour_loads, "note", scene.heaviest_first(again),
            measure=f"{count} of {plural(len(group.sites), 'load')}",
            what=f"{plural(count, 'load').capitalize()} of this row fetch{'es' * (count == 1)} "
            "bytes that a neighbouring lane has just fetched. Such a load hits the L1 cache, but "
            "costs a pass through it.",
            advice="Change nothing unless the L1 cache limits the kernel. If it does, load a tile "
            f"into shared memory{rewrite * (matters and scene.works('shuffle'))}.",
            saves=saves, loads=count, times=group.times,
        )  # fmt: skip
