"""Rings of mbarriers: how many stages the pipeline of a loop has.

    add.s32 %r5, %r4, 1;                                the stage
    setp.eq.s32 %p1, %r5, 3;
    selp.b32 %r4, 0, %r5, %p1;
    shl.b32 %r6, %r4, 3;
    add.s32 %r7, %r8, %r6;
    mbarrier.try_wait.parity.shared.b64 %p2, [%r7], %r9;        three addresses, one after the other

Nothing in the text says so. So the instructions on which the addresses depend are run through some
iterations, with what registers hold as the loop is come to for the first time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ptxsw.analysis.register_terms import RegisterTerms, backward_slice
from ptxsw.flow.cfg import Cfg, build
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx.ir import Function, Instruction, Mem, Module, Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance

MOST_STAGES = 16
_ITERATIONS = 2 * MOST_STAGES + 1
_NAMED = frozenset({"try_wait", "test_wait", "expect_tx", "arrive", "complete_tx"})

_Place = tuple[Reg, int]
"""A register, and bytes behind what it holds."""

Ring = tuple[Term, ...]
"""The addresses that an instruction names, iteration for iteration, until it begins anew."""


class BarrierRings:
    """Of the loops of one function. Addresses of all of them are terms of one table."""

    def __init__(self, module: Module, function: Function) -> None:
        self._cfg = cfg = build(function.body)
        every = _addresses(cfg, range(len(cfg.instructions))).values()
        named = [reg for reg, _ in every]
        wanted = {r for i in backward_slice(cfg, named, cfg.writers) for r in cfg.read[i]}
        self._registers = RegisterTerms(
            module, function, wanted, lambda term: term.variance is Variance.UNIFORM
        )

    def of(self, loop: Loop) -> Mapping[int, Ring]:
        """The rings of the instructions of a loop that name an mbarrier, by their positions;
        without those that follow no ring."""
        inside = self._cfg.indices(sorted(loop.blocks))
        bases = _addresses(self._cfg, inside)
        if not bases:
            return {}
        named: dict[int, list[Term]] = {index: [] for index in bases}
        for values in self._iterations(loop, bases):
            for index, address in values.items():
                named[index].append(address)
        rings = {index: _ring(addresses) for index, addresses in named.items()}
        return {index: ring for index, ring in rings.items() if ring}

    def _iterations(self, loop: Loop, bases: Mapping[int, _Place]) -> Iterator[Mapping[int, Term]]:
        """The address of each instruction in one iteration after the other."""
        inside = {*self._cfg.indices(loop.blocks)}
        writers = {r: [i for i in at if i in inside] for r, at in self._cfg.writers.items()}
        named = [reg for reg, _ in bases.values()]
        slice_ = backward_slice(self._cfg, named, writers)
        guards = [g.reg for g in (self._cfg.instructions[i].guard for i in inside) if g is not None]
        slice_ |= backward_slice(self._cfg, _within(self._cfg, guards, slice_, writers), writers)
        env: dict[Reg, Term] | None = self._at_first(loop, slice_, named)
        for _ in range(_ITERATIONS):
            if env is None:
                return
            addresses: dict[int, Term] = {}
            env = self._iteration(loop, slice_, env, bases, addresses)
            yield addresses

    def _at_first(
        self, loop: Loop, slice_: frozenset[int], named: Iterable[Reg]
    ) -> dict[Reg, Term]:
        """What registers hold as a loop is entered for the first time."""
        read = {reg for index in slice_ for reg in self._cfg.read[index]} | {*named}
        start = self._cfg.blocks[loop.header].start
        return {reg: self._registers.first(reg, start) for reg in read}

    def _iteration(
        self, loop: Loop, slice_: frozenset[int], env: dict[Reg, Term], bases: Mapping[int, _Place],
        addresses: dict[int, Term],
    ) -> dict[Reg, Term] | None:  # fmt: skip
        """What registers hold as the next iteration begins; None where there is none. Fills in the
        addresses of this one."""
        cfg, before = self._cfg, {loop.header: env}
        latest: dict[Reg, Term] | None = None
        for block in sorted(loop.blocks, key=cfg.rank.__getitem__):
            if block not in before:
                continue
            held = dict(before[block])
            for index in cfg.indices((block,)):
                if index in bases:
                    reg, offset = bases[index]
                    addresses[index] = self._registers.behind(held[reg], offset)
                if index in slice_:
                    held.update(self._registers.after(index, held))
            for successor in self._followed(block, held):
                if successor == loop.header:
                    latest = held if latest is None else self._joined(latest, held)
                elif successor in loop.blocks and (block, successor) not in cfg.retreating:
                    known = before.get(successor)
                    before[successor] = held if known is None else self._joined(known, held)
        return latest

    def _followed(self, block: int, held: Mapping[Reg, Term]) -> tuple[int, ...]:
        """The blocks to which control goes on, by a predicate if it is known."""
        one = self._cfg.blocks[block]
        last = self._cfg.instructions[one.end - 1] if one.end > one.start else None
        value = None if last is None or last.guard is None else held.get(last.guard.reg)
        if last is None or last.guard is None or value is None or value.kind is not op.CONST:
            return one.successors
        if last.opcode != "bra" or len(one.successors) != 2:
            return one.successors
        taken = bool(value.value) != last.guard.negated
        return one.successors[:1] if taken else one.successors[1:]

    def _joined(self, one: dict[Reg, Term], other: dict[Reg, Term]) -> dict[Reg, Term]:
        return {
            reg: term if other.get(reg) is term else self._registers.unknown(reg)
            for reg, term in one.items()
        }


def _within(
    cfg: Cfg, guards: Iterable[Reg], slice_: frozenset[int], writers: Mapping[Reg, Iterable[int]]
) -> Iterator[Reg]:
    """The predicates that depend on what is followed anyway."""
    for guard in guards:
        if backward_slice(cfg, [guard], writers) & slice_:
            yield guard


def _addresses(cfg: Cfg, indices: Iterable[int]) -> dict[int, _Place]:
    """The instructions that name an mbarrier, and where."""
    found = ((index, _barrier(cfg.instructions[index])) for index in indices)
    return {index: place for index, place in found if place is not None}


def _barrier(instruction: Instruction) -> _Place | None:
    if instruction.opcode != "mbarrier" or _NAMED.isdisjoint(instruction.modifiers):
        return None
    named = next((o for o in instruction.operands if isinstance(o, Mem)), None)
    if named is None or not isinstance(named.base, Reg):
        return None
    return named.base, named.offset


def _ring(addresses: list[Term]) -> Ring:
    """What comes again and again, each address once; empty where nothing does."""
    for size in range(1, MOST_STAGES + 1):
        again = all(a is b for a, b in zip(addresses, addresses[size:], strict=False))
        if len(addresses) >= 2 * size and again and len({*addresses[:size]}) == size:
            return tuple(addresses[:size])
    return ()
