"""The control flow of a body of PTX.

Branches, returns and exits end a block, guarded or not; barriers do not, nor do calls, but of
functions that say `.noreturn`: what stands behind is not reached through them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from ptxsw.flow.def_use import writers, written_and_read
from ptxsw.flow.flow_graph import Block, FlowGraph, reverse_postorder
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Body, Directive, Instruction, Int, Label, Operand, Reg, Symbol
from ptxsw.ptx.isa import Trait

_EXITS = isa.opcodes(Trait.LEAVE)
_JUMPS = isa.opcodes(Trait.JUMP)
_ENDS = _EXITS | _JUMPS


class Cfg(FlowGraph, frozen=True, dict=True):
    """The flow graph of one body of PTX."""

    instructions: tuple[Instruction, ...]

    @cached_property
    def block_of(self) -> tuple[int, ...]:
        """Block number of each instruction."""
        owner = [0] * len(self.instructions)
        for block in self.blocks:
            owner[block.start : block.end] = [block.number] * (block.end - block.start)
        return tuple(owner)

    def indices(self, blocks: Iterable[int]) -> list[int]:
        """The numbers of the instructions in some blocks, in the blocks' order."""
        runs = (self.blocks[number] for number in blocks)
        return [at for block in runs for at in range(block.start, block.end)]

    @cached_property
    def _registers(self) -> tuple[tuple[tuple[Reg, ...], ...], tuple[tuple[Reg, ...], ...]]:
        return written_and_read(self.instructions)

    @cached_property
    def written(self) -> tuple[tuple[Reg, ...], ...]:
        """The registers that each instruction writes, or may write."""
        return self._registers[0]

    @cached_property
    def writers(self) -> Mapping[Reg, Sequence[int]]:
        """The instructions that write each register, in the order of the text."""
        return writers(self.written)

    @cached_property
    def sole_writers(self) -> Mapping[Reg, int]:
        """The instruction that writes a register, for those that one unguarded instruction
        writes."""
        instructions = self.instructions
        return {
            reg: ats[0]
            for reg, ats in self.writers.items()
            if instructions[ats[0]].guard is None and len(set(ats)) == 1
        }

    def literal(self, operand: Operand | None) -> int | None:
        """The number that an operand is, also behind a `mov` into a register that nothing else
        writes."""
        if isinstance(operand, Reg):
            writer = self.sole_writers.get(operand)
            if writer is None or self.instructions[writer].opcode != "mov":
                return None
            operand = self.instructions[writer].operands[-1]
        return operand.value if isinstance(operand, Int) else None

    @cached_property
    def surely_written(self) -> tuple[tuple[Reg, ...], ...]:
        """Those that it overwrites for certain: a guarded write may not happen."""
        pairs = zip(self.instructions, self.written, strict=True)
        return tuple([written if ins.guard is None else () for ins, written in pairs])

    @cached_property
    def read(self) -> tuple[tuple[Reg, ...], ...]:
        """The registers that each instruction reads."""
        return self._registers[1]


def build(body: Body) -> Cfg:
    """The flow graph of a body. An unguarded indirect branch without a known target list goes
    to every label. It is built once for a body and shared, with everything computed from it."""
    kept = vars(body)
    cfg: Cfg | None = kept.get(_GRAPH)
    if cfg is None:
        cfg = kept[_GRAPH] = _built(body)
    return cfg


_GRAPH = "flow graph"


def _built(body: Body) -> Cfg:
    instructions: list[Instruction] = []
    label_at: dict[tuple[str, int], int] = {}  # by name and scope: scopes may repeat a name
    tables: dict[str, list[tuple[str, ...]]] = {}  # scopes may repeat these names, too
    for statement in body.statements:
        match statement:
            case Instruction():
                instructions.append(statement)
            case Label():
                label_at[statement.name, statement.scope] = len(instructions)
            case Directive(name="branchtargets", label=str(label)):
                tables.setdefault(label, []).append(statement.names)
            case _:
                pass
    starts = sorted(
        {0, *label_at.values()}
        | {at + 1 for at, ins in enumerate(instructions) if ends_block(ins) or body.ends_path(ins)}
    )
    # A label behind the last instruction gets an empty block, so that branches there have a
    # target. A branch at the very end falls into nothing: that makes no block.
    last = len(instructions)
    labelled_end = last in label_at.values()
    starts = [at for at in starts if at < last or (at == last and labelled_end)] or [0]
    block_at = {at: number for number, at in enumerate(starts)}
    labels: dict[int, list[str]] = {}
    for (name, _), at in label_at.items():
        labels.setdefault(at, []).append(name)
    blocks = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(instructions)
        run = instructions[start:end]
        targets = _targets(run, label_at, tables, end) if start < last else []
        if run and run[-1].guard is None and body.ends_path(run[-1]):
            targets = []
        table = _table(instructions[start:end], label_at, tables)
        blocks.append(
            Block(
                number,
                start,
                end,
                tuple(labels.get(start, ())),
                tuple(dict.fromkeys(block_at[t] for t in targets if t in block_at)),
                tuple(block_at[t] for t in table),
            )
        )
    successors = {b.number: list(b.successors) for b in blocks}
    return Cfg(tuple(blocks), tuple(reverse_postorder(0, successors)), tuple(instructions))


def ends_block(instruction: Instruction) -> bool:
    """Does control never simply fall into the next instruction?"""
    return instruction.opcode in _ENDS


def _targets(
    run: Sequence[Instruction],
    label_at: Mapping[tuple[str, int], int],
    tables: Mapping[str, Sequence[tuple[str, ...]]],
    end: int,
) -> list[int]:
    """Instruction positions control may go to after a run; the taken side of a branch first."""
    if not run or not ends_block(run[-1]):
        return [end]
    last = run[-1]
    fall = [end] if last.guard is not None else []
    if last.opcode in _EXITS:
        return fall
    symbols = [o for o in last.operands if isinstance(o, Symbol)]
    if last.opcode == "brx":
        # Tables are found by name alone, in whichever scope: more successors than there are is
        # safe, fewer would not be.
        targets = [n for s in symbols for names in tables.get(s.name, ()) for n in names]
        named = dict.fromkeys(targets or (name for name, _ in label_at))
        return [at for n in named for (name, _), at in label_at.items() if name == n] + fall
    keys = [(s.name, s.scope) for s in symbols]
    return [label_at[key] for key in keys if key in label_at] + fall


def _table(
    run: Sequence[Instruction],
    label_at: Mapping[tuple[str, int], int],
    tables: Mapping[str, Sequence[tuple[str, ...]]],
) -> list[int]:
    """Instruction positions that a closing `brx.idx` goes to, by index; nothing where a name
    has two meanings."""
    if not run or run[-1].opcode != "brx":
        return []
    listed = [t for o in run[-1].operands if isinstance(o, Symbol) for t in tables.get(o.name, ())]
    places = {n: [at for (name, _), at in label_at.items() if name == n] for t in listed for n in t}
    if len(listed) != 1 or any(len(ats) != 1 for ats in places.values()):
        return []
    return [places[name][0] for name in listed[0]]
