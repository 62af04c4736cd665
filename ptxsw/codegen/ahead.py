"""Computing a register before its own instructions do, from what is at hand by then.

A stretch that is written twice branches on tests of all its indices before its first load, while
compilers compute each index just before its load. The arithmetic in between is repeated ahead of
the branch, into new registers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ptxsw import isa
from ptxsw.codegen.lines import Lines
from ptxsw.codegen.names import Names
from ptxsw.ir import Instruction, Reg
from ptxsw.isa import Effect
from ptxsw.shuffle.plan import Plan

_ARITHMETIC = frozenset(
    "abs add and cvt mad max min mov mul mul24 neg not or selp shl shr sub xor".split()  # noqa: SIM905
)
_LONGEST = 16
_WORD = re.compile(r"[%$\w]+")


def slice_ahead(plan: Plan, reg: Reg, index: int, at: int) -> tuple[int, ...] | None:
    """The instructions from `at` on that make up the value `reg` has before instruction
    `index`, in order; None where they do more than compute, or are many."""
    wanted = {reg}
    found: list[int] = []
    for position in range(index - 1, at - 1, -1):
        instruction = plan.instructions[position]
        if wanted.isdisjoint(isa.defs(instruction)):
            continue
        if not _computes(instruction) or len(found) == _LONGEST:
            return None
        found.append(position)
        wanted -= set(isa.defs(instruction))
        wanted |= {used for used in isa.uses(instruction) if isinstance(used, Reg)}
    return tuple(reversed(found))


def _computes(instruction: Instruction) -> bool:
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    return (
        instruction.guard is None
        and instruction.opcode in _ARITHMETIC
        and effects is Effect.NONE
        and "cc" not in instruction.modifiers
    )


@dataclass
class Ahead:
    """Copies of instructions, made before instruction `at`, each once."""

    text: str
    plan: Plan
    names: Names
    lines: Lines
    at: int
    copies: dict[int, dict[str, str]] = field(default_factory=dict)  # new names by old ones

    def register(self, reg: Reg, index: int) -> str:
        """The register that holds, at `at`, what `reg` holds before instruction `index`."""
        positions = slice_ahead(self.plan, reg, index, self.at)
        assert positions is not None, (reg, index)
        now: dict[str, str] = {}  # the names in use for registers that the slice sets
        for position in positions:
            if position not in self.copies:
                self.copies[position] = self._copy(position, now)
            now |= self.copies[position]
        return now.get(reg.name, reg.name)

    def _copy(self, position: int, now: dict[str, str]) -> dict[str, str]:
        instruction = self.plan.instructions[position]
        made = {}
        for reg in isa.defs(instruction):
            declared = self.plan.function.body.declaration(reg)
            assert declared is not None, reg
            made[reg.name] = self.names.new("ahead", declared.type.removeprefix("."))
        text = self.text[instruction.span.start : instruction.span.end]
        dest, comma, rest = text.partition(",")
        dest = _WORD.sub(lambda word: made.get(word[0], word[0]), dest)
        rest = _WORD.sub(lambda word: now.get(word[0], word[0]), rest)
        self.lines.put_before(self.at, f"{dest}{comma}{rest}")
        return made
