"""What a user may vouch for where nothing proves it: the one list behind `--assume`, proofs, help
and documents. It imports nothing: the wrapper reads it, too."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LOCKSTEP = "lockstep-iterations"
NO_RACE = "no-lane-race"
PARAMETERS_ARE_GLOBAL = "parameters-are-global"
NO_OUTSIDE_WRITER = "no-outside-writer"
FINITE_LOOPS = "finite-loops"
CONTRACTION = "same-contraction"
IN_ARRAYS = "access-in-array"
NO_ALIAS = "no-alias"
NO_FAULT_IN_STRUCT = "no-fault-in-struct"
NO_WRAP = "no-index-wrap"

ASSUMPTIONS: Mapping[str, str] = {
    LOCKSTEP: "lanes that one activemask reports inside a loop are in the same iteration",
    NO_RACE: "no thread writes, unordered, bytes that a source load of this kernel reads",
    PARAMETERS_ARE_GLOBAL: "pointer parameters of a kernel point to global memory",
    NO_OUTSIDE_WRITER: "only the kernel itself writes the bytes of loads that become .nc",
    FINITE_LOOPS: "a loop whose stores move after it ends",
    CONTRACTION: "where two versions correspond, ptxas fuses mul and add in both or in neither",
    IN_ARRAYS: "an access through a shared array's address stays in that array",
    NO_ALIAS: "memory reached through two parameters never overlaps",
    NO_FAULT_IN_STRUCT: "the other global bytes of an aligned vector can be read, too",
    NO_WRAP: "signed sums and products of an address do not overflow",
}
"""By name: what each says of the program. Those of `DEFAULT_ASSUME` come first."""

DEFAULT_ASSUME = frozenset({
    LOCKSTEP, NO_RACE, PARAMETERS_ARE_GLOBAL, NO_OUTSIDE_WRITER, FINITE_LOOPS, CONTRACTION,
    IN_ARRAYS,
})  # fmt: skip
