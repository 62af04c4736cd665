"""Claims: code over the first text's registers, used where a comparison begins, and proved where
one ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from ptxsw.analysis.instruction_kinds import Kind, kind
from ptxsw.changes.assumptions import FINITE_LOOPS
from ptxsw.changes.claim import Claim
from ptxsw.emulator.operand_reader import Get
from ptxsw.facts.conditions import assumed
from ptxsw.flow.cfg import build
from ptxsw.parser import parse
from ptxsw.ptx import isa
from ptxsw.ptx.errors import ParseError
from ptxsw.ptx.ir import Function, Instruction, Module, Reg, Variable
from ptxsw.terms.node import Term, Variance
from ptxsw.validate.basis import Basis
from ptxsw.validate.cuts import Cut
from ptxsw.validate.evaluate import Evaluator
from ptxsw.validate.memory_ssa import CLAIMED, NOTHING, Store, StoreDifference
from ptxsw.validate.outcome import Differ, GiveUp
from ptxsw.validate.path import Path
from ptxsw.validate.runner import Runner


class ReadClaim(Struct, frozen=True):
    """A claim made ready: instructions to run on registers of the first text, and on those
    `of_second` that the second text alone has."""

    claim: Claim
    register: Reg
    value: Reg
    function: Function
    instructions: tuple[Instruction, ...]
    of_second: frozenset[Reg]

    @property
    def is_about_memory(self) -> bool:
        """Does it say what memory holds, or how the memories of the two texts differ?"""
        return any(kind(one) in (Kind.LOAD, Kind.STORE) for one in self.instructions)


def read_claim(claim: Claim, module: Module, old: Function, new: Function) -> ReadClaim:
    """Parse the code of a claim. Raises ValueError where it is no code a claim may have."""
    # A kernel of its own with the first text's registers: so the parser checks a claim like any
    # other code. Registers of inner scopes have no meaning at a label outside.
    declared = " ".join(_declaration(v) for v in old.body.variables if v.space == "reg")
    major, minor = module.version
    text = (
        f".version {major}.{minor}\n.target {', '.join(module.targets)}\n"
        f".address_size {module.address_size}\n"
        f".visible .entry claim()\n{{\n{declared}\n{claim.declare}\n{claim.code}\n}}\n"
    )
    try:
        function = parse(text, "<claim>").functions[0]
        instructions = function.body.instructions
    except ParseError as error:
        raise ValueError(f"a claim cannot be read: {error}") from error
    computed = instructions[:-1] if claim.about_memory else instructions
    for instruction in computed:
        if kind(instruction) not in (Kind.COMPUTE, Kind.LOAD):
            raise ValueError(f"a claim may not hold {instruction.name}")
    if claim.about_memory and (not instructions or not _is_store(instructions[-1])):
        raise ValueError("a claim about memory does not end with a plain store")
    # Which of the two memories it would read is not said.
    if claim.about_memory and any(kind(one) is Kind.LOAD for one in computed):
        raise ValueError("a claim about memory reads memory")
    given = {Reg(claim.value)} if claim.about_memory else set[Reg]()
    of_second = frozenset(
        reg
        for reg in _read_first(instructions)
        if reg not in given and old.body.declaration(reg) is None
    )
    if any(new.body.width(reg) != function.body.width(reg) for reg in of_second):
        raise ValueError("a claim reads a register that neither text has")
    return ReadClaim(
        claim, Reg(claim.register), Reg(claim.value), function, instructions, of_second
    )  # fmt: skip


def _read_first(instructions: Iterable[Instruction]) -> Iterator[Reg]:
    """The registers that code reads before it sets them."""
    written: set[Reg] = set()
    for instruction in instructions:
        uses = (used for used in isa.uses(instruction) if isinstance(used, Reg))
        yield from (reg for reg in uses if reg not in written)
        if instruction.guard is None:
            written.update(isa.defs(instruction))


def _declaration(variable: Variable) -> str:
    count = "" if variable.count is None else f"<{variable.count}>"
    return f".reg .{variable.type} {variable.name}{count};" if not variable.scope else ""


def _is_store(instruction: Instruction) -> bool:
    return kind(instruction) is Kind.STORE and instruction.guard is None


def at_label(claims: Sequence[ReadClaim], labels: Sequence[str]) -> list[ReadClaim]:
    """The claims that hold where a block with these labels begins."""
    return [c for c in claims if c.claim.label in labels]


def _when_used(claim: ReadClaim) -> int:
    """The place of a claim among those that hold at one cut."""
    if claim.claim.relation == "loaded":
        return 0
    if claim.claim.about_memory:
        return 1
    return 3 if is_inequality(claim) and claim.of_second else 2


def is_inequality(claim: ReadClaim) -> bool:
    """May a claim say how large a value is?"""
    return claim.claim.relation in ("implies", "true")


class ClaimChecker:
    """Uses claims and proves them."""

    def __init__(self, basis: Basis, claims: Sequence[ReadClaim]) -> None:
        self._basis, self._claims = basis, claims
        self._old, self._new = basis.old, basis.new
        self._equality, self._prover = basis.equality, basis.prover
        self._memory, self._terms = basis.memory, basis.terms

    def at(self, position: int) -> list[ReadClaim]:
        """The claims that hold where a block of the first text begins."""
        return at_label(self._claims, self._old.labels(position))

    def false_at(self, position: int) -> frozenset[str]:
        """Of the predicates under which something is claimed, those that branches of the second
        text show to be false at a position of it."""
        if not self._conditions:
            return frozenset()
        equations = self._new.equations
        decided = equations.branches(equations.at(position))
        return frozenset(r.name for r, value in decided if not value and r in self._conditions)

    @cached_property
    def _conditions(self) -> frozenset[Reg]:
        """The predicates under which something is claimed."""
        return frozenset(Reg(c.claim.where) for c in self._claims if c.claim.where)

    # ------------------------------------------------------------ using them

    def assume(self, cut: Cut, told: dict[Reg, Term], live: frozenset[Reg]) -> None:
        """Use the claims that apply at a cut. `told` gets the values of registers that are not live
        in the first text."""
        # Claims about memory come before others whose code loads: that must see the stores that the
        # second text has deferred. Last come those that speak of registers that others have told
        # of.
        for claim in sorted(self.at(cut.old_position), key=_when_used):
            self._assume(cut, claim, told, live)

    def _assume(
        self, cut: Cut, claim: ReadClaim, told: dict[Reg, Term], live: frozenset[Reg]
    ) -> None:
        """Use a claim where it holds."""
        if not self._applies(claim, cut.new.get, cut.conditions):
            return
        at = cut.start(0, cut.conditions)
        if claim.claim.about_memory:
            store = self._difference(claim, at, cut, cut.new.get)
            cut.stores = (*cut.stores, store)
            return
        value = self._value(claim, at, cut, cut.new.get)
        if claim.claim.relation == "true":
            cut.assume(value)
        elif claim.claim.relation == "implies":
            # Where a branch has decided the predicate, what it implies is a plain fact: facts are
            # read off faster than disjunctions.
            held = cut.new.get(claim.register)
            certain = held in cut.conditions
            cut.assume(value if certain else self._terms.or_(self._terms.not_(held), value))
        elif claim.register in live:
            cut.assume(self._terms.eq(cut.new.get(claim.register), value))
        else:
            told[claim.register] = value
            cut.new.values.pop(claim.register, None)

    def _applies(self, claim: ReadClaim, get: Get, given: Sequence[Term]) -> bool:
        """Is the claim known to apply here? Raises GiveUp if that is undecided for a claim about
        memory: how the two memories differ has to be known."""
        if not claim.claim.where:
            return True
        where = get(Reg(claim.claim.where))
        if claim.claim.about_memory and {where, self._terms.not_(where)}.isdisjoint(given):
            raise GiveUp("it is not known whether a store is delayed")
        return where in given

    def _value(self, claim: ReadClaim, at: Path, cut: Cut, second: Get) -> Term:
        """The value that a claim speaks of, in a state of the first text and registers of the
        `second`."""
        return self._run(claim, at, cut, second).get(claim.value)

    def _run(
        self, claim: ReadClaim, at: Path, cut: Cut, second: Get, held: Term | None = None
    ) -> Path:
        """A claim's code in a state of the first text and registers of the `second`. What it reads
        by `.nc` is what the first text reads so: of other bytes that says nothing."""
        evaluator = Evaluator(self._terms, self._old.module, claim.function)
        runner = Runner(
            build(claim.function.body), evaluator, self._memory, cut.old.runner.windows,
            witness=False, constant=lambda load, _: load.nc, written=cut.old.runner.written,
        )  # fmt: skip
        path = Path(at.get, at.conditions, 0, stores=[list(epoch) for epoch in at.stores])
        path.written |= {reg: second(reg) for reg in claim.of_second}
        if held is not None:
            path.written[claim.value] = held
        for index, instruction in enumerate(claim.instructions):
            runner.run(path, instruction, index)
        return path

    # ------------------------------------------------------------ proving them

    def check(self, position: int, cut: Cut, old: Path, new: Path, joint: tuple[Term, ...]) -> None:
        """What is claimed of values where two paths end holds there. Raises Differ."""
        for claim in self.at(position):
            if not claim.claim.about_memory:
                self._check(claim, cut, old, new, joint)

    def _check(
        self, claim: ReadClaim, cut: Cut, old: Path, new: Path, joint: tuple[Term, ...]
    ) -> None:
        if claim.claim.where:
            where = new.get(Reg(claim.claim.where))
            if self._terms.not_(where) in joint:
                return  # nothing is claimed in the copy of the loop that is as it was
            joint = assumed(joint, where, self._terms)
        memory = new.stores if claim.claim.relation == "loaded" else old.stores
        at = Path(old.get, joint, 0, stores=memory)
        value = self._value(claim, at, cut, new.get)
        if claim.claim.relation == "true":
            if not self._prover.holds(value, joint):
                what = f"it is not shown that what is claimed at {claim.claim.label} is true"
                raise Differ(what, old.ended.index, new.ended.index, self._prover.example)
            return
        held = new.get(claim.register)
        if claim.claim.relation in ("is", "loaded"):
            holds = self._equality.same(held, value, joint)
        else:
            never = self._terms.not_(held) in joint
            holds = never or self._prover.holds(value, assumed(joint, held, self._terms))
        if not holds:
            what = f"it is not shown that {claim.register.name} {claim.claim.relation}"
            raise Differ(
                f"{what} what is claimed at {claim.claim.label}",
                old.ended.index, new.ended.index, self._prover.example,
            )  # fmt: skip

    # ------------------------------------------------------------ stores that are put off

    def speaks_of_memory(self, position: int) -> bool:
        """Is anything claimed of memory where a block begins?"""
        return any(claim.is_about_memory for claim in self.at(position))

    def puts_off(self, position: int) -> bool:
        """Is it claimed that the memories of the two texts differ where a block begins?"""
        return any(claim.claim.about_memory for claim in self.at(position))

    def store_difference(
        self, cut: Cut, old: Path, new: Path, joint: tuple[Term, ...]
    ) -> StoreDifference:
        """By what the memories differ behind two paths, as claims say."""
        if old.ended.kind != "cut":
            if any(map(self.puts_off, old.ended.targets)):
                raise GiveUp("memory is claimed to differ after an indirect branch")
            return NOTHING
        both: tuple[list[Store], list[Store]] = [], []
        for claim in self.at(old.ended.position):
            if claim.claim.about_memory and self._applies(claim, new.get, joint):
                at = Path(old.get, joint, 0, stores=old.stores)
                store = self._difference(claim, at, cut, new.get)
                both[1].append(store)
                if claim.claim.relation == "overwritten":
                    both[0].append(store)
        return both

    def _difference(self, claim: ReadClaim, at: Path, cut: Cut, second: Get) -> Store:
        """The store by which the first text's memory differs from the second's, in a state of the
        first and registers of the `second`. Bytes that will be overwritten may hold anything."""
        # If the loop never ends, the first text has stored in each iteration and the second has
        # not, which another thread could see.
        if not self._basis.rest_on(FINITE_LOOPS):
            raise GiveUp(f"{FINITE_LOOPS} is not assumed, and stores move after a loop")
        store = self._run(claim, at, cut, second, second(claim.register)).stores[-1][-1]
        value = store.value
        if claim.claim.relation == "overwritten":
            name = f"overwritten {self._claims.index(claim)}"
            value = self._terms.atom(name, value.width, Variance.LANE)
        return Store(store.target, value, store.guard, CLAIMED)
