"""What a rewrite says of its own registers where a block of the first text begins.

A claim is proved wherever control comes to its place, and may be used from there on. So a claim
about a loop is established on entry, assumed at the header and proved again at each way back.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Claim(Struct, frozen=True):
    """`register` of the second text "is" what `code` computes, or, a predicate, "implies" it.

    `code` is PTX over registers of the first text, with declarations of its own where it needs
    them: computations and plain loads, which leave the result in `value`. `label` is the label of
    the first text at which the claim holds:

        Claim("LOOP", "%sw_prev", "ld.global.f32 %v, [%rd4+-4];", "%v", declare=".reg .f32 %v;")
    """

    label: str
    register: str
    code: str
    value: str
    declare: str = ""
    relation: Literal["is", "implies"] = "is"
