"""What is known at pairs of places: equal registers, what is claimed, what loads still hold.

A claim is used where a comparison begins, and shown again where one ends. That a register of the
second text alone still holds what a load gave, or a value that never changes, is a claim that
nobody had to write down: it is believed until control comes to the place with something else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property

from ptxsw.analysis.instruction_kinds import Kind, kind
from ptxsw.emulator.node import Term, Variance
from ptxsw.emulator.substitution import substitute
from ptxsw.emulator.terms import Terms
from ptxsw.flow.cfg import build
from ptxsw.flow.dataflow import defs, uses
from ptxsw.ir import Reg
from ptxsw.validate.carried import Carried, unknown_at
from ptxsw.validate.chain import Store
from ptxsw.validate.claims import ReadClaim, at_label, is_inequality
from ptxsw.validate.compare import NOTHING, StoreDifference
from ptxsw.validate.cuts import Cut, Registers
from ptxsw.validate.declared import Declared
from ptxsw.validate.equality import Equality, assumed
from ptxsw.validate.evaluate import Evaluator, Get
from ptxsw.validate.handover import Handover
from ptxsw.validate.kept import Kept
from ptxsw.validate.lanes import KernelLanes
from ptxsw.validate.layout import SharedLayout
from ptxsw.validate.memory import CLAIMED, Memory
from ptxsw.validate.outcome import FINITE_LOOPS, Differ, GiveUp
from ptxsw.validate.path import Path, Runner
from ptxsw.validate.text import Text
from ptxsw.validate.windows import Windows

_MAX_DEPTH = 100  # equations, one in another
_MAX_MOVES = 4  # from a load's register to one that keeps its value

LoadedRegister = tuple[int, Reg]
"""A load, by its position, and one of the registers that it writes."""

Pair = tuple[int, int]
"""A place in each text."""


class Starts:
    """Begins comparisons of two texts at pairs of places."""

    def __init__(
        self,
        equality: Equality,
        memory: Memory,
        texts: tuple[Text, Text],
        declared: Declared,
        lanes: KernelLanes,
        claims: Sequence[ReadClaim],
        layout: SharedLayout | None,
        allowed: frozenset[str],
        assumptions: dict[str, None],
        *,
        bold: bool,
    ) -> None:
        """`bold`: a value with which control comes into a loop is believed to stay until it comes
        back with another one."""
        self._terms: Terms = memory.terms
        self._equality, self._memory = equality, memory
        self.old, self.new = texts
        self._declared, self._lanes, self._layout = declared, lanes, layout
        self._claims = claims
        self._allowed, self._assumptions = allowed, assumptions
        self._lost: set[tuple[Pair, Reg]] = set()  # loads that a register does not always hold
        self._bold = bold
        self.expected = False  # was a register expected to change before it did?
        self.carried = Carried(self._terms)
        self.kept = Kept()
        self._extra: dict[Pair, list[Reg]] = {}
        self._computed: dict[int, frozenset[Reg]] = {}
        self.predicates: Callable[[Pair], Mapping[Reg, Term]] = lambda _: {}

    def _runners(self, lenient: bool) -> tuple[Runner, Runner]:
        parameters = frozenset(self._declared.parameters) if lenient else frozenset()
        windows = Windows(self._terms, self._declared.spaces, self._declared.windows, parameters)
        old, new = (
            Runner(text.cfg, text.evaluator, self._memory, windows, witness=text is self.old)
            for text in (self.old, self.new)
        )
        return old, new

    def cut(self, pair: Pair, *, lenient: bool = False, whole: bool = False) -> Cut:
        """What is known at a pair of places: with `lenient`, parameters are taken to be global;
        with `whole`, all that a symbolic run of the first kernel knows counts."""
        p, q = pair
        self._memory.forget_accesses()
        old_runner, new_runner = self._runners(lenient)
        live = self.old.live(p)
        known = self._lanes.known(p, whole=whole)
        points = self.old.points(p)
        old = Registers(old_runner, self.old.equations, p, known.get, "register ", points=points)
        told: dict[Reg, Term] = {}
        carried = {**self._carried(pair, old), **self.predicates(pair)}

        def given(reg: Reg) -> Term | None:
            if reg not in live:
                return told.get(reg) or carried.get(reg)
            if self.old.evaluator.width(reg) != self.new.evaluator.width(reg):
                raise GiveUp(f"register {reg.name} has a different width in the second text")
            return old.get(reg)

        new = Registers(new_runner, self.new.equations, q, given, "new register ")
        cut = Cut(p, q, old, new)
        old.note_conversions()
        for condition in (*self._declared.facts, *self._lanes.conditions(p, whole=whole)):
            cut.assume(condition)
        for registers in (old, new):
            for condition in registers.conditions(self._terms):
                cut.assume(condition)
        claims = at_label(self._claims, self.old.labels(p))
        for claim in sorted(claims, key=lambda c: not c.claim.about_memory):
            self._assume(cut, claim, told, live)
        for reg, loaded in self._held(pair):
            value = self._loaded(cut, loaded)
            if value is not None:
                told[reg] = value
                new.values.pop(reg, None)
        for reg in self._kept(pair):
            pointer = self._lanes.pointer(p, reg)
            if pointer is not None and self.kept.use(pair, reg):
                old.values[reg] = told[reg] = pointer
                new.values.pop(reg, None)
        if any(map(is_inequality, at_label(self._claims, self.old.labels(p)))):
            old_runner.written = new_runner.written = self._equality.numbers(cut.conditions)
        return cut

    def _carried(self, pair: Pair, old: Registers) -> Mapping[Reg, Term | None]:
        """What registers of the second text alone hold, by those of the first."""
        memo: dict[Term, Term] = {}

        def leaf(node: Term) -> Term | None:
            reg = self.carried.registers.get(node)
            return None if reg is None else old.get(reg)

        return {
            reg: None if value is None else substitute(self._terms, value, leaf, memo)
            for reg, value in self.carried.at(pair).items()
        }

    def _assume(
        self, cut: Cut, claim: ReadClaim, told: dict[Reg, Term], live: frozenset[Reg]
    ) -> None:
        """Use a claim where it holds."""
        if not self._applies(claim, cut.new.get, cut.conditions):
            return
        at = cut.start(0, cut.conditions)
        if claim.claim.about_memory:
            store = self._difference(claim, at, cut, cut.new.get(claim.register))
            cut.stores = (*cut.stores, store)
            return
        value = self._claimed(claim, at, cut)
        if claim.claim.relation == "true":
            cut.assume(value)
        elif claim.claim.relation == "implies":
            held = cut.new.get(claim.register)
            known = held in cut.conditions
            cut.assume(value if known else self._terms.or_(self._terms.not_(held), value))
        elif claim.register in live:
            cut.assume(self._terms.eq(cut.new.get(claim.register), value))
        else:
            told[claim.register] = value
            cut.new.values.pop(claim.register, None)

    def _applies(self, claim: ReadClaim, get: Get, given: Sequence[Term]) -> bool:
        """Is it known that a claim speaks of this place? How memories differ must be known."""
        if not claim.claim.where:
            return True
        where = get(Reg(claim.claim.where))
        if claim.claim.about_memory and {where, self._terms.not_(where)}.isdisjoint(given):
            raise GiveUp("it is not known whether a store is put off")
        return where in given

    def _claimed(self, claim: ReadClaim, at: Path, cut: Cut) -> Term:
        """The value that a claim speaks of, in a state of the first text."""
        return self._run_claim(claim, at, cut).get(claim.value)

    def _run_claim(self, claim: ReadClaim, at: Path, cut: Cut, held: Term | None = None) -> Path:
        """A claim's code in a state of the first text. What it reads by `.nc` is what the first
        text reads so: of other bytes that says nothing."""
        evaluator = Evaluator(self._terms, self.old.module, claim.function)
        runner = Runner(
            build(claim.function.body), evaluator, self._memory, cut.old.runner.windows,
            witness=False, constant=lambda load, _: load.nc,
        )  # fmt: skip
        path = Path(at.get, at.conditions, 0, stores=[list(epoch) for epoch in at.stores])
        if held is not None:
            path.written[claim.value] = held
        for index, instruction in enumerate(claim.instructions):
            runner.run(path, instruction, index)
        return path

    # ------------------------------------------------------------ stores that are put off

    def claims_memory(self, position: int) -> bool:
        """Is anything claimed of memory where a block begins?"""
        claims = at_label(self._claims, self.old.labels(position))
        return any(claim.is_about_memory for claim in claims)

    def puts_off(self, position: int) -> bool:
        """Is it claimed that the memories of the two texts differ where a block begins?"""
        claims = at_label(self._claims, self.old.labels(position))
        return any(claim.claim.about_memory for claim in claims)

    def put_off(self, cut: Cut, old: Path, new: Path, joint: tuple[Term, ...]) -> StoreDifference:
        """By what the memories differ behind two paths, as claims say."""
        assert old.end is not None
        if old.end.kind != "cut":
            if any(map(self.puts_off, old.end.targets)):
                raise GiveUp("memory is claimed to differ behind an indirect branch")
            return NOTHING
        both: tuple[list[Store], list[Store]] = [], []
        for claim in at_label(self._claims, self.old.labels(old.end.position)):
            if claim.claim.about_memory and self._applies(claim, new.get, joint):
                at = Path(old.get, joint, 0, stores=old.stores)
                store = self._difference(claim, at, cut, new.get(claim.register))
                both[1].append(store)
                if claim.claim.relation == "overwritten":
                    both[0].append(store)
        return both

    def _difference(self, claim: ReadClaim, at: Path, cut: Cut, held: Term) -> Store:
        """By what the first text's memory differs from the second's, in a state of the first,
        where the claim's register holds `held`. What is to be overwritten may be anything."""
        if FINITE_LOOPS not in self._allowed:
            raise GiveUp(f"{FINITE_LOOPS} is not assumed, and stores are put off until a loop ends")
        self._assumptions[FINITE_LOOPS] = None
        store = self._run_claim(claim, at, cut, held).stores[-1][-1]
        value = store.value
        if claim.claim.relation == "overwritten":
            name = f"overwritten {self._claims.index(claim)}"
            value = self._terms.atom(name, value.width, Variance.LANE)
        return Store(store.target, value, store.guard, CLAIMED)

    def _held(self, pair: Pair) -> list[tuple[Reg, LoadedRegister]]:
        """Registers of the second text alone that still hold what a load gave: each with that
        load. That memory still holds the same is a claim that nobody had to write down."""
        p, q = pair
        claimed = {c.register for c in at_label(self._claims, self.old.labels(p))}
        extra = self.new.live(q) - self.old.live(p) - claimed
        pairs = []
        held = self.new.equations.at(q) if extra else 0
        for reg in sorted(extra, key=lambda r: (r.name, r.scope)):
            loaded = self._loading(held, reg) if (pair, reg) not in self._lost else None
            if loaded is not None:
                pairs.append((reg, loaded))
        return pairs

    def _loading(self, held: int, reg: Reg) -> LoadedRegister | None:
        """What was loaded that a register has by equations that hold, itself or by moves."""
        for _ in range(_MAX_MOVES):
            writer = self.new.equations.writer(held, reg)
            if writer is None:
                return None
            instruction = self.new.cfg.instructions[writer]
            if kind(instruction) is Kind.LOAD:
                moved = self._layout is not None and self._layout.touches(instruction)
                return None if "param" in instruction.modifiers or moved else (writer, reg)
            source = instruction.operands[-1]
            if instruction.opcode != "mov" or not isinstance(source, Reg):
                return None
            reg = source
        return None

    def _loaded(self, cut: Cut, loaded: LoadedRegister) -> Term | None:
        index, reg = loaded
        path = Path(cut.new.get, cut.conditions, index)
        cut.new.runner.run(path, self.new.cfg.instructions[index], index)
        return path.written.get(reg)

    def needs_proof(self, pair: Pair, false: Collection[str] = ()) -> bool:
        """Is anything claimed where the texts arrive? Nothing by claims that hold where one of the
        `false` predicates is true."""
        claims = at_label(self._claims, self.old.labels(pair[0]))
        return any(c.claim.where not in false for c in claims) or bool(self._held(pair))

    def false_at(self, position: int) -> frozenset[str]:
        """The predicates under which something is claimed, and of which branches of the second
        text tell that they are false at a position of it."""
        if not self._conditions:
            return frozenset()
        equations = self.new.equations
        decided = equations.branches(equations.at(position))
        return frozenset(r.name for r, value in decided if not value and r in self._conditions)

    @cached_property
    def _conditions(self) -> frozenset[Reg]:
        """The predicates under which something is claimed."""
        return frozenset(Reg(c.claim.where) for c in self._claims if c.claim.where)

    def extra(self, pair: Pair) -> list[Reg]:
        """Registers that live on in the second text alone, and of which no equation there tells
        the value in terms of the first text's."""
        registers = self._extra.get(pair)
        if registers is None:
            p, q = pair
            extra = self.new.live(q) - self.old.live(p)
            held = self.new.equations.at(q) if extra else 0
            known = dict.fromkeys(self.old.live(p), True)
            registers = [r for r in extra if not self._told(r, held, known)]
            self._extra[pair] = registers
        return registers

    @cached_property
    def _runner(self) -> Runner:
        return self._runners(lenient=False)[1]

    def _told(self, reg: Reg, held: int, known: dict[Reg, bool], depth: int = 0) -> bool:
        """Do equations tell a register's value, from those that are known?"""
        if reg not in known and depth < _MAX_DEPTH:
            known[reg] = False
            writer = self.new.equations.writer(held, reg)
            instruction = None if writer is None else self.new.cfg.instructions[writer]
            if instruction is not None and self._runner.tells(instruction):
                read = uses(instruction)
                known[reg] = all(self._told(r, held, known, depth + 1) for r in read)
        return known.get(reg, False)

    # ------------------------------------------------------------ claims

    def check(self, cut: Cut, old: Path, new: Path, joint: tuple[Term, ...]) -> Iterator[Pair]:
        """What is claimed where two paths end holds there: raises Differ. Gives the pairs of which
        less is known than before."""
        assert old.end is not None and new.end is not None
        pairs = [*zip(old.end.targets, new.end.targets, strict=True)]
        if old.end.kind == "cut":
            pairs.append((old.end.position, new.end.position))
        for pair in pairs:
            yield from self._carry(pair, cut, old, new, joint)
            for claim in at_label(self._claims, self.old.labels(pair[0])):
                if not claim.claim.about_memory:
                    self._check_claim(claim, cut, old, new, joint)
            for reg, loaded in self._held(pair):
                if not self._still_held(cut, reg, loaded, new, joint):
                    self._lost.add((pair, reg))
                    yield pair

    def _kept(self, pair: Pair) -> list[Reg]:
        """Registers of the second text alone that the first has set, too, but does not need."""
        widths = self.old.evaluator.width, self.new.evaluator.width
        named = self._named
        return [r for r in self.extra(pair) if r in named and widths[0](r) == widths[1](r)]

    @cached_property
    def _named(self) -> frozenset[Reg]:
        return frozenset(r for i in self.old.cfg.instructions for r in defs(i))

    def _carry(
        self, pair: Pair, cut: Cut, old: Path, new: Path, joint: tuple[Term, ...]
    ) -> Iterator[Pair]:
        """Take along what registers of the second text alone hold."""
        extra = self.extra(pair)
        if not extra:
            return
        source = cut.old_position, cut.new_position
        for reg in self._kept(pair):
            if self.kept.arrive(pair, source, reg, old.get(reg) is new.get(reg)):
                yield pair
        live = self.old.live(pair[0])
        steady = not cut.stores and not self.puts_off(pair[0])
        loops = self.old.loops_gone_on(cut.old_position, pair[0], self._lanes.images)
        there = Handover(self._memory, self.old, old, live, joint, loops=loops, steady=steady)
        self.carried.registers.update(there.registers)

        def given() -> frozenset[Term]:
            said = map(there.value, joint)
            return frozenset(c for c in said if c is not None and c.kind != "const")

        changing = self._changing(pair, source) if not self._bold else frozenset()
        for reg in extra:
            held = self._as_first(there, new.get(reg), old, new, joint)
            value = _partly(self._terms, there, held, unknown_at(pair, reg))
            if value is not None and reg in changing and self._is_fleeting(value, reg, pair):
                value, self.expected = None, True
            if self.carried.arrive(pair, reg, value, there.holding(held), given):
                yield pair

    def _changing(self, pair: Pair, source: Pair) -> frozenset[Reg]:
        """The registers that a loop of the second text computes, where control comes into it."""
        if not self.new.begins(pair[1]):
            return frozenset()
        number, cfg = self.new.block(pair[1]), self.new.cfg
        loop = cfg.loops.get(number)
        if loop is None or cfg.block_of[source[1]] in loop.blocks:
            return frozenset()
        return self._computed_in(number)

    def _computed_in(self, header: int) -> frozenset[Reg]:
        """The registers that a loop of the second text sets to something else than a number."""
        registers = self._computed.get(header)
        if registers is None:
            cfg = self.new.cfg
            blocks = (cfg.blocks[number] for number in cfg.loops[header].blocks)
            body = (i for b in blocks for i in cfg.instructions[b.start : b.end])
            computing = (i for i in body if i.opcode != "mov" or uses(i))
            registers = frozenset(reg for i in computing for reg in defs(i))
            self._computed[header] = registers
        return registers

    def _is_fleeting(self, value: Term, reg: Reg, pair: Pair) -> bool:
        """Is a value unlikely to be what a loop computes in each iteration? A number is, and what
        is told by a claim need not be known in another way."""
        if value.kind == "const":
            return True
        claims = at_label(self._claims, self.old.labels(pair[0]))
        return any(c.register == reg and c.claim.relation == "is" for c in claims)

    def _as_first(
        self, there: Handover, held: Term, old: Path, new: Path, joint: tuple[Term, ...]
    ) -> Term:
        """A value of the second text as the first has computed it, if it can be said at the next
        place only so: it came by a shuffle, and from memory in the first."""
        if there.value(held) is None:
            for reg, value in new.written.items():
                if value is held and reg in old.written:
                    first = old.written[reg]
                    sayable = first is not held and there.value(first) is not None
                    if sayable and self._equality.same(first, held, joint):
                        return first
        return held

    def _check_claim(
        self, claim: ReadClaim, cut: Cut, old: Path, new: Path, joint: tuple[Term, ...]
    ) -> None:
        assert old.end is not None and new.end is not None
        if claim.claim.where:
            where = new.get(Reg(claim.claim.where))
            if self._terms.not_(where) in joint:
                return
            joint = assumed(joint, where, self._terms)
        at = Path(old.get, joint, 0, stores=old.stores)
        value = self._claimed(claim, at, cut)
        if claim.claim.relation == "true":
            if not self._equality.holds(value, joint):
                what = f"it is not shown that what is claimed at {claim.claim.label} is true"
                raise Differ(what, old.end.index, new.end.index, self._equality.example)
            return
        held = new.get(claim.register)
        if claim.claim.relation == "is":
            holds = self._equality.same(held, value, joint)
        else:
            never = self._terms.not_(held) in joint
            holds = never or self._equality.holds(value, assumed(joint, held, self._terms))
        if not holds:
            what = f"it is not shown that {claim.register.name} {claim.claim.relation}"
            raise Differ(
                f"{what} what is claimed at {claim.claim.label}",
                old.end.index, new.end.index, self._equality.example,
            )  # fmt: skip

    def _still_held(
        self, cut: Cut, reg: Reg, loaded: LoadedRegister, new: Path, joint: tuple[Term, ...]
    ) -> bool:
        """Does memory, behind a path of the second text, hold at a load's address what its
        register holds?"""
        index, source = loaded
        path = Path(new.get, joint, index, stores=[list(epoch) for epoch in new.stores])
        cut.new.runner.run(path, self.new.cfg.instructions[index], index)
        return self._equality.same(path.get(source), new.get(reg), joint)


def _partly(terms: Terms, there: Handover, value: Term, name: str) -> Term | None:
    """A value as it is said there. Of a choice those sides may be unknown that cannot be said: one
    of them counts at a time, so one unknown is enough."""
    said = there.value(value)
    if said is not None or value.kind != "ite":
        return said
    condition = there.value(value.args[0])
    arms = [_partly(terms, there, arm, name) for arm in value.args[1:]]
    if condition is None or not any(arms):
        return None
    unknown = terms.atom(name, value.width, Variance.LANE)
    yes, no = (unknown if arm is None else arm for arm in arms)
    return terms.ite(condition, yes, no)
