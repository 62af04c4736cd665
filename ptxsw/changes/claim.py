"""What a rewrite says of its own registers, and of memory, where a block of the first text begins.

A claim is proved wherever control comes to its place, and may be used from there on. So a claim
about a loop is established on entry, assumed at the header and proved again at each way back.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ptxsw.terms.node import Term

Relation = Literal["is", "loaded", "implies", "true", "stored", "overwritten"]


class Claim(Struct, frozen=True):
    """`register` of the second text "is" what `code` computes, or, a predicate, "implies" it.

    `code` is PTX over registers of the first text, with declarations of its own where it needs
    them: computations and plain loads, which leave the result in `value`. `label` is the label of
    the first text at which the claim holds; where several blocks have the same, `LOOP@7` is that
    of block 7 (`Cfg.name`):

        Claim("LOOP", "%sw_prev", "ld.global.f32 %v, [%rd4+-4];", "%v", declare=".reg .f32 %v;")

    Of a store that the second text has put off, the code ends with that store. If it were made
    now, of what `register` holds, memory would be as in the first text ("stored"); or the two
    memories agree in all but the bytes that it would write ("overwritten"):

        Claim("LOOP", "%sw_sum", "st.global.f32 [%rd4], %v;", "%v", ".reg .f32 %v;", "stored")

    What `code` leaves in `value` is "true" of the first text alone; `register` is empty then.

    Where the memories differ, "is" speaks of the first text's, and what is "loaded" is loaded from
    the second's. `code` may also read registers that only the second text has, of which other
    claims tell, if it declares them.

    With `where`, a predicate of the second text, it is said of a register only where that holds.
    """

    label: str
    register: str
    code: str
    value: str
    declare: str = ""
    """The declarations that `code` needs."""
    relation: Relation = "is"
    """"is", "loaded", "implies", "stored", "overwritten" or "true", as above."""
    where: str = ""

    @property
    def about_memory(self) -> bool:
        """Does it say how the memories of the two texts differ?"""
        return self.relation in ("stored", "overwritten")


class Obligation(Struct, frozen=True):
    """What was proved: `claim` holds wherever all of `given` do."""

    claim: Term
    given: frozenset[Term] = frozenset()
