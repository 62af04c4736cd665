"""What permuting the addresses of shared memory costs: how many instructions more a warp executes,
at most."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from ptxsw.analysis.shared_banks import times
from ptxsw.changes.permutation import Permutation
from ptxsw.codegen.names import fresh_prefix
from ptxsw.codegen.permuted_addresses import AddressValues, CountedCode, PermutedAddresses
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx import isa
from ptxsw.rewrites.base import Kernel

SIMPLE = isa.opcodes(isa.Trait.SCALAR_ACCESS)
"""Accesses whose address can be permuted."""


# Counted in code that ptxas generates, always the highest count seen: mode auto must not make a
# change that might not pay.
_ENTRY = 4  # instructions that ask once whether dynamic memory has whole rows; 2 for each array
_PREDICATED = 12  # instructions of a block that ptxas may execute under a predicate
_BRANCHES = 4  # instructions that enter and leave a block, where it does so no more


def permuted(cfg: Cfg) -> list[int]:
    """The accesses of shared memory."""
    return [
        at
        for at, instruction in enumerate(cfg.instructions)
        if instruction.opcode in SIMPLE and isa.space(instruction) == "shared"
    ]


class AddedInstructions(Struct, dict=True):
    """Prices permutations of one kernel."""

    kernel: Kernel
    in_row: frozenset[int]

    @cached_property
    def _values(self) -> AddressValues:
        return AddressValues(self.kernel.trace.cfg, self.kernel.function.body.width)

    @cached_property
    def _accesses(self) -> list[int]:
        return permuted(self.kernel.trace.cfg)

    @cached_property
    def _prefix(self) -> str:
        return fresh_prefix(self.kernel.text)

    def most(self, permutation: Permutation) -> float:
        """The instructions that a warp executes more, at most."""
        cfg = self.kernel.trace.cfg
        code = CountedCode(self._prefix)
        addresses = PermutedAddresses(code, self._values, permutation)
        dynamic = len(permutation.dynamic)
        total = float(_ENTRY + 2 * dynamic if dynamic else 0)
        grown: set[int] = set()
        for at in self._accesses:
            before = code.instructions
            addresses.of(at, at in self.in_row)
            more = code.instructions - before
            if more:
                total += more * times(cfg, at)
                grown.add(cfg.block_of[at])
        branches = (times(cfg, cfg.blocks[b].start) for b in grown if _short(cfg, b))
        return total + sum(_BRANCHES * often for often in branches)


def _short(cfg: Cfg, number: int) -> bool:
    """May ptxas have put a predicate on every instruction of a block, in place of a branch?"""
    block = cfg.blocks[number]
    before = cfg.predecessors[number]
    # Such an arm of an `if` may grow beyond the length up to which ptxas predicates it. Then it
    # also costs its branches.
    under = len(before) == 1 and len(cfg.blocks[before[0]].successors) == 2
    return under and block.end - block.start <= _PREDICATED
