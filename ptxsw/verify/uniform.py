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

from msgspec import Struct
from msgspec.structs import replace

from ptxsw import isa
from ptxsw.flow.cfg import Cfg, build
from ptxsw.flow.dataflow import CARRY, Facts, defs, liveness
from ptxsw.ir import Body, Function, Instruction, Int, Label, Operand, Reg
from ptxsw.plan import Plan, UniformLoop
from ptxsw.verify.align import Aligned, Divergence
from ptxsw.verify.participation import Found, Lanes, Mismatch, is_line, target

_JUMPS = isa.opcodes(isa.Trait.JUMP)


class Undone(Struct, frozen=True):
    """A body without its uniform loops, and what was asked of all lanes of a loop."""

    function: Function
    collective: dict[int, UniformLoop]  # ballots and their like, by where they stand in the text

    def gathered(self, plan: Plan, aligned: Sequence[Aligned]) -> Divergence | None:
        """Do all lanes come to what is asked of them all? `aligned` is the body aligned with the
        plan's."""
        for one in aligned:
            loop = self.collective.get(one.instruction.span.start)
            if loop is not None and one.index not in loop.together:
                name = one.instruction.name
                return Divergence(f"not all lanes come to {name} together", one.instruction)
        return None


def new_labels(first: Body, second: Body) -> frozenset[str]:
    """The labels that only the second body has: all branches to others are the first's."""
    old, new = (
        {s.name for s in body.statements if isinstance(s, Label)} for body in (first, second)
    )
    return frozenset(new - old)


def undo(plan: Plan, second: Function) -> Undone | Divergence:
    """`second` without the uniform loops of the plan, as a lane sees it that takes part; or why
    they are not what the plan says."""
    if not plan.loops:
        return Undone(second, {})
    try:
        return _Undoing(plan, second).run()
    except Mismatch as wrong:
        return wrong.apart


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
        self._found: dict[int, Found] = {}  # by header

    def run(self) -> Undone:
        branches = self._branches()
        headers = {loop.header for loop in self._plan.loops}
        for loop in self._plan.loops:
            if not loop.needs <= headers or loop.outer not in {None, *headers}:
                raise Mismatch("a loop is made uniform without those around it or in it")
        for loop in self._plan.loops:  # outer ones first
            self._votes(loop, branches)
        for loop in self._plan.loops:
            if loop.enters is None:
                self._all_in(loop)
        for found in self._found.values():
            self._place(found, branches)
        lanes = Lanes(self._statements, self._first, self._gone, self._put)
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
        added = new_labels(self._first, self._second.body)
        old = [i for i, ins in enumerate(self._first.instructions) if ins.opcode in _JUMPS]
        new = [
            n
            for n, s in enumerate(self._statements)
            if isinstance(s, Instruction) and s.opcode in _JUMPS and target(s) not in added
        ]
        if len(old) != len(new):
            raise Mismatch("the kernels have different branches")
        return dict(zip(old, new, strict=True))

    def _votes(self, loop: UniformLoop, branches: dict[int, int]) -> None:
        """The lines that stand for the branches of a loop."""
        leave = self._first.instructions[loop.leave]
        at = branches[loop.leave]
        inside, go, at = self._vote(loop, at, leave, loop.stays)
        self._found[loop.header] = Found(loop, inside, go)
        assert leave.guard is not None
        last = self._line(at - 1)
        stay = last.operands[-1] if last.operands else None
        if not isinstance(stay, Reg) or not is_line(last, "and.pred", inside, inside, stay):
            raise Mismatch("lanes do not leave the loop for good", last)
        self._gone.add(at - 1)
        if leave.guard.negated == loop.stays:
            turned = self._line(at - 2)
            if not is_line(turned, "not.pred", stay, leave.guard.reg):
                raise Mismatch("lanes do not leave the loop when they should", turned)
            self._gone.add(at - 2)
        elif stay != leave.guard.reg:
            raise Mismatch("lanes do not leave the loop when they should", last)
        if loop.enters is not None:
            self._begun(loop, branches[loop.start], inside, go)

    def _begun(self, loop: UniformLoop, at: int, inside: Reg, go: Reg) -> None:
        """`in` starts as what the branch before the loop decides."""
        branch = self._first.instructions[loop.start]
        assert branch.guard is not None and loop.enters is not None
        again, voted, at = self._vote(loop, at, branch, loop.enters)
        if (again, voted) != (inside, go):
            raise Mismatch("two predicates tell who takes part in the loop", self._line(at))
        if loop.outer is not None:
            at -= 1
            outer = self._found[loop.outer].inside
            if not is_line(self._line(at), "and.pred", inside, inside, outer):
                raise Mismatch("lanes enter that have left the loop around", self._line(at))
            self._gone.add(at)
        operation = "mov.pred" if loop.enters != branch.guard.negated else "not.pred"
        if not is_line(self._line(at - 1), operation, inside, branch.guard.reg):
            raise Mismatch("not those lanes enter the loop that should", self._line(at - 1))
        self._gone.add(at - 1)

    def _vote(
        self, loop: UniformLoop, at: int, branch: Instruction, into: bool
    ) -> tuple[Reg, Reg, int]:
        """The vote that drives a branch: its predicate, its result, and where it stands. The
        branch is put back."""
        new = self._line(at)
        if new.operands != branch.operands or new.guard is None or new.guard.negated == into:
            raise Mismatch("the branch is not one of all lanes", new)
        vote = at - 1
        while self._starts_other(self._line(vote), loop):
            vote -= 1
        line, go = self._line(vote), new.guard.reg
        inside = line.operands[1] if len(line.operands) == 3 else None
        if not isinstance(inside, Reg) or not is_line(
            line, "vote.sync.any.pred", go, inside, Int(-1)
        ):
            raise Mismatch("the branch is not driven by a vote of all lanes", line)
        if not (self._is_new(inside) and self._is_new(go)):
            raise Mismatch("the vote is over a register of the original", line)
        self._gone.add(vote)
        self._put[at] = branch._replace(start=new.start, end=new.end)
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
        if len(starts) != 1 or not is_line(self._line(starts[0]), "mov.pred", found.inside, value):
            line = self._line(starts[0]) if starts else None
            raise Mismatch("it is not once that lanes start to take part in the loop", line)
        self._gone.add(starts[0])
        found.start = starts[0]

    # ------------------------------------------------------------ where it lies

    def _place(self, found: Found, branches: dict[int, int]) -> None:
        """The blocks that lanes run without taking part, and what is read behind them."""
        loop, cfg = found.loop, self._cfg
        leave = self._block(branches[loop.leave])
        header = cfg.loop_of.get(leave)
        if header is None or [source for source, _ in cfg.loops[header].exits] != [leave]:
            raise Mismatch("the loop is not left by one branch", self._line(branches[loop.leave]))
        inner = cfg.loops[header]
        outside = [p for p in cfg.predecessors[header] if p not in inner.blocks]
        if loop.enters is None:
            start = found.start
            if outside != [self._block(start)]:
                raise Mismatch("lanes start to take part elsewhere", self._line(start))
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
            raise Mismatch("the loop is entered from elsewhere")
        return frozenset(seen)

    def _after_outer(self, found: Found, start: int) -> None:
        """Where a lane leaves the loop around in the same block, it has left before."""
        if found.loop.outer is None:
            return
        outer = self._found[found.loop.outer].inside
        block = self._cfg.blocks[self._block(start)]
        for number, index in self._number.items():
            later = number > start and block.start <= index < block.end
            if later and outer in defs(self._line(number)):
                raise Mismatch("lanes enter that have left the loop around", self._line(start))

    def _read_behind(self, loop: UniformLoop) -> Facts:
        """Registers of the original that are read behind a loop."""
        block = self._old_cfg.blocks[self._old_cfg.block_of[loop.leave]]
        after = block.successors[1 if loop.stays else 0]
        return self._old_live[after]

    def _clears(self, found: Found, branches: dict[int, int]) -> None:
        """Registers are cleared only at the start, and only such as nobody reads there."""
        loop = found.loop
        if not loop.cleared:
            return
        if loop.enters is None:
            start = found.start
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
                    raise Mismatch(f"{dest} is cleared and read", line)
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
            raise Mismatch("lines of a uniform loop are missing")
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

    def _loop_around(self, run: list[int]) -> list[Found]:
        """The uniform loops around a block, outer ones first."""
        block = self._block(run[0])
        around = [found for found in self._found.values() if block in found.blocks]
        return sorted(around, key=lambda found: -len(found.blocks))
