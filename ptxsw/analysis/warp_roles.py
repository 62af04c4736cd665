"""Roles of warps: which warps run which loops, where a kernel divides its work among them.

    setp.ne.s32 %p1, %r3, 0;        %r3 is the number of the warp
    @%p1 bra CONSUMERS;
    LOAD: ...                       warp 0
    CONSUMERS:
    MULTIPLY: ...                   warps 1 to 4

Each warp is sent through the flow graph for itself: a branch whose predicate the number of the warp
decides lets it go one way alone. A branch by a table (`brx.idx`) whose index the warp finds in
shared memory leads to where the numbers lead that the kernel stores there, as literals, which is
how Triton tells its warps what to do. (Stores at computed addresses are taken to lie elsewhere.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from math import prod
from operator import and_, or_
from typing import NamedTuple

from msgspec import Struct

from ptxsw.analysis.coalescing import LANES
from ptxsw.analysis.register_terms import RegisterTerms, backward_slice
from ptxsw.analysis.warps import REGISTERS, Block, Columns, WarpColumns, WarpLanes, Warps
from ptxsw.flow.cfg import Cfg, build
from ptxsw.flow.loop_exits import waits_for_mbarrier
from ptxsw.ptx import isa
from ptxsw.ptx.ir import (
    Function,
    Instruction,
    Int,
    Mem,
    Module,
    Operand,
    Reg,
    Symbol,
    flatten,
    type_width,
)
from ptxsw.ptx.target import MOST_THREADS
from ptxsw.terms import op
from ptxsw.terms.node import Term, unknowns
from ptxsw.terms.origin import Origin

_LARGEST = 500  # nodes of a predicate that is evaluated
_BYTE = 8  # bits
_WAYS = 2  # that a branch with a predicate has


class Role(Struct, frozen=True):
    """Warps of a block, by their numbers, that run the same loops: `loops` are the headers of the
    innermost ones, in the order of the code. `blocks` is all the code that some of them may run."""

    warps: tuple[int, ...]
    loops: tuple[int, ...]
    blocks: frozenset[int]


def warp_roles(module: Module, function: Function, block: Block | None) -> tuple[Role, ...]:
    """The roles of the warps of a block of such a shape (None: of any), by their first warp. None
    at all where no two warps run loops of their own."""
    cfg = build(function.body)
    loops = working_loops(cfg)
    if len(loops) < _WAYS:
        return ()
    shape = block or (function.most_threads or MOST_THREADS, 1, 1)
    reached = _Reached(module, function, shape).blocks()
    count = -(-prod(shape) // LANES)
    ran = [frozenset(h for h in loops if reached.get(h, 0) >> warp & 1) for warp in range(count)]
    if not any(a and b and a.isdisjoint(b) for a in set(ran) for b in set(ran)):
        return ()
    roles: dict[object, list[int]] = {}
    for warp, own in enumerate(ran):
        roles.setdefault(own, []).append(warp)
    return tuple(
        Role(
            tuple(warps), tuple(header for header in loops if header in ran[warps[0]]),
            frozenset(n for n, mask in reached.items() if any(mask >> w & 1 for w in warps)),
        )
        for warps in roles.values()
    )  # fmt: skip


def working_loops(cfg: Cfg, without: frozenset[int] = frozenset()) -> tuple[int, ...]:
    """The headers of the innermost loops in the order of the code, those left out that do nothing
    but wait for an mbarrier, and those of some blocks."""
    working = {
        header: loop
        for header, loop in cfg.loops.items()
        if header not in without and not waits_for_mbarrier(cfg, loop)
    }
    around = {loop.parent for loop in working.values()}
    return tuple(sorted((h for h in working if h not in around), key=lambda h: cfg.blocks[h].start))


class _Masks(NamedTuple):
    """Of a predicate: the warps in which it may be true, and those in which it may be false."""

    true: int
    false: int


class _Reached:
    """The warps that may come to each block, as a mask of their numbers."""

    def __init__(self, module: Module, function: Function, shape: Block) -> None:
        self._cfg = cfg = build(function.body)
        self._lanes = WarpLanes((shape,), -(-prod(shape) // LANES))
        self._all = (1 << len(self._lanes.warps)) - 1
        self._columns = WarpColumns(self._lanes, self._known)
        ends = [cfg.instructions[b.end - 1] for b in cfg.blocks if b.end > b.start]
        guards = [one.guard.reg for one in ends if one.guard is not None]
        tables = [one.operands[0] for one in ends if one.opcode == "brx"]
        wanted = [*guards, *(table for table in tables if isinstance(table, Reg))]
        self._registers = RegisterTerms(module, function, wanted, Warps(shape).uniform)
        self._found = dict(self._found_in_memory(wanted))

    def blocks(self) -> Mapping[int, int]:
        cfg, reached, work = self._cfg, {0: self._all}, [0]
        ways = {n: dict(self._ways(n)) for n in cfg.order}
        while work:
            number = work.pop()
            for successor, mask in ways[number].items():
                known = reached.get(successor, 0)
                more = known | (reached[number] & mask)
                if more != known:
                    reached[successor] = more
                    work.append(successor)
        return reached

    def _ways(self, number: int) -> Mapping[int, int]:
        """The blocks behind a block, and which warps may go there."""
        block = self._cfg.blocks[number]
        last = self._cfg.instructions[block.end - 1] if block.end > block.start else None
        if last is not None and last.opcode == "brx" and last.guard is None and block.table:
            index = self._registers.read(last.operands[0])
            return {target: self._leading(index, block.table, target) for target in block.table}
        ways = dict.fromkeys(block.successors, self._all)
        if last is not None and last.guard is not None and len(ways) in (1, _WAYS):
            masks = self._possible(self._registers.read(last.guard.reg))
            taken, passed = reversed(masks) if last.guard.negated else masks
            if len(ways) == _WAYS:
                return dict(zip(block.successors, (taken, passed), strict=True))
            if last.opcode != "bra":  # whoever does not leave goes on
                return dict.fromkeys(ways, passed)
        return ways

    def _leading(self, index: Term, table: tuple[int, ...], target: int) -> int:
        """The warps whose index may lead to a block of a table."""
        terms, total = self._registers.terms, 0
        for number, one in enumerate(table):
            if one == target:
                total |= self._possible(terms.eq(index, terms.const(number, index.width))).true
        return total

    # ------------------------------------------------------------ predicates

    def _possible(self, term: Term) -> _Masks:
        leaves = [leaf for leaf in unknowns(term) if not self._is_known(leaf)]
        if term.width != 1 or term.size > _LARGEST:
            return _Masks(self._all, self._all)
        if not leaves:
            return self._evaluated(term, self._columns)
        if len(leaves) == 1 and leaves[0] in self._found:
            return self._for_each(term, leaves[0])
        if term.kind not in (op.NOT, op.AND, op.OR):
            return _Masks(self._all, self._all)
        parts = [self._possible(part) for part in term.args]
        true, false = [part.true for part in parts], [part.false for part in parts]
        if term.kind is op.NOT:
            return _Masks(false[0], true[0])
        if term.kind is op.AND:
            return _Masks(reduce(and_, true), reduce(or_, false))
        return _Masks(reduce(or_, true), reduce(and_, false))

    def _evaluated(self, term: Term, columns: WarpColumns) -> _Masks:
        true = false = 0
        for warp, values in enumerate(self._of_warps(term, columns)):
            true |= any(values) << warp
            false |= (not all(values)) << warp
        return _Masks(true, false)

    def _of_warps(self, term: Term, columns: WarpColumns) -> Iterator[tuple[int, ...]]:
        """The values of a term in the lanes of each warp."""
        (column,) = columns.of(term)
        return self._lanes.requests(column, None)

    def _for_each(self, term: Term, leaf: Term) -> _Masks:
        """Of a term with one part that a warp finds in memory, for all that it may find."""
        true = false = 0
        for value, mask in self._found[leaf].items():
            columns = WarpColumns(self._lanes, self._known, {leaf: value})
            masks = self._evaluated(term, columns)
            true, false = true | masks.true & mask, false | masks.false & mask
        return _Masks(true, false)

    @staticmethod
    def _is_known(leaf: Term) -> bool:
        return leaf.kind is op.ATOM and leaf.value in REGISTERS

    def _known(self, leaf: Term) -> Columns:
        return (self._lanes.register(leaf.value) if self._is_known(leaf) else (0,),)

    # ------------------------------------------------------------ what warps find in memory

    def _found_in_memory(self, wanted: Iterable[Reg]) -> Iterator[tuple[Term, dict[int, int]]]:
        """Of bytes that are loaded from shared memory the values that literals leave there, each
        with the warps that may find it."""
        for index in sorted(backward_slice(self._cfg, wanted, self._cfg.sole_writers)):
            match self._cfg.instructions[index]:
                case Instruction(opcode="ld", operands=(Reg() as into, Mem(base, offset))) as load:
                    leaves = unknowns(self._registers.read(into))
                    byte = type_width(isa.access_type(load) or "") == _BYTE
                    if byte and isa.space(load) == "shared" and len(leaves) == 1:
                        found = self._values_at(self._registers.read(base), offset)
                        yield from [(leaves[0], found)] if found else []
                case _:
                    pass

    def _values_at(self, base: Term, offset: int) -> dict[int, int]:
        """The values that may stand at an address in an array, each with the warps whose address it
        is; none where not each warp's is known."""
        arrays = [leaf for leaf in unknowns(base) if leaf.origin is Origin.SYMBOL]
        if len(arrays) != 1 or not all(map(self._is_known, {*unknowns(base)} - {*arrays})):
            return {}
        bytes_, found, missing = _literals(self._cfg, arrays[0].of[0]), dict[int, int](), 0
        for warp, places in enumerate(self._of_warps(base, self._columns)):
            for place in {*places}:
                values = bytes_.get(place + offset, frozenset())
                missing |= (not values) << warp
                for value in values:
                    found[value] = found.get(value, 0) | 1 << warp
        every = range(1 << _BYTE) if missing else found
        return {value: found.get(value, 0) | missing for value in every}


def _literals(cfg: Cfg, array: str) -> Mapping[int, frozenset[int]]:
    """The bytes that stores to an array by its name leave there, by their places in it; all that
    there are where one stores no literal."""
    found: dict[int, frozenset[int]] = {}
    for one in cfg.instructions:
        match one:
            case Instruction(opcode="st", operands=(Mem(Symbol(name, more, _), offset), stored)):
                if name == array:
                    for at, bytes_ in enumerate(_bytes(one, stored), more + offset):
                        found[at] = found.get(at, frozenset()) | bytes_
            case _:
                pass
    return found


def _bytes(store: Instruction, stored: Operand) -> Iterator[frozenset[int]]:
    """What each byte of a store may be."""
    width = type_width(isa.access_type(store) or "")
    for value in flatten((stored,)):
        if isinstance(value, Int):
            data = (value.value & (1 << width) - 1).to_bytes(width // _BYTE, "little")
            yield from (frozenset({byte}) for byte in data)
        else:
            yield from [frozenset(range(1 << _BYTE))] * (width // _BYTE)
