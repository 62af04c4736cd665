"""The rules of correctness there are. A rule is a module of this package, imported for a kernel
that has what it speaks of:

    occurs(subject)   does the kernel have instructions that could have the fault?
    prove(subject)    a `Proof`: what of it could not be ruled out

What is open goes to `witness.search`, which runs launches in the interpreter. `deciding` makes one
verdict of both.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import Struct

if TYPE_CHECKING:
    from ptxsw.correctness.subject import Subject
    from ptxsw.correctness.verdict import Proof


class RuleModule(Protocol):
    def occurs(self, subject: Subject) -> bool: ...
    def prove(self, subject: Subject) -> Proof: ...


class FaultRule(Struct, frozen=True):
    """`absent` says in a line of a kernel that there is no such fault: "no data races"."""

    name: str
    summary: str
    absent: str
    module: str

    @property
    def full_name(self) -> str:
        """As findings name it."""
        return f"ptxsw-{self.name}"

    def load(self) -> RuleModule:
        return cast(RuleModule, import_module(f"ptxsw.correctness.{self.module}"))


RULES: tuple[FaultRule, ...] = (
    FaultRule(
        "data-race",
        "Two threads access a byte, at least one writes, and nothing orders them.",
        "no data races",
        "data_race",
    ),
    FaultRule(
        "divergent-barrier",
        "Only some threads of a block reach a barrier.",
        "no divergent barrier",
        "divergent_barrier",
    ),
    FaultRule(
        "out-of-bounds",
        "A thread reads or writes outside an array.",
        "no access outside arrays of known size",
        "out_of_bounds",
    ),
    FaultRule(
        "misaligned-access",
        "An address is not a multiple of the access size.",
        "no misaligned access",
        "misaligned_access",
    ),
    FaultRule(
        "index-overflow",
        "A 32-bit index wraps for sizes that the kernel admits.",
        "no index overflow",
        "index_overflow",
    ),
    FaultRule(
        "undefined-value",
        "A register, or a byte of shared or local memory, is used before it is written.",
        "no undefined values",
        "undefined_value",
    ),
    FaultRule(
        "warp-mask",
        "A warp instruction waits for lanes that do not arrive, or reads a lane that does not take "
        "part.",
        "all lanes named by masks arrive",
        "warp_mask",
    ),
    FaultRule(
        "deadlock",
        "Threads wait for something that cannot happen.",
        "no deadlock",
        "deadlock",
    ),
    FaultRule(
        "async-wait",
        "The data of an asynchronous copy are used before the wait that covers it.",
        "copies are waited for",
        "async_wait",
    ),
    FaultRule(
        "redundant-barrier",
        "Without this barrier, the kernel is still free of races.",
        "each barrier is needed",
        "redundant_barrier",
    ),
    FaultRule(
        "ptxas-warning",
        "ptxas serialized asynchronous products, or ignored a register budget.",
        "no warnings of ptxas",
        "ptxas_warning",
    ),
)
