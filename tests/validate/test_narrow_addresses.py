"""Addresses in shared and local memory have 32 bits: of a wider register the low ones count.

ptxas takes them so (`LDS R0, [R0]` for a `%rd`). Nothing that a compiler writes counts on it, but
two places are not apart because they are 2^32 bytes from each other.
"""

from __future__ import annotations

import pytest

from ptxsw.parser import parse
from ptxsw.validate import Outcome, Proved, validate
from tests.heads import head

KERNEL = """.visible .entry k(.param .u64 .ptr .global .align 16 a, .param .u32 n)
{
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
.SPACE .align 4 .b8 tile[1024];
ld.param.u64 %rd1, [a];
ld.param.u32 %r1, [n];
mov.u64 %rd2, tile;
cvt.u64.u32 %rd3, %r1;
shl.b64 %rd4, %rd3, 20;
add.s64 %rd5, %rd2, %rd4;
ACCESSES
st.global.u32 [%rd1], %r3;
ret;
}
"""


def judged(space: str, base: str, stored: str, loaded: str) -> Outcome:
    """A load behind a store, and before it."""
    store = f"st.{space}.u32 [%rd2{stored}], %r1;"
    load = f"ld.{space}.u32 %r3, [{base}{loaded}];"
    text = head() + KERNEL.replace("SPACE", space)
    old, new = (
        parse(text.replace("ACCESSES", "\n".join(order)))
        for order in ((store, load), (load, store))
    )
    return validate((old, old.kernels[0]), (new, new.kernels[0]))


@pytest.mark.parametrize("space", ["shared", "local"])
def test_what_lies_a_multiple_of_4_gib_away_is_the_same(space: str) -> None:
    assert judged(space, "%rd2", "", "+4") == Proved()
    for stored, loaded in (("", "+4294967296"), ("", "+4294967294"), ("-8589934592", "+2")):
        assert not isinstance(judged(space, "%rd2", stored, loaded), Proved), (stored, loaded)


@pytest.mark.parametrize("space", ["shared", "local"])
def test_high_bits_of_an_index_tell_nothing(space: str) -> None:
    """`n << 20` is a multiple of 2^20, whose low bits are 0 where n is a multiple of 2^12."""
    assert judged(space, "%rd5", "", "+4") == Proved()
    assert not isinstance(judged(space, "%rd5", "", ""), Proved)
