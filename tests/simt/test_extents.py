"""An access stays in the variable that its address is made of, though another lies behind it."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsw.simt import MemoryFault, launch
from ptxsw.simt.state import PartialBarrier
from tests.simt.programs import from_body

TWO = """.shared .align 4 .b8 one[128];
.shared .align 4 .b8 two[128];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
mov.u32 %r3, one;
"""


def run(body: str) -> None:
    launch(from_body(body + "\nret;"), "k", 1, 32, [np.zeros(64, np.uint32)])


def test_an_array_ends_where_the_next_begins() -> None:
    run(TWO + "add.u32 %r4, %r3, %r2; st.shared.u32 [%r4], %r1;")
    with pytest.raises(MemoryFault) as error:
        run(TWO + "add.u32 %r4, %r3, %r2; st.shared.u32 [%r4+4], %r1;")
    assert "thread (31,0,0) of block (0,0,0): st.shared.u32 at 0x1000080" in str(error.value)
    assert "outside the 128 bytes of one" in str(error.value)


def test_an_array_begins_where_the_one_before_ends() -> None:
    with pytest.raises(MemoryFault, match="outside the 128 bytes of two"):
        run(TWO + "mov.u32 %r3, two; st.shared.u32 [two+-4], %r1;")


def test_so_do_atomics_and_what_is_in_local_memory() -> None:
    with pytest.raises(MemoryFault, match="outside the 128 bytes of one"):
        run(TWO + "add.u32 %r4, %r3, %r2; red.shared.add.u32 [%r4+64], %r1;")
    local = ".local .align 4 .b8 a[8]; .local .align 4 .b8 b[8]; mov.u64 %rd1, a;"
    run(local + "st.local.u32 [%rd1+4], 1;")
    with pytest.raises(MemoryFault, match="outside the 8 bytes of a"):
        run(local + "st.local.u32 [%rd1+8], 1;")


def test_an_address_that_may_be_in_either_may_be_in_both() -> None:
    """The first 16 threads write to `two` by way of `one`."""
    either = "mov.u32 %r5, two; setp.lt.u32 %p1, %r1, 16; selp.b32 %r4, %r3, %r5, %p1;"
    run(TWO + either + "selp.b32 %r6, 128, 0, %p1; add.u32 %r4, %r4, %r6; st.shared.u32 [%r4], 1;")


def test_lanes_of_a_warp_come_to_one_barrier() -> None:
    with pytest.raises(PartialBarrier, match="of barrier 1, others of 0"):
        run("mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; bar.sync %r2, 32;")
