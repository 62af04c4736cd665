"""Narrowing: 64-bit operations on values that fit 32 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Trace
from ptxsw.parser import parse
from ptxsw.rewrites.rules import NARROWING
from ptxsw.simt import launch
from ptxsw.terms.node import Term
from ptxsw.terms.show import show
from ptxsw.validate import Proved, validate
from tests.parsed import parsed
from tests.real import FIXTURES, text_of
from tests.rewrites.pair import is_proved, kernel, new_lines, reasons, rewritten

LOADED = "ld.global.u32 %r3, [%rd4];\nld.global.u32 %r4, [%rd4+4];\n"
ZERO_EXTENDED = f"{LOADED}cvt.u64.u32 %rd6, %r3;\ncvt.u64.u32 %rd7, %r4;\n"
SIGN_EXTENDED = f"{LOADED}cvt.s64.s32 %rd6, %r3;\ncvt.s64.s32 %rd7, %r4;\n"
WIDE = "ld.global.u64 %rd6, [%rd4];\nld.global.u64 %rd7, [%rd4+512];\n"
STORE = "\nst.global.u64 [%rd5], %rd8;"


def made(body: str) -> list[str]:
    text = kernel(body)
    return new_lines(text, rewritten("narrowing", text))


def test_a_quotient_of_zero_extended_values() -> None:
    assert made(ZERO_EXTENDED + "div.u64 %rd8, %rd6, %rd7;" + STORE) == [
        "cvt.u32.u64 %sw_low1, %rd6;",
        "cvt.u32.u64 %sw_low2, %rd7;",
        "div.u32 %sw_narrow1, %sw_low1, %sw_low2;",
        "cvt.u64.u32 %sw_wide1, %sw_narrow1;",
        "setp.eq.u32 %sw_zero1, %sw_low2, 0;",
        "selp.b64 %rd8, -1, %sw_wide1, %sw_zero1;",
    ]


def test_a_divisor_that_is_not_zero_needs_no_test() -> None:
    assert made(ZERO_EXTENDED + "or.b64 %rd7, %rd7, 1;\ndiv.s64 %rd8, %rd6, %rd7;" + STORE) == [
        "cvt.u32.u64 %sw_low1, %rd6;",
        "cvt.u32.u64 %sw_low2, %rd7;",
        "div.u32 %sw_narrow1, %sw_low1, %sw_low2;",
        "cvt.u64.u32 %rd8, %sw_narrow1;",
    ]


def test_a_remainder_by_a_number() -> None:
    assert made(ZERO_EXTENDED + "rem.u64 %rd8, %rd6, 10;" + STORE) == [
        "cvt.u32.u64 %sw_low1, %rd6;",
        "rem.u32 %sw_narrow1, %sw_low1, 10;",
        "cvt.u64.u32 %rd8, %sw_narrow1;",
    ]


def test_products_of_extended_values() -> None:
    assert made(SIGN_EXTENDED + "mul.lo.s64 %rd8, %rd6, %rd7;" + STORE)[-1] == (
        "mul.wide.s32 %rd8, %sw_low1, %sw_low2;"
    )
    assert made(ZERO_EXTENDED + "mul.lo.s64 %rd8, %rd6, %rd7;" + STORE)[-1] == (
        "mul.wide.u32 %rd8, %sw_low1, %sw_low2;"
    )


def test_a_product_with_one_is_left_alone() -> None:
    """As Numba writes it for strides: ptxas makes nothing of either."""
    assert made(ZERO_EXTENDED + "mul.lo.s64 %rd8, %rd6, 1;" + STORE) == []


def test_a_remainder_is_made_from_the_quotient() -> None:
    large = "setp.lt.u64 %p1, %rd6, 4294967296;\n@%p1 bra END;\n"
    body = WIDE + large + "div.s64 %rd8, %rd6, %rd7;\nrem.s64 %rd9, %rd6, %rd7;" + STORE
    assert made(body + "\nst.global.u64 [%rd5+512], %rd9;\nEND:") == [
        "div.s64 %sw_quotient1, %rd6, %rd7;",
        "mov.b64 %rd8, %sw_quotient1;",
        "mul.lo.s64 %sw_product1, %sw_quotient1, %rd7;",
        "sub.s64 %rd9, %rd6, %sw_product1;",
    ]


@pytest.mark.parametrize(
    ("body", "tests"),
    [
        (WIDE + "div.u64 %rd8, %rd6, %rd7;", 1),  # nothing is known of either
        (SIGN_EXTENDED + "div.s64 %rd8, %rd6, %rd7;", 1),  # -2^31 / -1 is 2^31 with 64 bits
        (WIDE + "mul.lo.s64 %rd8, %rd6, %rd7;", 0),
        (ZERO_EXTENDED + "add.s64 %rd6, %rd6, %rd7;\ndiv.u64 %rd8, %rd6, %rd7;", 1),  # 33 bits
        # An operand changes between the two.
        (WIDE + "div.u64 %rd8, %rd6, %rd7;\nadd.s64 %rd7, %rd7, 1;\nrem.u64 %rd9, %rd6, %rd7;", 2),
        # Signed and unsigned.
        (WIDE + "div.u64 %rd8, %rd6, %rd7;\nrem.s64 %rd9, %rd6, %rd7;", 2),
    ],
)
def test_what_may_not_fit_is_tested(body: str, tests: int) -> None:
    found = made(body + STORE)
    assert sum("bra $sw_wide" in line for line in found) == tests
    assert tests or not found


EDGES = (0, 1, 2, 7, 10, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1)
LARGE = (*EDGES, 2**32, 2**33 - 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1)


@pytest.mark.parametrize("operation", ["div.u64", "rem.u64", "div.s64", "rem.s64", "mul.lo.s64"])
def test_results_agree_at_all_boundaries(operation: str) -> None:
    for operands, values in ((ZERO_EXTENDED, EDGES), (SIGN_EXTENDED, EDGES), (WIDE, LARGE)):
        other = "div" if operation.startswith("rem") else "rem"
        kind = operation.rpartition(".")[2]
        lines = f"{operation} %rd8, %rd6, %rd7;\n{other}.{kind} %rd9, %rd6, %rd7;" + STORE
        text = kernel(operands + lines + "\nst.global.u64 [%rd5+512], %rd9;")
        new = rewritten("narrowing", text).text
        pairs = [(a, b) for a in values for b in values]
        wide = operands is WIDE
        for start in range(0, len(pairs), 64):
            block = pairs[start : start + 64]
            if wide:
                data = np.zeros(128, "u8")
                data[: len(block)] = [a for a, _ in block]
                data[64 : 64 + len(block)] = [b for _, b in block]
            else:
                data = np.zeros(128, "u8")
                data[: len(block)] = [a | b << 32 for a, b in block]
            assert _run(text, data) == _run(new, data), (operation, operands)


def _run(text: str, data: np.ndarray) -> bytes:
    result = launch(parsed(text), "k", 1, 64, [data.copy(), np.zeros(128, "u8"), 0])
    return bytes(result.buffers[1].tobytes())


INDEX = (
    "mul.lo.s64 %rd8, %rd3, 12;\nadd.s64 %rd9, %rd4, %rd8;\nld.global.u32 %r3, [%rd9];\n"
    "st.global.u32 [%rd5], %r3;"
)


@pytest.mark.parametrize(
    ("body", "is_noted"),
    [(INDEX, True), (ZERO_EXTENDED + "div.u64 %rd8, %rd6, %rd7;" + STORE, False)],
)
def test_a_second_run_is_needed_for_what_the_first_passes_over(body: str, is_noted: bool) -> None:
    module = parse(kernel(body))
    trace = emulate(module, module.kernels[0], note=NARROWING.follows)
    assert (trace.followed >= NARROWING.follows) == is_noted
    assert bool(trace.operands) == is_noted
    assert made(body)


PROGRAMS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*/ptx/*.ptx"))


@pytest.mark.parametrize("path", [*FIXTURES, *PROGRAMS], ids=lambda path: path.stem)
def test_what_is_noted_on_the_side_is_what_another_run_would_follow(path: Path) -> None:
    module = parse(text_of(path))
    for function in module.kernels:
        noted = emulate(module, function, note=NARROWING.follows)
        if noted.followed >= NARROWING.follows and noted.operands:
            followed = emulate(module, function, follow=NARROWING.follows)
            assert shown(noted) == shown(followed)


def shown(trace: Trace) -> object:
    """The operands that a trace has, as texts."""
    return {
        at: [
            (
                [show(v) if isinstance(v, Term) else v for v in paths.values],
                sorted(map(show, paths.conditions)),
            )
            for paths in several
        ]
        for at, several in trace.operands.items()
    }


SPLIT = (Path(__file__).parent / "programs" / "split.ptx").read_text()


def test_a_product_that_decides_a_branch() -> None:
    """nvcc asks whether a division is short: of a product, in a way that the solver gives up."""
    result = rewritten("narrowing", SPLIT)
    assert len(result.report.kernels[0].rewrites or ()) == 2, reasons(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("%sw_low1, %sw_low2", "%sw_low2, %sw_low2"),
        ("%sw_low3, %sw_low4", "%sw_low3, %sw_low1"),
        ("wide.u32 %rd102", "wide.s32 %rd102"),
    ],
)
def test_another_product_decides_another_way(right: str, wrong: str) -> None:
    made = rewritten("narrowing", SPLIT).text
    assert right in made
    old, new = parse(SPLIT), parse(made.replace(right, wrong))
    assert not isinstance(validate((old, old.kernels[0]), (new, new.kernels[0])), Proved)


def test_divisions_of_a_quotient_that_fits() -> None:
    """The first quotient fits, and is all ones by zero; what is divided further does not, and what
    it gives by zero stays open."""
    before = kernel(f"""{ZERO_EXTENDED}
        div.u64 %rd8, %rd6, %rd7;
        ld.global.u64 %rd9, [%rd4+512];
        rem.u64 %rd10, %rd8, %rd9;
        st.global.u64 [%rd5], %rd10;
    """)
    result = rewritten("narrowing", before)
    assert "div.u32" in result.text, reasons(result)
    for right, wrong in (
        ("selp.b64 %rd8, -1,", "selp.b64 %rd8, 1,"),
        ("rem.u64 %rd10, %rd8, %rd9", "rem.u64 %rd10, %rd8, %rd7"),
    ):
        assert right in result.text
        assert not is_proved(before, result.text.replace(right, wrong))


def test_a_sum_of_products() -> None:
    """The factor fits where the branch says so, and stands in another product of the sum."""
    before = kernel(f"""{ZERO_EXTENDED}
        ld.global.u64 %rd9, [%rd4+512];
        ld.global.u64 %rd10, [%rd4+1024];
        setp.ge.u64 %p1, %rd9, %rd7;
        @%p1 bra END;
        mul.lo.s64 %rd11, %rd9, %rd6;
        mul.lo.s64 %rd12, %rd11, %rd7;
        mul.lo.s64 %rd13, %rd10, %rd6;
        add.s64 %rd14, %rd12, %rd13;
        shl.b64 %rd15, %rd14, 2;
        add.s64 %rd16, %rd2, %rd15;
        st.global.u32 [%rd16], %r3;
        END:
    """)
    result = rewritten("narrowing", before)
    assert "mul.wide.u32 %rd11" in result.text, reasons(result)
    for right, wrong in (
        ("setp.ge.u64", "setp.gt.u64"),
        ("mul.lo.s64 %rd12, %rd11, %rd7", "mul.lo.s64 %rd12, %rd11, %rd6"),
        ("mul.lo.s64 %rd13, %rd10, %rd6", "mul.lo.s64 %rd13, %rd9, %rd6"),
    ):
        assert right in result.text
        assert not is_proved(before, result.text.replace(right, wrong))
    beyond = before.replace("setp.ge.u64", "setp.le.u64")  # the factor may not fit
    assert "mul.wide.u32 %rd11" not in rewritten("narrowing", beyond).text
