"""Strength reduction (gpucc, 3.4): addresses in loops from bases that no turn changes.

    LOOP:                                      test that no index wraps in any turn
    add.s32 %r5, %r4, -1;                      @!%sw_exact1 bra $sw_slow1;
    mul.wide.u32 %rd5, %r5, 4;                 {
    add.s64 %rd6, %rd1, %rd5;                  LOOP:
    ld.global.f32 %f1, [%rd6];                 mul.wide.u32 %sw_far1, %r4, 4;
    mul.wide.u32 %rd7, %r4, 4;        =>       add.s64 %sw_address1, %rd1, %sw_far1;
    add.s64 %rd8, %rd1, %rd7;                  ld.global.f32 %f1, [%sw_address1+-4];
    ld.global.f32 %f2, [%rd8];                 ld.global.f32 %f2, [%sw_address1];
    …                                          …
    @%p1 bra LOOP;                             @%p1 bra LOOP;
                                               }
                                               bra.uni $sw_done1;
                                               $sw_slow1:
                                               LOOP:          and the loop as it was
                                               $sw_done1:

An index of 32 bits that is extended to 64 wraps, or may, and so do its neighbours: a compiler that
lost the knowledge that they do not has to extend each by itself. Where `index + left · growth` is
small when a loop begins, `left` being how far its counter has to go, no index of the loop wraps.
The sum does not grow from turn to turn, so this stays true; a claim says so to the check.

All that is left for a turn is one product and sum (one IMAD.WIDE) for each base that differs.
Dead arithmetic stays in the text: `ptxas` removes it. A loop is left alone unless what it needs by
then, counted as SASS, is less than before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from msgspec import Struct

from ptxsw import isa
from ptxsw.analysis.loop_sums import LoopSums, Place
from ptxsw.analysis.ranges import comparisons
from ptxsw.bits import wrapped
from ptxsw.change import Change, Refusal, Worth
from ptxsw.claim import Claim
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_strength_reduction import (
    Base,
    Bounded,
    Compared,
    Condition,
    Multiple,
    NotNegative,
    Part,
    ReducedLoop,
    Sum,
    lower,
    write_test,
)
from ptxsw.codegen.names import Names, fresh_prefix
from ptxsw.codegen.splice import Edit
from ptxsw.emulator.node import Term, split
from ptxsw.flow.cfg import Loop
from ptxsw.flow.dataflow import defs, liveness, uses
from ptxsw.ir import Close, Directive, Instruction, Label, Mem, Open, Reg, Variable
from ptxsw.plan import Proof
from ptxsw.rewrites.base import Found, Kernel, Requires
from ptxsw.validate.kinds import Kind, asks_convergence, kind, meets

_LIMIT = 1 << 30
"""An index is at most this in any turn, and what is added to it less than a half of it: so all
sums are below 2^31, read as signed numbers or not."""
_MORE = _LIMIT // 2
_FARTHEST = 1 << 23  # bytes that an access may add to its address in SASS
_MOST_BASES = 12  # two registers each
_TRIPS = 16  # taken for every loop
_TEST = 12.0  # instructions before a loop, about

_ACCESSES = frozenset({"ld", "st", "atom", "red"})


class StrengthReduction:
    """See above."""

    name: ClassVar[str] = "strength-reduction"
    summary: ClassVar[str] = (
        "Addresses in loops are made from few bases, where a test finds that no index wraps."
    )
    requires: ClassVar[Requires] = Requires(words=("ld.", "st."))
    needs_ptxas: ClassVar[bool] = False  # auto leaves it alone
    follows: ClassVar[frozenset[str]] = frozenset()

    def find(self, kernel: Kernel) -> Iterator[Found]:
        """Loops of one block whose addresses can be made with less."""
        cfg = kernel.trace.cfg
        found = 0
        for header in sorted(cfg.loops):
            loop = cfg.loops[header]
            if any(inner.parent == header for inner in cfg.loops.values()):
                continue
            search = _Search(kernel, loop, found + 1)
            outcome = search.change()
            found += isinstance(outcome, Change)
            if isinstance(outcome, Refusal) and kernel.options.rewrites is None:
                continue  # nearly every loop has one; they are told where it is asked for
            if outcome is not None:
                yield outcome

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        builder = Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)
        return lower(builder, kernel.text, changes)


class _Unfit(Exception):
    """Why a loop is left alone."""


class _Index(Struct, frozen=True):
    """`base + scale · (carried + stays + constant) + offset`: an address whose index is the sum of
    a register that a loop carries, of others that stay, and a number."""

    place: Place
    base: Term  # 64 bits, without a number
    scale: int
    carried: Term
    stays: Term  # 32 bits, without a number
    constant: int
    offset: int
    signed: bool


class _Counter(Struct, frozen=True):
    """How far a loop has to go: `left`, not negative, falls by `step` in a turn, which is a number
    or a sum that stays. `conditions` keep that true from turn to turn."""

    left: Term
    step: Term
    conditions: tuple[Condition, ...]


class _Search:
    """What can be made of one loop."""

    def __init__(self, kernel: Kernel, loop: Loop, number: int) -> None:
        self.kernel, self.loop, self.number = kernel, loop, number
        self.cfg = kernel.trace.cfg
        self.block = self.cfg.blocks[loop.header]
        self.body = self.cfg.instructions[self.block.start : self.block.end]

    def change(self) -> Change | Refusal | None:
        """The change, why there is none, or nothing where there is nothing to gain."""
        if len(self.loop.blocks) > 1 or not self._worth_a_look():
            return None
        self.sums = LoopSums(self.kernel.module, self.kernel.function, self.cfg, self.loop)
        self.terms = self.sums.terms
        indices = [i for place in self.sums.places if (i := self._index(place)) is not None]
        bases, gain = self._bases(indices)
        if gain <= 0:
            return None
        try:
            return self._reduced(indices, bases, gain)
        except _Unfit as reason:
            return Refusal("strength-reduction", self._first(bases), str(reason))

    def _first(self, bases: Sequence[Base]) -> int:
        return min(at for base in bases for at, _ in base.members)

    def _worth_a_look(self) -> bool:
        """Are there two accesses, and indices that are extended?"""
        accesses = sum(i.opcode in _ACCESSES for i in self.body)
        extends = any("wide" in i.modifiers or _extends(i) for i in self.body)
        return accesses > 1 and extends

    # ------------------------------------------------------------ addresses

    def _index(self, place: Place) -> _Index | None:
        """An address read as a sum with one extended index that the loop carries."""
        instruction = self.cfg.instructions[place.index]
        if instruction.opcode not in _ACCESSES or isa.space(instruction) == "param":
            return None
        address = place.address
        if address.width != 64:
            return None
        constant, items = split(address)
        varying = [(part, factor) for part, factor in items if not self._stays(part)]
        if len(varying) != 1 or varying[0][0].kind not in ("sext", "zext"):
            return None
        (extended, scale), inner = varying[0], varying[0][0].args[0]
        shift, summands = split(inner)
        carried = [(t, f) for t, f in summands if self.sums.changes(t)]
        if len(carried) != 1 or carried[0][1] != 1 or carried[0][0] not in self.sums.registers:
            return None
        terms, atom = self.terms, carried[0][0]
        stays = terms.sub(terms.sub(inner, atom), terms.const(shift, 32))
        base = terms.sum(64, 0, [(p, f) for p, f in items if p is not extended])
        return _Index(
            place, base, wrapped(scale, 64), atom, stays, wrapped(shift, 32),
            wrapped(constant, 64), extended.kind == "sext",
        )  # fmt: skip

    def _stays(self, part: Term) -> bool:
        if part.kind in ("sext", "zext"):
            return self.sums.stays(part.args[0])
        return part in self.sums.registers and not self.sums.changes(part)

    def _bases(self, indices: Sequence[_Index]) -> tuple[tuple[Base, ...], float]:
        """The bases that accesses share, and how many instructions of a turn they save."""
        groups: dict[tuple[Term, int, Term, Term], list[_Index]] = {}
        for index in indices:
            far = index.scale * index.constant + index.offset
            if 0 < index.scale < 1 << 31 and abs(far) < _FARTHEST and abs(index.constant) < _MORE:
                key = (index.base, index.scale, index.carried, index.stays)
                groups.setdefault(key, []).append(index)
        largest = sorted(groups, key=lambda key: -len(groups[key]))[:_MOST_BASES]
        bases = tuple(self._base(*key, groups[key]) for key in groups if key in largest)
        moved = {at for base in bases for at, _ in base.members}
        gain = self._cost(frozenset()) - self._cost(frozenset(moved)) - len(bases)
        return bases, gain

    def _base(
        self, base: Term, scale: int, carried: Term, stays: Term, members: Sequence[_Index]
    ) -> Base:
        parts = [self._part(term, wrapped(factor, 64)) for term, factor in split(base)[1]]
        if split(stays)[1]:
            parts.append(Part(scale, self._sum(stays)))
        parts.sort(key=lambda part: not isinstance(part.value, str) or part.factor != 1)
        return Base(
            tuple(parts),
            self._register(carried),
            scale,
            tuple((i.place.index, i.scale * i.constant + i.offset) for i in members),
        )

    def _part(self, term: Term, factor: int) -> Part:
        if term.kind in ("sext", "zext"):
            return Part(factor, self._sum(term.args[0]), "s" if term.kind == "sext" else "u")
        return Part(factor, self._register(term))

    def _register(self, atom: Term) -> str:
        return self.sums.registers[atom].name

    def _sum(self, term: Term) -> Sum:
        constant, items = split(term)
        width = term.width
        return Sum(
            tuple((self._register(atom), wrapped(f, width)) for atom, f in items),
            wrapped(constant, width),
        )

    # ------------------------------------------------------------ what it costs

    def _cost(self, moved: frozenset[int]) -> float:
        """Instructions that a turn needs in SASS, if the accesses `moved` need no registers for
        their addresses: a 64-bit sum takes two, a product and sum of 64 bits one."""
        live = set(self._live_out)
        total = 0.0
        fused: set[Reg] = set()
        for at in range(self.block.end - 1, self.block.start - 1, -1):
            instruction = self.cfg.instructions[at]
            written = set(defs(instruction))
            pure = kind(instruction) is Kind.COMPUTE
            if pure and written.isdisjoint(live):
                continue
            read = set(uses(instruction))
            if at in moved:
                read -= {r for r in _address_registers(instruction)}
            if pure:
                total += self._weight(instruction, fused, live)
            if instruction.guard is None:
                live -= written
            live |= read
        return total

    def _weight(self, instruction: Instruction, fused: set[Reg], live: set[Reg]) -> float:
        """What ptxas makes of an instruction. The sum behind a product or shift is one with it."""
        name, wide = instruction.opcode, any(m.endswith("64") for m in instruction.modifiers)
        if name == "add" and wide:
            products = {r for r in uses(instruction) if r in self._products}
            fused |= products
            if products & self._shifted:
                return 2.0  # LEA, LEA.HI.X
            return 1.0 if products else 2.0
        if not wide and "wide" not in instruction.modifiers:
            return 1.0
        if set(defs(instruction)) <= fused:
            return 0.0
        return 1.0 if name in ("cvt", "mul", "mad") else 2.0

    @property
    def _products(self) -> frozenset[Reg]:
        return frozenset(
            r
            for i in self.body
            if "wide" in i.modifiers or (i.opcode == "shl" and "b64" in i.modifiers)
            for r in defs(i)
        )

    @property
    def _shifted(self) -> frozenset[Reg]:
        return frozenset(r for i in self.body if i.opcode == "shl" for r in defs(i))

    @property
    def _live_out(self) -> frozenset[Reg]:
        live = liveness(self.cfg)
        return frozenset().union(*(live[n] for n in self.block.successors))

    # ------------------------------------------------------------ the change

    def _reduced(self, indices: Sequence[_Index], bases: tuple[Base, ...], gain: float) -> Change:
        label, before = self._entrance()
        self._check_copy()
        counter = self._counter()
        moved = {at for base in bases for at, _ in base.members}
        conditions = list(counter.conditions)
        used = [index for index in indices if index.place.index in moved]
        for carried in dict.fromkeys(index.carried for index in used):
            conditions += self._bounded(carried, counter)
        conditions += self._ranges(used)
        conditions = list(dict.fromkeys(conditions))
        exact = f"{fresh_prefix(self.kernel.text)}exact{self.number}"
        detail = ReducedLoop(
            self.block.start, self.block.end - 1, label, before, exact, tuple(conditions), bases
        )
        worth = Worth(_TEST + 2 * len(conditions) - gain * _TRIPS)
        if worth.instructions >= 0:
            raise _Unfit("the test before the loop would outweigh what a turn saves")
        if self.kernel.options.mode == "auto":
            raise _Unfit("auto makes it only where ptxas has counted its registers")
        return Change(
            "strength-reduction", self._first(bases), frozenset(moved),
            Proof(tests=("no index of the loop wraps in any turn",)), detail, worth=worth,
            claims=(self._claim(label, exact, conditions),),
        )  # fmt: skip

    def _claim(self, label: str, exact: str, conditions: Sequence[Condition]) -> Claim:
        """What the test has found remains true."""
        names = Names(f"{fresh_prefix(self.kernel.text)}claim_")
        result = names.new("exact", "pred")
        lines = write_test(conditions, names.new, result)
        declared = [f".reg .{kind} {', '.join(n)};" for kind, n in names.registers.items()]
        return Claim(label, exact, "\n".join(lines), result, " ".join(declared), "implies")

    def _entrance(self) -> tuple[str, int | None]:
        """The label of the loop, and the branch that leads to it, if control does not fall into
        it."""
        labels = self.block.labels
        statements = self.kernel.function.body.statements
        named = [s for s in statements if isinstance(s, Label) and s.name in labels]
        if len(labels) != 1 or len(named) != 1 or named[0].scope:
            raise _Unfit("the loop has no label of its own")
        outside = [n for n in self.cfg.predecessors[self.loop.header] if n != self.loop.header]
        if len(outside) != 1:
            raise _Unfit("control comes to the loop from several places")
        block = self.cfg.blocks[outside[0]]
        last = self.cfg.instructions[block.end - 1]
        if block.end == self.block.start and block.successors.count(self.loop.header) == 1:
            taken = last.opcode == "bra" and block.successors[0] == self.loop.header
            if not taken:
                return labels[0], None
        if last.opcode == "bra" and last.guard is None:
            return labels[0], block.end - 1
        raise _Unfit("control comes to the loop by a branch that may go elsewhere")

    def _check_copy(self) -> None:
        """The loop may stand twice: threads go either way."""
        if any(map(asks_convergence, self.cfg.instructions)):
            raise _Unfit("it would take a branch, and the kernel asks which lanes are together")
        for instruction in self.body:
            if meets(instruction) or kind(instruction) is Kind.EVENT:
                raise _Unfit(f"{instruction.name} stands in the loop, which would stand twice")
        first, last = self.body[0].start, self.body[-1].end
        for statement in self.kernel.function.body.statements:
            inside = first <= statement.span.start < last
            if inside and isinstance(statement, Open | Close | Variable):
                raise _Unfit("a scope or a variable begins inside the loop")
            if inside and isinstance(statement, Directive) and statement.label:
                raise _Unfit("a table of branch targets stands in the loop")

    # ------------------------------------------------------------ how far a loop goes

    def _counter(self) -> _Counter:
        """What falls from turn to turn until the loop ends. Raises _Unfit."""
        branch = self.body[-1]
        unknown = _Unfit("how often the loop goes round is not known")
        if branch.opcode != "bra" or branch.guard is None:
            raise unknown
        if self.block.successors[0] != self.loop.header:
            raise unknown
        again = self.sums.at_end(branch.guard.reg)
        again = self.terms.not_(again) if branch.guard.negated else again
        if again.kind == "not" and again.args[0].kind == "eq" and again.args[0].args[0].width == 32:
            return self._until_equal(self.terms.sub(*again.args[0].args))
        found = list(comparisons([again], self.terms))
        if len(found) != 1 or found[0].a.width != 32:
            raise unknown
        return self._while_less(found[0].a, found[0].b, found[0].strict, found[0].signed)

    def _number(self, term: Term | None) -> int | None:
        return (
            wrapped(term.value, term.width) if term is not None and term.kind == "const" else None
        )

    def _until_equal(self, difference: Term) -> _Counter:
        """A loop that goes on until a difference is 0, which it comes to by equal steps."""
        step = self._number(self.sums.step(difference))
        if not step or abs(step) & (abs(step) - 1):
            raise _Unfit("the loop's counter has no step that is a power of two")
        terms = self.terms
        now = terms.sub(difference, terms.const(step, 32))
        left = terms.neg(now) if step > 0 else now
        size = abs(step)
        conditions: list[Condition] = [Compared("ne.s32", self._plain(left), Sum(()))]
        if size > 1:
            conditions.append(Multiple(self._plain(left), size))
        return _Counter(left, terms.const(size, 32), tuple(conditions))

    def _while_less(self, a: Term, b: Term, strict: bool, signed: bool) -> _Counter:
        """A loop that goes on while `a < b`, of which one changes by equal steps."""
        terms, letter = self.terms, "s" if signed else "u"
        kind_ = f"{'lt' if strict else 'le'}.{letter}32"
        grows, falls = self.sums.step(a), self.sums.step(b)
        if grows is None or falls is None:
            raise _Unfit("how often the loop goes round is not known")
        if self._number(falls) == 0:
            now, step = terms.sub(a, grows), grows
            left = terms.sub(b, now)
            tests: list[Condition] = [Compared(kind_, self._plain(now), self._plain(b))]
            tests += self._at_most(b, signed)
        elif self._number(grows) == 0 and (self._number(falls) or 0) < 0:
            step = terms.neg(falls)
            now = terms.sub(b, falls)
            left = terms.sub(now, a)
            tests = [Compared(kind_, self._plain(a), self._plain(now))]
            least = -_LIMIT if signed else self._number(step) or 0
            tests.append(Compared(f"ge.{letter}32", self._plain(a), Sum((), least)))
        else:
            raise _Unfit("how often the loop goes round is not known")
        size = self._number(step)
        if size is not None and not 0 < size < _LIMIT:
            raise _Unfit("the loop's counter goes away from its end")
        if size is None:
            tests.append(Compared("le.u32", self._plain(step), Sum((), _LIMIT)))
        return _Counter(left, step, tuple(tests))

    def _at_most(self, end: Term, signed: bool) -> list[Condition]:
        value = self._number(end)
        if value is not None and 0 <= value <= _LIMIT:
            return []
        return [Compared("le.s32" if signed else "le.u32", self._plain(end), Sum((), _LIMIT))]

    def _plain(self, term: Term) -> Sum:
        """A sum of registers as they are when a turn begins. Raises _Unfit."""
        if not all(atom in self.sums.registers for atom, _ in split(term)[1]):
            raise _Unfit("the loop's counter is no sum of registers")
        return self._sum(term)

    # ------------------------------------------------------------ indices

    def _bounded(self, carried: Term, counter: _Counter) -> list[Condition]:
        """Conditions that a carried index stays small, however often the loop goes round."""
        growth = self._growth(self.sums.step(carried), counter.step)
        register = self._register(carried)
        index = Sum(((register, 1),))
        return [
            Compared("le.u32", index, Sum((), _LIMIT)),
            Bounded(register, self._plain(counter.left), growth, _LIMIT),
        ]

    def _growth(self, step: Term | None, by: Term) -> Sum:
        """What an index grows by, at most, while the counter falls by 1. Raises _Unfit."""
        if step is None:
            raise _Unfit("an index does not grow by the same in each turn")
        number, size = self._number(step), self._number(by)
        if number is not None and size is not None:
            if number < 0:
                raise _Unfit("an index falls from turn to turn")
            return Sum((), -(-number // size))
        if size is not None:
            constant, items = split(step)
            factors = [wrapped(f, 32) for _, f in items]
            if any(f % size for f in (*factors, wrapped(constant, 32))):
                raise _Unfit("an index grows by parts of what the counter falls by")
            terms = self.terms
            shared = terms.sum(32, wrapped(constant, 32) // size, [
                (t, f // size) for (t, _), f in zip(items, factors, strict=True)
            ])  # fmt: skip
            return self._sum(shared)
        for times in range(1, 9):
            if self.terms.scale(by, times) is step:
                return Sum((), times)
        raise _Unfit("an index does not grow as the counter does")

    def _ranges(self, indices: Sequence[_Index]) -> Iterator[Condition]:
        """Conditions on what is added to the carried registers."""
        lowest: dict[tuple[Term, Term], int] = {}
        for index in indices:
            if split(index.stays)[1]:
                yield Compared(
                    "lt.u32",
                    self._sum(self.terms.add(index.stays, self.terms.const(_MORE, 32))),
                    Sum((), 2 * _MORE),
                )
            if not index.signed and (split(index.stays)[1] or index.constant < 0):
                key = (index.carried, index.stays)
                lowest[key] = min(lowest.get(key, 0), index.constant)
        for (carried, stays), constant in lowest.items():
            yield NotNegative(self._register(carried), self._sum(stays), constant)


def _extends(instruction: Instruction) -> bool:
    return instruction.opcode == "cvt" and instruction.modifiers[-2:] in (
        ("s64", "s32"), ("u64", "u32"),
    )  # fmt: skip


def _address_registers(access: Instruction) -> frozenset[Reg]:
    """The registers that only the address of an access names."""
    address = {o.base for o in access.operands if isinstance(o, Mem) and isinstance(o.base, Reg)}
    others = {o for o in access.operands if isinstance(o, Reg)}
    return frozenset(r for r in address if isinstance(r, Reg) and r not in others)
