"""Where in a kernel local rules apply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxsw.changes.change import Change, Refusal, Worth
from ptxsw.changes.plan import Proof
from ptxsw.changes.rule import Condition, LocalRule
from ptxsw.codegen.lower_rules import LocalChange, takes
from ptxsw.emulator.trace import OperandValues
from ptxsw.flow.dataflow import defs
from ptxsw.ptx.ir import Instruction, Int
from ptxsw.rewrites.base import Kernel, Outcome
from ptxsw.terms.node import Term
from ptxsw.terms.solver import Proved


def find(name: str, rules: Sequence[LocalRule], refusal: str, kernel: Kernel) -> Iterator[Outcome]:
    """A change for each instruction to which a rule applies, then for each pair of them; `refusal`
    is the reason for all others that have a name of a rule."""
    by_name: dict[str, list[LocalRule]] = {}
    for rule in rules:
        for one in (*rule.names, *rule.others):
            by_name.setdefault(one, []).append(rule)
    left: set[int] = set()
    for at, instruction in enumerate(kernel.trace.cfg.instructions):
        named = by_name.get(instruction.name)
        reads = kernel.trace.operands.get(at, ())
        if not named or (not reads and any(rule.given for rule in named)):
            continue
        alone = (rule for rule in named if not rule.beside)
        detail = next(filter(None, (_applied(rule, kernel, at, reads) for rule in alone)), None)
        if detail is None:
            left.add(at)
        else:
            yield _change(name, detail, (at,))
    for rule in rules:
        for at, beside in _pairs(rule, kernel, left) if rule.beside else ():
            left -= {at, beside}
            yield _change(name, LocalChange(at, rule, beside=beside), (at, beside))
    if kernel.explains:
        yield from (Refusal(name, at, refusal) for at in sorted(left))


def _change(name: str, detail: LocalChange, replaced: tuple[int, ...]) -> Change:
    return Change(
        name, detail.at, frozenset(replaced), Proof(), detail,
        worth=Worth(detail.rule.adds),
    )  # fmt: skip


def _applied(
    rule: LocalRule, kernel: Kernel, at: int, reads: Sequence[OperandValues]
) -> LocalChange | None:
    """A rule for one instruction, if its condition holds there."""
    operands = kernel.trace.cfg.instructions[at].operands
    if not takes(operands):
        return None
    number = None
    if rule.number is not None:
        number = rule.number(operands[-1].value) if isinstance(operands[-1], Int) else None
        if number is None:
            return None
    for condition, letters in rule.given:
        # The smallest values first: one that nothing is known of is seen to break it at once.
        values = ((paths.values["abc".index(c)], paths) for paths in reads for c in letters)
        if not all(_holds(kernel, condition, *one) for one in sorted(values, key=_size)):
            return None
    return LocalChange(at, rule, number)


def _size(operand: tuple[Term | int, OperandValues]) -> int:
    return 0 if isinstance(operand[0], int) else operand[0].size


def _holds(kernel: Kernel, condition: Condition, value: Term | int, paths: OperandValues) -> bool:
    terms = kernel.trace.terms
    claim = condition(terms, terms.const(value, 64) if isinstance(value, int) else value)
    return isinstance(kernel.solver.prove(claim, paths.conditions), Proved)


def _pairs(rule: LocalRule, kernel: Kernel, left: set[int]) -> Iterator[tuple[int, int]]:
    """The instructions of a rule for two that stand in one block, with nothing between that writes
    what the later one reads."""
    cfg = kernel.trace.cfg
    for block in cfg.blocks:
        waiting: dict[tuple[object, ...], int] = {}
        for at in range(block.start, block.end):
            instruction = cfg.instructions[at]
            written: set[object] = set(defs(instruction))
            if at in left and _is_one_of_two(rule, instruction):
                key = (instruction.modifiers, *instruction.operands[1:])
                other = waiting.pop(key, None)
                if other is None:
                    waiting[key] = at
                elif instruction.name != cfg.instructions[other].name:
                    yield (at, other) if instruction.name in rule.names else (other, at)
            # After this instruction itself has been entered, since `div.u64 %rd1, %rd1, %rd2`
            # overwrites its own dividend: a later `rem` of %rd1 has another one.
            for stale in [key for key in waiting if not written.isdisjoint(key)]:
                del waiting[stale]


def _is_one_of_two(rule: LocalRule, instruction: Instruction) -> bool:
    named = instruction.name in (*rule.names, *rule.others)
    return named and instruction.guard is None and takes(instruction.operands)
