"""Addresses that the trace leaves out: where `cp.async` reads global memory, and where in a peer's
shared memory a pointer of `mapa` leads. They are noted while the kernel is run symbolically, and
described as accesses of their own.

    cp.async.cg.shared.global [%r1], [%rd1], 16;      a load of 16 bytes at %rd1
    mapa.shared::cluster.u32 %r3, %r2, %r4;           %r3 + 4 is %r2 + 4 in another block
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from ptxsw.analysis.address_text import AddressWriter
from ptxsw.analysis.coalescing import common_step
from ptxsw.analysis.traffic import Traffic, is_copy
from ptxsw.analysis.warps import Warps
from ptxsw.emulator.state import MemoryAccess, State
from ptxsw.emulator.trace import Access, AccessView, Trace
from ptxsw.flow import cfg
from ptxsw.flow.def_use import defs
from ptxsw.ptx.ir import Function, Mem, Reg
from ptxsw.report import model
from ptxsw.terms.node import Term, walk
from ptxsw.terms.substitution import substitute

_BYTE = 8  # bits


class SecondAddresses:
    """A hook of `emulate` that notes them."""

    def __init__(self, function: Function) -> None:
        self._instructions = cfg.build(function.body).instructions
        self.sources: dict[int, dict[tuple[Term, Term], frozenset[Term]]] = {}
        self.peers: dict[Term, Term] = {}

    @property
    def any(self) -> bool:
        """Is there anything to note?"""
        return any(is_copy(one) or one.opcode == "mapa" for one in self._instructions)

    def __call__(self, index: int, state: State, touch: MemoryAccess | None) -> None:
        instruction = self._instructions[index]
        if is_copy(instruction) and touch is not None:
            address = _address(state, instruction.operands[1])
            if address is not None:
                seen = self.sources.setdefault(index, {})
                known = frozenset(state.conditions)
                seen[address, touch.guard] = seen.get((address, touch.guard), known) & known
        elif instruction.opcode == "mapa" and isinstance(instruction.operands[1], Reg):
            for reg in defs(instruction):
                own = state.env.get(instruction.operands[1])
                if reg in state.env and own is not None:
                    self.peers[state.env[reg]] = own


def _address(state: State, operand: object) -> Term | None:
    """What a base register and a number behind it add up to."""
    if not isinstance(operand, Mem) or not isinstance(operand.base, Reg):
        return None
    base = state.env.get(operand.base)
    return None if base is None or operand.offset else base


def copies(
    trace: Trace, noted: SecondAddresses, warps: Warps
) -> Iterator[tuple[Access, model.Access]]:
    """The loads from global memory that `cp.async` makes."""
    writer = AddressWriter(trace.unwrapped, trace.function.name)
    for index, seen in sorted(noted.sources.items()):
        instruction = trace.cfg.instructions[index]
        views = tuple(AccessView(at, guard, known) for (at, guard), known in seen.items())
        access = Access(index, instruction, "load", "global", _BYTE, 1, views)
        yield access, _described(trace, access, writer, warps)


def _described(trace: Trace, access: Access, writer: AddressWriter, warps: Warps) -> model.Access:
    asked = Traffic.of(access, trace.unwrapped, warps)
    offsets = asked.offsets
    stride = None if offsets is None else common_step(offsets)
    address = access.variants[0].address if len(access.variants) == 1 else None
    step = None if address is None else trace.unwrapped.lane_step(address)
    return model.Access(
        trace.module.source.line(access.instruction.span.start),
        None, "load", "global", access.instruction.name, asked.size, None, stride,
        asked.sectors()[0], stride == 0,
        lane_step=None if step is None else writer.sum(step) or "0",
        lanes=offsets if stride is None else None,
        phase=asked.phase,
    )  # fmt: skip


def in_peers(
    trace: Trace, noted: SecondAddresses, warps: Warps, access: Access, shown: model.Access
) -> tuple[Access, model.Access]:
    """An access to the shared memory of another block, as if it were that of the own: arrays lie
    alike in all blocks of a cluster. Any other as it is."""
    addresses = [view.address for view in access.variants]
    if not any(term in noted.peers for term in walk(*addresses)):
        return access, shown
    views = tuple(
        replace(view, address=substitute(trace.terms, view.address, noted.peers.get))
        for view in access.variants
    )
    own = replace(access, space="shared", variants=views)
    asked = Traffic.of(own, trace.unwrapped, warps)
    offsets = asked.offsets
    figures = replace(
        shown, space="shared", bank_conflicts=asked.banks(trace.unwrapped), bytes=asked.size,
        lane_stride=None if offsets is None else common_step(offsets),
    )  # fmt: skip
    return own, figures
