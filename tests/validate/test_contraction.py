"""ptxas may fuse `mul` and `add` without `.rn`, which shows in the bits: its choice is open."""

from __future__ import annotations

import pytest

from ptxsw.parser import parse
from ptxsw.validate import Outcome, Proved, Unproved, validate
from ptxsw.verify.proving import Proof, prove
from ptxsw.verify.proving import Unproved as Open
from tests.heads import head

TEXT = (
    head("8.3")
    + """
.visible .entry k(.param .u64 a)
{
.reg .f32 %f<9>;
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
ld.param.u64 %rd1, [a];
ld.global.f32 %f1, [%rd1];
ld.global.f32 %f2, [%rd1+4];
ld.global.f32 %f3, [%rd1+8];
mul.f32 %f4, %f1, %f2;
add.f32 %f5, %f4, %f3;
st.global.f32 [%rd1+12], %f5;
ret;
}
"""
)
APART = TEXT.replace("mul.f32", "mul.rn.f32").replace("add.f32", "add.rn.f32")
SPARE = ("ret;", "add.u32 %r1, %r2, 1;\nret;")
THROUGH_MEMORY = (
    "add.f32 %f5, %f4, %f3;",
    "st.global.f32 [%rd1+12], %f4;\nld.global.f32 %f6, [%rd1+12];\nadd.f32 %f5, %f6, %f3;",
)


def judged(before: str, after: str, assume: tuple[str, ...] | None = None) -> Outcome:
    old, new = parse(before), parse(after)
    texts = (old, old.kernels[0]), (new, new.kernels[0])
    return validate(*texts) if assume is None else validate(*texts, assume=assume)


@pytest.mark.parametrize("new", [
    SPARE,
    ("mul.f32 %f4, %f1, %f2", "mul.f32 %f4, %f2, %f1"),
    ("add.f32 %f5, %f4, %f3", "add.f32 %f5, %f3, %f4"),
    ("add.f32 %f5, %f4, %f3", "mov.f32 %f6, %f4;\nadd.f32 %f5, %f6, %f3"),
])  # fmt: skip
def test_pairs_that_correspond_rest_on_the_same_choice(new: tuple[str, str]) -> None:
    assert judged(TEXT, TEXT.replace(*new)) == Proved(("same-contraction",))
    refused = judged(TEXT, TEXT.replace(*new), assume=())
    assert isinstance(refused, Unproved) and "may fuse products and sums" in refused.reason
    assert judged(APART, APART.replace(*new), assume=()) == Proved()


def test_of_one_text_ptxas_makes_one_thing() -> None:
    assert judged(TEXT, TEXT, assume=()) == Proved()
    renamed = TEXT.replace("%f4", "%f8")
    assert prove(parse(TEXT), parse(renamed), "k") == Proof(("same-contraction",))


@pytest.mark.parametrize("new", [
    THROUGH_MEMORY,
    ("mul.f32", "mul.rn.f32"),
    ("add.f32", "add.rn.f32"),
    (
        "add.f32 %f5, %f4",
        "setp.eq.u32 %p, 1, 1;\nselp.f32 %f6, %f4, %f3, %p;\nadd.f32 %f5, %f6",
    ),
])  # fmt: skip
def test_a_pair_in_one_text_alone_leaves_the_bits_open(new: tuple[str, str]) -> None:
    other = TEXT.replace(*new).replace(".reg .f32", ".reg .pred %p;\n.reg .f32")
    outcome = prove(parse(TEXT), parse(other), "k")
    assert isinstance(outcome, Open)
    assert "the bits are open until it has chosen" in outcome.reason


def test_through_memory_is_the_same_where_nothing_is_fused() -> None:
    old, new = THROUGH_MEMORY
    before = APART.replace(old.replace("add", "add.rn"), new.replace("add", "add.rn"))
    after = APART.replace("add.rn", "st.global.f32 [%rd1+12], %f4;\nadd.rn")
    assert judged(before, after) == Proved()
    assert not isinstance(judged(before.replace(".rn", ""), after.replace(".rn", "")), Proved)
