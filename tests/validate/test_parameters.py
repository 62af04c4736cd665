"""The second text may read any parameter of the kernel, at any time, but nothing beside it."""

from __future__ import annotations

import pytest

from ptxsw.parser import parse
from ptxsw.validate import Outcome, Proved, validate
from tests.heads import head

KERNEL = """.visible .entry k(.param .u64 a, .param .align 8 .b8 table[16], .param .u32 n)
{
.reg .pred %p<3>;
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
NEW
ld.param.u64 %rd1, [a];
ld.param.u32 %r1, [n];
mov.u64 %rd2, table;
mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd4, %rd2, %rd3;
setp.gt.u32 %p1, %r1, 3;
@%p1 bra END;
ld.param.u32 %r2, [%rd4];
st.global.u32 [%rd1], %r2;
END:
ret;
}
"""
AT_ONCE = "mov.u64 %rd2, table;\nld.param.u32 %r1, [n];\nmul.wide.u32 %rd3, %r1, 4;\n"


def judged(new: str) -> Outcome:
    """What is read beside, where the kernel begins."""
    old, other = (parse(head() + KERNEL.replace("NEW", text)) for text in ("", new))
    return validate((old, old.kernels[0]), (other, other.kernels[0]))


@pytest.mark.parametrize("place", ["u32 %r8, [n]", "u64 %rd8, [table+8]", "u16 %r8, [a+6]"])
def test_what_is_declared_can_be_read(place: str) -> None:
    assert judged(f"ld.param.{place};") == Proved()


@pytest.mark.parametrize(
    "place",
    ["u64 %rd8, [n]", "u32 %r8, [n+4]", "u32 %r8, [a+6]", "u64 %rd8, [table+12]", "u8 %r8, [a-1]"],
)
def test_what_is_beside_or_not_aligned_cannot(place: str) -> None:
    assert not isinstance(judged(f"ld.param.{place};"), Proved)


def test_an_index_has_to_be_tested_first() -> None:
    early = f"{AT_ONCE}add.s64 %rd4, %rd2, %rd3;\nld.param.u32 %r8, [%rd4];"
    assert "bytes that the first does not read" in str(judged(early))


def test_a_register_holds_all_that_is_loaded() -> None:
    reason = (
        "ptxas rejects it: ld.param.u64 takes 64 bits, and %r8 has 32 (line 9 of the second kernel)"
    )
    assert str(judged("ld.param.u64 %r8, [a];")) == reason
