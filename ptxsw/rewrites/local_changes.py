"""Where in a kernel local rules apply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from ptxsw.analysis.instruction_kinds import asked_anywhere
from ptxsw.changes.change import Change, Refusal, Worth
from ptxsw.changes.plan import Proof
from ptxsw.changes.rule import Condition, LocalRule, RunTimeTest
from ptxsw.codegen.lower_rules import LocalChange, takes
from ptxsw.emulator.trace import OperandValues
from ptxsw.ptx.ir import Instruction, Int
from ptxsw.rewrites.base import Kernel, Outcome
from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.solver import Proved

BYPASSED = "the code has tested that its operands do not fit 32 bits"
CHEAP = "its divisor is a power of two"
PARTED = (
    "its operands are not known to fit, and a test would split lanes that the kernel counts as "
    "active"
)
UNTESTED = "; force tests them at run time"


def find(name: str, rules: Sequence[LocalRule], refusal: str, kernel: Kernel) -> Iterator[Outcome]:
    """A change for each instruction or pair of them to which a rule applies; `refusal` is the
    reason for all others that have a name of a rule. Mode force may test at run time what a rule
    asks for."""
    instructions = kernel.trace.cfg.instructions
    names = {name for rule in rules for name in (*rule.names, *rule.others)}
    left = {at for at, instruction in enumerate(instructions) if instruction.name in names}
    search, found = _Search(kernel), dict[int, LocalChange]()
    force, asks = kernel.options.mode == "force", asked_anywhere(kernel.trace.cfg)
    testable = {name for rule in rules if rule.test is not None for name in rule.names}
    for rule, test in _tried(rules, tests=force and not asks):
        alone = ((at, None) for at in sorted(left) if instructions[at].name in rule.names)
        for at, beside in _pairs(rule, kernel, left) if rule.beside else alone:
            detail = search.applied(rule, at, beside, test=test)
            if detail is not None:
                found[at] = detail
                left -= {at, beside}
    yield from (_change(name, found[at]) for at in sorted(found))
    if kernel.explains:
        for at in sorted(left & search.looked_at):
            reason = refusal
            if instructions[at].name in testable and (asks or not force):
                reason = PARTED if asks else refusal + UNTESTED
            yield Refusal(name, at, search.reasons.get(at, reason))


def _tried(rules: Sequence[LocalRule], *, tests: bool) -> Iterator[tuple[LocalRule, bool]]:
    """The rules in the order in which they are tried, each with whether its test is made. What is
    proved of two instructions comes first, what needs no proof last."""
    pairs = [rule for rule in rules if rule.beside and rule.given]
    alone = [rule for rule in rules if not rule.beside]
    for some in (pairs, alone):
        yield from ((rule, False) for rule in some)
        yield from ((rule, True) for rule in some if tests and rule.test is not None)
    yield from ((rule, False) for rule in rules if rule.beside and not rule.given)


def _change(name: str, detail: LocalChange) -> Change:
    beside = () if detail.beside is None else (detail.beside,)
    test = detail.rule.test if detail.tested else None
    proof = Proof() if test is None else Proof(tests=(test.said,))
    return Change(
        name, detail.at, frozenset((detail.at, *beside)), proof, detail,
        worth=Worth(detail.rule.adds),
    )  # fmt: skip


class _Search:
    """Asks whether rules apply. `reasons` says why not, where that can be told, of instructions;
    those that are `looked_at` are executed at all."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel, self._terms = kernel, kernel.trace.terms
        self._known: dict[tuple[Condition, str, int], bool] = {}
        self.reasons: dict[int, str] = {}
        self.looked_at: set[int] = set()

    def applied(
        self, rule: LocalRule, at: int, beside: int | None, *, test: bool
    ) -> LocalChange | None:
        """A rule for one instruction or two, if its conditions hold or, with `test`, can be found
        to hold."""
        operands = self._kernel.trace.cfg.instructions[at].operands
        reads = self._kernel.trace.operands.get(at, ())
        if rule.given and not reads:
            return None
        self.looked_at.update((at, at if beside is None else beside))
        number = None
        if rule.number is not None:
            number = rule.number(operands[-1].value) if isinstance(operands[-1], Int) else None
        if not takes(operands) or (rule.number is not None and number is None):
            return None
        if isinstance(operands[-1], Int) and operands[-1].value in rule.useless:
            return None
        # The smallest values first: one that nothing is known of is seen to break it at once.
        asked = [
            (condition, letter)
            for condition, letters in rule.given
            for letter in sorted(letters, key=lambda letter: _size(reads, letter))
        ]
        if not test:
            proved = all(self._holds(*one, at) for one in asked)
            return LocalChange(at, rule, number, beside) if proved else None
        tested = () if rule.test is None else self._tested(rule.test, asked, at)
        return LocalChange(at, rule, number, beside, tested) if tested else None

    def _tested(
        self, test: RunTimeTest, asked: Sequence[tuple[Condition, str]], at: int
    ) -> tuple[tuple[Condition, str], ...]:
        """What a test has to ask of which sources; nothing where it may not be made, or is not
        worth it."""
        unproved = [one for one in asked if not self._holds(*one, at)]
        tested = {
            condition: "".join(sorted(letter for other, letter in unproved if other is condition))
            for condition, _ in unproved
        }
        letters = tested.get(test.condition, "")
        reads = self._kernel.trace.operands[at]
        last = [_number(paths.values[-1]) for paths in reads]
        if not letters or not tested.keys() <= {test.condition, *dict(test.further)}:
            return ()
        if all(number is not None and test.cheap(number) for number in last):
            self.reasons[at] = CHEAP
        elif all(self._never(test.condition, letters, paths) for paths in reads):
            self.reasons[at] = BYPASSED
        else:
            return tuple(tested.items())
        return ()

    def _never(self, condition: Condition, letters: str, paths: OperandValues) -> bool:
        """Has it been decided on some paths that the condition does not hold for all sources?"""
        claims = (condition(self._terms, self._value(paths, letter)) for letter in letters)
        fails = self._terms.not_(reduce(self._terms.and_, claims))
        return isinstance(self._kernel.solver.prove(fails, paths.conditions), Proved)

    def _holds(self, condition: Condition, letter: str, at: int) -> bool:
        """Is it proved of one source, on all paths?"""
        key = condition, letter, at
        if key not in self._known:
            prove = self._kernel.solver.prove
            self._known[key] = all(
                isinstance(
                    prove(condition(self._terms, self._value(paths, letter)), paths.conditions),
                    Proved,
                )
                for paths in self._kernel.trace.operands[at]
            )
        return self._known[key]

    def _value(self, paths: OperandValues, letter: str) -> Term:
        value = paths.values["abc".index(letter)]
        return self._terms.const(value, 64) if isinstance(value, int) else value


def _size(reads: Sequence[OperandValues], letter: str) -> int:
    values = (paths.values["abc".index(letter)] for paths in reads)
    return max(0 if isinstance(value, int) else value.size for value in values)


def _number(value: Term | int) -> int | None:
    if isinstance(value, int):
        return value
    return value.value if value.kind is op.CONST else None


def _pairs(rule: LocalRule, kernel: Kernel, left: set[int]) -> Iterator[tuple[int, int]]:
    """The instructions of a rule for two that read the same in one block."""
    cfg = kernel.trace.cfg
    waiting: dict[tuple[object, ...], int] = {}
    for at in sorted(left):
        instruction = cfg.instructions[at]
        reads = kernel.trace.operands.get(at)
        if not reads or not _is_one_of_two(rule, instruction):
            continue
        # By value: compilers that do not optimize extend a parameter anew for each division.
        key = (cfg.block_of[at], instruction.modifiers, *reads)
        other = waiting.pop(key, None)
        if other is None:
            waiting[key] = at
        elif instruction.name != cfg.instructions[other].name:
            yield (at, other) if instruction.name in rule.names else (other, at)


def _is_one_of_two(rule: LocalRule, instruction: Instruction) -> bool:
    named = instruction.name in (*rule.names, *rule.others)
    return named and instruction.guard is None and takes(instruction.operands)
