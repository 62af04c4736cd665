"""What stands around the instructions of two kernels, or says how one of them is to be read. A text
that ptxas refuses is proved equal to none."""

from __future__ import annotations

import pytest

from ptxsw.driver.pipeline import Options, optimize
from ptxsw.parser import parse
from ptxsw.ptx.errors import ParseError
from ptxsw.toolchain import ptxas
from ptxsw.validate import Outcome, Proved, Unproved, validate
from tests.heads import head
from tests.rewrites.pair import kernel, outcome, rewritten
from tests.rewrites.test_vectors_of_variables import FOUR

KERNEL = """
.visible .entry k(.param .u64 .ptr .global .align 16 a, .param .u64 .ptr .global .align 16 b)
{
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
ld.param.u64 %rd1, [a];
ld.param.u64 %rd2, [b];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 32;
add.s64 %rd4, %rd1, %rd3;
add.s64 %rd5, %rd2, %rd3;
ld.global.b32 %r2, [%rd4];
.pragma "nounroll";
ld.global.b32 %r3, [%rd4+4];
ld.global.b32 %r4, [%rd4+64];
st.global.b32 [%rd5], %r2;
st.global.b32 [%rd5+4], %r3;
st.global.b32 [%rd5+64], %r4;
ret;
}
"""
MASKED = KERNEL.replace('"nounroll"', '"used_bytes_mask 0x1"')
FUNCTIONS = """
.visible .func f { ret; }
.visible .func g { trap; }
.visible .func h;
.alias h, f;
"""


def judged(before: str, after: str) -> Outcome:
    old, new = (parse(head("8.3") + text) for text in (before, after))
    return validate((old, old.kernels[0]), (new, new.kernels[0]))


@pytest.mark.parametrize("linkage", ["", ".weak "])
def test_who_else_sees_a_kernel_must_not_change(linkage: str) -> None:
    """A kernel that is no longer visible cannot be launched."""
    assert judged(KERNEL, KERNEL) == Proved()
    other = judged(KERNEL, KERNEL.replace(".visible ", linkage))
    assert other == Unproved("the linkage of the kernels differs")


def test_what_a_name_stands_for_must_not_change() -> None:
    calling = FUNCTIONS + KERNEL.replace("ret;\n}", "call h;\nret;\n}")
    assert judged(calling, calling) == Proved()
    other = judged(calling, calling.replace("h, f", "h, g"))
    assert other == Unproved("the directives of the modules differ")


def test_how_to_compile_is_no_difference() -> None:
    assert judged(KERNEL, KERNEL.replace('.pragma "nounroll";\n', "")) == Proved()
    assert judged(KERNEL.replace('.pragma "nounroll";\n', ""), KERNEL) == Proved()


def test_a_mask_of_used_bytes_stays_with_its_load() -> None:
    """The pragma speaks of the next load, whose other bytes may be anything."""
    assert judged(MASKED, MASKED) == Proved()
    pragma = '.pragma "used_bytes_mask 0x1";\n'
    gone = MASKED.replace(pragma, "")
    moved = gone.replace("ld.global.b32 %r2", f"{pragma}ld.global.b32 %r2")
    merged = MASKED.replace("b32 %r2, [%rd4]", "v2.b32 {%r2, %r3}, [%rd4]")
    merged = merged.replace("ld.global.b32 %r3, [%rd4+4];\n", "")
    parted = MASKED.replace("ld.global.b32 %r3", "mov.b32 %r5, 0;\nld.global.b32 %r3")
    for other in (gone, moved, merged, MASKED.replace("0x1", "0x3"), parted):
        assert not isinstance(judged(MASKED, other), Proved)


def test_a_byte_that_nobody_uses_is_no_source_of_another_load() -> None:
    """%r3 is loaded with a mask, and %r4 in full from the same place."""
    whole = MASKED.replace("[%rd4+64]", "[%rd4+4]")
    copied = whole.replace("ld.global.b32 %r4, [%rd4+4]", "mov.b32 %r4, %r3")
    assert not isinstance(judged(whole, copied), Proved)
    used = (text.replace("0x1", "0xf") for text in (whole, copied))
    assert judged(*used) == Proved()
    made = optimize(head("8.3") + whole, Options(mode="force"))
    assert "mov.b32 %r4" not in made.text


def test_loads_without_a_mask_are_joined_beside_one_that_has_it() -> None:
    force = Options(mode="force", rewrites=("vectorize",))
    masked = MASKED.replace("[%rd4+64]", "[%rd4+8]").replace(
        "ld.global.b32 %r4", "ld.global.b32 %r5, [%rd4+12];\nld.global.b32 %r4"
    )
    made = optimize(head("8.3") + masked, force).text
    assert "ld.global.v2.b32 {%r4, %r5}, [%rd4+8];" in made
    assert '.pragma "used_bytes_mask 0x1";\nld.global.b32 %r3, [%rd4+4];' in made


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
    assert ("ptxas rejects it" in str(outcome(first, second))) is (case in WRONG)


def test_the_name_of_an_array_is_no_operand_of_a_sum() -> None:
    made = rewritten("vectorize", FOUR).text
    asked = made.replace("ld.shared.v4", "add.s64 %rd4, tile, 16;\n\tld.shared.v4")
    with pytest.raises(ParseError, match=r"'add\.s64' takes .* here, not a name"):
        outcome(FOUR, asked)


@pytest.mark.parametrize("name", ["cvta.to.volatile.global.u64", "cvta.to.global.s64"])
def test_a_conversion_that_there_is_not(name: str) -> None:
    """A mutant of a proved pair that was proved, too."""
    converted = KERNEL.replace(
        "add.s64 %rd4, %rd1", "cvta.to.global.u64 %rd6, %rd1;\nadd.s64 %rd4, %rd6"
    )
    other = judged(converted, converted.replace("cvta.to.global.u64", name))
    assert f"there is no {name}" in str(other)
