"""The second text under the names of the first: what a register, label or parameter is called means
nothing.

    first text                      second text, and its names here
    add.s32 %r5, %r1, %r2;          add.s32 %x9, %x3, %x4;     %x9 is %r5
    $L__BB0_2:                      LOOP:                      LOOP is $L__BB0_2

Parameters and variables correspond in their order, labels where blocks that look alike stand in
the same order, registers where equal instructions have computed them from such registers. All
else gets names that the first text does not have. Names are only changed one to one, so whatever
is guessed here, the second text stays what it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from ptxsw.flow.cfg import Cfg, build
from ptxsw.flow.dataflow import CARRY
from ptxsw.ptx import isa
from ptxsw.ptx.ir import (
    Body,
    Directive,
    Function,
    Guard,
    Instruction,
    Label,
    Module,
    Operand,
    Reg,
    Statement,
    Symbol,
    Variable,
    leaves,
)
from ptxsw.ptx.operand import mapped
from ptxsw.validate.evaluate import shape

_MARK = "'"
"""No name of PTX begins so."""
_COMMUTES = frozenset({"add", "mul", "and", "or", "xor", "min", "max"})
_MAX_ROUNDS = 64

Names = Mapping[str, str]
Registers = Mapping[Reg, Reg]


def respelled(
    first: Function, second: Function, module: Module, functions: Names, *, roughly: bool = False
) -> Function:
    """The second kernel, of `module`, with the first one's names; `functions` are those that it may
    call. `roughly`: where nothing closer does, what is loaded may correspond wherever it lies, and
    what equal instructions of blocks that look alike have to do with."""
    symbols = {
        **functions,
        **_variables(first.body, second.body),
        **_in_order(first.params, second.params),
    }
    # What keeps its name must not meet another that gets it.
    kept = {v.name for v in (*module.variables, *second.body.variables)} - symbols.keys()
    kept |= {f.name for f in module.functions} - symbols.keys()
    if len({*symbols.values()} | kept) < len(symbols) + len(kept):
        symbols = {}
    labels = _labels(first.body, second.body)
    registers = _registers(first, second, symbols, roughly)
    body = second.body
    declared = tuple(_declared(body, registers))
    statements = (
        _statement(s, symbols, labels, registers)
        for s in body.statements
        if not (isinstance(s, Variable) and s.space == "reg")
    )
    never = frozenset(symbols.get(name, name) for name in body.never_return)
    renamed = replace(body, statements=(*declared, *statements), never_return=never)
    params = tuple(p._replace(name=symbols.get(p.name, p.name)) for p in second.params)
    signature = second.load_signature()._replace(params=params)
    return replace(second, load_body=lambda _: renamed, load_signature=lambda: signature)


# ---------------------------------------------------------------- parameters, variables, labels


def _in_order(first: Sequence[Variable], second: Sequence[Variable]) -> Names:
    """The second text's names with those that stand at the same places of the first."""
    if len(first) != len(second):
        return {}
    return {b.name: a.name for a, b in zip(first, second, strict=True)}


def _variables(first: Body, second: Body) -> Names:
    """The same of variables in the bodies that no other module knows and that are no registers."""
    own = [
        [v for v in body.variables if v.space not in ("reg", "param") and not v.linkage]
        for body in (first, second)
    ]
    return _in_order(*own)


def _labels(first: Body, second: Body) -> Names:
    """The labels of the second text with those of the first at blocks that look alike, and with
    other names where the first text has labels elsewhere."""
    graphs = build(first), build(second)
    known = {s.name for s in first.others if isinstance(s, Label)}
    names: dict[str, str] = {}
    for a, b in _blocks_alike(*graphs):
        one, other = graphs[0].blocks[a].labels, graphs[1].blocks[b].labels
        names.update(zip(other, one, strict=False))
    tables = [
        [d.label for d in body.others if isinstance(d, Directive) and d.label]
        for body in (first, second)
    ]
    if len(tables[0]) == len(tables[1]):
        names.update(zip(tables[1], tables[0], strict=True))
    taken = set(names.values())
    for name in (*(s.name for s in second.others if isinstance(s, Label)), *tables[1]):
        # A label of the same name stays what it is, if nothing else has its name by now.
        free = name in known and name not in taken
        names.setdefault(name, name if free else f"{_MARK}{name}")
    return names


def _blocks_alike(first: Cfg, second: Cfg) -> Iterator[tuple[int, int]]:
    """Blocks that correspond: first those in which the same is accessed and done, then what lies
    between them by how it ends, then the headers of loops in their order."""
    closely = [
        [_look(cfg, n, closely=True) for n in range(len(cfg.blocks))] for cfg in (first, second)
    ]
    pairs = dict(_aligned(*closely))
    roughly = [
        [_look(cfg, n, closely=False) for n in range(len(cfg.blocks))] for cfg in (first, second)
    ]
    a = b = 0
    for c, d in [*sorted(pairs.items()), (len(roughly[0]), len(roughly[1]))]:
        pairs.update((a + x, b + y) for x, y in _aligned(roughly[0][a:c], roughly[1][b:d]))
        a, b = c + 1, d + 1
    headers = [sorted(cfg.loops) for cfg in (first, second)]
    if len(headers[0]) == len(headers[1]):
        found = set(pairs.values())
        for x, y in zip(*headers, strict=True):
            if x not in pairs and y not in found:
                pairs[x] = y
    yield from pairs.items()


def _aligned(first: Sequence[object], second: Sequence[object]) -> Iterator[tuple[int, int]]:
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for block in matcher.get_matching_blocks():
        yield from ((block.a + at, block.b + at) for at in range(block.size))


def _look(cfg: Cfg, number: int, *, closely: bool) -> tuple[object, ...]:
    """What a block does, but for computing; or only how it ends."""
    block = cfg.blocks[number]
    run = cfg.instructions[block.start : block.end]
    if not closely:
        run = run[-1:] if run and len(block.successors) != 1 else ()
    done = tuple(
        (i.opcode, i.modifiers if closely else ())
        for i in run
        if isa.effects(i.opcode, i.modifiers) or i.opcode in ("bra", "ret", "exit")
    )
    return (bool(block.labels), len(block.successors), number in cfg.loops, *done)


# ---------------------------------------------------------------- registers


class Coloured(Protocol):
    """One text of two, parts of which get numbers that say more in each round."""

    def refine(self) -> None: ...

    @property
    def count(self) -> int:
        """Different numbers."""
        ...


def refine_together(texts: Sequence[Coloured]) -> None:
    """Until no round tells more parts apart."""
    count = -1
    for _ in range(_MAX_ROUNDS):
        for text in texts:
            text.refine()
        now = sum(text.count for text in texts)
        if now == count:
            return
        count = now


def _registers(first: Function, second: Function, symbols: Names, roughly: bool) -> Registers:
    """All registers that the second text names with the names that they get."""
    names: dict[Reg, Reg] = {}
    for places in (True, False) if roughly else (True,):
        texts = [_Colours(first.body, {}, places), _Colours(second.body, symbols, places)]
        refine_together(texts)
        one, other = (text.groups() for text in texts)
        taken = set(names.values())
        for colour, registers in other.items():
            free = (reg for reg in one.get(colour, ()) if reg not in taken)
            names.update(zip((r for r in registers if r not in names), free, strict=False))
    taken = set(names.values())
    for reg, as_ in _beside(first.body, second.body) if roughly else ():
        alike = _type_of(second.body, reg) == _type_of(first.body, as_)
        if alike and reg not in names and as_ not in taken:
            names[reg] = as_
            taken.add(as_)
    for registers in other.values():
        for reg in registers:
            own = f"{_MARK}{reg.name}".replace(".", _MARK)
            names.setdefault(reg, reg if reg == CARRY else Reg(own, reg.scope))
    return names


def _beside(first: Body, second: Body) -> Iterator[tuple[Reg, Reg]]:
    """The registers of the second text beside those of the first in instructions of one opcode,
    which follow each other in blocks that look alike."""
    graphs = build(first), build(second)
    for a, b in _blocks_alike(*graphs):
        runs = [
            g.instructions[g.blocks[n].start : g.blocks[n].end]
            for g, n in zip(graphs, (a, b), strict=True)
        ]
        said = [[(i.opcode, i.modifiers, len(i.operands)) for i in run] for run in runs]
        for x, y in _aligned(*said):
            for one, other in zip(runs[0][x].operands, runs[1][y].operands, strict=True):
                pairs = zip(leaves((one,)), leaves((other,)), strict=False)
                yield from ((n, o) for o, n in pairs if isinstance(o, Reg) and isinstance(n, Reg))


class _Colours:
    """What registers were computed from, as numbers: after some rounds, two registers have one
    number if equal instructions have set them, that far back."""

    def __init__(self, body: Body, symbols: Names, places: bool) -> None:
        """`places`: does it count where a load finds its value?"""
        self._cfg = build(body)
        plain = partial(_leaf, symbols, {}, {})
        self._said: list[tuple[object, ...]] = []
        self._read: list[tuple[Reg, ...]] = []
        for i in self._cfg.instructions:
            anywhere = i.opcode == "ld" and not places and "param" not in i.modifiers
            operands = () if anywhere else tuple(shape(mapped(o, plain)) for o in i.operands)
            negated = None if i.guard is None else i.guard.negated
            self._said.append((i.opcode, i.modifiers, operands, negated))
            read = () if anywhere else tuple(r for r in isa.uses(i) if isinstance(r, Reg))
            self._read.append(read)
        written = self._cfg.written
        order = dict.fromkeys(
            r for at in range(len(written)) for r in (*written[at], *self._read[at])
        )
        self._types = {reg: _type_of(body, reg) for reg in order}
        self._colours = dict(self._types)
        self._defs: dict[Reg, list[tuple[int, int]]] = defaultdict(list)
        for at, registers in enumerate(written):
            for which, reg in enumerate(registers):
                self._defs[reg].append((at, which))
        self._hashed = [hash(said) for said in self._said]

    def refine(self) -> None:
        """Look one instruction farther back."""
        made = [hash((said, *self._sources(at))) for at, said in enumerate(self._hashed)]
        self._colours = {
            reg: hash(
                (
                    self._types[reg],
                    *sorted({hash((made[at], n)) for at, n in self._defs.get(reg, ())}),
                )
            )
            for reg in self._colours
        }

    def _sources(self, at: int) -> Iterable[int]:
        sources = [self._colours[reg] for reg in self._read[at]]
        if self._said[at][0] in _COMMUTES:
            return sorted(sources)
        return sources

    @property
    def count(self) -> int:
        return len(set(self._colours.values()))

    def groups(self) -> Mapping[int, list[Reg]]:
        """The registers of each colour, in the order in which the text names them."""
        groups: dict[int, list[Reg]] = defaultdict(list)
        for reg, colour in self._colours.items():
            groups[colour].append(reg)
        return groups


def _type_of(body: Body, reg: Reg) -> int:
    declared = body.declaration(reg)
    return hash(None if declared is None else declared.type)


def _declared(body: Body, registers: Registers) -> Iterator[Variable]:
    """Declarations of registers under their names here."""
    for reg, name in registers.items():
        old = body.declaration(reg)
        if old is not None:
            plain = name.name.partition(".")[0]  # of a component: the vector's
            yield old._replace(name=plain, scope=name.scope, count=None, vector=1)


# ---------------------------------------------------------------- renaming


def _statement(s: Statement, symbols: Names, labels: Names, registers: Registers) -> Statement:
    match s:
        case Instruction():
            leaf = partial(_leaf, symbols, labels, registers)
            guard = s.guard
            if guard is not None:
                guard = Guard(registers.get(guard.reg, guard.reg), guard.negated)
            operands = tuple(mapped(o, leaf) for o in s.operands)
            return s._replace(operands=operands, guard=guard)
        case Label():
            return s._replace(name=labels.get(s.name, s.name))
        case Variable():
            return s._replace(name=symbols.get(s.name, s.name))
        case Directive():
            names = tuple(labels.get(n, symbols.get(n, n)) for n in s.names)
            label = None if s.label is None else labels.get(s.label, s.label)
            return replace(s, names=names, label=label)
        case _:
            return s


def _leaf(symbols: Names, labels: Names, registers: Registers, operand: Operand) -> Operand:
    match operand:
        case Reg():
            return registers.get(operand, operand)
        case Symbol(name, offset, scope):
            return Symbol(labels.get(name, symbols.get(name, name)), offset, scope)
    return operand
