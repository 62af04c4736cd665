"""The form `uniform`: a loop that lanes leave in different iterations, driven by a vote of all
lanes.

    setp.ge.s32 %p2, %r3, %r4;             setp.ge.s32 %p2, %r3, %r4;
    @%p2 bra $EXIT;                        not.pred %sw_in1, %p2;
                                           vote.sync.any.pred %sw_go1, %sw_in1, -1;
                                           @!%sw_go1 bra $EXIT;
    $LOOP:                                 $LOOP:
    ld.global.nc.f32 %f1, [%rd6];    =>    @%sw_in1 ld.global.nc.f32 %f1, [%rd6];
    add.f32 %f2, %f2, %f1;                 @%sw_in1 add.f32 %f2, %f2, %f1;
    add.s32 %r3, %r3, %r6;                 add.s32 %r3, %r3, %r6;
    setp.lt.s32 %p3, %r3, %r4;             setp.lt.s32 %p3, %r3, %r4;
    @%p3 bra $LOOP;                        and.pred %sw_in1, %sw_in1, %p3;
                                           vote.sync.any.pred %sw_go1, %sw_in1, -1;
                                           @%sw_go1 bra $LOOP;
    $EXIT:                                 $EXIT:
    st.global.f32 [%rd9], %f2;             st.global.f32 [%rd9], %f2;

`%sw_in1` is true in the lanes that would be in the loop. The others go round with them: the vote
has the literal member mask because all lanes that have not exited come to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from ptxsw.changes.plan import Plan, UniformLoop
from ptxsw.codegen.builder import Insertions, Names
from ptxsw.flow.cfg import ends_block
from ptxsw.parser.scan import blank_comments
from ptxsw.ptx.ir import Guard, Instruction, Reg, Symbol
from ptxsw.ptx.patterns import pattern

_GUARD = pattern(r"@\s*!?\s*[^\s!]+\s+")


class Uniform(Struct, dict=True):
    """Writes the uniform loops of a plan, and names their predicates."""

    names: Names
    plan: Plan
    text: str
    _in: dict[int, str] = field(default_factory=dict)  # by header
    _go: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for loop in self.plan.loops:
            self._in[loop.header] = self.names.new("in", "pred")
            self._go[loop.header] = self.names.new("go", "pred")

    def predicate(self, index: int) -> str | None:
        """True in the lanes that take part in the uniform loop around an instruction; None where
        there is no such loop."""
        loop = self.plan.loop_around.get(index)
        return None if loop is None else self._in[loop.header]

    def lasting(self, index: int) -> str | None:
        """The predicate under which an instruction must be made because its result is read
        behind the loop; None where it need not."""
        loop = self.plan.loop_around.get(index)
        return self._in[loop.header] if loop is not None and index in loop.lasting else None

    def outlives(self, load: int) -> str | None:
        """The predicate under which a load's value must be kept, because a load behind its loop
        takes it; None where it need not."""
        loop = self.plan.loop_around.get(load)
        if loop is None or all(loop.header in self._around(dest) for dest in self._takers(load)):
            return None
        return self._in[loop.header]

    def _takers(self, load: int) -> Iterator[int]:
        for rewrite in self.plan.rewrites:
            if any(part.source == load for part in rewrite.parts):
                yield rewrite.dest

    def _around(self, index: int) -> Iterator[int]:
        """The headers of the uniform loops around an instruction."""
        outer = {loop.header: loop.outer for loop in self.plan.loops}
        loop = self.plan.loop_around.get(index)
        header = None if loop is None else loop.header
        while header is not None:
            yield header
            header = outer[header]

    def write(self, lines: Insertions) -> None:
        """Put the votes and guards of all loops into lines."""
        for loop in self.plan.loops:
            if loop.enters is not None:
                branch = self.plan.instructions[loop.start]
                lines.replace(loop.start, *self._begun(loop, branch, loop.enters))
            lines.replace(loop.leave, *self._left(loop, self.plan.instructions[loop.leave]))
            for index in sorted(loop.under):
                self._guard(lines, index, self._in[loop.header])
        # In a second pass, since an inner loop may start at a branch that the first has replaced.
        for loop in self.plan.loops:
            if loop.enters is None:
                self._at_start(lines, loop, self._all_in(loop))
            self._at_start(lines, loop, *map(self._clear, loop.cleared))

    # ------------------------------------------------------------ votes

    def _begun(self, loop: UniformLoop, branch: Instruction, enters: bool) -> Iterator[str]:
        """In place of the branch that takes lanes past the loop."""
        predicate = self._in[loop.header]
        assert branch.guard is not None, branch
        yield _taken(predicate, branch.guard, enters)
        if loop.outer is not None:
            yield f"and.pred {predicate}, {predicate}, {self._in[loop.outer]};"
        yield from self._vote(loop, branch, enters)

    def _left(self, loop: UniformLoop, branch: Instruction) -> Iterator[str]:
        """In place of the branch by which lanes leave the loop."""
        predicate = self._in[loop.header]
        assert branch.guard is not None, branch
        # The guard selects the lanes that branch; wanted are those that stay in the loop.
        if branch.guard.negated == loop.stays:
            stay = self.names.new("stay", "pred")
            yield _taken(stay, branch.guard, loop.stays)
        else:
            stay = branch.guard.reg.name
        yield f"and.pred {predicate}, {predicate}, {stay};"
        yield from self._vote(loop, branch, loop.stays)

    def _vote(self, loop: UniformLoop, branch: Instruction, into: bool) -> Iterator[str]:
        """Go into the loop, or on in it, if any lane wants to: by the branch's taken side, or by
        the other."""
        go = self._go[loop.header]
        target = branch.operands[0]
        assert isinstance(target, Symbol), branch
        yield f"vote.sync.any.pred {go}, {self._in[loop.header]}, -1;"
        yield f"@{'' if into else '!'}{go} bra {target.name};"

    def _all_in(self, loop: UniformLoop) -> str:
        """Every lane that takes part in the loop around takes part in this one."""
        value = "-1" if loop.outer is None else self._in[loop.outer]
        return f"mov.pred {self._in[loop.header]}, {value};"

    def _clear(self, reg: Reg) -> str:
        width = self.plan.function.body.width(reg)
        return f"mov.{'pred' if width == 1 else f'b{width}'} {reg.name}, 0;"

    def _at_start(self, lines: Insertions, loop: UniformLoop, *added: str) -> None:
        """Put lines where the loop's predicate starts: before the branch there, and behind its
        vote, if it has become one."""
        if loop.start in lines.replaced:
            replaced = lines.replaced[loop.start]
            replaced[-1:-1] = added  # before the last line, which is the branch
        elif ends_block(self.plan.instructions[loop.start]):
            lines.put_before(loop.start, *added)
        elif added:
            lines.put_after(loop.start, *added)

    # ------------------------------------------------------------ guards

    def _guard(self, lines: Insertions, index: int, predicate: str) -> None:
        instruction = self.plan.instructions[index]
        if instruction.guard is None:
            lines.guards[index] = predicate
            return
        # PTX takes one guard: two conditions need a predicate of their own.
        both = self.names.new("both", "pred")
        own = instruction.guard.reg.name
        if instruction.guard.negated:
            lines.put_before(index, f"not.pred {both}, {own};")
            own = both
        lines.put_before(index, f"and.pred {both}, {own}, {predicate};")
        text = blank_comments(self.text[instruction.start : instruction.end])
        lines.replace(index, f"@{both} {_GUARD.sub('', text, count=1)}")


def _taken(register: str, guard: Guard, taken: bool) -> str:
    """Set a predicate in the lanes that a guarded branch takes, or in the others."""
    operation = "mov" if taken != guard.negated else "not"
    return f"{operation}.pred {register}, {guard.reg.name};"
