"""Terms as two arbitrary threads of one launch see them, `t` and `u`.

    out + 4 * (%ctaid.x * %ntid.x + %tid.x)       thread t
    out + 4 * (%ctaid.x * %ntid.x + u %tid.x)     thread u of the same block

What both have in common stays one term: parameters, sizes of block and grid, the block where it is
the same, what is read from bytes that nobody writes. The count of a loop's iterations is told by
the one who asks. Everything else is u's own, and gets a name of its own.

`Variance.UNIFORM` does not help here: it speaks of the lanes of one warp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from ptxsw.emulator.state import named
from ptxsw.emulator.trace import Trace
from ptxsw.facts.grid import AXES
from ptxsw.ptx.ir import Special, leaves
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, unknowns
from ptxsw.terms.origin import Origin
from ptxsw.terms.specials import OF_LAUNCH, THREAD
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms

Shape = tuple[int, int, int]
"""Threads of a block along x, y and z."""

Counters = Mapping[int, int | None]
"""By a loop's header: how many iterations u is ahead of t; None or absent: nobody knows."""

_LANES = 5  # bits
_OF_THREAD = THREAD | {"%laneid"}
_INDEX = (Variance.LANE, (1 << 44) - 1, Origin.GRID_INDEX)
COMMON = frozenset({Origin.PARAMETER, Origin.SYMBOL, Origin.WINDOW})
"""What all threads share, but for what is of a thread's local memory: that varies over lanes."""


ONCE = "once"
"""In the name of a load of memory that nobody writes: whenever it is read, it is the same."""

BY_TURNS = "/turns"
"""Ends the label of a loop where iterations are counted in turns of a ring (`ring_turns`)."""


class Dimensions:
    """Which axes of block and grid a kernel reads. The others have one thread, or one block."""

    def __init__(self, trace: Trace, shape: Shape | None) -> None:
        source = trace.module.source.text
        others = [f for f in trace.module.functions if f.kind != "entry"]
        texts = [source[f.span.start : f.span.end] for f in others]
        named = {
            leaf.name
            for instruction in trace.cfg.instructions
            for leaf in leaves(instruction.operands)
            if type(leaf) is Special
        }

        def read(*names: str) -> bool:
            return any(name in named or any(name in text for text in texts) for name in names)

        self.shape = shape
        self.block = tuple(
            axis
            for at, axis in enumerate(AXES)
            if (shape[at] > 1 if shape else read(f"%tid.{axis}", f"%ntid.{axis}"))
        )
        self.grid = tuple(a for a in AXES if read(f"%ctaid.{a}", f"%nctaid.{a}"))

    def size(self, axis: str) -> int | None:
        """The threads of a block along an axis, where that is known."""
        if self.shape is not None:
            return self.shape[AXES.index(axis)]
        return None if axis in self.block else 1


class ThreadViews:
    """`own` is what thread t sees. `is_read_only` tells of a load whether nobody writes what it
    reads."""

    def __init__(
        self, trace: Trace, dimensions: Dimensions, is_read_only: Callable[[Term], bool]
    ) -> None:
        self.trace, self.terms = trace, trace.terms
        self.dimensions, self._is_read_only = dimensions, is_read_only
        self._headers = {facts.label: header for header, facts in trace.loop_facts.items()}
        self._memo: dict[Term, Term] = {}
        self._others: dict[object, OtherThread] = {}
        self.dynamic = _extern_arrays(trace)

    def own(self, term: Term) -> Term:
        """A term of the trace where the block has its shape, lanes are counted, and arrays that
        begin at one byte are one."""
        return substitute(self.terms, term, self._leaf, self._memo)

    def other(
        self, same_block: bool, counters: Counters, differs: Iterable[Term] = (),
        same_thread: bool = False,
    ) -> OtherThread:  # fmt: skip
        """The eyes of thread u. Of the values `differs`, one at least is another one there; without
        them, it is the place of the thread or of its block. `same_thread`: u is t at another
        time."""
        known = {header: ahead for header, ahead in counters.items() if ahead is not None}
        apart = tuple(map(self.own, differs)) or self._place(same_block)
        key = same_block, frozenset(known.items()), () if same_thread else apart
        view = self._others.get(key)
        if view is None:
            view = self._others[key] = OtherThread(self, same_block, known, key[-1])
        return view

    def _place(self, same_block: bool) -> tuple[Term, ...]:
        """What tells apart two threads of a block, or two blocks."""
        axes = self.dimensions.block if same_block else self.dimensions.grid
        kind = "tid" if same_block else "ctaid"
        return tuple(self.terms.special(f"%{kind}.{axis}") for axis in axes)

    def header(self, label: str) -> int | None:
        return self._headers.get(label.removesuffix(BY_TURNS))

    def is_read_only(self, load: Term) -> bool:
        return self._is_read_only(load)

    def linear(self) -> Term:
        """The number of the thread in its block."""
        terms = self.terms
        total, width = self._index("x"), self._size("x")
        for axis in AXES[1:]:
            total = terms.add(total, terms.mul(width, self._index(axis)))
            width = terms.mul(width, self._size(axis))
        return total

    def _index(self, axis: str) -> Term:
        only = self.dimensions.size(axis) == 1
        return self.terms.const(0, 32) if only else self.terms.special(f"%tid.{axis}")

    def _size(self, axis: str) -> Term:
        size = self.dimensions.size(axis)
        return self.terms.special(f"%ntid.{axis}") if size is None else self.terms.const(size, 32)

    def _leaf(self, node: Term) -> Term | None:
        if node.kind is op.ATOM and node.origin is Origin.SPECIAL:
            name, axis = str(node.value), str(node.value)[-1]
            if name == "%laneid":
                return self.terms.zext(self.terms.extract(self.linear(), 0, _LANES), 32)
            if name == f"%ntid.{axis}":
                return self._size(axis)
            return self._index(axis) if name == f"%tid.{axis}" else node
        if node.origin is Origin.SYMBOL and node.of[0] in self.dynamic:
            name = min(self.dynamic)  # stands for them all
            of = Origin.SYMBOL, (name,)
            return self.terms.atom(f"&{name}", node.width, Variance.UNIFORM, None, *of)
        if node.origin is Origin.LOAD and self._is_read_only(node):
            # Whenever it is read, it is the same.
            (address,), (name, _) = node.args, node.value
            place = self.own(address)
            return self.terms.apply((*name[:2], ONCE), node.width, (place,), Variance.UNIFORM)
        return None


class OtherThread:
    """Terms of thread t as they are in thread u. It is asked for terms as `ThreadViews.own` has
    them. `counters` has the loops of which it is known how many iterations u is ahead. Where
    nothing `differs`, they are one thread at two times."""

    def __init__(
        self,
        views: ThreadViews,
        same_block: bool,
        counters: Mapping[int, int],
        differs: tuple[Term, ...],
    ) -> None:
        self._views, self._terms, self.differs = views, views.terms, differs
        self.same_block, self.counters = same_block, counters
        self.same_thread = not differs
        self._memo: dict[Term, Term] = {}

    def __call__(self, term: Term) -> Term:
        return substitute(self._terms, term, self._leaf, self._memo)

    def shares(self, term: Term) -> bool:
        """Is it the same in both threads, as far as its form shows?"""
        return self(term) is term

    def is_one_thread(self, same: Callable[[Term], bool]) -> bool:
        """Are t and u one thread, or threads of one block, where `same` says which values of t are
        the same in u?"""
        if self.same_thread:
            return False  # that is no contradiction
        told = partial(_is_determined, self._terms, same)
        if all(map(told, self.differs)) or all(map(told, map(self._in_grid, self.differs))):
            return True
        return self.same_block and told(self._views.linear())

    def _in_grid(self, place: Term) -> Term:
        """The number of a thread in the grid, for its place along an axis."""
        kind, _, axis = str(place.value).partition(".")
        if place.kind is not op.ATOM or kind not in ("%tid", "%ctaid"):
            return place
        return self._terms.atom(f"grid index {axis}", 64, *_INDEX)

    def _leaf(self, node: Term) -> Term | None:
        if node.kind is op.ATOM:
            return self._atom(node)
        if node.kind is not op.APPLY:
            return None
        name = node.value[0]
        if name[0] == "phi" or ONCE in name or len(name) == 2:
            return None  # a function of its arguments: the way that was gone, memory that stays
        args = tuple(map(self, node.args))
        return self._terms.apply((*name, "of u"), node.width, args, node.value[1])

    def _atom(self, atom: Term) -> Term:
        if atom.origin in COMMON:
            shared = self.same_thread or atom.variance is Variance.UNIFORM
            return atom if shared else _copy(self._terms, atom)
        if atom.origin is Origin.SPECIAL:
            if self.same_thread:
                return atom
            shared = atom.value not in _OF_THREAD if self.same_block else atom.value in OF_LAUNCH
            return atom if shared else _copy(self._terms, atom)
        header = self._views.header(atom.of[0]) if atom.of else None
        ahead = None if header is None else self.counters.get(header)
        if ahead is not None and atom.origin is Origin.ITERATION:
            return self._terms.add(atom, self._terms.const(ahead, atom.width))
        if ahead == 0 and atom.origin is Origin.LOOP_VALUE:
            return atom if self.same_thread or self._is_followed(atom) else _copy(self._terms, atom)
        return _copy(self._terms, atom)

    def _is_followed(self, atom: Term) -> bool:
        """Does a register hold the same in each iteration, since all of these are known?"""
        trace = self._views.trace
        values = trace.iterations.get(atom, ())
        if not values or not all(self.shares(self._views.own(v.value)) for v in values):
            return False
        if values[-1].again.kind is op.CONST:
            return True  # there are no others
        header = self._views.header(atom.of[0])
        facts = None if header is None else trace.loop_facts[header]
        changes = {named(r): value for r, value in facts.after.items()} if facts else {}
        after = changes.get(atom.of[1])
        return after is not None and len(unknowns(after)) == 1  # it depends on itself alone


def _is_determined(terms: Terms, same: Callable[[Term], bool], term: Term) -> bool:
    """Is a value the same in both threads, since all is that it is made of, or all fields of its
    bits are?"""
    if all(map(same, unknowns(term))):
        return True
    at = 0
    while at < term.width:
        for width in range(term.width - at, 0, -1):
            bits = terms.extract(term, at, width)
            bare = bits.args[0] if bits.kind is op.ZEXT else bits
            if bits.kind is op.CONST or same(bare):
                at += width
                break
        else:
            return False
    return True


def is_read_once(term: Term) -> bool:
    """Is it read from memory that nobody writes?"""
    return term.kind is op.APPLY and ONCE in term.value[0]


def _copy(terms: Terms, atom: Term) -> Term:
    ones = atom._ones
    return terms.atom(f"u {atom.value}", atom.width, atom.variance, ones, atom.origin, atom.of)


def _extern_arrays(trace: Trace) -> frozenset[str]:
    """Arrays of dynamic shared memory, which all begin at one byte."""
    variables = (*trace.function.body.variables, *trace.module.variables)
    return frozenset(v.name for v in variables if v.space == "shared" and "extern" in v.linkage)
