"""The lines of a rewritten body run over terms, one straight piece after the other.

A register of the original is an unknown where a block of the original begins, and what a load of
the original gives is one unknown for each of its registers, in both copies of a stretch that is
there twice. Added lines may do nothing but arithmetic, shuffles, votes, branches around such a
stretch, and loads; what is unclear ends the run with `Mismatch`. What it all means is judged by the
heirs of `SegmentRunner`.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ptxsw import isa
from ptxsw.emulator.node import Term, Variance
from ptxsw.emulator.origin import Origin
from ptxsw.emulator.state import State
from ptxsw.emulator.symbolic_machine import SymbolicMachine
from ptxsw.emulator.terms import Terms
from ptxsw.flow.cfg import Block, Cfg, build
from ptxsw.flow.dataflow import CARRY
from ptxsw.ir import Function, Instruction, Label, Mem, Module, Operand, Reg
from ptxsw.isa import Effect
from ptxsw.semantics import meaning
from ptxsw.verify.align import Aligned, registers
from ptxsw.verify.lanes import FULL, Facts, Lanes, Shuffle, Vote, parts

_MOST_CASES = 256
"""Each choice may double them; what is written here has a handful."""

_ENDS_SEGMENT = Effect.BARRIER | Effect.CALL | Effect.ASYNC | Effect.EXIT


class Mismatch(Exception):
    """The lines do not do what they should; `instruction` is where that shows."""

    def __init__(self, instruction: Instruction, reason: str) -> None:
        super().__init__(reason)
        self.instruction, self.reason = instruction, reason


class Place(Struct, frozen=True):
    """A straight-line segment of the rewritten body."""

    block: int
    segment: int


class Loaded(Struct, frozen=True):
    """What load `index` of the original puts into its register number `element`."""

    index: int
    element: int


class Extra(Struct, frozen=True):
    """An added load: it stands before instruction `index` of the original. The address and the
    guard under which it is made, the conditions of the code around it, and the conditions of
    which any tells that the warp is whole there."""

    instruction: Instruction
    index: int
    address: Term
    guard: Term
    facts: frozenset[Term]
    whole: frozenset[Term]
    widths: tuple[int, ...]


class SegmentRunner:
    """Runs aligned instructions. Heirs say what is to be shown: `discharge` and `finish`."""

    def __init__(
        self, first: Function, module: Module, function: Function, aligned: tuple[Aligned, ...]
    ) -> None:
        self.aligned = aligned
        self.original = first.body
        self.instructions = first.body.instructions
        self.terms = Terms()
        self.machine = SymbolicMachine(module, function, self.terms)
        self.cfg: Cfg = build(function.body)
        self.lanes = Lanes(self.terms, self.machine.special("%laneid"))
        self.state = State({})
        self.loads: dict[Term, Loaded] = {}
        self.extras: dict[Term, tuple[Extra, int]] = {}  # with the element
        self.addresses: dict[int, Term] = {}  # of loads of the original
        self.here = Place(0, 0)
        self._begun = 0  # the block that begins the stretch of the original
        self.facts: frozenset[Term] = frozenset()  # of the code that runs here
        self._together = False  # and all 32 lanes know them together
        self._masks: dict[Term, Place] = {}
        self._added: dict[Reg, dict[int, Term]] = {}  # by the block that sets it
        self._set_in = self._settings()
        self._stretch_of: dict[int, int] = {}  # for each block the one that begins its stretch
        self._made_in: dict[int, int] = {}  # for each load of the original its stretch
        self._left: dict[int, dict[Reg, Term]] = {}  # registers at the end of each block
        self._branches: dict[int, Term] = {}  # condition of the added branch that ends a block
        self._labels = {s.name for s in first.body.statements if isinstance(s, Label)}

    def run(self) -> None:
        """Raises Wrong."""
        segment = 0
        for block in self.cfg.blocks:
            segment += 1
            self._enter(block, Place(block.number, segment))
            for one in self.aligned[block.start : block.end]:
                self._step(one)
                ins = one.instruction
                if isa.effects(ins.opcode, ins.modifiers) & _ENDS_SEGMENT:
                    segment += 1
                    self._segment(Place(block.number, segment))
            self._left[block.number] = self.state.env
        self.finish()

    def cases(
        self, at: Instruction, value: Term, facts: Facts, lane: int
    ) -> Iterator[tuple[Term, Facts]]:
        """As `Lanes.cases`, of a few; raises Wrong where there are more."""
        for number, case in enumerate(self.lanes.cases(value, facts, lane)):
            if number >= _MOST_CASES:
                raise Mismatch(at, f"a value is one of more than {_MOST_CASES}")
            yield case

    def _settings(self) -> dict[Reg, set[int]]:
        """The blocks that set each added register."""
        found: dict[Reg, set[int]] = {}
        for index, one in enumerate(self.aligned):
            for reg in isa.defs(one.instruction):
                if not self._is_old(reg):
                    found.setdefault(reg, set()).add(self.cfg.block_of[index])
        return found

    # ------------------------------------------------------------ for the heirs

    def discharge(self, one: Aligned, values: tuple[Term, ...]) -> None:
        """The registers of a load that is not as it was hold `values`; raises Wrong."""
        raise NotImplementedError

    def watch(self, index: int) -> None:
        """Instruction `index` of the original comes next."""

    def passed(self, one: Aligned) -> None:
        """A load of the original is made where it was; raises Wrong."""

    def added_load(self, extra: Extra) -> None:
        """A load was added; raises Wrong."""

    def finish(self) -> None:
        """A stretch of the original ends: no line that is still to come belongs to it."""

    # ------------------------------------------------------------ blocks

    def _enter(self, block: Block, place: Place) -> None:
        """Registers and facts at the head of a block."""
        before = self.cfg.predecessors[block.number] if block.number in self.cfg.rank else ()
        if self._is_piece(block) and before and all(b in self._left for b in before):
            self.here = place
            self._join(before)
        else:
            self._segment(place)
            self.state.env = {}
            self._begun = block.number
        self._stretch_of[block.number] = self._begun
        self.facts, self._together = frozenset(), False
        (above,) = before if len(before) == 1 else (-1,)
        condition = self._branches.get(above)
        if condition is not None and len(self.cfg.blocks[above].successors) == 2:
            taken = self.cfg.blocks[above].successors[0] == block.number
            fact = condition if taken else self.terms.not_(condition)
            self.facts = frozenset(parts(self.terms, fact))
            self._together = condition.variance == Variance.UNIFORM

    def _segment(self, place: Place) -> None:
        """A new straight-line segment of the original."""
        self.finish()
        self.here = place
        self.facts, self._together = frozenset(), False

    def _is_piece(self, block: Block) -> bool:
        """Does it go on with a stretch of the original: is it parted from the code before by
        nothing but an added branch or label?"""
        if not block.start or any(label in self._labels for label in block.labels):
            return False
        return bool(block.labels) or self.aligned[block.start - 1].kind == "branch"

    def _join(self, before: tuple[int, ...]) -> None:
        ends = [self._left[b] for b in before]
        env = self.state.env = {}
        for reg in dict.fromkeys(r for end in ends for r in end):
            if self._is_old(reg):
                held = {end[reg] if reg in end else self._entry(reg) for end in ends}
                env[reg] = held.pop() if len(held) == 1 else self._value_of(reg, "joined")
            elif all(end.get(reg) is ends[0].get(reg) for end in ends):
                env[reg] = ends[0][reg]
                set_in = self._added.get(reg, {})
                if len(ends) > 1 and set(before) <= set_in.keys():
                    others = {b: value for b, value in set_in.items() if b not in before}
                    self._added[reg] = {**others, self.here.block: env[reg]}

    def _entry(self, reg: Reg) -> Term:
        """What the code that has run since holds unchanged in a register of the original."""
        return self._value_of(reg, f"in block {self._begun}")

    def _value_of(self, reg: Reg, where: str, origin: Origin = Origin.NAMED) -> Term:
        name = f"{reg.name}@{reg.scope} {where}"
        if where == "joined":
            return self.terms.fresh(name, self.machine.width(reg))
        return self.terms.atom(name, self.machine.width(reg), Variance.LANE, None, origin)

    def _is_old(self, reg: Reg) -> bool:
        return reg is CARRY or self.original.declaration(reg) is not None

    # ------------------------------------------------------------ steps

    def _step(self, one: Aligned) -> None:
        self._have_all(one.instruction)
        match one.kind:
            case "same":
                self._run_original(one)
            case "guarded":
                self._note_address(one)
                guard = self.machine.guard(self.state, one.instruction)
                before = [self.state.env[reg] for reg in self.registers_of(one.index)]
                loaded = self.loaded(one.index)
                self._settle(
                    one,
                    tuple(
                        self.terms.ite(guard, new, old)
                        for new, old in zip(loaded, before, strict=True)
                    ),
                )
            case "replaces":
                self._note_address(one)
                self._run_added(one)
                for reg in self.registers_of(one.index):
                    self._have(reg, one.instruction)
                self._settle(one, tuple(self.state.env[r] for r in self.registers_of(one.index)))
            case "branch":
                if one.instruction.guard is not None:
                    condition = self.machine.guard(self.state, one.instruction)
                    self._branches[self.here.block] = condition
            case _:
                self._run_added(one)

    def _have_all(self, instruction: Instruction) -> None:
        written = isa.defs(instruction)
        for reg in registers(instruction):
            if self._is_old(reg) or reg not in written or reg in isa.uses(instruction):
                self._have(reg, instruction)

    def _have(self, reg: Reg, instruction: Instruction) -> None:
        """A register has a value here: a name for what the block found in it, or its own."""
        if reg in self.state.env:
            return
        if self._is_old(reg):
            self.state.env[reg] = self._entry(reg)
            return
        value = self._kept(reg)
        if value is None:
            raise Mismatch(instruction, f"{reg.name} may not have been set")
        self.state.env[reg] = value

    def _kept(self, reg: Reg) -> Term | None:
        """What an added register holds where this block begins: what the one block that sets it,
        on every path, has left in it. Or it is set at a fork, and again on one way from there:
        then it holds a value where that way was taken in this turn of the loops around, and else
        nothing that may be used. None where that is not clear."""
        cfg, here = self.cfg, self.here.block
        set_in = self._added.get(reg, {})
        # What is set by code that comes later in the text may still run before this.
        if not set_in or any(block not in self._left for block in self._set_in[reg]):
            return None
        last = max(set_in, key=lambda block: sum(cfg.dominates(b, block) for b in set_in))
        if len(set_in) == 1:
            return set_in[last] if cfg.dominates(last, here) else None
        around = cfg.loops_around(here)
        forks = set_in.keys() - {last}
        clear = (
            not cfg.irreducible
            and all(cfg.loops_around(block) == around for block in set_in)
            and all(cfg.dominates(fork, last) for fork in forks)
            and any(cfg.dominates(fork, here) for fork in forks)
        )
        if not clear:
            return None
        if cfg.dominates(last, here):
            return set_in[last]
        unset = self._value_of(reg, f"unset in block {here}", Origin.UNSET)
        return self.terms.ite(self._was_run(self._stretch_of[last]), set_in[last], unset)

    def _was_run(self, stretch: int) -> Term:
        """Has the lane run a stretch of the original in this turn of the loops around?"""
        return self.terms.atom(f"stretch {stretch} was run", 1, Variance.LANE)

    def was_made(self, index: int) -> Term | None:
        """The same of the stretch in which a load of the original is made; None where that has
        not come yet."""
        stretch = self._made_in.get(index)
        return None if stretch is None else self._was_run(stretch)

    def _settle(self, one: Aligned, values: tuple[Term, ...]) -> None:
        self.watch(one.index)
        self.discharge(one, values)
        self._give(one.index)

    # ------------------------------------------------------------ the original's instructions

    def _run_original(self, one: Aligned) -> None:
        instruction = one.instruction
        self.watch(one.index)
        if instruction.opcode == "ld":
            if isinstance(instruction.operands[1], Mem):
                self._note_address(one)
                self.passed(one)
            if instruction.guard is None:
                self._give(one.index)
                return
        known = meaning(instruction.opcode, instruction.modifiers)
        if known is None:
            for reg in isa.defs(instruction):
                name = f"{reg.name}@{reg.scope} of {one.index}"
                width = self.machine.width(reg)
                self.state.env[reg] = self.terms.atom(name, width, Variance.LANE)
        else:
            self._compute(instruction, one.index)

    def _note_address(self, one: Aligned) -> None:
        load = self.instructions[one.index]
        memory = load.operands[1]
        if not isinstance(memory, Mem):
            raise Mismatch(one.instruction, "a load without an address")
        if one.kind != "same" and set(isa.defs(load)) & set(isa.uses(load)):
            raise Mismatch(one.instruction, "the load overwrites its own address")
        for reg in isa.uses(load):
            if isinstance(reg, Reg):
                self._have(reg, one.instruction)
        self.addresses[one.index] = self.machine.address(self.state, memory)

    def registers_of(self, index: int) -> tuple[Reg, ...]:
        """The registers that a load of the original fills, in order."""
        return isa.defs(self.instructions[index])

    def loaded(self, index: int) -> tuple[Term, ...]:
        """What a load of the original gives."""
        return tuple(
            self._named(f"{reg.name}@{reg.scope} of {index}", reg, Loaded(index, at))
            for at, reg in enumerate(self.registers_of(index))
        )

    def _named(self, name: str, reg: Reg, loaded: Loaded) -> Term:
        term = self.terms.atom(name, self.machine.width(reg), Variance.LANE)
        self.loads[term] = loaded
        return term

    def _give(self, index: int) -> None:
        """A load of the original has its registers filled."""
        self._made_in[index] = self._begun
        for reg, term in zip(self.registers_of(index), self.loaded(index), strict=True):
            self.state.env[reg] = term

    # ------------------------------------------------------------ added instructions

    def _run_added(self, one: Aligned) -> None:
        instruction = one.instruction
        match instruction.opcode:
            case "activemask":
                if self.here in self._masks.values():
                    raise Mismatch(instruction, "the lanes that are here are asked for twice")
                mask = self.terms.fresh("activemask", 32, Variance.UNIFORM)
                self._masks[mask] = self.here
                self._set(instruction, mask)
            case "shfl":
                self._set(instruction, self._shuffle(instruction))
            case "vote":
                self._set(instruction, self._vote(instruction))
            case "isspacep":
                self._set(instruction, self.lies_in_local(self._pointer(instruction)))
            case "ld":
                self._load(one)
            case _:
                if meaning(instruction.opcode, instruction.modifiers) is None:
                    raise Mismatch(instruction, f"an added {instruction.opcode}")
                self._compute(instruction, one.index)
        for reg in isa.defs(instruction):
            if not self._is_old(reg):
                self._added.setdefault(reg, {})[self.here.block] = self.state.env[reg]

    def _compute(self, instruction: Instruction, index: int) -> None:
        step = self.machine.prepare(instruction, frozenset(isa.defs(instruction)))
        if step is not None:
            self.machine.run(step, self.state, index)

    def _set(self, instruction: Instruction, value: Term) -> None:
        dest = instruction.operands[0]
        if instruction.guard is not None:
            raise Mismatch(instruction, f"{instruction.opcode} under a guard")
        if not isinstance(dest, Reg) or self.machine.width(dest) != value.width:
            raise Mismatch(instruction, f"{instruction.opcode} with a result that is not read")
        self.state.env[dest] = value

    def _operand(self, instruction: Instruction, operand: Operand, width: int) -> Term:
        value = self.machine.read(self.state, operand)
        term = self.terms.const(value, width) if isinstance(value, int) else value
        if term.width != width:
            raise Mismatch(instruction, f"an operand of {instruction.opcode} has another width")
        return term

    def _shuffle(self, instruction: Instruction) -> Term:
        mode = next((m for m in instruction.modifiers if m in ("up", "down", "bfly", "idx")), "")
        if len(instruction.operands) != 5 or "sync" not in instruction.modifiers:
            raise Mismatch(instruction, "not a shuffle that can be read")
        source, lane, clamp, mask = (
            self._operand(instruction, o, 32) for o in instruction.operands[1:]
        )
        whole = self._taking_part(instruction, mask)
        value = self.terms.fresh("shuffled", 32)
        self.lanes.shuffles[value] = Shuffle(mode, source, lane, clamp, whole)
        return value

    def _taking_part(self, instruction: Instruction, mask: Term) -> Term:
        """The condition under which all 32 lanes execute an instruction with a member mask. The
        mask must name no lane that may stay away."""
        full = self.terms.eq(mask, self.terms.const(FULL, 32))
        if self._masks.get(mask) == self.here:
            return full
        true = self.terms.const(1, 1)
        if self._whole() & self.facts and (full is true or full in self.facts):
            return true
        raise Mismatch(
            instruction, f"the mask of {instruction.opcode} was not taken in the same stretch"
        )

    def _whole(self) -> frozenset[Term]:
        """Conditions that are only true here if all 32 lanes are here."""
        full = self.terms.const(FULL, 32)
        here = {self.terms.eq(m, full) for m, place in self._masks.items() if place == self.here}
        if self._together:
            here |= {self.terms.eq(m, full) for m in self._masks} & self.facts
        return frozenset(here)

    def _pointer(self, instruction: Instruction) -> Term:
        if instruction.modifiers != ("local",):
            raise Mismatch(instruction, "not a test for local memory")
        return self._operand(instruction, instruction.operands[1], 64)

    def lies_in_local(self, pointer: Term) -> Term:
        """Does a generic address lie in local memory?"""
        return self.terms.apply(("isspacep", "local"), 1, (pointer,), Variance.LANE)

    def _vote(self, instruction: Instruction) -> Term:
        mode = next((m for m in instruction.modifiers if m in ("any", "all")), "")
        if not mode or len(instruction.operands) != 3 or "sync" not in instruction.modifiers:
            raise Mismatch(instruction, "not a vote that can be read")
        self._taking_part(instruction, self._operand(instruction, instruction.operands[2], 32))
        predicate = self._operand(instruction, instruction.operands[1], 1)
        value = self.terms.fresh("voted", 1, Variance.UNIFORM)
        self.lanes.votes[value] = Vote(mode, predicate)
        return value

    def _load(self, one: Aligned) -> None:
        instruction = one.instruction
        memory = instruction.operands[1]
        if not isinstance(memory, Mem):
            raise Mismatch(instruction, "a load without an address")
        address = self.machine.address(self.state, memory)
        guard = self.machine.guard(self.state, instruction)
        regs = isa.defs(instruction)
        widths = tuple(map(self.machine.width, regs))
        whole = self._whole()
        extra = Extra(instruction, one.index, address, guard, self.facts, whole, widths)
        for at, (reg, width) in enumerate(zip(regs, widths, strict=True)):
            value = self.terms.fresh("added load", width)
            self.extras[value] = extra, at
            if guard is not self.machine.true:
                if reg not in self.state.env and not self._is_old(reg):
                    self.state.env[reg] = self.terms.fresh("nothing", self.machine.width(reg))
                value = self.terms.ite(guard, value, self.state.env[reg])
            self.state.env[reg] = value
        self.added_load(extra)
