"""The table of opcodes: one row per opcode of PTX ISA 9.0 (chapter 9.7).

`ptxsw.ptx.isa` finds the row of an instruction, and says what follows from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Flag, auto

from msgspec import Struct
from msgspec.structs import replace


class Effect(Flag):
    """What an instruction does beside writing its destination registers."""

    NONE = 0
    READ = auto()  # reads memory
    WRITE = auto()  # writes memory
    BARRIER = auto()  # waits for, or signals, other threads
    FENCE = auto()  # orders memory accesses around it
    ATOMIC = auto()  # a strong access: atomic, relaxed, acquire, release, volatile, mmio
    ASYNC = auto()  # goes on after the instruction, or waits for what does
    CALL = auto()
    BRANCH = auto()
    EXIT = auto()  # ends the function or the thread


class Trait(Flag):
    """What else sets an opcode apart, whatever its modifiers."""

    NONE = 0
    SCALAR_ACCESS = auto()  # plain or atomic: each lane names one address, and how many elements
    LOAD = auto()  # of what a lane names
    STORE = auto()
    UPDATE = auto()  # each lane changes, in one step, what it finds at its address
    JUMP = auto()  # to a label, by a direct or an indirect branch
    LEAVE = auto()  # ends the function, the thread or the launch
    BARRIER = auto()  # of a block, or, by its modifiers, of a warp or a cluster
    FENCE = auto()  # does nothing but order
    COLLECTIVE = auto()  # its results depend on other lanes, or on where the lane runs
    MASKED = auto()  # with `.sync` waits for the lanes of a mask
    TELLS_LANES = auto()  # its result tells which lanes are there
    ASKS_WHO_IS_HERE = auto()  # waits for nobody
    MEETS = auto()  # lanes of a warp act together, or find out about each other
    TENSOR = auto()  # work of tensor cores, or of their memory
    POLLS = auto()  # asks whether an mbarrier's phase is over
    IMPURE = auto()  # no effect on memory, and yet no function of the lane's own registers


READ, WRITE, BARRIER, FENCE = Effect.READ, Effect.WRITE, Effect.BARRIER, Effect.FENCE
ATOMIC, ASYNC = Effect.ATOMIC, Effect.ASYNC
EVERYTHING = READ | WRITE | BARRIER | FENCE


class Op(Struct, frozen=True):
    """One opcode: `defs` leading operands are written; `space` is "" where it accesses no
    memory, "generic" where its modifiers name the space (none: generic), else the space."""

    defs: int = 1
    effect: Effect = Effect.NONE
    space: str = ""
    updates: bool = False  # destinations are read, too
    traits: Trait = Trait.NONE


_PLAIN = Op()
_NOTHING = Op(defs=0)

# Rows whose opcodes only compute: one destination, no memory, no control.
_COMPUTING = """
    abs activemask add addc alloca and bfe bfi bfind bmsk brev clz cnot copysign cos createpolicy
    cvt cvta div dp2a dp4a elect ex2 fma fns getctarank isspacep istypep lg2 lop3 mad mad24 madc
    mapa match max min mma mov movmatrix mul mul24 neg not or popc prmt rcp redux rem rsqrt sad
    selp set setp shf shfl shl shr sin slct sqrt stacksave sub subc suq szext tanh testp txq
    vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2
    vmin4 vote vset vset2 vset4 vshl vshr vsub vsub2 vsub4 xor wmma.mma mbarrier.pending_count
    clusterlaunchcontrol.query_cancel
"""

_LOAD = Op(1, READ, "generic")
_STORE = Op(0, WRITE, "generic")
_SIGNAL = READ | WRITE | BARRIER | FENCE | ATOMIC

OPS: dict[str, Op] = {name: _PLAIN for name in _COMPUTING.split()} | {
    # Data movement
    "ld": _LOAD,
    "ldu": _LOAD,
    "ldmatrix": _LOAD,
    "st": _STORE,
    "st.async": Op(0, WRITE | ASYNC | ATOMIC, "generic"),
    "st.bulk": _STORE,
    "stmatrix": _STORE,
    "prefetch": Op(0, Effect.NONE, "generic"),
    "prefetchu": Op(0, Effect.NONE, "generic"),
    "applypriority": Op(0, Effect.NONE, "generic"),
    "discard": Op(0, WRITE, "generic"),  # what it discards reads as anything
    "stackrestore": _NOTHING,
    "multimem.ld_reduce": Op(1, READ | ATOMIC, "generic"),
    "multimem.st": Op(0, WRITE | ATOMIC, "generic"),
    "multimem.red": Op(0, READ | WRITE | ATOMIC, "generic", traits=Trait.UPDATE),
    # Asynchronous copies. Those into shared memory signal an mbarrier as they complete; those
    # out of it join a bulk group: see `effects`.
    "cp.async": Op(0, READ | WRITE | ASYNC, "generic"),
    "cp.async.commit_group": Op(0, ASYNC),
    "cp.async.wait_group": Op(0, ASYNC | FENCE),
    "cp.async.wait_all": Op(0, ASYNC | FENCE),
    "cp.async.mbarrier.arrive": Op(0, READ | WRITE | ASYNC | ATOMIC, "generic"),
    "cp.async.bulk": Op(0, READ | WRITE | ASYNC, "generic"),
    "cp.async.bulk.prefetch": Op(0, ASYNC, "generic"),
    "cp.async.bulk.commit_group": Op(0, ASYNC),
    "cp.async.bulk.wait_group": Op(0, ASYNC | FENCE),
    "cp.reduce.async.bulk": Op(0, READ | WRITE | ASYNC | ATOMIC, "generic"),
    "tensormap.replace": Op(0, READ | WRITE | ATOMIC, "generic"),
    "tensormap.cp_fenceproxy": Op(0, READ | WRITE | FENCE | ATOMIC, "generic"),
    # Textures and surfaces
    "tex": Op(1, READ, "tex"),
    "tld4": Op(1, READ, "tex"),
    "suld": Op(1, READ, "surf"),
    "sust": Op(0, WRITE, "surf"),
    "sured": Op(0, READ | WRITE | ATOMIC, "surf"),
    # Control flow
    "bra": Op(0, Effect.BRANCH),
    "brx": Op(0, Effect.BRANCH),
    "call": Op(0, Effect.CALL | EVERYTHING),  # its result list is written: see `defs`
    "ret": Op(0, Effect.EXIT),
    "exit": Op(0, Effect.EXIT),
    "trap": Op(0, Effect.EXIT),
    # Synchronisation
    "bar": Op(0, BARRIER | FENCE),
    "bar.red": Op(1, BARRIER | FENCE),
    "barrier": Op(0, BARRIER | FENCE),
    "barrier.red": Op(1, BARRIER | FENCE),
    "barrier.cta.red": Op(1, BARRIER | FENCE),
    "membar": Op(0, FENCE),
    "fence": Op(0, FENCE),
    "atom": Op(1, READ | WRITE | ATOMIC, "generic", traits=Trait.UPDATE),
    "red": Op(0, READ | WRITE | ATOMIC, "generic", traits=Trait.UPDATE),
    "red.async": Op(0, READ | WRITE | ATOMIC | ASYNC, "generic"),
    "griddepcontrol": Op(0, BARRIER | FENCE),
    "mbarrier.init": Op(0, WRITE | ATOMIC, "generic"),
    "mbarrier.inval": Op(0, WRITE | ATOMIC, "generic"),
    "mbarrier.expect_tx": Op(0, READ | WRITE | ATOMIC, "generic"),
    "mbarrier.complete_tx": Op(0, _SIGNAL, "generic"),
    "mbarrier.arrive": Op(1, _SIGNAL, "generic"),
    "mbarrier.arrive_drop": Op(1, _SIGNAL, "generic"),
    "mbarrier.test_wait": Op(1, _SIGNAL, "generic", traits=Trait.POLLS),
    "mbarrier.try_wait": Op(1, _SIGNAL, "generic", traits=Trait.POLLS),
    "clusterlaunchcontrol.try_cancel": Op(0, _SIGNAL | ASYNC, "generic"),
    # Matrices
    "wmma.load": _LOAD,
    "wmma.store": _STORE,
    "wgmma.mma_async": Op(1, READ | ASYNC, updates=True),
    "wgmma.fence": Op(0, FENCE | ASYNC),
    "wgmma.commit_group": Op(0, ASYNC),
    "wgmma.wait_group": Op(0, FENCE | ASYNC),
    "tcgen05.ld": Op(1, READ | ASYNC),
    "tcgen05.st": Op(0, WRITE | ASYNC),
    "tcgen05.wait": Op(0, FENCE | ASYNC),
    "tcgen05.fence": Op(0, FENCE),
    "tcgen05.alloc": Op(0, WRITE | BARRIER),
    "tcgen05.dealloc": Op(0, WRITE | BARRIER),
    "tcgen05.relinquish_alloc_permit": Op(0, BARRIER),
    "tcgen05.cp": Op(0, READ | WRITE | ASYNC),
    "tcgen05.shift": Op(0, READ | WRITE | ASYNC),
    "tcgen05.mma": Op(0, READ | WRITE | ASYNC),
    "tcgen05.commit": Op(0, READ | WRITE | ASYNC | ATOMIC),
    # Miscellaneous
    "brkpt": Op(0, EVERYTHING),
    "nanosleep": _NOTHING,
    "pmevent": _NOTHING,
    "setmaxnreg": Op(0, BARRIER),
}

# What the column `traits` has beside, by the first word of an opcode.
_TRAITS = {
    Trait.SCALAR_ACCESS: "ld st atom red",
    Trait.LOAD: "ld ldu",
    Trait.STORE: "st",
    Trait.JUMP: "bra brx",
    Trait.LEAVE: "ret exit trap",
    Trait.BARRIER: "bar barrier",
    Trait.FENCE: "membar fence",
    Trait.COLLECTIVE: "activemask alloca elect match mma movmatrix redux shfl vote wmma",
    Trait.MASKED: "shfl vote match redux elect",
    Trait.TELLS_LANES: "activemask vote match",
    Trait.ASKS_WHO_IS_HERE: "activemask",
    Trait.MEETS: """
        activemask bar barrier elect ldmatrix match mma movmatrix redux setmaxnreg shfl stmatrix
        tcgen05 vote wgmma wmma
    """,
    Trait.TENSOR: "mma wmma wgmma tcgen05",
    Trait.IMPURE: """
        activemask alloca applypriority clusterlaunchcontrol elect getctarank mapa match mbarrier
        mma movmatrix nanosleep pmevent prefetch prefetchu redux setmaxnreg shfl stackrestore
        stacksave vote wmma
    """,
}


def _with_traits() -> Iterator[tuple[str, Op]]:
    by_word: dict[str, Trait] = {}
    for trait, words in _TRAITS.items():
        for word in words.split():
            by_word[word] = by_word.get(word, Trait.NONE) | trait
    for name, op in OPS.items():
        traits = by_word.get(name.partition(".")[0])
        yield name, op if traits is None else replace(op, traits=op.traits | traits)


OPS = dict(_with_traits())
