"""Two kernels proved equal, cut by cut.

Control of the two texts is followed in step from the entry. Where it comes to a place where a
block of the first text begins, and to that place's image in the second, the comparison ends, and
is begun anew from what is always known there. So each pair of places is looked at once, and loops
are proved by induction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import product

from ptxsw.emulator.node import OPAQUE, Term, Variance, walk
from ptxsw.emulator.solver import Solver
from ptxsw.emulator.specials import SPECIALS
from ptxsw.emulator.terms import Terms
from ptxsw.flow.cfg import build
from ptxsw.flow.dataflow import defs, uses
from ptxsw.ir import Function, Instruction, Module, Reg
from ptxsw.permutation import Permutation
from ptxsw.validate.ahead import Ahead
from ptxsw.validate.claims import ReadClaim, at_label
from ptxsw.validate.compare import PathComparison, Rules
from ptxsw.validate.cuts import Cut, Registers
from ptxsw.validate.declared import Declared
from ptxsw.validate.edit_map import EditMap
from ptxsw.validate.equality import Equality
from ptxsw.validate.evaluate import Evaluator
from ptxsw.validate.kinds import Kind, asks_convergence, kind, meets, uniform_registers
from ptxsw.validate.lanes import MAX_KNOWN, KernelLanes
from ptxsw.validate.layout import SharedLayout, shared_places
from ptxsw.validate.low_bits import BITS, LowBits, Multiples
from ptxsw.validate.memory import Bytes, Memory
from ptxsw.validate.narrowing import readings
from ptxsw.validate.outcome import (
    NO_ALIAS,
    NO_FAULT_IN_STRUCT,
    NO_OUTSIDE_WRITER,
    NO_RACE,
    PARAMETERS_ARE_GLOBAL,
    Differ,
    GiveUp,
)
from ptxsw.validate.path import Constant, End, Path, Runner, Touch
from ptxsw.validate.read_by_others import ReadByOthers
from ptxsw.validate.text import Text
from ptxsw.validate.versions import Versions
from ptxsw.validate.warp import WarpView
from ptxsw.validate.windows import Windows
from ptxsw.validate.writers import may_write
from ptxsw.validate.written_ranges import WrittenRanges

Pair = tuple[int, int]


class Validation:
    """A proof in the making. Raises Differ and GiveUp out of `run`."""

    def __init__(
        self,
        old: tuple[Module, Function],
        new: tuple[Module, Function],
        edits: EditMap,
        claims: Sequence[ReadClaim],
        assume: frozenset[str],
        permutation: Permutation | None = None,
    ) -> None:
        self.terms = Terms()
        self.solver = Solver(budget_s=10.0)
        self.memory = Memory(self.terms, self.solver)
        self.equality = Equality(self.terms, self.solver)
        self.old, self.new = Text(self.terms, *old), Text(self.terms, *new)
        starts = {block.start for block in self.old.cfg.blocks}
        self.images = {o: n for o, n in edits.images.items() if o in starts}
        self.claims = claims
        self.allowed = assume
        self.assumptions: dict[str, None] = {}
        self.lost: set[tuple[Pair, Reg]] = set()  # loads that a register does not always hold
        self.carried: dict[Pair, dict[Reg, Term | None]] = {}  # None: not always the same
        self.met: dict[int, set[int]] = {}
        self.met_by: dict[int, int] = {}
        self.work: dict[Pair, None] = {}
        self.done: set[Pair] = set()
        self.view: WarpView | None = None
        self._stops = frozenset(p for places in self.images.values() for p in places)
        self.layout: SharedLayout | None = None
        if permutation is not None:
            evaluator = self.old.evaluator
            self.layout = SharedLayout(permutation, evaluator, self.equality, *new)
            self.layout.check((*self.old.cfg.instructions, *self.new.cfg.instructions))
        self.declared = Declared(self.terms, self.memory, self.old)
        texts = self.old, self.new
        self.lanes = KernelLanes(self.terms, texts, self.declared, self.images, self.allowed)
        self.written = WrittenRanges(self.lanes, self.equality)
        self.ahead = Ahead(self.memory, self.equality)
        self.low_bits = LowBits(self.old, self.memory, self._is_lasting)
        self._known_multiples: dict[tuple[Term, ...], Multiples] = {}

    # ------------------------------------------------------------ the whole

    def run(self) -> None:
        """Prove all pairs of places that control comes to."""
        self._check_questions()
        self._begin()
        while self.work:
            pair = next(reversed(self.work))
            del self.work[pair]
            self.done.add(pair)
            if not self._identical(pair):
                self._segment(pair)

    def _check_questions(self) -> None:
        """Which lanes are together is not followed: where the first text asks, branches must be
        the same, but for new ones that all threads of the grid decide alike."""
        bodies = [text.cfg.instructions for text in (self.old, self.new)]
        if any(map(asks_convergence, bodies[0])):
            alike = self._alike - {r for i in bodies[0] for r in (*uses(i), *defs(i))}
            guarded = [
                [
                    i.opcode
                    for i in body
                    if kind(i) is Kind.CONTROL and i.guard is not None and i.guard.reg not in alike
                ]
                for body in bodies
            ]
            if guarded[0] != guarded[1]:
                raise GiveUp("the kernel asks which lanes are together, and branches were added")

    @cached_property
    def _alike(self) -> frozenset[Reg]:
        """Registers of the second text that are the same for all threads of a grid."""
        names = frozenset(p.name for p in self.old.function.params)
        alike = frozenset(uniform_registers(self.new.cfg.instructions, names))
        return alike if alike.isdisjoint(self.new.live(0)) else frozenset()

    @cached_property
    def versions(self) -> Versions:
        """Copies of code in the second text of which a grid runs one."""
        return Versions(self.new.cfg, self._alike)

    def _begin(self) -> None:
        """The entry. Where the second text runs something before the image of the first block,
        the first text stands still for it."""
        if at_label(self.claims, self.old.labels(0)):
            raise GiveUp("a claim stands where the kernel begins")
        places = self.images.get(0)
        if places is None or 0 in places:
            self.images[0] = (places or frozenset()) | {0}
            self._stops |= {0}
            self._come_to((0, 0))
            return
        cut = self._cut((0, 0))
        old = self._still(cut)
        self.view = None
        for new in self._news(cut, (), cut.conditions, lambda _, __: False):
            self._pair(cut, [old], new)

    def _come_to(self, pair: Pair) -> None:
        if pair not in self.done:
            self.work[pair] = None

    # ------------------------------------------------------------ blocks left alone

    def _identical(self, pair: Pair) -> bool:
        """Is the block the same in both texts, and does it go to places that correspond? Then
        equal registers and equal memory make equal registers and memory."""
        p, q = pair
        block = self.old.cfg.blocks[self.old.block(p)]
        length = block.end - block.start
        old = self.old.cfg.instructions[p : block.end]
        new = self.new.cfg.instructions[q : q + length]
        if len(new) != length or not length or not all(map(self._same_instruction, old, new)):
            return False
        if any(q < stop < q + length for stop in self._stops):
            return False
        if self.layout is not None and any(map(self.layout.touches, old)):
            return False
        ends = self._successors(p, q)
        if ends is None or any(self._needs_proof(end) for end in ends):
            return False
        written = {reg for instruction in old for reg in defs(instruction)}
        extra = [(end, reg) for end in ends for reg in self._extra(end)]
        if any(reg in written for _, reg in extra):
            return False
        for end, reg in extra:
            self._carry(end, reg, self.carried.get(pair, {}).get(reg))
        for at, instruction in enumerate(old):
            if meets(instruction):
                self._meet(p + at, q + at)
        for end in ends:
            self._come_to(end)
        return True

    def _same_instruction(self, a: Instruction, b: Instruction) -> bool:
        if a.opcode != b.opcode or a.modifiers != b.modifiers or a.guard != b.guard:
            return False
        if a.operands != b.operands and a.opcode != "bra":
            return False
        old, new = self.old.evaluator, self.new.evaluator
        return all(old.width(r) == new.width(r) for r in (*uses(a), *defs(a)))

    def _successors(self, p: int, q: int) -> list[Pair] | None:
        """The pairs of places that equal blocks go to; None where they do not correspond."""
        block = self.old.cfg.blocks[self.old.block(p)]
        last = q + block.end - block.start - 1
        if kind(self.old.cfg.instructions[block.end - 1]) is Kind.CONTROL:
            other = self.new.cfg.blocks[self.new.cfg.block_of[last]]
            olds = [self.old.cfg.blocks[n].start for n in (*block.successors, *block.table)]
            news = [self.new.cfg.blocks[n].start for n in (*other.successors, *other.table)]
        else:
            olds = [self.old.cfg.blocks[n].start for n in block.successors]
            news = [last + 1]
        if len(olds) != len(news):
            return None
        pairs = list(zip(olds, news, strict=True))
        return pairs if all(n in self._images_of(o) for o, n in pairs) else None

    def _images_of(self, position: int) -> frozenset[int]:
        return self.images.get(position, frozenset())

    def _needs_proof(self, pair: Pair) -> bool:
        """Is anything claimed where the texts arrive?"""
        return bool(at_label(self.claims, self.old.labels(pair[0]))) or bool(self._held(pair))

    def _extra(self, pair: Pair) -> list[Reg]:
        """Registers that live on in the second text alone and have no equation there."""
        p, q = pair
        extra = self.new.live(q) - self.old.live(p)
        held = self.new.equations.at(q) if extra else 0
        return [r for r in extra if self.new.equations.writer(held, r) is None]

    def _carry(self, pair: Pair, reg: Reg, value: Term | None) -> None:
        """Control comes to a pair with a value in a register of the second text alone. A value
        that is made of what never changes, and with which control always comes, is known there."""
        if value is not None and not self._is_lasting(value):
            value = None
        known = self.carried.setdefault(pair, {})
        if reg not in known:
            known[reg] = value
        elif known[reg] is not None and known[reg] is not value:
            known[reg] = None
            if pair in self.done:
                self.done.discard(pair)
                self.work[pair] = None

    def _is_lasting(self, value: Term) -> bool:
        if value.size > MAX_KNOWN:
            return False
        names = {p.name for p in self.old.function.params}
        return all(
            node.kind not in OPAQUE
            or (node.kind == "atom" and node.value in SPECIALS)
            or (
                node.kind == "atom"
                and node.variance is Variance.UNIFORM
                and str(node.value).partition("+")[0] in names
            )
            for node in walk(value)
        )

    def _meet(self, old: int, new: int) -> None:
        """Threads that meet at one instruction of the first text meet at one of the second."""
        others = self.met.setdefault(old, set())
        several = any(o != new and not self.versions.exclude(o, new) for o in others)
        others.add(new)
        if several or self.met_by.setdefault(new, old) != old:
            raise Differ("threads that meet at one instruction would meet at several", old, new)

    # ------------------------------------------------------------ cuts

    def _runners(self, lenient: bool) -> tuple[Windows, Runner, Runner]:
        parameters = frozenset(self.declared.parameters) if lenient else frozenset()
        windows = Windows(self.terms, self.declared.spaces, self.declared.windows, parameters)
        old, new = (
            Runner(text.cfg, text.evaluator, self.memory, windows, witness=text is self.old)
            for text in (self.old, self.new)
        )
        return windows, old, new

    def _cut(self, pair: Pair, *, lenient: bool = False, whole: bool = False) -> Cut:
        """What is known at a pair of places: with `lenient`, parameters are taken to be global;
        with `whole`, all that a symbolic run of the first kernel knows counts."""
        p, q = pair
        self.seen, old_runner, new_runner = self._runners(lenient)
        live = self.old.live(p)
        known = self.lanes.known(p, whole=whole)
        points = self.old.points(p)
        old = Registers(old_runner, self.old.equations, p, known.get, "register ", points=points)
        told: dict[Reg, Term] = {}
        carried = self.carried.get(pair, {})

        def given(reg: Reg) -> Term | None:
            if reg not in live:
                return told.get(reg) or carried.get(reg)
            if self.old.evaluator.width(reg) != self.new.evaluator.width(reg):
                raise GiveUp(f"register {reg.name} has another width in the second text")
            return old.get(reg)

        new = Registers(new_runner, self.new.equations, q, given, "new register ")
        cut = Cut(p, q, old, new)
        old.note_conversions()
        for condition in (*self.declared.facts, *self.lanes.conditions(p, whole=whole)):
            cut.assume(condition)
        for registers in (old, new):
            for condition in registers.conditions(self.terms):
                cut.assume(condition)
        for claim in at_label(self.claims, self.old.labels(p)):
            self._assume(cut, claim, told, live)
        for reg, index in self._held(pair):
            value = self._loaded(cut, index, reg)
            if value is not None:
                told[reg] = value
                new.values.pop(reg, None)
        return cut

    def _assume(
        self, cut: Cut, claim: ReadClaim, told: dict[Reg, Term], live: frozenset[Reg]
    ) -> None:
        """Use a claim where it holds."""
        value = self._claimed(claim, Path(cut.old.get, cut.conditions, 0))
        if claim.claim.relation == "implies":
            held = cut.new.get(claim.register)
            cut.assume(self.terms.or_(self.terms.not_(held), value))
        elif claim.register in live:
            cut.assume(self.terms.eq(cut.new.get(claim.register), value))
        else:
            told[claim.register] = value
            cut.new.values.pop(claim.register, None)

    def _claimed(self, claim: ReadClaim, at: Path) -> Term:
        """The value that a claim speaks of, in a state of the first text."""
        evaluator = Evaluator(self.terms, self.old.module, claim.function)
        runner = Runner(
            build(claim.function.body), evaluator, self.memory, self.seen, witness=False
        )
        path = Path(at.get, at.conditions, 0, stores=[list(epoch) for epoch in at.stores])
        for index, instruction in enumerate(claim.instructions):
            runner.run(path, instruction, index)
        return path.get(claim.value)

    def _held(self, pair: Pair) -> list[tuple[Reg, int]]:
        """Registers of the second text alone that still hold what a load gave: each with that
        load. That memory still holds the same is a claim that nobody had to write down."""
        p, q = pair
        extra = self.new.live(q) - self.old.live(p)
        found = []
        held = self.new.equations.at(q) if extra else 0
        for reg in sorted(extra, key=lambda r: (r.name, r.scope)):
            writer = self.new.equations.writer(held, reg)
            if writer is None or (pair, reg) in self.lost:
                continue
            instruction = self.new.cfg.instructions[writer]
            moved = self.layout is not None and self.layout.touches(instruction)
            if (
                kind(instruction) is Kind.LOAD
                and "param" not in instruction.modifiers
                and not moved
            ):
                found.append((reg, writer))
        return found

    def _loaded(self, cut: Cut, index: int, reg: Reg) -> Term | None:
        path = Path(cut.new.get, cut.conditions, index)
        cut.new.runner.run(path, self.new.cfg.instructions[index], index)
        return path.written.get(reg)

    # ------------------------------------------------------------ segments

    def _segment(self, pair: Pair) -> None:
        """Compare the texts from one pair of places to the next ones."""
        first: Differ | None = None
        for whole, lenient in product((False, True), repeat=2):
            if lenient and PARAMETERS_ARE_GLOBAL not in self.allowed:
                continue
            try:
                self._attempt(pair, lenient, whole)
            except Differ as differ:
                first = first or differ
                continue
            if self.seen.assumed:
                self.assumptions[PARAMETERS_ARE_GLOBAL] = None
            self.assumptions.update(self.view.assumptions if self.view is not None else {})
            return
        assert first is not None
        raise first

    def _attempt(self, pair: Pair, lenient: bool, whole: bool) -> None:
        cut = self._cut(pair, lenient=lenient, whole=whole)
        self.view = self.lanes.view(pair)
        begin = Path(cut.old.get, cut.conditions, pair[0])
        olds = cut.old.runner.paths(begin, self.images)
        try:
            for new in self._news(cut, olds, cut.conditions):
                self._pair(cut, olds, new)
        except Differ:
            ends = [o.end for o in olds if o.end is not None]
            empty = all(
                e.kind == "cut" and e.position > pair[0] and pair[1] in self._images_of(e.position)
                for e in ends
            )
            if not empty:
                raise
            self._pair(cut, olds, self._still(cut, pair[1]))

    def _still(self, cut: Cut, position: int | None = None) -> Path:
        """A path of no steps: of the first text, or at a position of the second."""
        at = cut.old_position if position is None else position
        get = cut.old.get if position is None else cut.new.get
        return Path(get, cut.conditions, at, end=End("cut", at, at))

    def _news(
        self,
        cut: Cut,
        olds: Sequence[Path],
        given: tuple[Term, ...],
        constant: Constant | None = None,
    ) -> list[Path]:
        """The paths of the second text."""
        runner = cut.new.runner
        known = Runner(
            runner.cfg, runner.evaluator, self.memory, self.seen,
            witness=False, constant=constant or self._constant(olds), warp=self.view,
            origin=self._origin(olds),
        )  # fmt: skip
        return known.paths(Path(cut.new.get, given, cut.new_position), self._stops)

    def _constant(self, olds: Sequence[Path]) -> Constant:
        """Which bytes does the first text read by `.nc` whichever path it takes, in this lane or
        in another one of a whole warp?"""
        true = self.terms.const(1, 1)

        def read(path: Path, load: Touch, given: Collection[Term]) -> bool:
            own = [t.target for t in path.touches if t.nc and t.guard in (true, *given)]
            if _covered(self.memory, load.target, own):
                return True
            lent = self._others_read(path, load, tuple(given)) if load.nc else None
            return lent is not None and lent.nc

        return lambda load, given: bool(olds) and all(read(path, load, given) for path in olds)

    def _origin(
        self, olds: Sequence[Path]
    ) -> Callable[[Bytes, Sequence[Term], int, int], Bytes] | None:
        """Where what the second text accesses lies in the first one's memory."""
        layout = self.layout
        if layout is None:
            return None
        places = shared_places(olds)
        return lambda target, given, index, size: layout.origin(target, places, given, index, size)

    def _pair(self, cut: Cut, olds: Sequence[Path], new: Path) -> None:
        """One path of the second text beside all of the first."""
        try:
            for old in olds:
                self._compare(cut, old, new)
        except Differ as differ:
            joint = _together(cut.conditions, new.conditions)
            several = [readings(self.terms, self.equality, old, joint) for old in olds]
            if not any(self._reads(cut, olds, read, new) for read in zip(*several, strict=True)):
                raise differ from None

    def _reads(
        self, cut: Cut, olds: Sequence[Path], read: Sequence[Path | None], new: Path
    ) -> bool:
        """Do the first text's paths, read in another way, do what one of the second does?"""
        if not any(read):
            return False
        try:
            for old, other in zip(olds, read, strict=True):
                self._compare(cut, other or old, new)
        except Differ:
            return False
        return True

    def _compare(self, cut: Cut, old: Path, new: Path, *, again: bool = True) -> None:
        more = (*old.conditions, *new.conditions)
        if self.equality.contradictory(cut.conditions, more):
            return
        joint = _together(cut.conditions, more)
        try:
            met = self._comparison(cut, old, new, joint).compare()
            self._check_claims(old, new, joint)
        except Differ as differ:
            if again and joint != cut.conditions:
                self._compare_closer(cut, joint, old, new, differ)
                return
            if self._impossible(joint):
                return
            raise
        for a, b in met.items():
            if meets(self.old.cfg.instructions[a]):
                self._meet(a, b)
        self._follow(old, new)

    def _compare_closer(
        self, cut: Cut, joint: tuple[Term, ...], old: Path, new: Path, differ: Differ
    ) -> None:
        """The same paths again, run with the conditions of both: they may tell stores apart."""
        assert old.end is not None and new.end is not None
        if old.position == cut.old_position and old.end.kind == "cut" and not old.touches:
            raise differ
        begin = Path(cut.old.get, joint, cut.old_position)
        olds = cut.old.runner.paths(begin, self.images)
        news = self._news(cut, olds, joint)
        for a in olds:
            for b in news:
                try:
                    self._compare(cut, a, b, again=False)
                except Differ:
                    raise differ from None

    def _impossible(self, joint: tuple[Term, ...]) -> bool:
        """Is it proved that no thread takes these two paths?"""
        return bool(joint) and self.equality.holds(self.terms.not_(joint[-1]), joint[:-1])

    def _comparison(self, cut: Cut, old: Path, new: Path, joint: Sequence[Term]) -> PathComparison:
        rules = Rules(
            images=self._images_of,
            live=self.old.live,
            reads_later=self._reads_later,
            read_only=self._read_only,
            others_read=self._others_read,
            aligned=lambda place, given: [
                *self.declared.aligned,
                *self._low_bits_in(cut, place, given),
            ],
            raced=self._raced,
            beside=self._beside,
        )
        return PathComparison(self.terms, self.memory, self.equality, rules, old, new, joint)

    def _low_bits_in(self, cut: Cut, place: Term, given: Sequence[Term]) -> Iterator[Term]:
        """What is known of the low bits of registers that an address is made of."""
        nodes = {node for node in walk(place) if node.kind == "atom"}
        asked = {r: v for r, v in cut.old.values.items() if v in nodes}
        if not self.old.begins(cut.old_position) or not asked:
            return
        for multiples in dict.fromkeys(((), self._multiples(tuple(given)))):
            found = self.low_bits.at(cut.old_position, multiples)
            for reg, value in asked.items():
                if reg in found:
                    low = found[reg]
                    yield self.terms.eq(self.terms.extract(value, 0, low.width), low)

    def _multiples(self, given: tuple[Term, ...]) -> Multiples:
        """Parameters that are multiples of powers of two where some conditions hold."""
        known = self._known_multiples.get(given)
        if known is None:
            found = []
            for value in self.low_bits.parameters:
                for bits in range(BITS, 0, -1):
                    low = self.terms.extract(value, 0, bits)
                    if self.equality.holds(self.terms.eq(low, self.terms.const(0, bits)), given):
                        found.append((value, bits))
                        break
            known = self._known_multiples[given] = tuple(found)
        return known

    def _follow(self, old: Path, new: Path) -> None:
        """The comparison goes on from where two paths end."""
        assert old.end is not None and new.end is not None
        if old.end.kind == "cut":
            self._come_to((old.end.position, new.end.position))
        for pair in zip(old.end.targets, new.end.targets, strict=True):
            self._come_to(pair)

    # ------------------------------------------------------------ claims

    def _check_claims(self, old: Path, new: Path, joint: tuple[Term, ...]) -> None:
        """What is claimed where two paths end holds there."""
        assert old.end is not None and new.end is not None
        pairs = [*zip(old.end.targets, new.end.targets, strict=True)]
        if old.end.kind == "cut":
            pairs.append((old.end.position, new.end.position))
        for pair in pairs:
            for reg in self._extra(pair):
                self._carry(pair, reg, new.get(reg))
            for claim in at_label(self.claims, self.old.labels(pair[0])):
                self._check_claim(claim, old, new, joint)
            for reg, index in self._held(pair):
                if not self._still_held(reg, index, new, joint):
                    self.lost.add((pair, reg))
                    if pair in self.done:
                        self.done.discard(pair)
                        self.work[pair] = None

    def _check_claim(self, claim: ReadClaim, old: Path, new: Path, joint: tuple[Term, ...]) -> None:
        assert old.end is not None and new.end is not None
        at = Path(old.get, joint, 0, stores=old.stores)
        value, held = self._claimed(claim, at), new.get(claim.register)
        if claim.claim.relation == "is":
            holds = self.equality.same(held, value, joint)
        else:
            holds = self.equality.holds(value, (*joint, held))
        if not holds:
            what = f"it is not shown that {claim.register.name} {claim.claim.relation}"
            raise Differ(
                f"{what} what is claimed at {claim.claim.label}",
                old.end.index, new.end.index, self.equality.example,
            )  # fmt: skip

    def _still_held(self, reg: Reg, index: int, new: Path, joint: tuple[Term, ...]) -> bool:
        """Does memory, behind a path of the second text, hold at a load's address what its
        register holds?"""
        _, _, runner = self._runners(lenient=False)
        runner.windows = self.seen
        path = Path(new.get, joint, index, stores=[list(epoch) for epoch in new.stores])
        runner.run(path, self.new.cfg.instructions[index], index)
        return self.equality.same(path.get(reg), new.get(reg), joint)

    # ------------------------------------------------------------ what is asked of the kernel

    def _reads_later(self, old: Path, touch: Touch, given: Sequence[Term]) -> bool:
        runner = self._runners(lenient=False)[1]
        runner.windows = self.seen
        return self.ahead.reads(runner, old, touch, given)

    def _others_read(self, old: Path, touch: Touch, given: Sequence[Term]) -> Touch | None:
        if self.view is None:
            return None
        return ReadByOthers(self.terms, self.memory, self.equality, self.view).find(
            old, touch, given
        )

    def _beside(self) -> bool:
        """May bytes be read that lie beside those that the first text reads?"""
        if NO_FAULT_IN_STRUCT in self.allowed:
            self.assumptions[NO_FAULT_IN_STRUCT] = None
        return NO_FAULT_IN_STRUCT in self.allowed

    def _raced(self) -> bool:
        return self.view is not None and NO_RACE in self.view.assumptions

    def _read_only(self, old: Path, touch: Touch, given: Sequence[Term]) -> bool:
        """Does nobody write these bytes while the kernel runs?"""
        if NO_OUTSIDE_WRITER not in self.allowed or touch.target.space != "global":
            return False
        if any(map(may_write, self.old.cfg.instructions)):
            twins = {t.index for t in old.touches if t.loads and t.target == touch.target}
            if not self.written.apart(twins, given):
                base = self.lanes.base(touch.target.place)
                if NO_ALIAS not in self.allowed or base is None:
                    return False
                if not {None, base}.isdisjoint(self.lanes.written_bases):
                    return False
                self.assumptions[NO_ALIAS] = None
        self.assumptions[NO_OUTSIDE_WRITER] = None
        return True


def _together(conditions: Iterable[Term], more: Iterable[Term]) -> tuple[Term, ...]:
    return tuple(dict.fromkeys((*conditions, *more)))


def _covered(memory: Memory, source: Bytes, reads: Sequence[Bytes]) -> bool:
    """Are these bytes all among those that are read?"""
    rest = set(range(source.size))
    for read in reads:
        distance = memory.distance(read.place, source.place) if read.space == source.space else None
        if distance is not None:
            rest.difference_update(range(distance, distance + read.size))
    return not rest
