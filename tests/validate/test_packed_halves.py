"""Halves that are loaded, brought by a shuffle, and packed into one register: what is computed from
a choice between the two is compared in each case. Wrong by one detail, it is refused."""

from __future__ import annotations

import pytest

from ptxsw.validate import Proved
from tests.validate.stories import Twin as T
from tests.validate.test_warp import HEAD, ROWS, START, judged

FIRST = """
ld.global.nc.u16 %r6, [%rd6];
ld.global.nc.u16 %r7, [%rd6+2];
"""
SECOND = """
ld.global.nc.u16 %r8, [%rd6+4];
ld.global.nc.u16 %r9, [%rd6+6];
"""
SHUFFLED = """
activemask.b32 %sw_mask;
setp.ne.or.b32 %sw_part, %sw_mask, -1, %sw_rows;
setp.gt.or.u32 %sw_own, %sw_lane, 30, %sw_part;
shfl.sync.down.b32 %r8, %r6, 1, 31, %sw_mask;
@%sw_own ld.global.nc.u16 %r8, [%rd6+4];
shfl.sync.down.b32 %r9, %r7, 1, 31, %sw_mask;
@%sw_own ld.global.nc.u16 %r9, [%rd6+6];
"""
ADDED = """
shl.b32 %r10, %r7, 16;
or.b32 %r10, %r10, %r6;
shl.b32 %r11, %r9, 16;
or.b32 %r11, %r11, %r8;
add.s16x2 %r12, %r10, %r11;
st.global.b16 [%rd7], %r12;
shr.u32 %r13, %r12, 16;
st.global.b16 [%rd7+2], %r13;
END:
ret;
}
"""

HALVES = HEAD.replace("sm_80", "sm_90")  # which adds them
OLD = HALVES + START + FIRST + SECOND + ADDED
NEW = HALVES + ROWS + START + FIRST + SHUFFLED + ADDED

TWINS = (
    T("the halves exchanged", "or.b32 %r11, %r11, %r8", "or.b32 %r11, %r11, %r6"),
    T("shifted by one byte", "shl.b32 %r11, %r9, 16", "shl.b32 %r11, %r9, 8"),
    T("a bit above the half", "shl.b32 %r11, %r9, 16", "shl.b32 %r11, %r9, 17"),
    T("two lanes on", "%r9, %r7, 1, 31", "%r9, %r7, 2, 31"),
    T("the other half", "shfl.sync.down.b32 %r9, %r7", "shfl.sync.down.b32 %r9, %r6"),
    T("a lane down", "down.b32 %r8, %r6, 1, 31", "up.b32 %r8, %r6, 1, 0"),
    T("the own load of the other half", "%r9, [%rd6+6]", "%r9, [%rd6+4]"),
    T("no own load", "@%sw_own ld.global.nc.u16 %r9, [%rd6+6];\n", ""),
    T("added as a word, which carries", "add.s16x2 %r12", "add.s32 %r12"),
    T("the sign is extended", "@%sw_own ld.global.nc.u16 %r8", "@%sw_own ld.global.nc.s16 %r8"),
)


def test_packed_halves() -> None:
    assert judged(OLD, NEW) == Proved()


@pytest.mark.parametrize("of", TWINS, ids=lambda t: t.name)
def test_what_is_wrong_is_refused(of: T) -> None:
    assert NEW.count(of.find) == 1, of.name
    assert not isinstance(judged(OLD, NEW.replace(of.find, of.replace)), Proved)
