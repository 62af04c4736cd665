"""Texts that cannot profit are told apart by their bytes alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.build.prefilter import may_contain_candidates, version
from ptxsw.rewrites import REWRITES
from tests.build.conftest import KERNELS

HEAD = b".version 7.0\n.target sm_80\n"
TWO = b"ld.global.f32 %f1, [%rd1];\nld.global.f32 %f2, [%rd1+4];\n"


@pytest.mark.parametrize("path", sorted(KERNELS.glob("*.ptx")), ids=lambda path: path.stem)
def test_kernelgen_can(path: Path) -> None:
    assert may_contain_candidates(path.read_bytes())


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (HEAD + b".entry a() {" + TWO + b"}", True),
        (HEAD + b".entry a() { ld.u32 %r1, [%rd1]; ld.v2.u32 {%r2, %r3}, [%rd1]; }", True),
        (HEAD + b".entry a() { ld.weak.global.u32 %r1, [%rd1]; ld.b32 %r2, [%rd2]; }", True),
        (HEAD + b".func a() {" + TWO + b"}", True),
        (HEAD + b".entry a() { ld.u32 %r1, [%rd1]; }", True),  # of what space?
        (HEAD + b".entry a() { st.v2.u32 [%rd1], {%r1, %r2}; }", True),
        (HEAD + b".entry a() { div.u64 %rd1, %rd2, %rd3; }", True),
        (HEAD + b".entry a() { ld.global.f32 %f1, [%rd1]; }", False),
        (
            HEAD
            + b".entry a() { ld.global.f32 %f1, [%rd1]; } .entry b() { ld.global.b32 %r, [%d]; }",
            False,
        ),
        (HEAD + b".entry a() { ld.param.u64 %rd1, [p]; ld.shared.u32 %r1, [%r2]; }", True),
        (HEAD + b".entry a() { st.global.u32 [%rd1], %r1; st.global.u32 [%rd1+4], %r2; }", True),
        (HEAD + b".entry a() { ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], %r1; }", False),
        (HEAD + b".entry a() { ld.local.u64 %rd1, [p]; ld.const.u32 %r1, [%r2]; }", False),
        (b".version 6.1\n.target sm_60\n.entry a() {" + TWO + b"}", True),  # no shuffle, a vector
        (b".version 6.2\n.target sm_60\n.entry a() {" + TWO + b"}", True),
        (b".entry a() {" + TWO + b"}", False),
        (HEAD + b".entry a() {" + TWO + b"}\0", False),
        (b"\xef\xbb\xbf" + HEAD + b".entry a() {" + TWO + b"}", False),
        (b"", False),
    ],
)
def test_answers(text: bytes, answer: bool) -> None:
    assert may_contain_candidates(text) is answer


def test_version() -> None:
    assert version(b"// a comment\n.version 8.5 // more\n") == (8, 5)
    assert version(b".version nonsense") == (0, 0)
    assert version(b".version") == (0, 0)


def test_no_rewrite_is_forgotten() -> None:
    """What a rewrite looks for in a kernel's text, the wrapper looks for in the file."""
    for rewrite in REWRITES:
        for word in rewrite.requires.words:
            text = HEAD + b".entry a() { bra L; " + 2 * (word.encode() + b".u32 a, b; ") + b"}"
            assert may_contain_candidates(text), (rewrite.name, word)


@pytest.mark.parametrize("access", ["ld", "st", "atom", "red"])
@pytest.mark.parametrize("space", ["", ".global", ".shared", ".local", ".const", ".param"])
def test_only_a_generic_access_is_taken_for_one(access: str, space: str) -> None:
    generic = next(one for one in REWRITES if one.name == "memory-spaces").requires
    assert generic.may_profit(f"{access}{space}.u32 a, b;") == (not space)
