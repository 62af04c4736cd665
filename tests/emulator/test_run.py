"""Traces of small kernels: golden files under `ptx`, and the Jacobi of the paper's Listing 5."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ptxsw.analysis.coalescing import LANES, is_uniform, lane_stride, sectors
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Access, Trace
from ptxsw.parser import parse
from ptxsw.ptx.ir import Reg
from ptxsw.terms import op
from ptxsw.terms.node import Variance, split
from ptxsw.terms.readings import UnwrappedReading
from ptxsw.terms.show import show
from tests.heads import head

HERE = Path(__file__).parent
CASES = sorted((HERE / "ptx").glob("*.ptx"))
JACOBI = HERE.parents[1] / "benchmarks" / "kernelgen" / "ptx" / "jacobi.ptx"


def trace_of(text: str) -> Trace:
    """The trace of the last function of a module."""
    module = parse(text)
    return emulate(module, module.functions[-1])


def described(text: str) -> str:
    """Traces of all functions, as the golden files hold them."""
    module = parse(text)
    return "\n".join(line for f in module.functions for line in lines(emulate(module, f))) + "\n"


def dense_sectors(access: Access, stride: int | None) -> int | None:
    """Of a full warp where lane 0's address is aligned."""
    if stride is None or not access.bytes or access.space not in ("global", "generic", "local"):
        return None
    return sectors(tuple(lane * stride for lane in range(LANES)), access.bytes)


def lines(trace: Trace) -> list[str]:
    found = [trace.function.name]
    unwrapped = UnwrappedReading()
    for access in trace.accesses:
        if access.space == "param":
            continue
        line = trace.module.source.line(access.instruction.span.start)
        stride = lane_stride(unwrapped, access)
        uniform = ", uniform" if is_uniform(access) else ""
        found.append(
            f"  {line}: {access.instruction.name}: stride {stride}, "
            f"sectors {dense_sectors(access, stride)}{uniform}"
        )
        for variant in access.variants:
            guard = "" if variant.guard.kind is op.CONST else f" @ {show(variant.guard)}"
            found.append(f"    {show(variant.address, extensions=True)}{guard}")
            found += sorted(f"      if {show(c)}" for c in variant.conditions)
    for index, variance in sorted(trace.branches.items()):
        line = trace.module.source.line(trace.cfg.instructions[index].span.start)
        found.append(f"  {line}: branch: {variance.name}")
    levels = sorted((r.name, v.name) for r, v in trace.registers.items() if r.scope >= 0)
    found.append("  " + ", ".join(f"{name} {level}" for name, level in levels))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_trace(case: Path, golden: Callable[[Path, str], None]) -> None:
    golden(case.with_suffix(".trace"), described(case.read_text()))


def test_line_ends_do_not_matter() -> None:
    text = (HERE / "ptx" / "branches.ptx").read_text()
    assert described(text.replace("\n", "\r\n")) == described(text)


# ---------------------------------------------------------------- the paper's Listing 5


def of_kind(trace: Trace, kind: str) -> list[Access]:
    return [a for a in trace.accesses if a.kind == kind and a.space == "global"]


def test_jacobi() -> None:
    """Nine loads and one store; the loads lie in three rows a row of the array apart, each with
    the offsets -4, 0 and 4 around the point."""
    trace = trace_of(JACOBI.read_text())
    loads, stores = of_kind(trace, "load"), of_kind(trace, "store")
    assert (len(loads), len(stores)) == (9, 1)
    unwrapped = UnwrappedReading()
    rows: dict[object, set[int]] = {}
    for access in loads:
        (variant,) = access.variants
        polynomial = unwrapped.polynomial(variant.address)
        rows.setdefault(polynomial.varying, set()).add(polynomial.offset)
        assert lane_stride(unwrapped, access) == 4
    assert [len(offsets) for offsets in rows.values()] == [3, 3, 3]
    low = min(min(offsets) for offsets in rows.values())
    assert all({o - low for o in offsets} == {0, 4, 8} for offsets in rows.values())
    assert "iter($L__BB0_4)" in show(loads[0].variants[0].address)
    assert trace.statistics.widened == 0


# ---------------------------------------------------------------- single statements


def kernel(body: str) -> str:
    return (
        head() + ""
        ".visible .entry k(.param .u64 a, .param .u32 n)\n{\n"
        ".reg .pred %p<9>; .reg .b32 %r<19>; .reg .f32 %f<9>; .reg .b64 %rd<19>;\n"
        "ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n"
        f"{body}\n}}\n"
    )


ADDRESS = "mul.wide.u32 %rd2, {}, 4; add.s64 %rd3, %rd1, %rd2; ld.global.f32 %f1, [%rd3];\n"


def test_guarded_instruction_before_a_label() -> None:
    """It is no guarded exit: its guard says nothing about those who go on."""
    trace = trace_of(
        kernel(
            "setp.lt.u32 %p1, %r2, %r1;\n@%p1 ld.global.f32 %f1, [%rd1];\nNEXT:\n"
            "ld.global.f32 %f2, [%rd1+4];\nret;"
        )
    )
    assert of_kind(trace, "load")[1].variants[0].conditions == frozenset()


def test_lanes_that_enter_a_loop_in_different_states() -> None:
    """Each state leaves after a uniform count, but not all after the same."""
    trace = trace_of(
        kernel(
            "mov.u32 %r3, 3;\nsetp.lt.u32 %p1, %r2, 7;\n@%p1 bra HEAD0;\nmov.u32 %r3, 5;\nHEAD0:\n"
            "mov.u32 %r4, 0;\nHEAD:\nadd.u32 %r4, %r4, 1;\nsetp.lt.u32 %p2, %r4, %r3;\n"
            f"@%p2 bra HEAD;\n{ADDRESS.format('%r4')}ret;"
        )
    )
    assert not trace.uniform_loops
    (load,) = of_kind(trace, "load")
    assert all(v.address.variance is Variance.LANE for v in load.variants)
    assert trace.registers[Reg("%r4")] is Variance.LANE


def test_breaking_out_of_two_loops() -> None:
    """Lanes that left the inner loop earlier never come to its way out of the outer one."""
    trace = trace_of(
        kernel(
            "mov.u32 %r3, 0;\nOUTER:\nmov.u32 %r4, 0;\nINNER:\nsetp.eq.u32 %p1, %r4, 5;\n"
            "@%p1 bra DONE;\nadd.u32 %r4, %r4, 1;\nsetp.lt.u32 %p2, %r4, %r2;\n@%p2 bra INNER;\n"
            "add.u32 %r3, %r3, 1;\nbra OUTER;\nDONE:\n" + ADDRESS.format("%r3") + "ret;"
        )
    )
    assert not trace.uniform_loops
    (load,) = of_kind(trace, "load")
    assert load.variants[0].address.variance is Variance.LANE


def test_count_of_an_inner_loop_behind_a_divergent_outer_one() -> None:
    trace = trace_of(
        kernel(
            "mov.u32 %r3, 0;\nOUTER:\nmov.u32 %r4, 0;\nINNER:\nadd.u32 %r4, %r4, 1;\n"
            "setp.lt.u32 %p1, %r4, %r3;\n@%p1 bra INNER;\nadd.u32 %r3, %r3, 1;\n"
            "setp.lt.u32 %p2, %r3, %r2;\n@%p2 bra OUTER;\n" + ADDRESS.format("%r4") + "ret;"
        )
    )
    (load,) = of_kind(trace, "load")
    assert load.variants[0].address.variance is Variance.LANE


def test_labels_of_two_scopes() -> None:
    """Loops whose labels are alike have counts of their own."""
    loop = (
        "{\nmov.u32 %r3, 0;\nHEAD:\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, %r1;\n"
        f"@%p1 bra HEAD;\n{ADDRESS.format('%r3')}}}\n"
    )
    first, second = of_kind(trace_of(kernel(loop + loop + "ret;")), "load")
    assert first.variants[0].address is not second.variants[0].address


def test_variables_of_two_scopes() -> None:
    scope = "{\n.shared .b8 tile[64];\nmov.u64 %rd5, tile;\nld.shared.f32 %f1, [%rd5];\n}\n"
    trace = trace_of(kernel(scope + scope + "ret;"))
    first, second = (a for a in trace.accesses if a.space == "shared")
    assert first.variants[0].address is not second.variants[0].address


def test_endless_loop_and_empty_body() -> None:
    assert of_kind(trace_of(kernel("ld.global.f32 %f1, [%rd1];\nSELF:\nbra SELF;")), "load")
    assert trace_of(kernel("bra END;\nEND:")).statistics.widened == 0
    assert trace_of(".version 8.0\n.target sm_80\n.entry k()\n{\n}\n").accesses == ()


def test_time_budget() -> None:
    module = parse(JACOBI.read_text())
    assert emulate(module, module.functions[0], budget_s=0).statistics.timed_out


def test_widening_tells_what_is_held_on_which_paths() -> None:
    """Two states reach one extension; each value comes with the conditions of its paths."""
    trace = trace_of(
        kernel(
            "add.s32 %r3, %r2, 1;\nsetp.lt.s32 %p1, %r2, %r1;\n@%p1 bra NEAR;\n"
            "add.s32 %r3, %r2, 7;\nNEAR:\nmul.wide.s32 %rd2, %r3, 4;\nadd.s64 %rd3, %rd1, %rd2;\n"
            "ld.global.f32 %f1, [%rd3];\nret;"
        )
    )
    (widening,) = trace.widenings
    assert {(show(h.term), *map(show, h.conditions)) for h in widening.held} == {
        ("0x1 + %tid.x", "%tid.x < n"),
        ("0x7 + %tid.x", "n <= %tid.x"),
    }
    (load,) = of_kind(trace, "load")
    for variant in load.variants:
        (term,) = widening.on_paths(variant.conditions, trace.terms)
        assert (show(term) == "0x1 + %tid.x") == (show(*variant.conditions) == "%tid.x < n")
    assert widening.on_paths(frozenset(), trace.terms) == widening.terms


def test_what_a_carry_is_made_of() -> None:
    """The sums themselves are read by nobody; their carries make addresses."""
    carry = "add.cc.u32 %r4, %r3, -1;\naddc.u32 %r5, 0, 0;\n" + ADDRESS.format("%r5")
    trace = trace_of(kernel(f"mov.u32 %r3, %r2;\n{carry}mov.u32 %r3, %r1;\n{carry}ret;"))
    first, second = (a.variants[0].address for a in of_kind(trace, "load"))
    assert show(first) == "a + ((-0x1 + %tid.x) <u %tid.x) << 0x2"
    assert (first.variance, second.variance) == (Variance.LANE, Variance.UNIFORM)


def test_a_call_does_not_keep_the_carry() -> None:
    call = "call.uni f;\n"
    text = "add.cc.u32 %r4, %r1, -1;\n{}addc.u32 %r5, 0, 0;\n" + ADDRESS.format("%r5") + "ret;"
    body = ".func f()\n{\nret;\n}\n.visible .entry"
    for between, level in (("", Variance.UNIFORM), (call, Variance.LANE)):
        trace = trace_of(kernel(text.format(between)).replace(".visible .entry", body))
        assert of_kind(trace, "load")[0].variants[0].address.variance is level


INDIRECT = (
    "{}\nTABLE: .branchtargets ZERO, ONE, ZERO;\n{}brx.idx %r4, TABLE;\n{}"
    "ONE:\nld.global.f32 %f1, [%rd1+4];\nret;\nZERO:\nld.global.f32 %f1, [%rd1];\nret;"
)


@pytest.mark.parametrize(
    ("index", "offsets", "variance"),
    [
        ("mov.u32 %r4, 1;", {4}, Variance.UNIFORM),
        ("mov.u32 %r4, 2;", {0}, Variance.UNIFORM),
        ("and.b32 %r4, %r1, 1;", {0, 4}, Variance.UNIFORM),
        ("and.b32 %r4, %r2, 1;", {0, 4}, Variance.LANE),
        ("and.b32 %r4, %r1, 1; setp.ne.s32 %p1, %r4, 0; @%p1 ret;", {0}, Variance.UNIFORM),
    ],
)
def test_indirect_branch(index: str, offsets: set[int], variance: Variance) -> None:
    """It goes where its index says."""
    trace = trace_of(kernel(INDIRECT.format(index, "", "")))
    assert {split(a.variants[0].address)[0] for a in of_kind(trace, "load")} == offsets
    (level,) = [v for i, v in trace.branches.items() if trace.cfg.instructions[i].opcode == "brx"]
    assert level is variance


def test_guarded_indirect_branch() -> None:
    trace = trace_of(
        kernel(
            INDIRECT.format(
                "mov.u32 %r4, %r1; setp.lt.s32 %p1, %r2, 9;",
                "@%p1 ",
                "ld.global.f32 %f1, [%rd1+8];\nret;\n",
            )
        )
    )
    found = {
        split(a.variants[0].address)[0]: sorted(map(show, a.variants[0].conditions))
        for a in of_kind(trace, "load")
    }
    assert found == {
        8: ["0x9 <=u %tid.x"],
        4: ["(%tid.x <u 0x9) & (n == 0x1)"],
        0: ["((%tid.x <u 0x9) & (n == 0x0)) | ((%tid.x <u 0x9) & (n == 0x2))"],
    }


def test_tables_of_one_name() -> None:
    """Where two scopes have tables of one name, a branch may go to the targets of both."""
    scope = (
        "{{\nTABLE: .branchtargets A, B;\nbrx.idx %r1, TABLE;\n"
        "A:\nld.global.f32 %f1, [%rd1+{}];\nB:\nld.global.f32 %f1, [%rd1+{}];\n}}\n"
    )
    trace = trace_of(kernel(scope.format(0, 4) + scope.format(8, 12) + "ret;"))
    assert len(of_kind(trace, "load")) == 4
    assert not any(v.conditions for a in of_kind(trace, "load") for v in a.variants)
