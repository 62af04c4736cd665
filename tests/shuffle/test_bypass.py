"""Sources that a path leads around (rule 2): real kernels through the command line, the code that
is written for them, and what becomes of it when it is spoilt."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from ptxsw.changes.assumptions import DEFAULT_ASSUME
from ptxsw.changes.options import FORMS, SCHEMES
from ptxsw.codegen.emit import emit
from ptxsw.codegen.splice import apply
from ptxsw.driver.checked_texts import UNCHECKED
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.simt import launch
from ptxsw.validate import Proved
from tests.command_line import ptxsw
from tests.parsed import parsed
from tests.shuffle.looping import lengths, outputs, plain
from tests.shuffle.pairs import PAIRS
from tests.validate.test_warp import judged
from tests.verify.mutators import MUTATORS
from tests.verify.test_drafts import drafted

PTX = Path(__file__).parent / "ptx"
GUARDED, INFEASIBLE = (
    (PTX / f"{name}.ptx").read_text() for name in ("guarded_neighbours", "infeasible_path")
)
WAYS = [(s, f) for s in SCHEMES for f in FORMS if "auto" not in (s, f) and s != "keep"]
BLOCKS = [(32, 1, 1), (33, 1, 1), (7, 1, 1), (128, 1, 1), (16, 16, 1), (32, 4, 1), (24, 3, 1)]


@pytest.mark.parametrize(
    ("name", "deltas"), [("guarded_neighbours", [1, 2]), ("infeasible_path", [0])]
)
def test_from_the_command_line(name: str, deltas: list[int], tmp_path: Path) -> None:
    source, made = PTX / f"{name}.ptx", tmp_path / "out.ptx"
    done = ptxsw("optimize", source, "-o", made, "--mode", "force", "--scheme", "paper")
    assert done.returncode == 0 and b"not on every path" not in done.stdout
    found = re.findall(r"^\s+\d+\s+\d+\s+([+-]?\d+)\s+paper", done.stdout.decode(), re.MULTILINE)
    assert list(map(int, found)) == deltas
    compared = ptxsw("verify", source, made)
    assert compared.returncode == 0 and compared.stdout.startswith(b"proved")


def bytes_of(text: str, block: tuple[int, int, int], n: int, seed: int | None) -> bytes:
    threads = block[0] * block[1]
    a = np.random.default_rng(5).integers(1, 255, n, dtype=np.uint8)
    args = [a, np.zeros(2 * threads, np.int32), n]
    return launch(parsed(text), None, 2, block, args, seed=seed).buffers[1].tobytes()


@pytest.mark.parametrize("block", BLOCKS)
def test_guarded_neighbours_run_as_before(block: tuple[int, int, int]) -> None:
    """The array ends anywhere in a warp; not a byte is read behind its end."""
    texts = {optimize(GUARDED, Options("force", s, f)).text for s, f in WAYS}
    assert len(texts) > 3 and GUARDED not in texts
    for n in (1, 31, 32, 33, 34, 63, 2 * block[0]):
        before = bytes_of(GUARDED, block, n, None)
        assert all(bytes_of(text, block, n, s) == before for text in texts for s in (None, 3))


def test_an_index_that_wraps_is_still_tested() -> None:
    """2^31 - 1 is not below n, what follows it is: its lane loads for itself."""
    (kernel,) = optimize(GUARDED, Options("force", "paper")).report.kernels
    guards = [r.proof.guards[0] for r in kernel.rewrites or ()]
    assert [g.split(" (")[0] for g in guards] == ["%r1 + 1 does not wrap", "%r1 + 2 does not wrap"]


# ---------------------------------------------------------------- what is assumed


def test_conditions_read_from_memory_are_assumed_to_stay() -> None:
    text = PAIRS["guard_read_again"].text("right")
    alone = Options("force", rewrites=("shuffle",))
    (kernel,) = optimize(text, alone).report.kernels
    assert [r.proof.assumptions for r in kernel.rewrites or ()] == [("no-lane-race",)]
    careful = replace(alone, assume=DEFAULT_ASSUME - {"no-lane-race"})
    assert optimize(text, careful).report.kernels[0].shuffles == 0


def test_conditions_of_lanes_take_rows_that_do_not_wrap() -> None:
    """The addresses know lanes by `%laneid`; the guards by `%tid.x`."""
    body = PAIRS["neighbour_behind_a_guard"].body
    own = "mul.wide.u32 %rd5, %r4, 4;\nadd.s64 %rd6, %rd1, %rd5;\n" + body.replace("%rd4", "%rd6")
    for text, shape in ((own, True), (own.replace("%r3", "%r4"), False)):
        pair = replace(PAIRS["neighbour_behind_a_guard"], body=text.replace("HERE", "20"))
        pair = replace(pair, body=pair.body.replace(", 95;", ", 19;"))
        (kernel,) = optimize(pair.text("right"), Options("force", "paper")).report.kernels
        (rewrite,) = kernel.rewrites or ()
        assert ("no row of the block wraps inside a warp" in rewrite.proof.guards) == shape


# ---------------------------------------------------------------- what is checked


@cache
def planned(original: str) -> str:
    plan = drafted(original, "paper", "keep")
    text = apply(original, emit(original, plan))
    assert isinstance(judged(original, text), Proved)
    return text


def assert_found(original: str, spoilt: str) -> None:
    """There is no proof for a text."""
    assert spoilt != planned(original)
    assert not isinstance(judged(original, spoilt), Proved)


START, COPY = "mov.b32 %sw_src1, 0;", "mov.b32 %sw_src1, {%rs1, %rs1};"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (COPY, ""),
        ("$L__BB0_2:", f"$L__BB0_2:\n{START}"),  # what was kept is lost on the way
        ("$L__BB0_4:", f"$L__BB0_4:\n{COPY}"),
        ("activemask.b32 %sw_mask1;", f"{START}\nactivemask.b32 %sw_mask1;"),
        (COPY, f"{COPY}\n{START}"),
        ("-1, %sw_rows;", "0, %sw_rows;"),
    ],
)
def test_what_is_spoilt_is_found(old: str, new: str) -> None:
    assert_found(GUARDED, planned(GUARDED).replace(old, new, 1))


def test_what_is_kept_to_begin_with_may_be_anything() -> None:
    """It is never used; it is set for those who read the text."""
    text = planned(GUARDED)
    assert isinstance(judged(GUARDED, text.replace(START, "", 1)), Proved)


@pytest.mark.parametrize("mutator", MUTATORS)
@pytest.mark.parametrize("name", ["neighbour_behind_a_guard", "guard_in_a_loop"])
def test_mutants_are_killed(name: str, mutator: str) -> None:
    original = PAIRS[name].text("right")
    text = planned(original)
    spoilt = [one for one in MUTATORS[mutator](text) if one.count(START) == text.count(START)]
    assert spoilt or mutator in ("overflow_guard_dropped", "other_row")
    if (name, mutator) == ("guard_in_a_loop", "overflow_guard_dropped"):
        assert all(isinstance(judged(original, one), Proved) for one in spoilt)
        return  # an index of three iterations does not wrap, whether that is tested or not
    for one in spoilt:  # what is kept to begin with is never used: that may be anything
        assert_found(original, one)


def test_in_a_uniform_loop_nothing_is_kept_for_a_way_around() -> None:
    """Lanes that have left such a loop run through all of it."""
    guard = (
        "setp.gt.u32 %p{0}, %r10, 90;\n@%p{0} bra PAST{0};\nld.global.nc.f32 %f{1}, [%rd10+256];\n"
    )
    lines = [guard.format(5, 8) + "PAST5:", guard.format(6, 9) + "PAST6:\nadd.f32 %f3, %f3, %f9;"]
    text = plain(first="mov.f32 %f9, 0f00000000;\n" + lines[0], middle=lines[1])
    copies = {}
    for form in ("keep", "uniform"):
        result = optimize(text, Options("force", "paper", form))
        (kernel,) = result.report.kernels
        assert not [r for r in kernel.refusals or () if UNCHECKED in r.reason]
        copies[form] = kernel.copies, "sw_keep" in result.text
        for n in lengths((33, 1, 1)):
            assert outputs(result.text, (33, 1, 1), n) == outputs(text, (33, 1, 1), n)
    assert copies == {"keep": (1, True), "uniform": (0, False)}
