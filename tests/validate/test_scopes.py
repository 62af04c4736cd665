"""Nested scopes of which the second text has two copies: their registers stand for those of the
first text's scope where no copy can find what another has left."""

from __future__ import annotations

import pytest

from ptxsw.validate import Proved
from tests.validate.stories import Twin as T
from tests.validate.test_warp import END, HEAD, START, judged, twin

SCOPE = "{\n.reg .f32 %x;\nld.global.nc.f32 %x, [%rd6+4];\nadd.f32 %f2, %x, %x;\n}\n"
BEHIND = "{\n.reg .b32 %x;\nmov.b32 %x, %f2;\nadd.u32 %x, %x, 1;\nmov.b32 %f2, %x;\n}\n"
FIRST = "mov.f32 %f1, 0f00000000;\n"
COPY = SCOPE.replace(".nc.f32 %x, [%rd6+4]", ".nc.f32 %x, [%rd6+4 ]")
TWICE = f"setp.gt.u32 %p2, %r1, 100;\n@%p2 bra SLOW;\n{SCOPE}bra.uni DONE;\nSLOW:\n{COPY}DONE:\n"
BEFORE = HEAD + START + FIRST + SCOPE + BEHIND + END
AFTER = HEAD + START + FIRST + TWICE + BEHIND + END

TWINS = (
    T("it keeps what another has left", "ld.global.nc.f32 %x, [%rd6+4 ];\n", ""),
    T("it may keep what another has left", "ld.global.nc.f32 %x, [%rd6+4 ]",
      "@%p1 ld.global.nc.f32 %x, [%rd6+4 ]"),
    T("another element", "[%rd6+4 ]", "[%rd6+8]"),
    T("a scope that is left early", "[%rd6+4 ];\n", "[%rd6+4];\n}\n{\n.reg .f32 %x;\n"),
    T("memory of its own", COPY, COPY.replace(".reg .f32", ".local .b32 own;\n.reg .f32")),
)  # fmt: skip


def test_two_copies_of_a_scope() -> None:
    assert judged(BEFORE, AFTER) == Proved()


@pytest.mark.parametrize("of", TWINS, ids=lambda t: t.name)
def test_copies_that_differ(of: T) -> None:
    assert not isinstance(judged(BEFORE, twin(of, AFTER)), Proved)
