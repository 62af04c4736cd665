"""Where a term comes from: what an unknown stands for, apart from the name that people read."""

from __future__ import annotations

from enum import Enum, auto


class Origin(Enum):
    """What kind of value a term is. `Term.of` says of what: the words in brackets."""

    COMPUTED = auto()  # from other terms, or constant
    LOAD = auto()  # a function of an address and of the memory it is read from
    PARAMETER = auto()  # of a kernel, or of a function [its name, bytes before the part]
    SPECIAL = auto()  # a special register that is the same in each read
    VOLATILE = auto()  # a special register that may change from read to read
    SYMBOL = auto()  # the address of a variable [its name]
    WINDOW = auto()  # where a state space lies among generic addresses [the space]
    GRID_INDEX = auto()  # the number of a thread in the whole grid, along one axis
    ITERATION = auto()  # how often a loop has been gone round before [its label]
    LAST_ITERATION = auto()  # the same behind the loop, where lanes differ [its label]
    LOOP_VALUE = auto()  # a register in some iteration of a loop [its label, the register]
    LAST_LOOP_VALUE = auto()  # the same behind the loop, where lanes differ
    ENTRY = auto()  # a register at a loop's header, while the loop is analysed
    MERGED = auto()  # a register where paths join, or one whose value is too large to follow
    UNDEFINED = auto()  # a register that nobody has written
    OTHER_LANE = auto()  # what only another lane knows
    ELECTED = auto()  # is this the lane of its warp that `elect` chose?
    OF_BLOCK = auto()  # what a barrier tells all threads of a block that wait there
    UNKNOWN = auto()  # a value of its own, equal to no other
    NAMED = auto()  # whatever the name says, to the one who asks


NUMBERED = frozenset({
    Origin.UNKNOWN, Origin.MERGED, Origin.VOLATILE, Origin.OTHER_LANE, Origin.ELECTED,
    Origin.OF_BLOCK,
})  # fmt: skip
"""Made anew for each occurrence: equal to nothing that is made elsewhere."""

OF_LOOPS = frozenset({
    Origin.ITERATION, Origin.LAST_ITERATION, Origin.LOOP_VALUE, Origin.LAST_LOOP_VALUE,
})  # fmt: skip
"""Of some iteration of a loop, which is the last one until the loop is gone round again."""

_OF_REGISTERS = OF_LOOPS | {Origin.ENTRY, Origin.MERGED, Origin.UNDEFINED}

POINTERS = frozenset(Origin) - _OF_REGISTERS - {Origin.COMPUTED, Origin.SPECIAL, Origin.WINDOW}
"""What may be a pointer, as far as its origin tells."""

FIXED_IN_LOOPS = frozenset(Origin) - NUMBERED - _OF_REGISTERS | {Origin.ENTRY}
"""Unknowns that are the same in all iterations of a loop in which they are not set."""

_BEHIND = {
    Origin.ITERATION: Origin.LAST_ITERATION,
    Origin.LOOP_VALUE: Origin.LAST_LOOP_VALUE,
}


def behind(origin: Origin) -> Origin:
    """The origin of a loop's value as it is known behind the loop."""
    return _BEHIND.get(origin, origin)
