"""Registers of a thread, and what lies in local memory for want of them."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.analysis.coalescing import SECTOR
from ptxsw.cost.resource_demand import lanes
from ptxsw.findings.base import (
    BEYOND,
    FETCH,
    Draft,
    KernelResources,
    Scene,
    Site,
    counted,
    plural,
    rule,
)
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function
from ptxsw.terms.origin import Origin

_WORD = 4  # bytes, each of 32 lanes: 4 sectors


def _spilled(used: KernelResources) -> int:
    """Bytes a thread that are stored and loaded."""
    return used.spill_stores + used.spill_loads


def _weight(scene: Scene, used: KernelResources) -> float:
    """Spills are taken to lie where the kernel's instructions do."""
    often = scene.executed / max(1, len(scene.trace.cfg.instructions))
    return _spilled(used) / _WORD * (1 + 4 + FETCH * 4) * often


@rule("ptxsw-spills", "ptxas keeps registers in local memory.", asks_ptxas=True)
def spills(scene: Scene) -> Iterator[Draft]:
    used = scene.resources
    if used is None or not _spilled(used) or _by_bounds(used):
        return
    yield scene.finding(
        spills, "warning", (),
        measure=f"{_spilled(used):,} bytes spilled",
        what=f"With {used.registers} registers in use, ptxas stores {used.spill_stores:,} bytes of "
        f"each thread to local memory and loads {used.spill_loads:,}.",
        advice="Keep fewer values alive: unroll less, split the kernel, or recompute what is "
        "cheap. A few bytes outside loops do no harm; `nvdisasm` shows where they are.",
        weight=_weight(scene, used),
        stores=used.spill_stores, loads=used.spill_loads, registers=used.registers,
    )  # fmt: skip


def _by_bounds(used: KernelResources) -> bool:
    """Does the kernel spill less without its launch bounds?"""
    return used.unbounded is not None and _spilled(used.unbounded) < _spilled(used)


BOUNDS = ("maxntid", "minnctapersm", "maxnreg")
"""Directives that limit registers and that a launch does not need."""


def _bounds(function: Function) -> str:
    """The bounds of a kernel as they are written: ".maxntid 1024 .minnctapersm 2"."""
    return " ".join(f".{name} {text}" for name, text in function.directives if name in BOUNDS)


@rule("ptxsw-launch-bounds", "ptxas meets the launch bounds only by spilling.", asks_ptxas=True)
def launch_bounds(scene: Scene) -> Iterator[Draft]:
    used = scene.resources
    if used is None or used.unbounded is None or not _by_bounds(used):
        return
    free = used.unbounded
    text = _bounds(scene.trace.function)
    yield scene.finding(
        launch_bounds, "warning", (),
        measure=f"{_spilled(used):,} bytes spilled for {used.registers} registers",
        what=f"`{text}` leaves {used.registers} registers a thread, which ptxas meets by spilling "
        f"{used.spill_stores:,} bytes; without it, it takes {free.registers} registers and "
        f"spills {free.spill_stores:,}.",
        advice=f"Relax the bound until {free.registers} registers fit, or keep fewer values alive. "
        "A bound that spills may cost more than the occupancy it buys: measure both.",
        weight=_weight(scene, used),
        registers=used.registers, wanted=free.registers, stores=used.spill_stores,
        loads=used.spill_loads,
    )  # fmt: skip


def _sets_registers(scene: Scene) -> bool:
    """Do warps get other registers than a launch gives them, by `setmaxnreg`?"""
    return any(one.opcode == "setmaxnreg" for one in scene.trace.cfg.instructions)


_CEILING = 255
_NEAR = 248  # from here on no block of registers is left to give to a warp


@rule(
    "ptxsw-register-ceiling",
    "The kernel uses all registers that a thread can have.",
    asks_ptxas=True,
)
def register_ceiling(scene: Scene) -> Iterator[Draft]:
    used = scene.resources
    if used is None or used.registers < _NEAR or _spilled(used) or _sets_registers(scene):
        return
    yield scene.finding(
        register_ceiling, "note" if scene.has_tensor_work else "warning", (),
        measure=f"{used.registers} of {_CEILING} registers",
        what=f"Each thread takes {used.registers} registers of the {_CEILING} it can have: 8 warps "
        "fill a multiprocessor, and a few more values will spill.",
        advice="Keep fewer values alive: unroll less, split the kernel, or share the work of a "
        "thread among several.",
        weight=scene.executed / 4, registers=used.registers,
    )  # fmt: skip


@rule("ptxsw-local-array", "A per-thread array lies in local memory.")
def local_array(scene: Scene) -> Iterator[Draft]:
    sites = [site for site in scene.sites if site.shown.space == "local"]
    indexed = [site for site in sites if _is_indexed(scene, site)]
    if not sites or (not indexed and _is_handed_on(scene)) or is_trigonometric(scene):
        return
    most = max(indexed or sites, key=lambda site: (site.times, -site.index))
    size = sum(v.size for v in scene.trace.function.body.variables if v.space == "local")
    array = f"An array of {plural(size, 'byte')} a thread" if size else "An array of each thread"
    yield scene.finding(
        local_array, "warning" if indexed else "note",
        [most.index, *(site.index for site in sites if site is not most)],
        measure=f"{plural(size, 'byte')} a thread" if size else "size known only at run time",
        what=f"{array} lies in local memory, {_why_local(bool(indexed))}: {counted(sites)} go "
        "there. Local memory is off-chip, behind the L1 cache.",
        advice="Unroll the loops that index the array, so that every index is a number and the "
        "elements become registers; or keep the array in shared memory, a column for each thread."
        if indexed
        else "Compile with optimisation; a `volatile` local array, or one whose address is stored, "
        "stays there.",
        saves={
            "sectors": sum((site.shown.sectors or 4) * site.times for site in sites),
            "lanes": sum(lanes(site.shown.bytes or 4) * site.times for site in sites),
            "l2_bytes": BEYOND * SECTOR * sum((s.shown.sectors or 4) * s.times for s in sites),
        },
        by_lanes=False,
        bytes=size, accesses=len(sites),
    )  # fmt: skip


def _is_indexed(scene: Scene, site: Site) -> bool:
    """Is the place in local memory more than a variable and a number?"""
    polynomial = scene.polynomial(site.access)
    return polynomial is None or any(
        term.origin not in (Origin.SYMBOL, Origin.WINDOW)
        for monomial, _ in polynomial
        for term in monomial
    )


_REDUCTION = 40  # bytes, of a double
_TABLES = ("i2opi", str(0x3C439041))  # by its name, and by its first number


def _is_handed_on(scene: Scene) -> bool:
    """Does the kernel call functions? What they get by address has to lie in memory, such as the
    arguments of `printf`."""
    return any(
        isa.effects(one.opcode, one.modifiers) & isa.Effect.CALL
        for one in scene.trace.cfg.instructions
    )


def is_trigonometric(scene: Scene) -> bool:
    """Is local memory that of `sin`, `cos` or `tan`, for the few large arguments that they reduce
    with a table of bits of 2 / pi? It is NVIDIA's code, which seldom runs."""
    frame = sum(v.size for v in scene.trace.function.body.variables if v.space == "local")
    text = scene.trace.module.source.slice(scene.trace.function.span)
    return frame <= _REDUCTION and any(table in text for table in _TABLES)


def _why_local(indexed: bool) -> str:
    return (
        "because an index is known only at run time"
        if indexed
        else "although every index is a number"
    )
