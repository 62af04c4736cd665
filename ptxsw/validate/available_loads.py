"""Registers of the second text alone that still hold what a load gave, or what was stored.

    ld.global.f32 %f9, [%rd4+8];   loaded once, before the loop
    LOOP:                          the claim here: %f9 is what memory holds at %rd4+8

That memory still holds the same is a claim that nobody had to write down: it is believed until
control comes to the place with something else. A store counts as a load of its bytes.
"""

from __future__ import annotations

from ptxsw.analysis.instruction_kinds import Kind, kinds
from ptxsw.ptx.ir import Instruction, Reg
from ptxsw.terms.node import Term
from ptxsw.validate.basis import Basis
from ptxsw.validate.claims import ClaimChecker
from ptxsw.validate.cuts import Cut
from ptxsw.validate.edit_map import Pair
from ptxsw.validate.moved_arrays import Layout
from ptxsw.validate.path import Path

_OF_STORES = frozenset({"wb"})  # how a store is cached
_MAX_MOVES = 4  # from a load's register to one that keeps its value

LoadedRegister = tuple[int, Reg]
"""A load, by its position, and one of the registers that it writes; or a store, and what it
stores."""


class AvailableLoads:
    """Which registers of the second text hold what memory held, where control comes to a pair of
    places."""

    def __init__(self, basis: Basis, claims: ClaimChecker, layout: Layout | None) -> None:
        self._new, self._common = basis.new, basis.common
        self._claims, self._layout, self._equality = claims, layout, basis.equality
        self._held: dict[Pair, list[tuple[Reg, LoadedRegister]]] = {}

    def at(self, pair: Pair) -> list[tuple[Reg, LoadedRegister]]:
        """Registers of the second text alone that still hold what a load gave: each with that
        load."""
        loads = self._held.get(pair)
        if loads is None:
            loads = self._held[pair] = self._at(pair)
        return loads

    def _at(self, pair: Pair) -> list[tuple[Reg, LoadedRegister]]:
        """The same before it is known whether they always hold it."""
        p, q = pair
        claimed = {c.register for c in self._claims.at(p)}
        extra = self._new.live(q) - self._common(pair) - claimed
        pairs = []
        held = self._new.equations.at(q) if extra else 0
        for reg in sorted(extra, key=lambda r: (r.name, r.scope)):
            loaded = self._loading(held, reg)
            if loaded is not None:
                pairs.append((reg, loaded))
        return pairs

    def _loading(self, held: int, reg: Reg) -> LoadedRegister | None:
        """What was loaded or stored that a register has by equations that hold, itself or by
        moves."""
        for _ in range(_MAX_MOVES):
            store = self._new.equations.stored(held, reg)
            if store is not None and not self._is_moved(store):
                return store, reg
            writer = self._new.equations.writer(held, reg)
            if writer is None:
                return None
            instruction = self._new.cfg.instructions[writer]
            if kinds(self._new.cfg)[writer] is Kind.LOAD:
                param = "param" in instruction.modifiers
                return None if param or self._is_moved(writer) else (writer, reg)
            source = instruction.operands[-1]
            if instruction.opcode != "mov" or not isinstance(source, Reg):
                return None
            reg = source
        return None

    def _is_moved(self, index: int) -> bool:
        """May an access touch memory that lies elsewhere in the first text?"""
        return self._layout is not None and self._layout.touches(self._new.cfg.instructions[index])

    def _load(self, loaded: LoadedRegister) -> Instruction:
        """The load, or one of what was stored."""
        index, reg = loaded
        instruction = self._new.cfg.instructions[index]
        if instruction.opcode != "st":
            return instruction
        modifiers = tuple(m for m in instruction.modifiers if m not in _OF_STORES)
        place = instruction.operands[0]
        return instruction._replace(opcode="ld", modifiers=modifiers, operands=(reg, place))

    def value(self, cut: Cut, loaded: LoadedRegister) -> Term | None:
        """What a load would give at a cut; None where it gives nothing."""
        index, reg = loaded
        path = Path(cut.new.get, cut.conditions, index)
        cut.new.runner.run(path, self._load(loaded), index)
        return path.written.get(reg)

    def lose(self, pair: Pair, reg: Reg) -> None:
        """A register does not always hold at a pair what its load gave."""
        self._held[pair] = [held for held in self.at(pair) if held[0] != reg]

    def still_holds(
        self, cut: Cut, reg: Reg, loaded: LoadedRegister, new: Path, joint: tuple[Term, ...]
    ) -> bool:
        """Does memory, behind a path of the second text, hold at a load's address what its
        register holds?"""
        index, source = loaded
        path = Path(new.get, joint, index, stores=[list(epoch) for epoch in new.stores])
        cut.new.runner.run(path, self._load(loaded), index)
        return self._equality.same(path.get(source), new.get(reg), joint)
