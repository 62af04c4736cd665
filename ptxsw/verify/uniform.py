"""Are loops that were made uniform what the plan says? And the same body without them.

`undo` reads a rewritten body and puts every uniform loop back as it was, as a lane sees it that
takes part: votes become the branches that they replaced, guards by the predicate `in` go, a ballot
of `in` is an active mask. So all other checks work as ever. On the way it shows, from the plan and
the two bodies alone, that

- `in` starts as what the branch before the loop decides, or as true, and is from then on only
  and-ed with the condition under which a lane goes on;
- lanes enter the loop, and go round it, by a vote of `in` over all lanes;
- every access of the loop is made under `in`, and so is whatever sets a register that is read
  behind it: lanes that do not take part do no harm.

What the analysis found out about the original (where lanes come together, which loops end in lanes
that have left) is taken from the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ptxsw import isa
from ptxsw.cfg import Cfg, build
from ptxsw.dataflow import CARRY, Facts, defs, liveness
from ptxsw.ir import (
    Body,
    Function,
    Guard,
    Instruction,
    Int,
    Label,
    Mem,
    Operand,
    Reg,
    Statement,
    Symbol,
)
from ptxsw.shuffle.plan import Plan, UniformLoop
from ptxsw.verify.align import Aligned, Apart


@dataclass(frozen=True)
class Undone:
    """A body without its uniform loops, and what was asked of all lanes of a loop."""

    function: Function
    collective: dict[int, UniformLoop]  # ballots and their like, by where they stand in the text

    def gathered(self, plan: Plan, aligned: Sequence[Aligned]) -> Apart | None:
        """Do all lanes come to what is asked of them all? `aligned` is the body aligned with the
        plan's."""
        for one in aligned:
            loop = self.collective.get(one.instruction.span.start)
            if loop is not None and one.index not in loop.together:
                name = one.instruction.name
                return Apart(f"not all lanes come to {name} together", one.instruction)
        return None


def undo(plan: Plan, second: Function) -> Undone | Apart:
    """`second` without the uniform loops of the plan, as a lane sees it that takes part; or why
    they are not what the plan says."""
    if not plan.loops:
        return Undone(second, {})
    try:
        return _Undoing(plan, second).run()
    except _Wrong as wrong:
        return wrong.apart


class _Wrong(Exception):
    def __init__(self, reason: str, instruction: Instruction | None = None) -> None:
        super().__init__(reason)
        self.apart = Apart(reason, instruction)


@dataclass
class _Found:
    """A uniform loop in the rewritten text."""

    loop: UniformLoop
    inside: Reg
    go: Reg
    blocks: frozenset[int] = frozenset()
    lasting: Facts = frozenset()  # registers that are read behind the loop
    changed: dict[int, str] = field(default_factory=dict)


class _Undoing:
    def __init__(self, plan: Plan, second: Function) -> None:
        self._plan, self._second = plan, second
        self._first = plan.function.body
        self._statements = list(second.body.statements)
        self._cfg: Cfg = build(second.body)
        self._live = liveness(self._cfg)
        self._old_cfg = build(self._first)
        self._old_live = liveness(self._old_cfg)
        self._at = {id(s): n for n, s in enumerate(self._statements)}
        self._number: dict[int, int] = {}  # of each instruction, by statement
        for number, statement in enumerate(self._statements):
            if isinstance(statement, Instruction):
                self._number[number] = len(self._number)
        self._gone: set[int] = set()  # statements that belong to a loop alone
        self._put: dict[int, Instruction] = {}  # others that read differently
        self._found: dict[int, _Found] = {}  # by header

    def run(self) -> Undone:
        branches = self._branches()
        headers = {loop.header for loop in self._plan.loops}
        for loop in self._plan.loops:
            if not loop.needs <= headers or loop.outer not in {None, *headers}:
                raise _Wrong("a loop is made uniform without those around it or in it")
        for loop in self._plan.loops:  # outer ones first
            self._votes(loop, branches)
        for loop in self._plan.loops:
            if loop.enters is None:
                self._all_in(loop)
        for found in self._found.values():
            self._place(found, branches)
        lanes = _Lanes(self._statements, self._first, self._gone, self._put)
        for run in self._runs():
            lanes.run(run, self._loop_around(run))
        statements = tuple(
            self._put.get(n, s) for n, s in enumerate(self._statements) if n not in self._gone
        )
        body = Body(statements, self._second.body.span, self._second.body.parameters)
        return Undone(replace(self._second, load_body=lambda _: body), lanes.collective)

    # ------------------------------------------------------------ votes

    def _branches(self) -> dict[int, int]:
        """The statement of each branch of the original, by its position there."""
        labels = {s.name for s in self._first.statements if isinstance(s, Label)}
        old = [i for i, ins in enumerate(self._first.instructions) if ins.opcode in ("bra", "brx")]
        new = [
            n
            for n, s in enumerate(self._statements)
            if isinstance(s, Instruction) and s.opcode in ("bra", "brx") and _target(s) in labels
        ]
        if len(old) != len(new):
            raise _Wrong("the kernels have different branches")
        return dict(zip(old, new, strict=True))

    def _votes(self, loop: UniformLoop, branches: dict[int, int]) -> None:
        """The lines that stand for the branches of a loop."""
        leave = self._first.instructions[loop.leave]
        at = branches[loop.leave]
        inside, go, at = self._vote(loop, at, leave, loop.stays)
        self._found[loop.header] = _Found(loop, inside, go)
        assert leave.guard is not None
        last = self._line(at - 1)
        stay = last.operands[-1] if last.operands else None
        if not isinstance(stay, Reg) or not _is(last, "and.pred", inside, inside, stay):
            raise _Wrong("lanes do not leave the loop for good", last)
        self._gone.add(at - 1)
        if leave.guard.negated == loop.stays:
            turned = self._line(at - 2)
            if not _is(turned, "not.pred", stay, leave.guard.reg):
                raise _Wrong("lanes do not leave the loop when they should", turned)
            self._gone.add(at - 2)
        elif stay != leave.guard.reg:
            raise _Wrong("lanes do not leave the loop when they should", last)
        if loop.enters is not None:
            self._begun(loop, branches[loop.start], inside, go)

    def _begun(self, loop: UniformLoop, at: int, inside: Reg, go: Reg) -> None:
        """`in` starts as what the branch before the loop decides."""
        branch = self._first.instructions[loop.start]
        assert branch.guard is not None and loop.enters is not None
        again, voted, at = self._vote(loop, at, branch, loop.enters)
        if (again, voted) != (inside, go):
            raise _Wrong("two predicates tell who takes part in the loop", self._line(at))
        if loop.outer is not None:
            at -= 1
            outer = self._found[loop.outer].inside
            if not _is(self._line(at), "and.pred", inside, inside, outer):
                raise _Wrong("lanes enter that have left the loop around", self._line(at))
            self._gone.add(at)
        operation = "mov.pred" if loop.enters != branch.guard.negated else "not.pred"
        if not _is(self._line(at - 1), operation, inside, branch.guard.reg):
            raise _Wrong("not those lanes enter the loop that should", self._line(at - 1))
        self._gone.add(at - 1)

    def _vote(
        self, loop: UniformLoop, at: int, branch: Instruction, into: bool
    ) -> tuple[Reg, Reg, int]:
        """The vote that drives a branch: its predicate, its result, and where it stands. The
        branch is put back."""
        new = self._line(at)
        if new.operands != branch.operands or new.guard is None or new.guard.negated == into:
            raise _Wrong("the branch is not one of all lanes", new)
        vote = at - 1
        while self._starts_other(self._line(vote), loop):
            vote -= 1
        line, go = self._line(vote), new.guard.reg
        inside = line.operands[1] if len(line.operands) == 3 else None
        if not isinstance(inside, Reg) or not _is(line, "vote.sync.any.pred", go, inside, Int(-1)):
            raise _Wrong("the branch is not driven by a vote of all lanes", line)
        if not (self._is_new(inside) and self._is_new(go)):
            raise _Wrong("the vote is over a register of the original", line)
        self._gone.add(vote)
        self._put[at] = branch._replace(span=new.span)
        return inside, go, vote

    def _starts_other(self, line: Instruction, loop: UniformLoop) -> bool:
        """Does a line between a vote and its branch start this loop, or one that follows?"""
        if line.guard is not None or line.opcode != "mov" or len(line.operands) != 2:
            return False
        dest, value = line.operands
        return isinstance(dest, Reg) and (
            value == Int(0) or (line.modifiers == ("pred",) and self._is_new(dest))
        )

    def _all_in(self, loop: UniformLoop) -> None:
        """`in` starts as true in every lane that takes part in the loop around."""
        found = self._found[loop.header]
        value: Operand = Int(-1) if loop.outer is None else self._found[loop.outer].inside
        starts = [
            n for n in self._number if n not in self._gone and found.inside in defs(self._line(n))
        ]
        if len(starts) != 1 or not _is(self._line(starts[0]), "mov.pred", found.inside, value):
            line = self._line(starts[0]) if starts else None
            raise _Wrong("it is not once that lanes start to take part in the loop", line)
        self._gone.add(starts[0])
        found.changed[starts[0]] = "start"

    # ------------------------------------------------------------ where it lies

    def _place(self, found: _Found, branches: dict[int, int]) -> None:
        """The blocks that lanes run without taking part, and what is read behind them."""
        loop, cfg = found.loop, self._cfg
        leave = self._block(branches[loop.leave])
        header = cfg.loop_of.get(leave)
        if header is None or [source for source, _ in cfg.loops[header].exits] != [leave]:
            raise _Wrong("the loop is not left by one branch", self._line(branches[loop.leave]))
        inner = cfg.loops[header]
        outside = [p for p in cfg.predecessors[header] if p not in inner.blocks]
        if loop.enters is None:
            (start,) = found.changed
            if outside != [self._block(start)]:
                raise _Wrong("lanes start to take part elsewhere", self._line(start))
            found.blocks = inner.blocks
            self._after_outer(found, start)
        else:
            found.blocks = inner.blocks | self._lead(self._block(branches[loop.start]), header)
        ((_, after),) = inner.exits
        new = (reg for reg in self._live[after] if self._is_new(reg))
        mine = {r for other in self._found.values() for r in (other.inside, other.go)}
        found.lasting = self._read_behind(loop) | (frozenset(new) - mine)
        self._clears(found, branches)

    def _lead(self, start: int, header: int) -> frozenset[int]:
        """Blocks between the branch before a loop and the loop."""
        seen: set[int] = set()
        work = [header]
        while work:
            for number in self._cfg.predecessors[work.pop()]:
                inner = self._cfg.loops[header].blocks
                if number != start and number not in seen and number not in inner:
                    seen.add(number)
                    work.append(number)
        if not all(self._cfg.dominates(start, number) for number in (*seen, header)):
            raise _Wrong("the loop is entered from elsewhere")
        return frozenset(seen)

    def _after_outer(self, found: _Found, start: int) -> None:
        """Where a lane leaves the loop around in the same block, it has left before."""
        if found.loop.outer is None:
            return
        outer = self._found[found.loop.outer].inside
        block = self._cfg.blocks[self._block(start)]
        for number, index in self._number.items():
            later = number > start and block.start <= index < block.end
            if later and outer in defs(self._line(number)):
                raise _Wrong("lanes enter that have left the loop around", self._line(start))

    def _read_behind(self, loop: UniformLoop) -> Facts:
        """Registers of the original that are read behind a loop."""
        block = self._old_cfg.blocks[self._old_cfg.block_of[loop.leave]]
        after = block.successors[1 if loop.stays else 0]
        return self._old_live[after]

    def _clears(self, found: _Found, branches: dict[int, int]) -> None:
        """Registers are cleared only at the start, and only such as nobody reads there."""
        loop = found.loop
        if not loop.cleared:
            return
        if loop.enters is None:
            (start,) = found.changed
            spots = [*self._around(start, -1), *self._around(start, 1)]
        else:
            spots = list(self._around(branches[loop.start], -1))
        block = self._old_cfg.blocks[self._old_cfg.block_of[loop.start]]
        read = frozenset[Reg]().union(*(self._old_live[s] for s in block.successors))
        for spot in spots:
            line = self._line(spot)
            dest = line.operands[0]
            if dest in loop.cleared and line.operands[1:] == (Int(0),):
                if dest in read:
                    raise _Wrong(f"{dest} is cleared and read", line)
                self._gone.add(spot)

    def _around(self, at: int, step: int) -> Iterator[int]:
        """The lines next to one that start loops."""
        at += step
        while at in self._number and self._starts_other(self._line(at), self._plan.loops[0]):
            yield at
            at += step

    # ------------------------------------------------------------ small things

    def _line(self, at: int) -> Instruction:
        statement = self._statements[at] if 0 <= at < len(self._statements) else None
        if not isinstance(statement, Instruction):
            raise _Wrong("lines of a uniform loop are missing")
        return statement

    def _is_new(self, reg: Reg) -> bool:
        return reg is not CARRY and self._first.declaration(reg) is None

    def _block(self, at: int) -> int:
        return self._cfg.block_of[self._number[at]]

    def _runs(self) -> Iterator[list[int]]:
        """The statements of each block that are instructions."""
        run: list[int] = []
        for number, index in self._number.items():
            run.append(number)
            if index + 1 == self._cfg.blocks[self._cfg.block_of[index]].end:
                yield run
                run = []

    def _loop_around(self, run: list[int]) -> list[_Found]:
        """The uniform loops around a block, outer ones first."""
        block = self._block(run[0])
        return [found for found in self._found.values() if block in found.blocks]


class _Lanes:
    """The lines of uniform loops one by one: what a lane does that does not take part, which must
    be nothing that lasts, and how they read for one that does."""

    def __init__(
        self,
        statements: Sequence[Statement],
        first: Body,
        gone: set[int],
        put: dict[int, Instruction],
    ) -> None:
        self._statements, self._first = statements, first
        self._gone, self._put = gone, put
        self.collective: dict[int, UniformLoop] = {}
        self._labels = {s.name for s in first.statements if isinstance(s, Label)}
        self._all_in = False  # behind a branch that is only passed if all lanes take part
        self._copies = False  # in a stretch that is there twice
        self._done: str | None = None  # the label at its end
        self._full: set[Reg] = set()  # predicates that are false only if they do

    def run(self, run: Sequence[int], loops: Sequence[_Found]) -> None:
        """One block, with the uniform loops around it, outer ones first. Raises _Wrong."""
        labels = self._labels_before(run[0])
        if labels:
            self._all_in = False
        if self._done in labels or labels & self._labels:
            self._copies, self._done = False, None
        self._full = set()
        self._loops = loops
        self._names = {found.inside: found for found in loops}
        self._with: set[Reg] = set()  # predicates that are true only in lanes that take part
        self._guards: dict[Reg, Guard] = {}  # what a predicate and `in` together stand for
        self._turned: tuple[Reg, int] | None = None  # what the last line negates
        self._mask: Reg | None = None
        self._saved: dict[Reg, Reg] = {}
        self._set: dict[Reg, Instruction] = {}  # what lasts and was set by all lanes
        for at in run:
            if at not in self._gone:
                self._line(at, self._statements[at])
        for reg, line in self._set.items():
            raise _Wrong(f"{reg.name} is read behind the loop and set by lanes that left it", line)

    def _labels_before(self, at: int) -> set[str]:
        """The labels between an instruction and the one before it."""
        found: set[str] = set()
        while at > 0 and not isinstance(self._statements[at - 1], Instruction):
            at -= 1
            statement = self._statements[at]
            if isinstance(statement, Label):
                found.add(statement.name)
        return found

    def _line(self, at: int, statement: Statement) -> None:
        assert isinstance(statement, Instruction)
        line = statement
        if not self._loops:
            return
        inmost = self._loops[-1].inside
        if self._predicates(at, line, inmost):
            return
        under = self._is_under(line.guard, inmost) or self._all_in
        guard = None if line.guard is None else self._guards.get(line.guard.reg)
        self._lasts(line, under)
        if self._merged(at, line, inmost):
            return
        if _touches(line) and not under:
            raise _Wrong(f"{line.name} is made by lanes that have left the loop", line)
        self._follow(line, inmost)
        self._read_on(at, line, inmost, guard)

    def _is_under(self, guard: Guard | None, inmost: Reg) -> bool:
        """Is a guard true only in lanes that take part?"""
        if guard is None:
            return False
        known = self._full if guard.negated else {inmost, *self._with}
        return guard.reg in known

    # ------------------------------------------------------------ lanes that take no part

    def _lasts(self, line: Instruction, under: bool) -> None:
        for reg in defs(line):
            if not under and any(reg in found.lasting for found in self._loops):
                self._set.setdefault(reg, line)
            self._with.discard(reg)
            self._full.discard(reg)
            self._guards = {
                name: guard for name, guard in self._guards.items() if reg not in (name, guard.reg)
            }
            self._saved = {r: old for r, old in self._saved.items() if old != reg}
            if self._mask == reg:
                self._mask = None

    def _merged(self, at: int, line: Instruction, inmost: Reg) -> bool:
        """`mov old, r; ...; selp r, r, old, in`: lanes that take no part keep what they had."""
        operands = line.operands
        if line.opcode == "mov" and line.guard is None and len(operands) == 2:
            old, reg = operands
            if isinstance(old, Reg) and isinstance(reg, Reg) and reg not in self._set:
                self._saved[reg] = old
        if line.opcode != "selp" or line.guard is not None or operands[3] != inmost:
            return False
        reg = operands[0]
        if not isinstance(reg, Reg) or operands[1] != reg or self._saved.get(reg) != operands[2]:
            raise _Wrong("not a merge that can be read", line)
        self._set.pop(reg, None)
        self._gone.add(at)
        return True

    # ------------------------------------------------------------ predicates

    def _predicates(self, at: int, line: Instruction, inmost: Reg) -> bool:
        """`not.pred b, p; and.pred b, b, in`: the guard of the original and `in` together. Such
        lines are gone."""
        if line.guard is not None or line.modifiers != ("pred",) or line.opcode not in _LOGIC:
            return False
        dest, *sources = line.operands
        if not isinstance(dest, Reg) or self._is_old(dest):
            return False
        if line.opcode == "not" and isinstance(sources[0], Reg) and self._is_old(sources[0]):
            self._lasts(line, True)
            self._turned = (sources[0], at)
            return False
        if line.opcode != "and" or inmost not in sources:
            return False
        other = sources[0] if sources[1] == inmost else sources[1]
        if not isinstance(other, Reg):
            return False
        turned = self._turned if self._turned is not None and self._turned[1] == at - 1 else None
        self._lasts(line, True)
        self._with.add(dest)
        if turned is not None and other == dest:
            self._guards[dest] = Guard(turned[0], True)
            self._gone |= {at, turned[1]}
        elif self._is_old(other):
            self._guards[dest] = Guard(other, False)
            self._gone.add(at)
        else:
            self._put[at] = line._replace(opcode="mov", operands=(dest, other), modifiers=("pred",))
        return True

    def _follow(self, line: Instruction, inmost: Reg) -> None:
        """What an added predicate says of who takes part."""
        if line.guard is not None:
            return
        dest = line.operands[0] if line.operands else None
        if line.opcode == "bra":
            return
        if not isinstance(dest, Reg) or self._is_old(dest):
            return
        sources = line.operands[1:]
        if _is(line, "vote.sync.ballot.b32", dest, inmost, Int(-1)):
            self._mask = dest
        elif line.opcode == "setp" and line.modifiers[0] == "ne" and sources[:2] == (
            self._mask, Int(-1),
        ) and line.modifiers[1:-1] in ((), ("or",)):  # fmt: skip
            self._full.add(dest)
        elif line.modifiers == ("pred",) and line.opcode == "or":
            if any(s in self._full for s in sources):
                self._full.add(dest)
        elif line.modifiers == ("pred",) and line.opcode == "not":
            if sources[0] in self._full:
                self._with.add(dest)
        elif line.name == "and.pred" and any(s in self._with for s in sources):
            self._with.add(dest)

    # ------------------------------------------------------------ for lanes that take part

    def _read_on(self, at: int, line: Instruction, inmost: Reg, guard: Guard | None) -> None:
        """How a line reads where `in` is true; `guard` is what stands for its own."""
        loop = self._loops[-1].loop
        put = self._put.get(at, line)
        if line.opcode == "bra":
            self._branch(line)
        elif line.opcode == "activemask":
            raise _Wrong("lanes that have left the loop are active, too", line)
        elif line.opcode == "vote" and self._mask == line.operands[0]:
            if self._copies:
                raise _Wrong("not all lanes come to a ballot in a copy of a stretch", line)
            put = line._replace(opcode="activemask", modifiers=("b32",), operands=line.operands[:1])
            self.collective[line.span.start] = loop
        elif line.opcode in ("shfl", "vote") and line.operands[-1] == Int(-1):
            self.collective[line.span.start] = loop
            if self._mask is not None:
                put = line._replace(operands=(*line.operands[:-1], self._mask))
        if line.guard is not None:
            if line.guard.reg == inmost and not line.guard.negated:
                put = put._replace(guard=None)
            elif guard is not None and not line.guard.negated:
                put = put._replace(guard=guard)
        if any(reg in self._names for reg in isa.uses(put)) or any(
            reg in self._names for reg in defs(put)
        ):
            raise _Wrong("who takes part in the loop is used in a way that is not known", line)
        if put is not line:
            self._put[at] = put

    def _branch(self, line: Instruction) -> None:
        """An added branch begins a stretch that is there twice: the first copy may be for when all
        lanes take part, and ends with a branch behind the second."""
        added = _target(line) not in self._labels
        guard = line.guard
        self._all_in = added and guard is not None and not guard.negated and guard.reg in self._full
        if added and guard is not None:
            self._copies, self._done = True, None
        elif added:
            self._done = _target(line)

    def _is_old(self, reg: Reg) -> bool:
        return self._first.declaration(reg) is not None


_LOGIC = ("and", "not")
_PLACED = frozenset({"param", "const"})


def _touches(line: Instruction) -> bool:
    """Does it touch memory at an address that may be wrong in a lane that has left?"""
    if isa.space(line) is None:
        return False
    addresses = [o.base for o in line.operands if isinstance(o, Mem)]
    return isa.space(line) not in _PLACED or not all(isinstance(a, Symbol) for a in addresses)


def _is(line: Instruction, name: str, *operands: Operand) -> bool:
    """Is it this very instruction, unguarded?"""
    return line.guard is None and line.name == name and line.operands == operands


def _target(line: Instruction) -> str | None:
    target = line.operands[-1] if line.operands else None
    return target.name if isinstance(target, Symbol) else None
