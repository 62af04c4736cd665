"""Which accesses a register can stand for, and what its value must not be carried past."""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.emulator.trace import Access
from ptxsw.facts.grid_facts import GridFacts
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, type_width
from ptxsw.ptx.isa import Effect
from ptxsw.rewrites.base import Kernel
from ptxsw.rewrites.entry_guard import SupposedFacts
from ptxsw.terms.node import Term

SPACES = frozenset({"global", "shared"})
_PLAIN = frozenset({"weak", "ca", "cg", "cs", "nc", "v2", "v4"}) | SPACES


def hazard(instruction: Instruction, followed: bool) -> str | None:
    """Why nothing may be carried past an instruction; `followed`: the trace has its address."""
    reason = _by_name(instruction.opcode, instruction.modifiers)
    # The caller compares addresses with every followed access itself. Only an access that the trace
    # could not follow has to be taken for one to any address.
    return None if followed and reason == _ANYTHING else reason


_ANYTHING = "may access anything"


@isa.by_name
def _by_name(opcode: str, modifiers: tuple[str, ...]) -> str | None:
    """Why nothing may be carried past an instruction whose address is not known."""
    if isa.row(opcode, modifiers) is None:
        return "is unknown and may do anything"
    effects = isa.effects(opcode, modifiers)
    # A store that was put off until the loop ends would never be made.
    if opcode in ("ret", "exit", "trap"):
        return "may end the thread inside the loop"
    if effects & Effect.CALL:
        return "may call code that accesses these bytes"
    if opcode in ("griddepcontrol", "brx"):
        return "is in the loop"
    if effects & (Effect.BARRIER | Effect.FENCE | Effect.ATOMIC | Effect.ASYNC):
        return "orders memory or waits for other threads"
    # Nobody writes these while the kernel runs.
    private = isa.space_named(opcode, modifiers) in ("param", "const")
    return _ANYTHING if effects & (Effect.READ | Effect.WRITE) and not private else None


def is_plain(instruction: Instruction) -> bool:
    """A weak, unguarded access to global or shared memory?"""
    return instruction.guard is None and _is_plain(instruction.opcode, instruction.modifiers)


@isa.by_name
def _is_plain(opcode: str, modifiers: tuple[str, ...]) -> bool:
    if opcode not in ("ld", "st"):
        return False
    *words, kind = modifiers or ("",)
    named = sum(word in SPACES for word in words)
    return named == 1 and _PLAIN.issuperset(words) and type_width(kind) >= 8


def shared_facts(
    kernel: Kernel, accesses: Iterable[Access], supposed: SupposedFacts | None
) -> GridFacts:
    """What holds where the conditions do that some accesses share: a condition of one alone may be
    false where another is made. With `supposed`, a test where the kernel begins may find out what
    is not known."""
    conditions = [variant.conditions for access in accesses for variant in access.variants]
    shared = frozenset.intersection(*conditions) if conditions else frozenset[Term]()
    given = sorted(shared, key=lambda term: term.id)
    if supposed is not None:
        return supposed.facts(given)
    return GridFacts.of(kernel.trace, given, kernel.solver.proves)
