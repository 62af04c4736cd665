"""The carry bit is what ptxas makes of it: a predicate that additions and subtractions set and read
alike, a subtraction as the addition of the complement."""

from __future__ import annotations

import re

import pytest

from tests.heads import head
from tests.sass.sass import disassembled

_KERNEL = (
    head("7.0", "sm_75")
    + """.visible .entry k(.param .u64 p)
{{
    .reg .u64 at;
    .reg .u32 a, b, c, d;
    ld.param.u64 at, [p];
    ld.global.u32 a, [at];
    ld.global.u32 b, [at+8];
    ld.global.u32 c, [at+16];
    ld.global.u32 d, [at+24];
    {first} a, a, b;
    {second} c, c, d;
    st.global.u32 [at], a;
    st.global.u32 [at+8], c;
    ret;
}}
"""
)
_SETS = {
    "add.cc.u32": r"IADD3 R\d+, P0, (?:PT, )?R\d+, R\d+, RZ ;",
    "sub.cc.u32": r"IADD3 R\d+, P0, (?:PT, )?R\d+, -R\d+, RZ ;",
    "subc.cc.u32": r"IADD3\.X R\d+, P0, (?:PT, )?R\d+, ~R\d+, RZ, P0, !PT ;",
}
_READS = {
    "addc.u32": r"IADD3\.X R\d+, (?:PT, PT, )?R\d+, R\d+, RZ, P0, !PT ;",
    "subc.u32": r"IADD3\.X R\d+, (?:PT, PT, )?R\d+, ~R\d+, RZ, P0, !PT ;",
}


@pytest.mark.parametrize("arch", ["sm_75", "sm_100"])
@pytest.mark.parametrize("first", _SETS)
@pytest.mark.parametrize("second", _READS)
def test_the_carry_is_that_of_the_sum_with_the_complement(
    first: str, second: str, arch: str
) -> None:
    shown = re.sub(r"\.reuse", "", disassembled(_KERNEL.format(first=first, second=second), arch))
    sets, reads = re.search(_SETS[first], shown), re.search(_READS[second], shown)
    assert sets is not None and reads is not None and sets.start() < reads.start(), shown
