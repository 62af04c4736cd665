"""What an unknown stands for is said by its origin, whatever its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ptxsw
from ptxsw.emulator.run import emulate
from ptxsw.emulator.spaces import Spaces
from ptxsw.parser import parse
from ptxsw.terms.node import Variance, walk
from ptxsw.terms.origin import Origin
from ptxsw.terms.terms import Terms
from tests.heads import head

TEXT = (
    head()
    + """.visible .entry k(.param .u64 a, .param .u32 n)
{
.reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f;
.shared .align 4 .f32 tile[32];
ld.param.u64 %rd1, [a];
ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x;
mov.u32 %r4, 0;
mov.u32 %r5, 1;
cvta.shared.u64 %rd2, %rd3;
LOOP:
add.u32 %r6, %r2, %r4;
mad.wide.u32 %rd4, %r6, 4, %rd1;
ld.global.f32 %f, [%rd4];
st.shared.f32 [tile], %f;
ld.global.u32 %r7, [%rd1];
mul.lo.u32 %r5, %r5, %r7;
mul.wide.u32 %rd5, %r5, 4;
add.u64 %rd5, %rd5, %rd2;
st.f32 [%rd5], %f;
add.u32 %r4, %r4, 1;
setp.lt.u32 %p, %r4, %r1;
@%p bra LOOP;
ret;
}
"""
)


def test_origins_of_a_kernel() -> None:
    module = parse(TEXT)
    found: dict[Origin, set[tuple[str, ...]]] = {}
    for access in emulate(module, module.functions[0]).accesses:
        for variant in access.variants:
            for term in walk(variant.address, *variant.conditions):
                found.setdefault(term.origin, set()).add(term.of)
    assert {Origin.PARAMETER, Origin.SPECIAL, Origin.UNDEFINED} <= found.keys()
    assert found[Origin.SYMBOL] == {("a",), ("n",), ("tile",)}
    assert found[Origin.ITERATION] == {("LOOP",)}
    assert found[Origin.LOOP_VALUE] == {("LOOP", "%r5")}


def test_an_origin_is_kept() -> None:
    """Who asks for an unknown by its name alone gets the same, with its origin."""
    terms = Terms()
    count = terms.iteration("L")
    assert terms.atom("iter(L)", 64, Variance.UNIFORM) is count
    assert (count.origin, count.of) == (Origin.ITERATION, ("L",))
    last = terms.behind(count)
    assert (last.origin, last.of) == (Origin.LAST_ITERATION, ("L",))
    lane = terms.atom("%laneid", 32, Variance.LANE)
    assert lane.origin is Origin.SPECIAL
    assert terms.add(lane, terms.const(1, 32)).origin is Origin.COMPUTED
    assert terms.apply(("load", "global"), 32, (count,), Variance.LANE).origin is Origin.LOAD
    window = Spaces(terms).window("shared", 64)
    assert (window.origin, window.of) == (Origin.WINDOW, ("shared",))
    assert terms.atom("iter(x)", 64, Variance.LANE).origin is Origin.NAMED


def readers() -> Iterator[str]:
    """Where the package asks how the name of a term begins, or what it holds."""
    for path in Path(ptxsw.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call | ast.Compare):
                continue
            text = ast.unparse(node)
            asked = ".value).startswith(" in text or ".value.startswith(" in text
            if asked or (isinstance(node, ast.Compare) and "' in str(" in text):
                yield f"{path.name}:{node.lineno}"


def test_nobody_reads_meaning_out_of_a_name() -> None:
    assert not list(readers())
