"""Ranges of accesses over the grid, held against what a launch touches."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from ptxsw.emulator.run import emulate
from ptxsw.facts.grid import Grid, Unbounded
from ptxsw.facts.ranges import Range, touched_ranges
from ptxsw.parser import parse
from ptxsw.simt import RunError, launch
from ptxsw.terms.node import Term
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.solver import Proved, Solver
from tests.heads import head
from tests.parsed import parsed

HEAD = (
    head()
    + """.visible .entry k(.param .u64 out, .param .u32 n, .param .u32 m)
{
	.reg .pred %p<9>;
	.reg .b32 %r<30>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r1, [n];
	ld.param.u32 %r2, [m];
	mov.u32 %r3, %tid.x;
	mov.u32 %r4, %ntid.x;
	mov.u32 %r5, %ctaid.x;
	mov.u32 %r8, 0;
"""
)
TAIL = "\n\tst.global.u8 [%rd3+{shift}], 1;\n"
LIMIT = 1 << 30
WHERE, MIDDLE = 1 << 44, 1 << 15

INDICES = {
    "thread": "mov.u32 %r6, %r3;",
    "grid": "mad.lo.s32 %r6, %r5, %r4, %r3;",
    "block": "mov.u32 %r6, %r5;",
    "low bits": "and.b32 %r6, %r3, 5;",
    "backwards": "sub.s32 %r6, %r1, %r3;",
}
GUARDS = {
    "none": "",
    "less": "setp.ge.s32 %p1, %r6, %r1;\n@%p1 bra END;",
    "unsigned": "setp.ge.u32 %p1, %r6, %r1;\n@%p1 bra END;",
    "at least": "setp.lt.s32 %p1, %r6, 1;\n@%p1 bra END;\n"
    "setp.gt.s32 %p2, %r6, %r1;\n@%p2 bra END;",
    "not equal": "setp.eq.s32 %p1, %r6, %r1;\n@%p1 bra END;",
    "equal": "setp.ne.s32 %p1, %r6, 2;\n@%p1 bra END;",
}
LOOPS = {
    "none": ("", ""),
    "up": (
        "setp.lt.s32 %p3, %r2, 1;\n@%p3 bra END;\nLOOP:",
        "add.s32 %r8, %r8, {step};\nsetp.lt.s32 %p4, %r8, %r2;\n@%p4 bra LOOP;",
    ),
    "up, unsigned": (
        "setp.eq.s32 %p3, %r2, 0;\n@%p3 bra END;\nLOOP:",
        "add.s32 %r8, %r8, {step};\nsetp.lt.u32 %p4, %r8, %r2;\n@%p4 bra LOOP;",
    ),
    "up, left before a jump back": (
        "setp.lt.s32 %p3, %r2, 1;\n@%p3 bra END;\nLOOP:",
        "add.s32 %r8, %r8, {step};\nsetp.ge.s32 %p4, %r8, %r2;\n@%p4 bra END;\nbra.uni LOOP;",
    ),
    "tested first": (
        "LOOP:\nsetp.ge.s32 %p3, %r8, %r2;\n@%p3 bra END;",
        "add.s32 %r8, %r8, {step};\nbra LOOP;",
    ),
    "down": (
        "mov.u32 %r8, %r2;\nsetp.lt.s32 %p3, %r2, 1;\n@%p3 bra END;\nLOOP:",
        "sub.s32 %r8, %r8, {step};\nsetp.gt.s32 %p4, %r8, 0;\n@%p4 bra LOOP;",
    ),
    "until zero": (
        "and.b32 %r9, %r2, -4;\nsetp.lt.s32 %p3, %r9, 4;\n@%p3 bra END;\nLOOP:",
        "add.s32 %r8, %r8, {step};\nadd.s32 %r9, %r9, -4;\n"
        "setp.ne.s32 %p4, %r9, 0;\n@%p4 bra LOOP;",
    ),
    "by twos": (  # as clang unrolls
        "setp.lt.s32 %p3, %r2, 4;\n@%p3 bra END;\nadd.s32 %r9, %r2, -2;\n"
        "and.b32 %r9, %r9, -2;\nmov.u32 %r12, 0;\nLOOP:",
        "add.s32 %r8, %r8, {step};\nadd.s32 %r12, %r12, 2;\n"
        "setp.ne.s32 %p4, %r9, %r12;\n@%p4 bra LOOP;",
    ),
    "halves": (
        "shr.u32 %r9, %r2, 1;\nsetp.lt.s32 %p3, %r9, 1;\n@%p3 bra END;\nLOOP:",
        "add.s32 %r8, %r8, {step};\nsetp.lt.s32 %p4, %r8, %r9;\n@%p4 bra LOOP;",
    ),
    "strided": (
        "mov.u32 %r11, %nctaid.x;\nmul.lo.s32 %r12, %r4, %r11;\nmov.u32 %r8, %r6;\n"
        "setp.ge.s32 %p3, %r8, %r2;\n@%p3 bra END;\nLOOP:",
        "add.s32 %r8, %r8, %r12;\nsetp.lt.s32 %p4, %r8, %r2;\n@%p4 bra LOOP;",
    ),
    "strided, not guarded": (
        "mov.u32 %r8, %r6;\nLOOP:",
        "add.s32 %r8, %r8, 256;\nsetp.lt.u32 %p4, %r8, %r2;\n@%p4 bra LOOP;",
    ),
    "rest of an unrolled loop": (
        "and.b32 %r9, %r2, 3;\nsetp.eq.s32 %p3, %r9, 0;\n@%p3 bra END;\nLOOP:",
        "add.s32 %r8, %r8, {step};\nadd.s32 %r9, %r9, -1;\n"
        "setp.ne.s32 %p4, %r9, 0;\n@%p4 bra LOOP;",
    ),
    "rest that differs by thread": (
        "and.b32 %r9, %r6, 3;\nsetp.eq.s32 %p3, %r9, 0;\n@%p3 bra END;\nLOOP:",
        "add.s32 %r8, %r8, {step};\nadd.s32 %r9, %r9, -1;\n"
        "setp.ne.s32 %p4, %r9, 0;\n@%p4 bra LOOP;",
    ),
    "entered on two ways": (
        "setp.lt.s32 %p3, %r2, 1;\n@%p3 bra END;\nand.b32 %r9, %r2, 1;\n"
        "setp.eq.s32 %p5, %r9, 0;\n@%p5 bra LOOP;\nadd.s32 %r8, %r8, 1;\n"
        "setp.ge.s32 %p6, %r8, %r2;\n@%p6 bra END;\nLOOP:",
        "add.s32 %r8, %r8, {step};\nsetp.lt.s32 %p4, %r8, %r2;\n@%p4 bra LOOP;",
    ),
    "down, tested ahead": (  # as nvcc unrolls
        "mov.u32 %r8, %r2;\nsetp.lt.s32 %p3, %r2, 1;\n@%p3 bra END;\nLOOP:",
        "setp.gt.s32 %p4, %r8, {step};\nsub.s32 %r8, %r8, {step};\n@%p4 bra LOOP;",
    ),
    "down, tested ahead, not guarded": (
        "add.s32 %r8, %r2, 3;\nLOOP:",
        "setp.gt.s32 %p4, %r8, {step};\nsub.s32 %r8, %r8, {step};\n@%p4 bra LOOP;",
    ),
    "from each thread on": (
        "mov.u32 %r8, %r6;\nsetp.ge.s32 %p3, %r8, %r2;\n@%p3 bra END;\nLOOP:",
        "add.s32 %r8, %r8, {step};\nsetp.lt.s32 %p4, %r8, %r2;\n@%p4 bra LOOP;",
    ),
    "up to each thread": (
        "setp.lt.s32 %p3, %r6, 1;\n@%p3 bra END;\nLOOP:",
        "add.s32 %r8, %r8, {step};\nsetp.lt.s32 %p4, %r8, %r6;\n@%p4 bra LOOP;",
    ),
    "up to a bound of 64 bits": (
        "mul.wide.s32 %rd5, %r2, 3;\nsetp.lt.s32 %p3, %r2, 1;\n@%p3 bra END;\nLOOP:",
        "add.s32 %r8, %r8, {step};\ncvt.s64.s32 %rd4, %r8;\n"
        "setp.lt.s64 %p4, %rd4, %rd5;\n@%p4 bra LOOP;",
    ),
    "strided, to a bound of 64 bits": (
        "mul.wide.s32 %rd5, %r2, 3;\nmov.u32 %r11, %nctaid.x;\nmul.lo.s32 %r12, %r4, %r11;\n"
        "mov.u32 %r8, %r6;\ncvt.s64.s32 %rd4, %r8;\nsetp.ge.s64 %p3, %rd4, %rd5;\n"
        "@%p3 bra END;\nLOOP:",
        "add.s32 %r8, %r8, %r12;\ncvt.s64.s32 %rd4, %r8;\nsetp.lt.s64 %p4, %rd4, %rd5;\n"
        "@%p4 bra LOOP;",
    ),
    "halved": (
        "mov.u32 %r8, %r2;\nsetp.lt.s32 %p3, %r2, 1;\n@%p3 bra END;\nLOOP:",
        "shr.u32 %r8, %r8, {step};\nsetp.ne.s32 %p4, %r8, 0;\n@%p4 bra LOOP;",
    ),
    "doubled": (
        "mov.u32 %r8, 1;\nsetp.le.u32 %p3, %r2, 1;\n@%p3 bra END;\nLOOP:",
        "shl.b32 %r8, %r8, {step};\nsetp.lt.u32 %p4, %r8, %r2;\n@%p4 bra LOOP;",
    ),
    "at least once": (
        "LOOP:",
        "add.s32 %r8, %r8, {step};\nsetp.lt.s32 %p4, %r8, %r2;\n@%p4 bra LOOP;",
    ),
    "once, tested inside": (
        "mov.u32 %r8, 2147483647;\nLOOP:\nsetp.ge.s32 %p5, %r8, %r2;\n@%p5 bra NEXT;",
        "NEXT:\nadd.s32 %r8, %r8, {step};\nsetp.lt.s32 %p4, %r8, %r2;\n@%p4 bra LOOP;",
    ),
}
PLACES = {
    "linear": "mad.lo.s32 %r10, %r6, {factor}, %r8;",
    "rows": "mad.lo.s32 %r10, %r8, %r1, %r6;",
    "columns": "mad.lo.s32 %r10, %r6, %r2, %r8;",
    "along": "mul.lo.s32 %r10, %r8, {factor};",
    "away": "sub.s32 %r10, %r6, %r8;",
    "high bits": "shr.u32 %r10, %r2, 20;",
    "high bits of a sum": "add.s32 %r11, %r1, %r2;\nshr.u32 %r10, %r11, 17;",
    "without low bits": "shr.u32 %r11, %r2, 3;\nshl.b32 %r10, %r11, 3;",
    "a sum without low bits": "add.s32 %r12, %r1, %r2;\nshr.u32 %r11, %r12, 3;\n"
    "shl.b32 %r10, %r11, 3;",
}
WIDER = {"signed": "mul.wide.s32", "unsigned": "mul.wide.u32"}


def kernel(
    index: str, guard: str, loop: str, place: str, wider: str = "signed", *, step: int = 1,
    factor: int = 1, size: int = 1, shift: int = 0,
) -> str:  # fmt: skip
    """One store of a byte, at `size · place + shift`."""
    before, after = LOOPS[loop]
    address = f"{WIDER[wider]} %rd2, %r10, {size};\nadd.s64 %rd3, %rd1, %rd2;"
    body = (INDICES[index], GUARDS[guard], before, PLACES[place], address, TAIL, after)
    text = "\n".join(body)
    for name, value in (("step", step), ("factor", factor), ("shift", shift)):
        text = text.replace(f"{{{name}}}", str(value))
    return f"{HEAD}{text}\nEND:\n\tret;\n}}\n"


def ranges(text: str) -> tuple[Range, ...] | str:
    """Of the store of a kernel; why it has none."""
    module = parse(text)
    solver = Solver()
    trace = emulate(module, module.kernels[0], solver=solver)
    names = {name: trace.terms.atom(name, 32, 0) for name in "nm"}  # type: ignore[arg-type]
    grid = Grid.of(
        trace,
        dict.fromkeys(names.values(), LIMIT - 1),
        lambda claim, given: isinstance(solver.prove(claim, given), Proved),
    )
    access = next((a for a in trace.accesses if a.kind == "store"), None)
    if access is None:
        return "no thread comes to the store"
    try:
        return touched_ranges(grid, access)
    except Unbounded as reason:
        return str(reason)


def value(polynomial: Polynomial, known: dict[str, int]) -> Fraction:
    total = Fraction(0)
    for monomial, factor in polynomial:
        for atom in monomial:
            factor *= known[_name(atom)]
        total += factor
    return total / polynomial.denominator


def _name(atom: Term) -> str:
    return str(atom.value)


def touched(text: str, blocks: int, threads: int, n: int, m: int) -> set[int]:
    """The bytes that a launch writes, counted from the pointer."""
    memory = {WHERE: np.zeros(2 * MIDDLE, "u1")}
    arguments = [WHERE + MIDDLE, n & 0xFFFFFFFF, m & 0xFFFFFFFF]
    result = launch(parsed(text), "k", blocks, threads, arguments, memory=memory, limit=4000)
    return {int(at) - MIDDLE for at in np.flatnonzero(result.memory[WHERE])}


def told(found: tuple[Range, ...], blocks: int, threads: int, n: int, m: int) -> list[range] | None:
    """The bytes that ranges allow for a launch; None where they promise nothing."""
    if not (0 <= n < LIMIT and 0 <= m < LIMIT):
        return None
    known = {"n": n, "m": m, "%ntid.x": threads, "%nctaid.x": blocks}
    if any(value(need, known) > 0 for one in found for need in one.needs):
        return None
    return [range(int(value(one.low, known)), int(value(one.high, known))) for one in found]


def within(written: set[int], allowed: list[range]) -> bool:
    return all(any(at in bytes_ for bytes_ in allowed) for at in written)


def drawn(random: Random) -> str:
    names = [random.choice(list(table)) for table in (INDICES, GUARDS, LOOPS, PLACES, WIDER)]
    return kernel(
        *names,
        step=random.choice([1, 2, 3, 4]),
        factor=random.choice([1, 2, -1, 5]),
        size=random.choice([1, 4]),
        shift=random.choice([0, -4, 3]),
    )


@pytest.mark.parametrize("place", [name for name in PLACES if "low bits" in name])
def test_numbers_without_their_low_bits_have_ranges(place: str) -> None:
    found = ranges(kernel("thread", "none", "none", place))
    assert not isinstance(found, str)
    for n, m in ((5, 7), (16, 16), (9, 9), (31, 17), (8, 0), (1, 1 << 14)):
        allowed = told(found, 1, 4, n, m)
        assert allowed is None or within(
            touched(kernel("thread", "none", "none", place), 1, 4, n, m), allowed
        )


@pytest.mark.parametrize("place", [name for name in PLACES if name.startswith("high bits")])
def test_high_bits_are_not_taken_for_nothing(place: str) -> None:
    """Of 32 bits those from bit 20 on were once said to be 0: all low ones were taken away."""
    found = ranges(kernel("thread", "none", "none", place))
    for n, m in ((5, 7), (1 << 17, 1), (3, 1 << 22), (1 << 21, 1 << 23)):
        allowed = None if isinstance(found, str) else told(found, 1, 4, n, m)
        assert allowed is None or within(
            touched(kernel("thread", "none", "none", place), 1, 4, n, m), allowed
        )


@pytest.mark.parametrize("seed", range(60))
def test_no_thread_leaves_its_range(seed: int) -> None:
    random = Random(seed)
    text = drawn(random)
    found = ranges(text)
    if isinstance(found, str):
        return
    for _ in range(6):
        numbers = (random.randint(1, 3), random.randint(1, 9), *(
            random.choice([-(1 << 31), -2, 0, 1, 2, 3, 4, 7, 12, (1 << 31) - 1, (1 << 30) - 1])
            for _ in range(2)
        ))  # fmt: skip
        allowed = told(found, *numbers)
        if allowed is None or any(max(abs(r.start), abs(r.stop)) > MIDDLE for r in allowed):
            continue
        try:
            written = touched(text, *numbers)
        except RunError as error:
            if "no end after" in str(error):
                continue
            pytest.fail(f"{text}\n{numbers}: {error}")
        assert within(written, allowed), (text, numbers)


@pytest.mark.parametrize(
    ("index", "guard", "loop", "place"),
    [
        ("thread", "none", "none", "linear"),
        ("grid", "less", "none", "linear"),
        ("grid", "unsigned", "up", "rows"),
        ("grid", "at least", "none", "linear"),
        ("grid", "less", "up, unsigned", "rows"),
        ("grid", "less", "up, left before a jump back", "rows"),
        ("grid", "less", "until zero", "rows"),
        ("grid", "less", "by twos", "rows"),
        ("grid", "less", "down", "linear"),
        ("thread", "equal", "up", "linear"),
        ("grid", "less", "up", "away"),
        ("grid", "none", "strided", "along"),
        ("thread", "none", "strided", "along"),
        ("grid", "less", "tested first", "rows"),
        ("grid", "less", "entered on two ways", "rows"),
        ("grid", "less", "down, tested ahead", "linear"),
        ("thread", "none", "up to a bound of 64 bits", "linear"),
        ("grid", "none", "strided, to a bound of 64 bits", "along"),
    ],
)
def test_bounds_are_reached(index: str, guard: str, loop: str, place: str) -> None:
    """The first and the last byte of a range are touched: nothing is given away."""
    text = kernel(index, guard, loop, place, step={"until zero": 4, "by twos": 2}.get(loop, 1))
    found = ranges(text)
    assert not isinstance(found, str), found
    numbers = (2, 8, 12, 8)
    allowed, written = told(found, *numbers), touched(text, *numbers)
    assert allowed is not None and within(written, allowed)
    assert min(written) == min(each.start for each in allowed)
    assert max(written) + 1 == max(each.stop for each in allowed)


@pytest.mark.parametrize("loop", ["halved", "doubled", "rest that differs by thread"])
def test_what_no_fixed_step_changes_has_a_range(loop: str) -> None:
    text = kernel("thread", "none", loop, "along", "unsigned")
    found = ranges(text)
    assert not isinstance(found, str), found
    for m in (1, 2, 3, 8, 9):
        allowed = told(found, 1, 7, 3, m)
        assert allowed is not None and within(touched(text, 1, 7, 3, m), allowed)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (kernel("grid", "less", "until zero", "rows", step=3), "its bounds are not integers"),
        (
            kernel("grid", "less", "at least once", "linear"),
            "the trip count of a loop is not known",
        ),
        (kernel("backwards", "none", "none", "linear", "unsigned"), None),
        (
            kernel("grid", "less", "until zero", "rows").replace(
                "add.s32 %r9, %r9, -4", "add.s32 %r9, %r9, -3"
            ),
            "the trip count of a loop is not known",
        ),
        (
            kernel("grid", "less", "none", "linear").replace(
                "mov.u32 %r8, 0;", "ld.global.u32 %r8, [%rd1];"
            ),
            "its index is not bounded",
        ),
    ],
)
def test_what_has_no_range(text: str, reason: str | None) -> None:
    found = ranges(text)
    if reason is None:
        assert not isinstance(found, str) and any(one.needs for one in found)
    else:
        assert found == reason
