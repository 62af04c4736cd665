"""Claims are proved where control comes to a loop, used in it, and proved again at each way back.
A wrong claim makes no wrong proof, and one that is true on entry alone makes none."""

from __future__ import annotations

import pytest

from ptxsw.validate import Claim, Proved
from tests.validate.stories import ROTATED
from tests.validate.test_stories import judged
from tests.validate.test_warp import judged as judged_texts

BEFORE, AFTER = ROTATED.texts()


def claim(code: str, value: str = "%v", declare: str = ".reg .b32 %v, %w;\n.reg .b64 %x;") -> Claim:
    return Claim("LOOP", "%r20", code, value, declare)


RIGHT = {
    "the load": "ld.global.u32 %v, [%rd10];",
    "the load, by another address": "add.s64 %x, %rd10, 8;\nld.global.u32 %v, [%x+-8];",
}
WRONG = {
    "the next element": "ld.global.u32 %v, [%rd10+4];",
    "the element before": "ld.global.u32 %v, [%rd10+-4];",
    "half of it": "ld.global.u16 %v, [%rd10];",
    "from another array": "ld.global.u32 %v, [%rd7];",
    "one more": "ld.global.u32 %w, [%rd10];\nadd.u32 %v, %w, 1;",
    "a number": "mov.u32 %v, 0;",
    "a register that differs": "mov.u32 %v, %r3;",
    "the sum so far": "mov.u32 %v, %r4;",
}
ON_ENTRY = {
    "the first element": "ld.global.u32 %v, [%rd6];",
    "an element too far for each iteration": "mul.wide.u32 %x, %r3, 4;\nadd.s64 %x, %x, %rd10;\n"
    "ld.global.u32 %v, [%x];",
    "the load, plus the count": "ld.global.u32 %w, [%rd10];\nadd.u32 %v, %w, %r3;",
    "the load, plus what is summed": "ld.global.u32 %w, [%rd10];\nadd.u32 %v, %w, %r4;",
    "the load, often turned over": "ld.global.u32 %w, [%rd10];\nxor.b32 %v, %w, %r3;",
}


def proved(after: str, *claims: Claim) -> bool:
    return isinstance(judged_texts(BEFORE, after, claims=claims), Proved)


def test_without_a_claim_it_is_not_proved() -> None:
    assert judged(ROTATED, AFTER) == Proved()
    assert not proved(AFTER)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_claim(name: str) -> None:
    assert proved(AFTER, claim(RIGHT[name]))


@pytest.mark.parametrize("name", [*WRONG, *ON_ENTRY])
def test_a_wrong_claim(name: str) -> None:
    """Alone, and beside the right one."""
    wrong = claim({**WRONG, **ON_ENTRY}[name])
    assert not proved(AFTER, wrong)
    assert not proved(AFTER, wrong, claim(RIGHT["the load"]))


@pytest.mark.parametrize("name", ON_ENTRY)
def test_a_text_that_needs_what_is_true_on_entry_alone(name: str) -> None:
    """The claim tells what the register holds when the loop begins; the loop never sets it."""
    stale = AFTER.replace("mov.u32 %r20, %r6;\n", "")
    assert not proved(stale, claim(ON_ENTRY[name]))
    assert not proved(stale)


@pytest.mark.parametrize(("bound", "kept"), [("%r1", True), ("0xffffffff", True), ("1", False)])
def test_an_implication_that_is_kept_or_not(bound: str, kept: bool) -> None:
    """A predicate of the second text alone; all bounds hold when the loop begins."""
    flagged = AFTER.replace(".reg", ".reg .pred %q;\n.reg", 1)
    flagged = flagged.replace("LOOP:", "setp.eq.u32 %q, %r1, %r1;\nLOOP:")
    code = f"setp.lt.u32 %w, %r3, {bound};"
    flag = Claim("LOOP", "%q", code, "%w", ".reg .pred %w;", "implies")
    assert proved(flagged, claim(RIGHT["the load"]), flag) == kept
