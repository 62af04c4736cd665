"""A text that ptxas refuses is proved equal to none."""

from __future__ import annotations

import pytest

from ptxsw.ptx.errors import ParseError
from ptxsw.toolchain import ptxas
from tests.rewrites.pair import kernel, outcome, rewritten
from tests.rewrites.test_vectors_of_variables import FOUR

BODY = """
    .shared .align 16 .b8 tile[64];
    mov.u64 %rd9, tile;
    add.s64 %rd10, %rd9, 16;
    cvt.u32.u64 %r3, %rd10;
    add.s32 %r4, %r3, 7;
    ld.global.u32 %r5, [%rd4];
    selp.b32 %r6, %r4, %r5, %p1;
    st.global.u32 [%rd5], %r6;
    """
WRONG = {
    "the name of a variable": ("add.s64 %rd10, %rd9, 16", "cvta.to.shared.u64 %rd10, tile"),
    "a source of 64 bits in 32": ("add.s32 %r4, %r3, 7", "add.s32 %r4, %rd10, 7"),
    "a destination of 64 bits": ("add.s32 %r4, %r3, 7", "add.s32 %rd11, %r3, 7"),
    "a selection of two widths": ("selp.b32 %r6, %r4", "selp.b32 %r6, %rd10"),
    "a store of fewer bits": ("st.global.u32 [%rd5], %r6", "st.global.u64 [%rd5], %r6"),
    "a conversion to fewer": ("cvt.u32.u64 %r3, %rd10", "cvt.u64.u64 %r3, %rd10"),
}
RIGHT = {
    "a place by its name": ("add.s64 %rd10, %rd9, 16", "mov.u64 %rd10, tile+16"),
    "a conversion from more": ("cvt.u32.u64 %r3, %rd10", "cvt.u32.u32 %r3, %rd10"),
}


def takes(text: str) -> bool:
    try:
        ptxas.assemble(text, "sm_80")
    except ptxas.NoPtxas as missing:
        pytest.skip(str(missing))
    except ptxas.AssemblyError:
        return False
    return True


@pytest.mark.parametrize("case", [*WRONG, *RIGHT])
def test_ptxas_says_the_same(case: str) -> None:
    before, after = (WRONG | RIGHT)[case]
    first, second = kernel(BODY), kernel(BODY.replace(before, after))
    assert first != second
    assert takes(first)
    assert takes(second) is (case in RIGHT)
    assert ("ptxas refuses it" in str(outcome(first, second))) is (case in WRONG)


def test_the_name_of_an_array_is_no_operand_of_a_sum() -> None:
    made = rewritten("vectorize", FOUR).text
    asked = made.replace("ld.shared.v4", "add.s64 %rd4, tile, 16;\n\tld.shared.v4")
    with pytest.raises(ParseError, match=r"'add\.s64' takes .* here, not a name"):
        outcome(FOUR, asked)
