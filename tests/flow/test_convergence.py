"""Where all lanes of a warp come together: masks that a register holds."""

from __future__ import annotations

import pytest

from ptxsw.flow.cfg import build
from ptxsw.flow.convergence import Convergence
from ptxsw.parser import parse

BODY = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u32 n)
{{
.reg .pred %p<4>; .reg .b32 %r<9>;
mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, 9;
{ahead}
bar.warp.sync %r5;
ret;
}}
"""
LATER = "bar.warp.sync before it may wait for later lanes"


@pytest.mark.parametrize(
    ("ahead", "reason"),
    [
        ("mov.u32 %r5, -1;", None),
        ("mov.u32 %r5, 255;\n@%p1 mov.u32 %r5, 255;", None),
        ("mov.u32 %r5, 255;\n@%p1 mov.u32 %r5, 127;", LATER),
        ("mov.u32 %r5, %r1;", LATER),
        ("mov.u32 %r5, -1;\n@%p1 add.u32 %r5, %r1, 1;", LATER),
        ("activemask.b32 %r5;", None),
    ],
)
def test_a_mask_that_a_register_holds(ahead: str, reason: str | None) -> None:
    """One literal in all lanes is as good as a literal."""
    [kernel] = parse(BODY.format(ahead=ahead)).kernels
    found = Convergence(build(kernel.body)).blocker(0, lambda _: False)
    assert (found and found.reason) == reason
