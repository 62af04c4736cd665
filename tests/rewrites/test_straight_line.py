"""Strength reduction without a loop: addresses that are made from one another."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pytest

from benchmarks.programs.program import HERE
from benchmarks.programs.straight import STRAIGHT
from ptxsw.cost.combined import Question
from ptxsw.cost.counted import NotCounted, answers
from ptxsw.cost.counted import tools as programs
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.flow.cfg import build
from ptxsw.parser import parse
from ptxsw.rewrites.iteration_cost import IterationCost
from ptxsw.simt import launch
from tests.cost.conftest import tools
from tests.heads import head
from tests.parsed import parsed
from tests.rewrites.pair import is_proved, new_lines, reasons, rewritten
from tests.rewrites.test_strength_wraps import WIDE, Launch, check

__all__ = ["tools"]  # a fixture

REWRITE = "strength-reduction"
NONE = "no shared base would make its addresses cheaper"

KERNEL = (
    head("8.0", "sm_80")
    + """.visible .entry k(.param .u64 n, .param .u64 m, .param .u64 in, .param .u64 out)
{{
	.reg .pred %p<4>;
	.reg .b32 %r<30>;
	.reg .f32 %f<30>;
	.reg .b64 %rd<60>;
	.shared .align 4 .b8 tile[16384];
	ld.param.u64 %rd1, [n];
	ld.param.u64 %rd2, [m];
	ld.param.u64 %rd3, [in];
	ld.param.u64 %rd4, [out];
	cvt.u32.u64 %r1, %rd1;
	cvt.u32.u64 %r2, %rd2;
	mov.u32 %r3, %tid.x;
	cvt.u64.u32 %rd5, %r3;
	mul.wide.u32 %rd6, %r3, 4;
	add.s64 %rd7, %rd4, %rd6;
	{body}
	st.global.f32 [%rd7], %f1;
	ret;
}}
"""
)


def kernel(*body: str) -> str:
    return KERNEL.format(body="\n\t".join(line for part in body for line in part.splitlines()))


def row(number: int, into: int = 2) -> str:
    """Lines that load `in[(tid + number)·n + m]`, as nvcc writes them, and add it up."""
    at = 10 + 5 * number
    return "\n".join([
        f"add.s64 %rd{at}, %rd5, {number};",
        f"mul.lo.s64 %rd{at + 1}, %rd{at}, %rd1;",
        f"add.s64 %rd{at + 2}, %rd{at + 1}, %rd2;",
        f"shl.b64 %rd{at + 3}, %rd{at + 2}, 2;",
        f"add.s64 %rd{at + 4}, %rd3, %rd{at + 3};",
        f"ld.global.f32 %f{into}, [%rd{at + 4}];",
        f"add.f32 %f1, %f1, %f{into};",
    ])  # fmt: skip


def narrow(add: str, at: int, sign: str = "u", base: str = "%rd3") -> str:
    """Lines that load `in[index]` behind what sets index `%r{at}`."""
    return "\n".join([
        add,
        f"mul.wide.{sign}32 %rd{2 * at}, %r{at}, 4;",
        f"add.s64 %rd{2 * at + 1}, {base}, %rd{2 * at};",
        f"ld.global.f32 %f{at}, [%rd{2 * at + 1}];",
        f"add.f32 %f1, %f1, %f{at};",
    ])  # fmt: skip


ZERO = "mov.f32 %f1, 0f00000000;"
ROWS = kernel(ZERO, row(0), row(1), row(2), row(3))
# in[i], in[i + n], in[i + 2n], in[i + n - 1] and so on, of unsigned i and n
INDICES = kernel(
    ZERO,
    "mad.lo.s32 %r10, %r3, %r2, %r1;",
    narrow("add.s32 %r11, %r10, -1;", 11), narrow("add.s32 %r12, %r10, 1;", 12),
    narrow("add.s32 %r13, %r10, %r1;", 13), narrow("add.s32 %r14, %r13, -1;", 14),
    narrow("add.s32 %r15, %r13, 1;", 15), narrow("add.s32 %r16, %r13, %r1;", 16),
    narrow("add.s32 %r17, %r16, -1;", 17), narrow("add.s32 %r18, %r16, 1;", 18),
    narrow("add.s32 %r19, %r16, %r1;", 19), narrow("add.s32 %r20, %r19, -1;", 20),
    narrow("add.s32 %r21, %r19, 1;", 21),
)  # fmt: skip


def made(text: str, mode: str = "force") -> str:
    """What the rewrite makes, whatever ptxas would say of it."""
    return optimize(text, Options(mode, rewrites=(REWRITE,), arch="sm_50")).text


def run(text: str, n: int, m: int, threads: int = 5) -> dict[int, bytes]:
    """What memory holds behind a launch with noise where it loads."""
    random = np.random.default_rng(7)
    memory = {1 << 44: random.random(1 << 14, "f4"), 1 << 45: np.zeros(64, "f4")}
    origin = (1 << 44) + (1 << 15)
    done = launch(parsed(text), "k", (1,), threads, [n, m, origin, 1 << 45], memory=memory)
    return {at: bytes(array.tobytes()) for at, array in done.memory.items()}


# ---------------------------------------------------------------- without a test


def test_rows_are_made_from_one_another() -> None:
    """Products and sums of 64 bits are exact modulo 2^64: there is nothing to test."""
    result = rewritten(REWRITE, ROWS, arch="sm_50")
    assert new_lines(ROWS, result) == [
        "shl.b64 %sw_base1, %rd1, 2;",
        "add.s64 %sw_base2, %rd14, %sw_base1;",
        "ld.global.f32 %f2, [%sw_base2];",
        "add.s64 %sw_base3, %sw_base2, %sw_base1;",
        "ld.global.f32 %f2, [%sw_base3];",
        "add.s64 %sw_base4, %sw_base3, %sw_base1;",
        "ld.global.f32 %f2, [%sw_base4];",
    ]
    assert is_proved(ROWS, result.text)
    for n, m in ((3, 1), (200, 9), (WIDE - 3, 7), (1 << 62, 5), ((1 << 63) + 2, WIDE - 4)):
        assert run(result.text, n, m) == run(ROWS, n, m)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("shl.b64 %sw_base1, %rd1, 2", "shl.b64 %sw_base1, %rd1, 3"),
        ("add.s64 %sw_base3, %sw_base2,", "add.s64 %sw_base3, %rd14,"),
        ("add.s64 %sw_base2, %rd14, %sw_base1", "sub.s64 %sw_base2, %rd14, %sw_base1"),
        ("[%sw_base4]", "[%sw_base4+4]"),
    ],
)
def test_mutants_of_rows(right: str, wrong: str) -> None:
    new = made(ROWS)
    assert right in new
    mutant = new.replace(right, wrong)
    assert not is_proved(ROWS, mutant)
    assert run(mutant, 3, 1) != run(ROWS, 3, 1)


def test_the_cheapest_row_may_be_made_first() -> None:
    """That of index `tid` itself, although it stands behind another one."""
    text = STRAIGHT["life-long"].path.read_text()
    new = made(text)
    early = [line.split("//")[0].strip() for line in new.splitlines() if "%sw_early" in line]
    assert [line.split()[0] for line in early[1:5]] == [
        "mul.lo.s64",
        "add.s64",
        "shl.b64",
        "add.s64",
    ]
    assert "mov.b64 %rd19, %sw_early4;" in early
    assert is_proved(text, new)


def test_a_register_that_is_set_again_is_copied() -> None:
    again = row(1).replace("%rd15", "%rd10").replace("%rd16", "%rd11").replace("%rd17", "%rd12")
    again = again.replace("%rd18", "%rd13").replace("%rd19", "%rd14")
    text = kernel(ZERO, row(0), again, row(2), row(3))
    new = made(text)
    assert re.search(r"mov\.b64 %sw_base\d+, %rd14;", new)
    assert is_proved(text, new) and run(new, 3, 1) == run(text, 3, 1)


def test_a_size_that_changes_between_is_none() -> None:
    """`n` of the second two rows is another register version than that of the first two."""
    text = kernel(ZERO, row(0), row(1), "add.s64 %rd1, %rd1, 1;", row(2), row(3))
    new = made(text)
    assert run(new, 3, 1) == run(text, 3, 1)
    assert new == text or is_proved(text, new)


def test_of_two_arms_none_is_made_from_the_other() -> None:
    body = ("setp.lt.u32 %p1, %r3, 2;", "@%p1 bra ARM;", row(0), row(1), "bra END;", "ARM:")
    text = kernel(ZERO, *body, row(2), row(3), "END:")
    new = made(text)
    arm = new.split("ARM:")[1]
    assert "%rd14" not in arm.split("END:")[0]  # the address of the other arm
    assert is_proved(text, new)
    assert run(new, 3, 1) == run(text, 3, 1)


def test_what_meets_behind_a_branch_is_a_value_of_its_own() -> None:
    body = ("mov.u64 %rd50, %rd5;", row(0), "setp.lt.u32 %p1, %r3, 2;", "@%p1 bra OTHER;")
    more = ("add.s64 %rd5, %rd5, 1;", "OTHER:", row(1), row(2))
    text = kernel(ZERO, *body, *more)
    new = made(text)
    assert run(new, 3, 1) == run(text, 3, 1)
    assert new == text or is_proved(text, new)


def test_a_loop_body() -> None:
    """As after unrolling: within one iteration the carried register is one value."""
    loop = (
        ZERO, "mov.u32 %r20, 0;", "LOOP:", row(0), row(1), row(2),
        "ld.global.u32 %r21, [%rd7+128];", "cvt.u64.u32 %rd50, %r21;",
        "add.s64 %rd5, %rd5, %rd50;", "add.s32 %r20, %r20, 1;",
        "setp.lt.u32 %p1, %r20, 3;", "@%p1 bra LOOP;",
    )  # fmt: skip
    text = kernel(*loop)
    new = made(text)
    assert "%sw_base" in new
    assert is_proved(text, new) and run(new, 3, 1) == run(text, 3, 1)


def test_shared_memory_is_addressed_modulo_two_to_the_32() -> None:
    def tile(number: int) -> str:
        at = 10 + 4 * number
        return "\n".join([
            f"add.s32 %r{at}, %r3, {number};",
            f"mul.lo.s32 %r{at + 1}, %r{at}, %r1;",
            f"shl.b32 %r{at + 2}, %r{at + 1}, 2;",
            f"add.s32 %r{at + 3}, %r4, %r{at + 2};",
            f"ld.shared.f32 %f2, [%r{at + 3}];",
            "add.f32 %f1, %f1, %f2;",
        ])  # fmt: skip

    fill = ("mov.u32 %r4, tile;", "shl.b32 %r5, %r3, 2;", "add.s32 %r6, %r4, %r5;")
    text = kernel(ZERO, *fill, tile(0), tile(1), tile(2), tile(3))
    new = made(text)
    assert "%sw_base" in new and is_proved(text, new)


def test_guards_that_bound_an_index_make_a_test_needless() -> None:
    """0 < i < n - 1: neither i - 1 nor i + 1 wraps."""
    guard = (
        "setp.eq.s32 %p1, %r3, 0;", "@%p1 bra END;",
        "add.s32 %r9, %r1, -1;", "setp.ge.u32 %p2, %r3, %r9;", "@%p2 bra END;",
    )  # fmt: skip
    near = (narrow("add.s32 %r10, %r3, -1;", 10), narrow("mov.u32 %r11, %r3;", 11),
            narrow("add.s32 %r12, %r3, 1;", 12))  # fmt: skip
    text = kernel(ZERO, *guard, *near, "END:")
    new = made(text)
    assert "%sw_exact" not in new
    assert "[%rd21+4]" in new and "[%rd21+8]" in new
    assert is_proved(text, new) and run(new, 4, 1) == run(text, 4, 1)


# ---------------------------------------------------------------- behind a test


def test_one_test_serves_all_indices() -> None:
    """Of a size and the lowest index; the stretch stands twice."""
    result = rewritten(REWRITE, INDICES, arch="sm_50")
    lines = new_lines(INDICES, result)
    assert lines[:4] == [
        "setp.le.u32 %sw_exact1, %r11, 2147483646;",
        "setp.le.and.u32 %sw_exact2, %r1, 536870912, %sw_exact1;",
        "@!%sw_exact2 bra $sw_slow1;",
        "ld.global.f32 %f12, [%rd23+8];",
    ]
    assert is_proved(INDICES, result.text)
    assert run(result.text, 3, 2) == run(INDICES, 3, 2)
    (kernel_,) = result.report.kernels
    (change,) = kernel_.rewrites or ()
    assert change.rewrite == REWRITE


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("2147483646", "4294967295"),
        ("%r1, 536870912", "%r1, 2147483647"),
        ("@!%sw_exact2 bra", "@%sw_exact2 bra"),
        ("setp.le.u32 %sw_exact1", "setp.le.s32 %sw_exact1"),
        ("%r11, 2147483646", "%r3, 2147483646"),
    ],
)
def test_mutants_of_a_test(right: str, wrong: str) -> None:
    new = made(INDICES)
    assert right in new
    assert not is_proved(INDICES, new.replace(right, wrong))


def test_the_least_index_is_tested_where_sizes_are_taken_from_it() -> None:
    """Rows above come last: i - 2·n may wrap, too."""
    rows = ["mad.lo.s32 %r10, %r3, %r2, %r2;", narrow("add.s32 %r11, %r10, 1;", 11)]
    below = ("add.s32 %r12, %r10, %r1;", "add.s32 %r13, %r12, %r1;")
    above = ("sub.s32 %r14, %r10, %r1;", "sub.s32 %r15, %r14, %r1;")
    for number, row_ in enumerate((*below, *above), 12):
        rows += [row_, narrow(f"add.s32 %r{number + 8}, %r{number}, 1;", number + 8)]
        rows += [narrow(f"add.s32 %r{number + 4}, %r{number}, 2;", number + 4)]
    text = kernel(ZERO, *rows)
    new = made(text)
    (least,) = (line.strip() for line in new.splitlines() if "setp.ge" in line)
    assert least == "setp.ge.and.u32 %sw_exact3, %r11, %sw_low1, %sw_exact2;"
    assert is_proved(text, new)
    assert not is_proved(text, new.replace("setp.ge.and", "setp.ge.or"))
    assert not is_proved(text, new.replace("%sw_low1, %r1, 1", "%sw_low1, %r1, 0"))
    assert check(text, new, [*WRAPS, Launch((7, 3)), Launch((3, 7))])


WRAPS = [
    Launch(((1 << 31) + 3, 1)), Launch(((1 << 32) - 1, 2)), Launch((3, (1 << 32) - 1)),
    Launch((5, 1 << 31)), Launch(((1 << 30) + 77, (1 << 31) - 9)),
    # At the ends of what the test lets pass.
    Launch((1 << 29, 1)), Launch(((1 << 29) + 1, 1)), Launch((1 << 29, 3 << 29)),
    Launch((1 << 29, (3 << 29) + 1)), Launch((1, (1 << 31) - 1)),
]  # fmt: skip


def test_bit_for_bit_where_indices_wrap() -> None:
    assert check(INDICES, made(INDICES), WRAPS)


@pytest.mark.parametrize("name", [f"{name}-unsigned" for name in ("stencil27", "points15")])
def test_programs_where_indices_wrap(name: str) -> None:
    text = STRAIGHT[name].path.read_text()
    sizes = [((1 << 31) + 3, 5, 4), ((1 << 30) + 77, 1 << 20, 9), ((1 << 32) - 40, 3, 3)]
    launches = [Launch(each, grid=(2, 3, 2), number=7) for each in sizes]
    assert check(text, made(text), launches)


@pytest.mark.parametrize("name", [f"{name}-long" for name in ("stencil27", "points15")])
def test_programs_of_64_bits_where_sums_wrap(name: str) -> None:
    text = STRAIGHT[name].path.read_text()
    size = (1 << 62) + 3, (1 << 61) + 9, 5
    launched = Launch(size, grid=(1, 2, 2), number=1)
    assert not check(text, made(text), [launched])  # there is no test to leave out


def test_two_arrays_and_signed_indices() -> None:
    """Behind the test sign- and zero-extended indices are alike."""
    text = kernel(
        ZERO, "mad.lo.s32 %r10, %r3, %r2, %r1;",
        *(narrow(f"add.s32 %r{at}, %r10, {at - 14};", at, "su"[at % 2]) for at in range(11, 19)),
    )  # fmt: skip
    new = made(text)
    assert "%sw_exact" in new and "2147483640" in new
    assert is_proved(text, new) and run(new, 9, 1) == run(text, 9, 1)


# ---------------------------------------------------------------- what stays


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (INDICES.replace("add.s32 %r14,", "bar.sync 0;\n\tadd.s32 %r14,"),
         "bar.sync is in the code, which would be duplicated"),
        (INDICES.replace("\tret;", "\tactivemask.b32 %r9;\n\tst.global.u32 [%rd7], %r9;\n\tret;"),
         "it would need a branch, and the kernel asks which lanes are active"),
        (kernel(ZERO, row(0)), NONE),
        (kernel(ZERO, narrow("add.s32 %r11, %r3, 1;", 11)), NONE),
        # Each at the place that a load tells.
        (kernel(ZERO, "ld.global.u64 %rd50, [%rd3];", "ld.global.f32 %f1, [%rd50];"), NONE),
    ],
)  # fmt: skip
def test_what_stays(text: str, reason: str) -> None:
    result = rewritten(REWRITE, text, arch="sm_50")
    assert result.text == text
    assert reasons(result) == [reason]


def test_accesses_may_be_too_many() -> None:
    loads = "\n".join("ld.global.f32 %f2, [%rd7];" for _ in range(1025))
    assert reasons(rewritten(REWRITE, kernel(ZERO, loads))) == ["it has too many accesses"]


def test_it_stays_only_where_ptxas_makes_less(tools: object) -> None:
    """Signed indices: nvcc has made rows of them already."""
    two = kernel(ZERO, "ld.global.f32 %f2, [%rd7+4];", "add.s64 %rd50, %rd7, 8;",
                 "ld.global.f32 %f3, [%rd50];", row(0), row(1))  # fmt: skip
    result = optimize(two, Options("force", rewrites=(REWRITE,), arch="sm_80"))
    assert result.text != two or "ptxas's output" in reasons(result)[0]


# ---------------------------------------------------------------- counted

MOST = {"stencil27-long": (0.86, 0.86, 0.86, 0.96), "stencil27-unsigned": (0.92,) * 4,
        "points15-long": (0.9,) * 4, "fields": (0.9,) * 4,
        "life-long": (0.96,) * 4, "diffusion-opencl": (0.9,) * 4}  # fmt: skip


@pytest.mark.parametrize("name", MOST)
def test_programs_take_less(tools: object, name: str) -> None:
    """Executed instructions; what stands behind a failed test is not."""
    text = re.sub(r"\.version [\d.]+", ".version 8.7", STRAIGHT[name].path.read_text())
    for arch, most in zip(("sm_75", "sm_80", "sm_90", "sm_120"), MOST[name], strict=True):
        aimed = text.replace(".target sm_80", f".target {arch}")
        result = optimize(aimed, Options("auto", arch=arch))
        (told,) = result.report.kernels
        assert told.decision is not None and told.decision.kept
        was, now = counted(told.decision.reason)
        assert now <= most * was, (arch, was, now)


@pytest.mark.parametrize(
    ("name", "most"),
    [("points15-unsigned", 0.9), ("life-unsigned", 0.94), ("diffusion-numba", 0.9)],
)
def test_programs_take_less_where_it_is_forced(tools: object, name: str, most: float) -> None:
    text = re.sub(r"\.version [\d.]+", ".version 8.7", STRAIGHT[name].path.read_text())
    text = text.replace(".target sm_80", ".target sm_90")
    result = optimize(text, Options("force", rewrites=(REWRITE,), arch="sm_90"))
    asked = Question((parse(text), parse(result.text)), STRAIGHT[name].entry, "sm_90")
    (answer,) = answers([asked], programs("sm_90"))
    assert not isinstance(answer, NotCounted)
    before, after = (each.instructions for each in answer)
    assert after <= most * before


def counted(reason: str) -> tuple[int, int]:
    found = re.search(r"instructions (\d+) to (\d+)", reason)
    assert found is not None
    return int(found[1]), int(found[2])


# ---------------------------------------------------------------- made up


@pytest.mark.parametrize("seed", range(12))
def test_random_addresses(seed: int) -> None:
    random = Random(seed)
    text = made_up(random)
    new = made(text)
    assert new == text or is_proved(text, new)
    for n, m in ((3, 1), (17, 5), (random.randrange(64), random.randrange(64))):
        assert run(new, n, m) == run(text, n, m)


def made_up(random: Random) -> str:
    """Sums and products of registers, some of which are set again, and loads behind them."""
    body, known = [ZERO], ["%rd20", "%rd21", "%rd5"]
    body += [f"add.s64 %rd{at}, %rd5, {at};" for at in range(20, 37)]
    for number in range(14):
        into = random.choice(["%rd20", "%rd21", f"%rd{22 + number}"])
        a, b = random.choice(known), random.choice([*known, str(random.randrange(-3, 9))])
        operation = random.choice(["add.s64", "add.s64", "sub.s64", "mul.lo.s64"])
        guard = random.choice(["", "", "", "@%p1 "])
        body.append("setp.lt.u32 %p1, %r3, 2;" if guard else "")
        body.append(f"{guard}{operation} {into}, {a}, {b};")
        known.append(into)
        # What is loaded lies near: 12 bits of the sum.
        index = f"and.b64 %rd50, {into}, 1023;" if random.random() < 0.3 else ""
        body.append(index)
        place = "%rd50" if index else "%rd51"
        if not index:
            body.append(f"rem.u64 %rd51, {into}, 512;")
        for more in range(random.randrange(3)):
            step = random.choice(["%rd5", "%rd40"])
            body += [f"mad.lo.s64 %rd52, {step}, {more}, {place};", "shl.b64 %rd53, %rd52, 2;",
                     "add.s64 %rd54, %rd3, %rd53;", "ld.global.f32 %f2, [%rd54];",
                     "add.f32 %f1, %f1, %f2;"]  # fmt: skip
    return kernel("mov.u64 %rd40, 7;", *filter(None, body))


# ---------------------------------------------------------------- prices


@pytest.mark.parametrize(
    "name", ["stencil27-unsigned", "fields", "life-long", "lbm", "wavelet-gcc"]
)
def test_what_is_needed_again_is_priced_as_if_it_had_been_from_the_start(name: str) -> None:
    """Accesses that get their own addresses back one by one, of the kernel and of its loops."""
    random = Random(1)
    (function,) = parse((HERE / "ptx" / f"{name}.ptx").read_text()).kernels
    cfg = build(function.body)
    accesses = [at for at, i in enumerate(cfg.instructions) if i.opcode in ("ld", "st")]
    for loop in (None, *cfg.loops.values()):
        cost, moved = IterationCost(cfg, loop), frozenset(accesses)
        inside = [at for at in accesses if loop is None or cfg.block_of[at] in loop.blocks]
        growing = cost.growing(moved, frozenset())
        for at in random.sample(inside, min(12, len(inside))):
            moved -= {at}
            growing.add(growing.with_addresses([at]))
            assert growing.total == pytest.approx(cost.of(moved))
            register = random.choice(list(cost.writers))
            more = growing.with_register(register).cost
            assert growing.total + more == pytest.approx(
                cost.of(moved, kept=frozenset({register.name}))
            )
