"""What warps ask of the banks of shared memory, address by address, for a choice of layouts.

`traffic` counts one worst warp for a report. Here whole addresses of several warps are kept, lanes
that the conditions of the access leave out are left out, and what only the run knows is tried with
a few values: for the iterations of a loop the first ones, and powers of two for a register that it
doubles or halves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from random import Random

from msgspec import Struct

from ptxsw.analysis.banks import Banks, Passes, passes, wavefronts
from ptxsw.analysis.coalescing import LANES, Offsets
from ptxsw.analysis.traffic import lane_bytes
from ptxsw.analysis.trip_count import times_in_loops
from ptxsw.analysis.warps import REGISTERS, Block, Columns, WarpColumns, WarpLanes
from ptxsw.changes.permutation import ROW
from ptxsw.emulator.trace import Access, Trace
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx.ir import Instruction, Int, Reg, Symbol, Variable, leaves
from ptxsw.ptx.target import MOST_THREADS
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, walk
from ptxsw.terms.origin import Origin

_WARPS = 4  # looked at in each block
_FEW = 300  # accesses; of kernels with more one warp is looked at
_ITERATIONS = 10  # of a loop
_FACTORS = (1, 2, 32)  # of values for what only the run knows: some are whole rows of banks
_MOST_BITS = 33  # by which an index is shifted
_LARGEST = 2000  # nodes of a term that is evaluated
_STEPS = frozenset({"shl", "shr"})
_COPIES = frozenset({"mov", "cvt"})


# ---------------------------------------------------------------- arrays and blocks


def shared_arrays(trace: Trace) -> tuple[Variable, ...]:
    """The variables in shared memory that the kernel names."""
    declared = (*trace.module.variables, *trace.function.body.variables)
    body = trace.module.source.text[trace.function.body.span.start : trace.function.body.span.end]
    arrays = {(v.name, v.scope): v for v in declared if v.space == "shared" and v.name in body}
    unnamed = set(arrays)
    for instruction in trace.cfg.instructions:
        if not unnamed:
            break
        for leaf in leaves(instruction.operands):
            if isinstance(leaf, Symbol):
                unnamed.discard((leaf.name, leaf.scope))
    return tuple(array for key, array in arrays.items() if key not in unnamed)


def atom(array: Variable) -> str:
    """The name of an array's address among terms."""
    return f"&{array.name}@{array.scope}" if array.scope else f"&{array.name}"


def places(arrays: Sequence[Variable]) -> tuple[dict[str, int], int | None]:
    """Offsets for arrays: whole rows one behind the other, what is dynamic at the end; and where
    shared memory ends, if that is known."""
    offsets: dict[str, int] = {}
    at = 0
    for array in sorted(arrays, key=attrgetter("is_dynamic")):
        offsets[atom(array)] = at
        if not array.is_dynamic:
            at += -(-array.size // ROW) * ROW
    return offsets, None if any(array.is_dynamic for array in arrays) else at


def block_shapes(trace: Trace, asked: Block | None) -> tuple[Block, ...]:
    """The shapes of the block to count with: the one that was given, or common ones."""
    if asked is not None:
        return (asked,)
    shared = (access for access in trace.accesses if access.space == "shared")
    addresses = {variant.address for access in shared for variant in access.variants}
    names = (term.value for term in walk(*addresses) if term.kind is op.ATOM)
    plane = any(name in ("%tid.y", "%tid.z") for name in names)
    for name, text in trace.function.directives:
        if name == "maxntid":
            sizes = [int(part) for part in text.replace(",", " ").split() if part.isdigit()]
            x, y, z = (*sizes, 1, 1, 1)[:3]
            # `.maxntid 256` beside uses of %tid.y is only a limit: the launch has some plane.
            if min(x, y, z) > 0 and (y > 1 or not plane):
                return ((x, y, z),)
    return ((32, 8, 1), (16, 16, 1)) if plane else ((256, 1, 1),)


# ---------------------------------------------------------------- requests


class BankTraffic(Struct, frozen=True, dict=True):
    """One shared access of `size` bytes. `weight` is how often a warp makes it, loops taken 16
    times; `requests` are the addresses of some warps, none where they are not known. `members` are
    all that it stands for, where several have become one."""

    access: Access
    weight: float
    requests: tuple[Offsets, ...]
    size: int
    members: tuple[int, ...]

    def wavefronts(self, banks: Banks) -> float:
        """Passes through the banks for one warp on average."""
        if not self.requests:
            return 0.0
        if not banks.exclusive:
            return sum(banks.wavefronts(r, self.size) for r in self.requests) / len(self.requests)
        return banks.total(self.passes) / len(self.requests)

    @cached_property
    def passes(self) -> Passes:
        """The words that are wanted at a time (`bank_passes.passes`)."""
        return passes(self.requests, self.size)


def bank_traffic(
    trace: Trace, blocks: Sequence[Block], places: Mapping[str, int], end: int | None = None,
    only: Collection[int] | None = None, *, likely: bool = False,
) -> tuple[BankTraffic, ...]:  # fmt: skip
    """The shared accesses of a kernel in blocks of some shapes, or `only` some of them; `places`
    are the addresses of its arrays, by the names of their atoms. No lane accesses what lies outside
    them, up to `end`. `likely`: a number of bits that only the run knows is taken to be the least
    that tells the threads of a block apart."""
    shared = [
        a for a in trace.accesses if a.space == "shared" and (only is None or a.index in only)
    ]
    warps = _WARPS if len(shared) <= _FEW else 1
    scene = _Scene(blocks, places, end, trace.cfg.instructions, warps, likely=likely)
    return tuple(_traffic(trace.cfg, access, scene.requests(access)) for access in shared)


def _traffic(cfg: Cfg, access: Access, requests: tuple[Offsets, ...] | None) -> BankTraffic:
    """What is not executed, such as the rest of a loop that nvcc has unrolled and whose iterations
    the block divides, has no weight."""
    weight = 0.0 if requests == () else times(cfg, access.index)
    return BankTraffic(access, weight, requests or (), access.bytes, (access.index,))


def inside_array(trace: Trace, access: Access, block: Block | None) -> tuple[Offsets, ...]:
    """The addresses of an access in some warps, but for lanes that would be outside the one array
    of known size that it is made in; none where that is not known."""
    arrays = shared_arrays(trace)
    leaves = {node.value for v in access.variants for node in walk(v.address)}
    own = [array for array in arrays if atom(array) in leaves]
    if len(own) != 1 or own[0].is_dynamic:
        return ()
    at, _ = places(arrays)
    end = at[atom(own[0])] + own[0].size
    shapes = block_shapes(trace, block)
    scene = _Scene(shapes, at, end, trace.cfg.instructions, _WARPS)
    return scene.requests(access) or ()


def dynamic_bytes(trace: Trace, block: Block | None) -> int:
    """The bytes of dynamic shared memory that a block needs at least: up to the last that an access
    touches whose place depends on the thread alone."""
    arrays = shared_arrays(trace)
    dynamic = {atom(array) for array in arrays if array.is_dynamic}
    at, _ = places(arrays)
    fixed = [
        access
        for access in trace.accesses
        if access.space == "shared" and all(_is_fixed(v.address, dynamic) for v in access.variants)
    ]
    shapes = block_shapes(trace, block)
    scene = _Scene(shapes, at, None, trace.cfg.instructions, MOST_THREADS // LANES)
    start = min((at[name] for name in dynamic), default=0)
    ends = (
        max(request) + (lane_bytes(access) or access.bytes) - start
        for access in fixed
        for request in scene.requests(access) or ()
    )
    return max(ends, default=0)


def _is_fixed(address: Term, dynamic: Collection[str]) -> bool:
    """Is an address in dynamic shared memory, and the same in each iteration of any loop?"""
    leaves = [node for node in walk(address) if node.kind in op.OPAQUE]
    return any(leaf.value in dynamic for leaf in leaves) and all(
        leaf.kind is op.ATOM and (leaf.value in dynamic or leaf.value in REGISTERS)
        for leaf in leaves
    )


def times(cfg: Cfg, index: int) -> float:
    """How often a warp is assumed to execute an instruction."""
    return times_in_loops(len(cfg.loops_around(cfg.block_of[index])))


def changing_by_two(instructions: Iterable[Instruction]) -> frozenset[str]:
    """The names of registers that come back to themselves doubled or halved."""
    edges: dict[str, dict[str, bool]] = {}
    for instruction in instructions:
        operands = instruction.operands
        if not operands or not isinstance(operands[0], Reg):
            continue
        dest, sources = operands[0].name, operands[1:]
        shifted = instruction.opcode in _STEPS and isinstance(sources[-1], Int)
        doubled = instruction.opcode == "add" and len(sources) == 2 and sources[0] == sources[1]
        copied = instruction.opcode in _COPIES and len(sources) == 1
        if (shifted or doubled or copied) and isinstance(sources[0], Reg):
            edges.setdefault(sources[0].name, {})[dest] = shifted or doubled
    return frozenset(name for name in edges if _comes_back(name, edges))


def _comes_back(name: str, edges: Mapping[str, Mapping[str, bool]]) -> bool:
    work = [(name, False)]
    seen = set(work)
    while work:
        at, stepped = work.pop()
        for following, steps in edges.get(at, {}).items():
            state = (following, stepped or steps)
            if state == (name, True):
                return True
            if state not in seen:
                seen.add(state)
                work.append(state)
    return False


class _Scene:
    """What stays the same for all accesses of a kernel."""

    def __init__(
        self,
        blocks: Sequence[Block],
        places: Mapping[str, int],
        end: int | None,
        instructions: Sequence[Instruction],
        warps: int,
        *,
        likely: bool = False,
    ) -> None:
        self._blocks, self._places, self._end = blocks, places, end
        self._instructions, self._likely = instructions, likely
        self._lanes = WarpLanes(tuple(blocks), warps)
        self._columns = WarpColumns(self._lanes, self._value)

    @cached_property
    def _by_two(self) -> frozenset[str]:
        return changing_by_two(self._instructions)

    def requests(self, access: Access) -> tuple[Offsets, ...] | None:
        """The addresses of some warps, none where no lane of them makes the access; None where
        those of one variant are not known."""
        addresses: list[Offsets] = []
        for variant in access.variants:
            conditions = frozenset({variant.guard, *variant.conditions})
            requests = self._variant(variant.address, conditions, access.bytes)
            if requests is None:
                return None
            addresses += requests
        return tuple(addresses)

    def _variant(
        self, address: Term, conditions: frozenset[Term], size: int
    ) -> Collection[Offsets] | None:
        if self._is_left_out(c for c in conditions if self._is_known(c, ())):
            return ()
        leaves = self._made_of(address)
        if leaves is None or not all(map(self._may_be_known, leaves)):
            return None
        free = [t for t in leaves if not self._fixed(t) and not self._steps(t)]
        if not all(_is_uniform(t, block) for t in free for block in self._blocks):
            return None
        tested = frozenset(c for c in conditions if self._is_known(c, leaves))
        taking = self._columns.taking(tested)
        if not free:
            known = dict.fromkeys(self._columns.requests(address, taking))
            inside = known if self._end is None else dict.fromkeys(_below(self._end, known))
            return inside or None
        # By the values that are tried all bits would be shifted out.
        if len(free) == 1 and _counts_bits(free[0], address):
            return self._shifted(free[0], address, tested)
        trials = []
        for factor in _FACTORS:
            chosen = {t: factor * Random(str(n)).randint(1, 64) for n, t in enumerate(free)}
            columns = WarpColumns(self._lanes, self._value, chosen)
            trials.append(tuple(columns.requests(address, taking)))
        # Counted without a permutation. If run-time values such as array widths change the number
        # of wavefronts, the access counts as unknown.
        counted = {tuple(wavefronts(one, size) for one in trial) for trial in trials}
        return dict.fromkeys(trials[0]) if len(counted) == 1 else None

    def _shifted(
        self, leaf: Term, address: Term, conditions: frozenset[Term]
    ) -> Collection[Offsets] | None:
        """The same of an address in which something is shifted by a number of bits."""
        if not self._likely:
            return None
        chosen = {leaf: self._bits(leaf, address, conditions)}
        columns = WarpColumns(self._lanes, self._value, chosen)
        return dict.fromkeys(columns.requests(address, self._columns.taking(conditions))) or None

    def _bits(self, leaf: Term, address: Term, conditions: Iterable[Term]) -> int:
        """The least number of bits at which the threads of whole blocks access most places inside
        the arrays, as where an index of so many bits is turned round."""
        whole = _Scene(self._blocks, self._places, self._end, (), MOST_THREADS // LANES)
        taking, most, best = whole._columns.taking(conditions), 0, 0
        for bits in range(_MOST_BITS):
            columns = WarpColumns(whole._lanes, whole._value, {leaf: bits})
            requests = columns.requests(address, taking)
            inside = requests if self._end is None else _below(self._end, requests)
            places = len({place for one in inside for place in one})
            if places > most:
                most, best = places, bits
        return best

    def _is_left_out(self, conditions: Iterable[Term]) -> bool:
        """Does no thread of the whole blocks meet some conditions?"""
        tested = list(conditions)
        if self._columns.taking(tested) != ((),):
            return False
        whole = _Scene(self._blocks, self._places, None, (), MOST_THREADS // LANES)
        return whole._columns.taking(tested) == ((),)

    def _value(self, leaf: Term) -> Columns:
        """What is known of a leaf, in all lanes and iterations."""
        mask = (1 << leaf.width) - 1
        if leaf.origin is Origin.ITERATION:
            return tuple([(iteration & mask,) for iteration in range(_ITERATIONS)])
        if self._steps(leaf):
            return tuple([(1 << iteration & mask,) for iteration in range(_ITERATIONS)])
        if leaf.value in REGISTERS:
            return (tuple([value & mask for value in self._lanes.register(leaf.value)]),)
        return ((self._places[leaf.value] & mask,),)

    # ------------------------------------------------------------ what is known

    def _made_of(self, term: Term) -> Sequence[Term] | None:
        """The leaves of a term; None for one too large."""
        if term.size > _LARGEST:
            return None
        return [t for t in walk(term) if t.kind in op.OPAQUE]

    def _fixed(self, leaf: Term) -> bool:
        return leaf.kind is op.ATOM and (leaf.value in REGISTERS or leaf.value in self._places)

    def _steps(self, leaf: Term) -> bool:
        """Does the iteration of a loop decide it: its count, or a register that it doubles or
        halves?"""
        if leaf.origin is Origin.LOOP_VALUE:
            return leaf.of[1] in self._by_two
        return leaf.origin is Origin.ITERATION

    def _is_known(self, condition: Term, others: Sequence[Term]) -> bool:
        """Does a condition depend on nothing but the place of the lane and what steps in the
        address?"""
        leaves = self._made_of(condition)
        return leaves is not None and all(
            self._fixed(t) or (self._steps(t) and t in others) for t in leaves
        )

    def _may_be_known(self, leaf: Term) -> bool:
        return self._fixed(leaf) or self._steps(leaf) or leaf.variance <= Variance.ROW


def _counts_bits(leaf: Term, address: Term) -> bool:
    """Does an address depend on a leaf as a number of bits alone, by which something is shifted?"""
    work, seen = [address], set[Term]()
    while work:
        node = work.pop()
        if node is leaf:
            return False
        if node not in seen:
            seen.add(node)
            work += node.args[:1] if node.kind in op.SHIFTS else node.args
    return True


def _below(end: int, requests: Iterable[Offsets]) -> list[Offsets]:
    """The addresses that lie before an end."""
    inside = (
        one if max(one) < end else tuple([address for address in one if address < end])
        for one in requests
    )
    return [one for one in inside if one]


def _is_uniform(term: Term, block: Block) -> bool:
    most = Variance.ROW if block[0] % LANES == 0 else Variance.UNIFORM
    return term.variance <= most
