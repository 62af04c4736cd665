"""A symbolic run step by step, for programs that look on: each instruction on each path, with the
values of all registers, the conditions of the path and the access to memory that it made.

    for step in ptxsw.steps(text):
        print(step.line, step.text, step.written)

The run is that of `emulate`: a block is run once for each state that reaches it, and the body of a
loop once, for any iteration. Steps come in the order in which they are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ptxsw.emulator.run import emulate
from ptxsw.emulator.state import MemoryAccess, State
from ptxsw.flow.dataflow import CARRY, defs
from ptxsw.parser import parse
from ptxsw.ptx.cxx_names import chosen
from ptxsw.ptx.documented import Documented
from ptxsw.ptx.ir import Function, Instruction, Module
from ptxsw.terms.node import Term
from ptxsw.terms.show import show
from ptxsw.terms.z3_terms import Z3Terms


class SymbolicStep(Documented, frozen=True):
    """One instruction as one path runs it. Registers have their names in the text; if nested scopes
    hide some, the innermost is shown."""

    index: int
    """In the kernel's body, from 0."""
    line: int
    """Of the text, from 1."""
    instruction: Instruction
    """As the parser has it."""
    text: str
    """As written."""
    registers: Mapping[str, Term]
    """Their values after it, as far as later instructions use them."""
    written: Mapping[str, Term]
    """Those that it wrote."""
    conditions: tuple[Term, ...]
    """What holds on this path, as terms of one bit."""
    access: MemoryAccess | None
    """With `address`, `guard` and `space`; None where it is none to memory."""

    def __str__(self) -> str:
        values = [f"{name} = {show(term)}" for name, term in self.written.items()]
        if self.access is not None:
            values.append(f"{self.access.space or 'generic'}[{show(self.access.address)}]")
        return f"{self.line}: {self.text}  // {'; '.join(values)}" if values else self.text


def steps(
    text: str,
    kernel: str | None = None,
    *,
    hook: Callable[[SymbolicStep], None] | None = None,
    budget_s: float = 10.0,
) -> tuple[SymbolicStep, ...]:
    """The steps of a kernel's symbolic run.

    Args:
        text: The PTX.
        kernel: The kernel's name; None: the only one.
        hook: Called with each step; an exception that it raises ends the run and reaches the
            caller.
        budget_s: Seconds of CPU time.

    Raises:
        ParseError: If the text is not PTX.
        ValueError: If there is no such kernel, or several.
        TimeoutError: After `budget_s`.
    """
    module = parse(text)
    functions = chosen(module, kernel)
    if len(functions) != 1:
        names = ", ".join(function.name for function in functions) or "none"
        raise ValueError(f"name one kernel; available: {names}")
    return run(module, functions[0], hook=hook, budget_s=budget_s)


def run(
    module: Module,
    function: Function,
    *,
    hook: Callable[[SymbolicStep], None] | None = None,
    budget_s: float = 10.0,
) -> tuple[SymbolicStep, ...]:
    """As `steps`, for a function of a module that was parsed already."""
    instructions = function.body.instructions
    taken: list[SymbolicStep] = []

    def note(index: int, state: State, access: MemoryAccess | None) -> None:
        step = _step(module, index, instructions[index], state, access)
        taken.append(step)
        if hook is not None:
            hook(step)

    everything = frozenset(instruction.name for instruction in instructions)
    trace = emulate(module, function, budget_s=budget_s, follow=everything, hook=note)
    if trace.statistics.timed_out:
        raise TimeoutError(f"{function.name}: the run took more than {budget_s:g} s")
    return tuple(taken)


def _step(
    module: Module,
    index: int,
    instruction: Instruction,
    state: State,
    access: MemoryAccess | None,
) -> SymbolicStep:
    source, span = module.source, instruction.span
    text = " ".join(source.slice(span).split())
    held = {
        reg.name: term
        for reg, term in sorted(state.env.items(), key=lambda item: item[0].scope)
        if reg is not CARRY
    }
    written = {reg.name: state.env[reg] for reg in defs(instruction) if reg in state.env}
    return SymbolicStep(
        index, source.line(span.start), instruction, text, held, written, state.conditions, access,
    )  # fmt: skip


def to_z3(term: Term) -> Any:
    """A term as a Z3 expression: a Bool if it is one bit wide, otherwise a BitVec. Parameters,
    special registers, loaded values and iteration counts become constants of their names."""
    return Z3Terms().expression(term)
