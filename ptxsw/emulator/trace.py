"""What an emulation found out: the memory accesses of a kernel, in program order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct, field

from ptxsw.emulator.recurrences import Iterations, LoopEntry, LoopFacts
from ptxsw.emulator.state import Step
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx.ir import Function, Instruction, Module, Reg
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.readings import UnwrappedReading
from ptxsw.terms.terms import Terms


class AccessView(Struct, frozen=True):
    """An access as one or more paths see it. `conditions` hold on all of these paths. `copied` is
    where an asynchronous copy reads, in global memory."""

    address: Term
    guard: Term  # width 1; constant 1 where the access is unguarded
    conditions: frozenset[Term]
    copied: Term | None = None


class Access(Struct, frozen=True):
    """One instruction that touches memory. `bits` is the width of an element, of which it moves
    `elements`.

    `space` is the one that the instruction names, or that its generic address is known to lie in
    on every path: addresses of variants count from the start of that space. It is "generic" where
    the space is not known.
    """

    index: int  # in `Cfg.instructions`
    instruction: Instruction
    kind: str  # "load", "store", "atomic", "other"
    space: str
    bits: int
    elements: int
    variants: tuple[AccessView, ...]
    ways: Variance = Variance.LANE  # how much it varies over lanes which variant is theirs

    @property
    def bytes(self) -> int:
        return self.bits * self.elements // 8


class Held(Struct, frozen=True):
    """What a register holds on one or more paths. `conditions` hold on all of these paths."""

    term: Term
    conditions: frozenset[Term]


class RegisterValue(Struct, frozen=True):
    """What a register holds at an instruction: `held` has one entry for each value that it has
    there on some path."""

    index: int
    reg: Reg
    held: tuple[Held, ...]

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(h.term for h in self.held)

    def on_paths(self, conditions: frozenset[Term], terms: Terms) -> tuple[Term, ...]:
        """The values that the register may have had on a path on which `conditions` hold, too:
        those whose own conditions do not say the contrary.

        Both must speak of the same iteration of the loops around them. That is so for the
        conditions of a variant of an access which the place dominates and which lies in all loops
        that the place lies in.
        """
        contrary = {terms.not_(c) for c in conditions}
        return tuple(h.term for h in self.held if contrary.isdisjoint(h.conditions))


class Widening(RegisterValue, frozen=True):
    """A place where a register is sign- or zero-extended into an address."""


class Quotient(RegisterValue, frozen=True):
    """An instruction that leaves in a register a quotient or remainder of what differs between
    lanes (`ptxsw.terms.digits`), or a sum of some."""


class LoadedPointer(RegisterValue, frozen=True):
    """An instruction that leaves in a register 64 bits that were loaded: a pointer, if an address
    is made of them."""


class OperandValues(Struct, frozen=True):
    """What an instruction reads on one or more paths: the values of its sources, in order, vectors
    flattened; integers for literals. `conditions` hold on all of these paths."""

    values: tuple[Term | int, ...]
    conditions: frozenset[Term]


class Statistics(Struct, frozen=True):
    instructions: int  # in the body
    executed: int  # symbolically, over all states
    states: int  # (block, state) pairs executed
    merged: int  # states that met an equal one
    widened: int  # joins at which values were given up
    questions: int  # asked of Z3
    seconds: float  # of CPU time
    timed_out: bool


PathsAround: TypeAlias = Callable[
    [int, int, int, frozenset[int]], tuple[tuple[Term, ...], ...] | None
]
"""`ways(fork, below, without, between)`: the conditions of each way by which a thread may come to
block `below` in an iteration of the loops around it without passing block `without`. All ways pass
block `fork` and then blocks `between`, where paths are told apart as long as they are few. None
where the kernel's time is over, or where much was asked before."""


class Trace(Struct, frozen=True, dict=True):
    """The result of running one function symbolically. Every term belongs to `terms`."""

    module: Module
    function: Function
    cfg: Cfg
    terms: Terms
    accesses: tuple[Access, ...]
    widenings: tuple[Widening, ...]
    quotients: tuple[Quotient, ...]
    pointers: tuple[LoadedPointer, ...]
    branches: Mapping[int, Variance]  # variance of the predicate of each branch, by instruction
    registers: Mapping[Reg, Variance]  # of each tracked register, wherever it is defined or used
    uniform_loops: frozenset[int]  # headers of loops that all lanes leave together
    statistics: Statistics
    paths_around: PathsAround
    operands: Mapping[int, tuple[OperandValues, ...]]  # of instructions that were followed
    iterations: Mapping[Term, Iterations] = field(default_factory=dict)
    """Of registers such as `s *= 2`."""
    entries: Mapping[Term, tuple[LoopEntry, ...]] = field(default_factory=dict)
    """The ways into a loop, by the count of its iterations."""
    loop_facts: Mapping[int, LoopFacts] = field(default_factory=dict)
    """What one iteration of each loop does, by header."""
    steps: Sequence[Step | None] = ()
    """What each instruction does to a state; None of those that the run passes over."""
    followed: frozenset[str] = frozenset()
    """The names of the instructions whose operands it has."""
    decisions: Mapping[int, tuple[OperandValues, ...]] = field(default_factory=dict)
    """What decides, on one or more paths, where a branch goes, and whether a guarded barrier is
    made: predicates, and of `brx.idx` the index."""
    begins: Mapping[int, Mapping[Term, Term]] = field(default_factory=dict)
    """What registers hold as a loop is entered, by its header and their atoms in `loop_facts`."""

    @property
    def global_loads(self) -> tuple[Access, ...]:
        """Loads that may touch global memory, generic ones included."""
        loads = (access for access in self.accesses if access.kind == "load")
        return tuple(load for load in loads if load.space in ("global", "generic"))

    @cached_property
    def readers(self) -> Mapping[Term, Sequence[int]]:
        """The loads of each address, by instruction."""
        readers: dict[Term, list[int]] = {}
        for access in self.accesses:
            if access.kind == "load":
                for address in dict.fromkeys(v.address for v in access.variants):
                    readers.setdefault(address, []).append(access.index)
        return readers

    @cached_property
    def unwrapped(self) -> UnwrappedReading:
        """The polynomials of its terms, for all who ask."""
        return UnwrappedReading()
