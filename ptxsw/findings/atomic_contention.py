"""Atomic operations of many lanes on one address: they are made one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxsw.emulator.trace import Trace
from ptxsw.findings.base import WAVEFRONT, Draft, Scene, Site, rule
from ptxsw.findings.cost import meeting
from ptxsw.flow.def_use import defs, uses
from ptxsw.ptx.operand import Int, Operand, Reg
from ptxsw.terms.node import Term, Variance, ones, walk
from ptxsw.terms.origin import Origin

_REDUCE = (
    "Reduce the values of the warp first (`__shfl_down_sync`, for integers `__reduce_add_sync`), "
    "then those of the block, and let one thread add the result."
)
_EXCHANGE = "Only one of the values survives: let one lane store it for its warp."
_COUNT = (
    "Let one lane add the number of lanes that count (`atomicAdd(p, __popc(__activemask()))`), and "
    "take the remainder where the count is used."
)
_INTEGERS = frozenset({"u32", "s32", "b32"})
_GATHERED = frozenset({"add", "and", "or", "xor", "min", "max"})
_MANY = 4096  # addresses that are no few
_REDUX = 80  # sm_80, which can reduce integers over a warp


@rule("ptxsw-atomic-contention", "Many lanes perform an atomic operation on one address.")
def atomic_contention(scene: Scene) -> Iterator[Draft]:
    for site in scene.sites:
        if site.shown.kind == "atomic" and _could_be_one(scene, site):
            lanes = meeting(scene, site)
            if lanes > 1:
                yield _finding(scene, site, lanes)
            elif bins := _bins(scene, site):
                yield _of_bins(scene, site, bins)


def _bins(scene: Scene, site: Site) -> int | None:
    """How many addresses of global memory all threads may meet at: where a loaded value of a few
    bits tells which."""
    polynomial = scene.polynomial(site.access)
    if polynomial is None or not site.is_global or _has_shared_atomics(scene):
        return None
    loaded = [term for monomial, _ in polynomial for term in monomial if _is_loaded(term)]
    others = [m for m, _ in polynomial if any(t.variance > Variance.UNIFORM for t in m)]
    if len(loaded) != 1 or len(others) != 1:
        return None
    values = 1 << ones(loaded[0]).bit_length()
    return values if values <= _MANY else None


def _is_loaded(term: Term) -> bool:
    return any(node.origin is Origin.LOAD for node in walk(term))


def _has_shared_atomics(scene: Scene) -> bool:
    return any(s.shown.kind == "atomic" and s.shown.space == "shared" for s in scene.sites)


def _of_bins(scene: Scene, site: Site, bins: int) -> Draft:
    return scene.finding(
        atomic_contention, "note", [site.index],
        measure=f"all threads on at most {bins:,} addresses",
        what=f"The atomic operations of all threads go to at most {bins:,} addresses of global "
        "memory: those on one address run one after another.",
        advice="Count in a `__shared__` array of the block first, then let the block add each of "
        "its elements to the global one, once.",
        weight=WAVEFRONT * site.times, bins=bins, times=site.times,
    )  # fmt: skip


def _could_be_one(scene: Scene, site: Site) -> bool:
    """Could one operation stand for those of several lanes? Not if what a lane stores depends on
    what others have stored."""
    modifiers = site.access.instruction.modifiers
    if "exch" in modifiers:
        return not _uses_old_value(scene, site)
    return "cas" not in modifiers


def _uses_old_value(scene: Scene, site: Site) -> bool:
    old = {*defs(site.access.instruction)}
    return any(old & uses(instruction) for instruction in scene.trace.cfg.instructions)


def _finding(scene: Scene, site: Site, lanes: int) -> Draft:
    gathered = _gathered(scene, site)
    others = "one after another"
    if gathered:
        others = "which ptxas combines into one per warp (it counts or adds up the others)"
    elif "exch" in site.access.instruction.modifiers:
        others = "of which only the last one survives"
    return scene.finding(
        atomic_contention, "note" if gathered else "warning", [site.index],
        measure=f"{lanes} lanes on one address",
        what=f"Up to {lanes} lanes of each warp perform this atomic operation on one address, "
        f"{others}.",
        advice=_advice(site.access.instruction.modifiers),
        weight=WAVEFRONT * site.times * (1 if gathered else lanes),
        saves={} if gathered else {"atomics": site.times * (lanes - 1)},
        lanes=lanes, times=site.times,
    )  # fmt: skip


def _advice(modifiers: Sequence[str]) -> str:
    if "exch" in modifiers:
        return _EXCHANGE
    return _COUNT if {"inc", "dec"} & set(modifiers) else _REDUCE


def _gathered(scene: Scene, site: Site) -> bool:
    """Does ptxas gather the lanes by itself? It does so for 32-bit integers at an address that all
    lanes share; if the old value is used, only for sums; before sm_80, only where all lanes add the
    same, which it multiplies by their number."""
    instruction = site.access.instruction
    modifiers = set(instruction.modifiers)
    if instruction.opcode == "multimem" or not (
        site.shown.uniform and modifiers & _INTEGERS and modifiers & _GATHERED
    ):
        return False
    if scene.trace.module.sm < _REDUX:
        return "add" in modifiers and _is_uniform(scene.trace, instruction.operands[-1])
    return "add" in modifiers or not _uses_old_value(scene, site)


def _is_uniform(trace: Trace, operand: Operand) -> bool:
    """Do all lanes have the same? Of what no address depends on only parameters are known."""
    if not isinstance(operand, Reg):
        return isinstance(operand, Int)
    written = [trace.cfg.instructions[at] for at in trace.cfg.writers.get(operand, ())]
    parameter = trace.function.kind == "entry" and all("param" in i.modifiers for i in written)
    return bool(written) and (parameter or trace.registers.get(operand) is Variance.UNIFORM)
