"""Tests that an index does not leave the range of its type, where it becomes an address.

A stretch that is written twice branches on tests of all its indices before its first load, while
compilers compute each index just before its load. The arithmetic in between is repeated ahead of
the branch, into new registers.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set

from msgspec import Struct, field

from ptxsw.changes.plan import Plan, WrapGuard
from ptxsw.codegen.builder import Insertions, Names
from ptxsw.parser import operand_spans
from ptxsw.parser.scan import blank_comments
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Function, Instruction, Reg
from ptxsw.ptx.isa import Effect
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.source import Source

_ARITHMETIC = frozenset(
    "abs add and cvt cvta mad max min mov mul mul24 neg not or selp shl shr sub xor".split()  # noqa: SIM905
)
_LONGEST = 24
_WORD = pattern(r"[%$\w]+")

Key = tuple[int, Reg, int, bool]


class OverflowChecks:
    """Predicates that are true where an index would wrap. Guards on one value at one place
    share one test, of the widest step each way."""

    def __init__(
        self,
        names: Names,
        lines: Insertions,
        guards: Iterable[WrapGuard],
        ahead: Rematerializer | None = None,
    ) -> None:
        """The tests stand where their indices are extended, or all of them `ahead`."""
        self._names: dict[Key, str] = {}
        merged: dict[Key, tuple[WrapGuard, int, int]] = {}
        for guard in guards:
            _, low, high = merged.get(_key(guard), (guard, 0, 0))
            merged[_key(guard)] = (guard, min(low, guard.step), max(high, guard.step))
        for guard, low, high in merged.values():
            at, register = guard.index, guard.reg.name
            if ahead is not None and at > ahead.at:
                at, register = ahead.at, ahead.register(guard.reg, guard.index)
            test, name = _test(names, register, guard, low, high)
            lines.put_before(at, *test)
            self._names[_key(guard)] = name

    def of(self, guards: Iterable[WrapGuard]) -> tuple[str, ...]:
        """The predicates of some guards, each once."""
        return tuple(dict.fromkeys(self._names[_key(guard)] for guard in guards))


def _test(
    names: Names, register: str, guard: WrapGuard, low: int, high: int
) -> tuple[list[str], str]:
    """The lines that set a predicate, and its name: true where `register + addend`, moved by up to
    `low` or `high`, would leave its type. The sum is shifted so that the allowed values are those
    from 0 to `span`."""
    width = guard.width
    # Allowed is MIN - low <= sum <= MAX - high. Both bounds in one unsigned comparison: the sum
    # less its lower bound is at most the distance between the bounds.
    first = -(1 << (width - 1)) - low if guard.signed else -low
    span = (1 << width) - 1 - high + low
    name = names.new("wrap", "pred")
    moved = names.new("idx", f"b{width}")
    addend = wrapped(guard.addend - first, width)
    lines = [
        f"add.s{width} {moved}, {register}, {addend};",
        f"setp.gt.u{width} {name}, {moved}, {span};",
    ]
    return lines, name


def _key(guard: WrapGuard) -> Key:
    return guard.index, guard.reg, guard.addend, guard.signed


def backward_slice(plan: Plan, reg: Reg, index: int, at: int) -> tuple[int, ...] | None:
    """The instructions from `at` on that make up the value `reg` has before instruction
    `index`, in order; None where they do more than compute, or are many."""
    backwards = range(index - 1, at - 1, -1)
    found = computation(plan.instructions, plan.written, backwards, (reg,))
    # What is left is read at `at`, where a register of an inner scope has no meaning yet.
    if found is None or not all(plan.function.body.means(one, at) for one in found[1]):
        return None
    return found[0]


def computation(
    code: Sequence[Instruction], written: Sequence[tuple[Reg, ...]], backwards: Iterable[int],
    registers: Iterable[Reg], known: Container[int] = (),
) -> tuple[tuple[int, ...], Set[Reg]] | None:  # fmt: skip
    """Those of some instructions, given last first, that make up what registers hold behind them,
    in order, and the registers that they begin with; None where they do more than compute, or are
    many. What `known` ones leave is in registers already."""
    wanted = set(registers)
    positions: list[int] = []
    for position in backwards:
        if wanted.isdisjoint(written[position]):
            continue
        instruction = code[position]
        computed = position not in known
        if (computed and not computes(instruction)) or len(positions) == _LONGEST:
            return None
        positions.append(position)
        wanted.difference_update(written[position])
        if computed:
            wanted.update(used for used in isa.uses(instruction) if isinstance(used, Reg))
    return tuple(reversed(positions)), wanted


def computes(instruction: Instruction) -> bool:
    """Can it be written again with other registers? Those of a vector go by several names."""
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    return (
        instruction.guard is None
        and instruction.opcode in _ARITHMETIC
        and effects is Effect.NONE
        and "cc" not in instruction.modifiers  # the carry would be lost, or overwritten
        and not any("." in reg.name for reg in isa.defs(instruction))
    )


class Rematerializer(Struct):
    """Copies of instructions, made before instruction `at`, each once."""

    text: str
    plan: Plan
    names: Names
    lines: Insertions
    at: int
    copies: dict[int, dict[Reg, str]] = field(default_factory=dict)  # new names by registers

    def register(self, reg: Reg, index: int) -> str:
        """The register that holds, at `at`, what `reg` holds before instruction `index`."""
        positions = backward_slice(self.plan, reg, index, self.at)
        assert positions is not None, (reg, index)
        now: dict[Reg, str] = {}  # the names in use for registers that the slice sets
        for position in positions:
            if position not in self.copies:
                self.copies[position] = self._copy(position, now)
            now |= self.copies[position]
        return now.get(reg, reg.name)

    def _copy(self, position: int, now: dict[Reg, str]) -> dict[Reg, str]:
        instruction = self.plan.instructions[position]
        read = {r.name: now[r] for r in isa.uses(instruction) if isinstance(r, Reg) and r in now}
        line = computed_again(
            self.text, self.plan.function, instruction, read,
            lambda kind: self.names.new("ahead", kind),
        )  # fmt: skip
        self.lines.put_before(self.at, line)
        return {reg: read[reg.name] for reg in isa.defs(instruction)}


def computed_again(
    text: str, function: Function, instruction: Instruction, names: dict[str, str],
    new: Callable[[str], str],
) -> str:  # fmt: skip
    """The text of an instruction that computes, with other registers: it reads those that `names`
    has for its own, and `names` gets new ones, made by `new(type)`, for what it sets."""
    own = blank_comments(text[instruction.start : instruction.end])
    behind = operand_spans(Source(text), instruction)[0].end - instruction.start
    # Sources are renamed before the destination gets its new name: `add.s64 %rd1, %rd1, 4` reads
    # the old one.
    rest = renamed(own[behind:], names)
    for reg in isa.defs(instruction):
        declared = function.body.declaration(reg)
        assert declared is not None, reg
        names[reg.name] = new(declared.type.removeprefix("."))
    return renamed(own[:behind], names) + rest


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with other names in place of some."""
    return _WORD.sub(lambda word: names.get(word[0], word[0]), text)
