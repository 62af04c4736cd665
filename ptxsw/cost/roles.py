"""What the roles of warps do: the work of their loops, the bytes that these move and have on the
way, and how long a block takes for an iteration.

    warp 0: loads by TMA, 32,768 bytes an iteration, 6 mbarriers, so 196,608 bytes on the way
    warps 4 to 11: wgmma, waits for 6 mbarriers

Roles run beside each other: a block that goes round in all of them takes as long as the longest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.barrier_rings import BarrierRings, Ring
from ptxsw.analysis.warp_roles import Role, warp_roles
from ptxsw.analysis.warps import Block
from ptxsw.cost.account import Account, Interval
from ptxsw.cost.bulk_copies import bulk_bytes
from ptxsw.cost.tensor import constants
from ptxsw.emulator.trace import Trace
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.loop_exits import waits_for_mbarrier
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Int

_BY_ONE_THREAD: Final = "tcgen05"  # whose work is told of the warp that issues it
_TENSOR: Final = {
    "mma": "mma", "wmma": "wmma", "wgmma": "wgmma", "tcgen05": "tcgen05.mma",
}  # fmt: skip
_SHARED: Final = ("shared::cluster", "shared::cta")
_KINDS: Final = {"ld": "loads", "ldmatrix": "loads", "st": "stores", "stmatrix": "stores"}
_ASKS: Final = frozenset({"try_wait", "test_wait"})
_EXPECTS: Final = frozenset({"expect_tx"})


class RoleLoop(Struct, frozen=True, kw_only=True):
    """A loop of a role. `bytes` are those that bulk copies of a block move in one iteration, None
    where nothing says it; `barriers` how many mbarriers it waits for, one after the other;
    `expects` the rings of mbarriers for whose bytes it asks, and `awaits` those that it waits for;
    `on_the_way` how many bytes may be expected at mbarriers at a time. `registers` is what
    `setmaxnreg` gives its threads. What is not known is None."""

    header: int
    label: str
    line: int
    work: tuple[str, ...]
    bytes: Interval | None
    barriers: int | None
    stages: int | None
    on_the_way: int | None
    registers: int | None
    expects: tuple[Ring, ...] = ()
    awaits: tuple[Ring, ...] = ()


class RoleWork(Struct, frozen=True):
    """The warps of a role and its loops, and what it does without a loop."""

    warps: tuple[int, ...]
    loops: tuple[RoleLoop, ...]
    work: tuple[str, ...]


def roles_of(trace: Trace, block: Block | None) -> tuple[RoleWork, ...]:
    """The roles of a kernel in blocks of a shape; none where all warps do the same."""
    roles = warp_roles(trace.module, trace.function, block)
    if not roles:
        return ()
    cfg = trace.cfg
    common = frozenset.intersection(*(role.blocks for role in roles))
    loops = LoopReader(trace)
    return tuple(
        RoleWork(
            role.warps, tuple(loops.read(header, role) for header in role.loops),
            () if role.loops else tuple(_works(cfg, role.blocks - common)),
        )
        for role in roles
    )  # fmt: skip


class LoopReader:
    """Reads loops of one kernel."""

    def __init__(self, trace: Trace) -> None:
        self._trace, self._cfg = trace, trace.cfg
        self._value = constants(trace.cfg)
        self._rings = BarrierRings(trace.module, trace.function)

    def read(self, header: int, role: Role | None = None) -> RoleLoop:
        """Of a loop by its header, which a role runs or, with None, all warps."""
        cfg, loop = self._cfg, self._cfg.loops[header]
        blocks = sorted(loop.blocks if role is None else loop.blocks & role.blocks)
        bulk = bulk_bytes(cfg, blocks, self._value, None)
        inside = cfg.indices(blocks)
        rings = {at: ring for at, ring in self._rings.of(loop).items() if at in {*inside}}
        asks = [at for at in inside if _is_barrier(cfg.instructions[at], _ASKS)]
        fills = [at for at in self._expected(blocks) if self._arrives(at)]
        start = cfg.instructions[min(cfg.indices(loop.blocks))].span.start
        return RoleLoop(
            header=header, label=cfg.name(header).partition("@")[0],
            line=self._trace.module.source.line(start), work=tuple(_works(cfg, blocks)),
            bytes=None if bulk.unmodelled or not bulk.of_block.high else bulk.of_block,
            barriers=_count(rings, asks), stages=self._stages(rings, blocks),
            on_the_way=self._on_the_way(rings, blocks), registers=self._registers(header),
            expects=tuple(rings[at] for at in fills if at in rings),
            awaits=tuple(rings[at] for at in asks if at in rings and self._in_a_wait(at)),
        )  # fmt: skip

    def _expected(self, blocks: Iterable[int]) -> list[int]:
        cfg = self._cfg
        return [at for at in cfg.indices(blocks) if _is_barrier(cfg.instructions[at], _EXPECTS)]

    def _in_a_wait(self, index: int) -> bool:
        """Is it asked until it is so? (Others look ahead.)"""
        header = self._cfg.loop_of.get(self._cfg.block_of[index])
        return header is not None and waits_for_mbarrier(self._cfg, self._cfg.loops[header])

    def _stages(self, rings: Mapping[int, Ring], blocks: Iterable[int]) -> int | None:
        """How often a loop may have started what it still waits for: the length of its rings, where
        each instruction goes through one of its own, and all are as long."""
        expected = self._expected(blocks)
        lengths = {len(rings.get(at, ())) for at in expected}
        firsts = [rings[at] for at in expected if rings.get(at) and self._arrives(at)]
        alone = len({address for ring in firsts for address in ring}) == sum(map(len, firsts))
        unrolled = lengths == {1} and len(firsts) > 1  # or buffers of their own: who knows?
        return lengths.pop() if len(lengths) == 1 and alone and not unrolled and firsts else None

    def _arrives(self, index: int) -> bool:
        return "arrive" in self._cfg.instructions[index].modifiers

    def _on_the_way(self, rings: Mapping[int, Ring], blocks: Iterable[int]) -> int | None:
        """Bytes that are expected at all mbarriers of a loop, each waiting for one phase."""
        sizes, phases = defaultdict[Ring, int](int), defaultdict[Ring, int](int)
        for at in self._expected(blocks):
            size, ring = self._value(self._cfg.instructions[at].operands[-1]), rings.get(at)
            if size is None or not ring:
                return None
            sizes[tuple(sorted(ring, key=lambda term: term.id))] += size
            phases[tuple(sorted(ring, key=lambda term: term.id))] += self._arrives(at)
        if not all(phases[ring] for ring in sizes):
            return None
        total = sum(len(ring) * sizes[ring] // phases[ring] for ring in sizes)
        return total or None

    def _registers(self, header: int) -> int | None:
        """What the last `setmaxnreg` gives on the way to a loop."""
        cfg, block = self._cfg, header
        while True:
            inside = cfg.indices((block,)) if block != header else []
            for index in reversed(inside):
                one = cfg.instructions[index]
                if one.opcode == "setmaxnreg" and isinstance(one.operands[0], Int):
                    return one.operands[0].value
            if block == cfg.idom[block]:
                return None
            block = cfg.idom[block]


def tiles(roles: Iterable[RoleWork]) -> Mapping[int, int]:
    """How many tiles a loop passes on or gets in an iteration, by its header, for loops that fill
    mbarriers with copies, and those that wait for these."""
    loops = [loop for role in roles for loop in role.loops]
    filled = {address for loop in loops for ring in loop.expects for address in ring}
    counts = {
        loop.header: len(loop.expects) or sum(filled.issuperset(ring) for ring in loop.awaits)
        for loop in loops
    }
    return {header: count for header, count in counts.items() if count}


def of_block(account: Account, warps: int) -> Account:
    """What so many warps of a block do that go through a loop together, from what one of them does.
    What one thread issues for all is done once at least."""
    every, once = Interval(warps, warps), Interval(1, warps)

    def times(amount: Interval, factor: Interval) -> Interval:
        return Interval(amount.low * factor.low, amount.high * factor.high)

    return replace(
        account,
        instructions=times(account.instructions, every),
        pipes={pipe: times(count, every) for pipe, count in account.pipes.items()},
        passes=times(account.passes, once),
        lanes=times(account.lanes, every),
        sectors=times(account.sectors, every),
        l2_bytes=times(account.l2_bytes, once),
        dram_bytes=times(account.dram_bytes, once),
        tensor={
            kind: times(count, once if kind[0] == _BY_ONE_THREAD else every)
            for kind, count in account.tensor.items()
        },
    )


# ---------------------------------------------------------------- what instructions do


def _works(cfg: Cfg, blocks: Iterable[int]) -> Iterator[str]:
    """What some blocks do beside computing and waiting, each kind once."""
    found = (_work(cfg.instructions[index]) for index in cfg.indices(sorted(blocks)))
    yield from dict.fromkeys(work for work in found if work)


def _work(instruction: Instruction) -> str:
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if isa.has(instruction, isa.Trait.TENSOR) and opcode in _TENSOR:
        if opcode == "tcgen05":
            return {"mma": "tcgen05.mma", "ld": "loads of tensor memory",
                    "st": "stores of tensor memory"}.get(modifiers[0], "")  # fmt: skip
        return _TENSOR[opcode] if {"mma", "mma_async"} & {opcode, *modifiers} else ""
    if opcode == "cp" and "async" in modifiers:
        return _copy(modifiers)
    if opcode == "clusterlaunchcontrol":
        return "asks for blocks"
    space = isa.space(instruction)
    if opcode in _KINDS and space in ("global", "generic", "shared"):
        return f"{'shared' if space == 'shared' else 'global'} {_KINDS[opcode]}"
    return "atomics" if opcode in ("atom", "red", "multimem") else ""


def _copy(modifiers: tuple[str, ...]) -> str:
    if "bulk" not in modifiers:
        return "cp.async" if "global" in modifiers else ""
    first = next((m for m in modifiers if m in (*_SHARED, "global")), None)
    if first is None or "global" not in modifiers:
        return ""
    what = "by TMA" if "tensor" in modifiers else "in bulk"
    return f"{'loads' if first in _SHARED else 'stores'} {what}"


def _is_barrier(instruction: Instruction, names: frozenset[str]) -> bool:
    return instruction.opcode == "mbarrier" and not names.isdisjoint(instruction.modifiers)


def _count(rings: Mapping[int, Ring], asks: Iterable[int]) -> int | None:
    """How many mbarriers are waited for; None where that is not known."""
    known = [rings.get(at) for at in asks]
    if not known or not all(known):
        return None
    return len({address for ring in known for address in ring or ()})
