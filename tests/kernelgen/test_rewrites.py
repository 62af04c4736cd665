"""The table of rewrites and programs, and the wavefronts in it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks import rewrites
from benchmarks.programs.memory import MEMORY
from benchmarks.rewrites import Loop, Note, Row, measured, of_loop, programs, show
from benchmarks.wavefronts import Executed, Request, execute, wavefronts
from ptxsw.cost.machine_code import Control, MachineInstruction
from ptxsw.parser import parse
from ptxsw.toolchain.ptxas import NoPtxas


def table(
    program: str, *names: str, mode: str = "force", archs: Sequence[str] = ("sm_80",)
) -> list[Row | Note]:
    try:
        found = measured(program, names, archs, mode)
    except NoPtxas as error:
        pytest.skip(str(error))
    rows = [one for one in found if isinstance(one, Row)]
    if any(row.before.wavefronts is None for row in rows):
        pytest.skip("no nvdisasm")
    return found


def test_every_program_has_a_launch() -> None:
    for program in programs().values():
        assert program.path.is_file()
        assert all(run().expected for run in program.launches)


def test_columns_of_a_tile() -> None:
    """32 wavefronts a warp become one, for six instructions."""
    (row,) = table("transpose-float", "bank-conflicts")
    assert isinstance(row, Row)
    assert row.before.instructions + 6 == row.after.instructions
    assert (row.before.wavefronts, row.after.wavefronts) == (128 * (3 + 32), 128 * 4)
    assert row.good


def test_a_struct_of_eight_floats() -> None:
    """Four are read and written. What misaligned buffers would take is not executed."""
    (row,) = table("particles32", "vectorize")
    assert isinstance(row, Row)
    loads, stores, _, _ = zip(row.before.accesses, row.after.accesses, strict=True)
    assert (loads, stores) == ((4, 1), (4, 1))
    assert row.after.instructions <= row.before.instructions + 3
    assert row.before.wavefronts == 4 * (row.after.wavefronts or 0)
    assert row.verdict == "proved"


def test_iterations_of_a_loop_are_counted_in_what_is_executed() -> None:
    """Two sums an iteration, two iterations unrolled, and the way of misaligned buffers, at PTX
    offset 90, which the launch does not execute."""
    way = [("LDG.E.64", 10), ("FADD", 20), ("FFMA.FTZ", 30), ("FADD", 40), ("FMUL", 50)]
    slow = [("LDG.E", 90), ("LDG.E", 90), *(("FADD", 90) for _ in range(4)), ("BRA", 90)]
    added = [("IADD3", 60), ("BRA", 70), ("NOP", 70), ("MOV", None)]  # the last by ptxas itself
    made = [_instruction(opcode, at) for opcode, at in (*way, *slow, *added)]
    executed = Executed({}, dict.fromkeys(range(10, 80, 10), "add"), 1)
    loop = of_loop(made, executed, sums=2)
    assert loop == Loop(instructions=8, loads=1, stores=0, iterations=2)
    assert loop.each_iteration == 4
    unknown = of_loop(made, executed, sums=0)
    assert (unknown.iterations, unknown.each_iteration) == (None, None)
    both = of_loop(made, Executed({}, {**executed.opcodes, 90: "add"}, 3), sums=2)
    assert (both.iterations, both.each_iteration) == (4, 15 / 4)


def test_the_head_says_what_an_iteration_is() -> None:
    told = show([]).replace("\n", " ")
    assert "iterations: iterations of the source's loop that it makes" in told
    assert "an iteration: loop / iterations" in told


@pytest.mark.slow
def test_iterations_of_the_forces() -> None:
    """Behind the others `vectorize` writes the loop's body twice; one of the two is executed. No
    target needs more than what was written by hand, of which lavaMD's inner loop takes 27."""
    first = "read-only-loads+scalar-replacement+vectorize"
    archs = ("sm_75", "sm_80", "sm_90", "sm_120")
    least: dict[str, float] = {}
    for row in table("forces", first, f"{first}+strength-reduction", archs=archs):
        assert isinstance(row, Row)
        assert row.before.loop is not None and row.after.loop is not None
        assert (row.before.loop.iterations, row.after.loop.iterations) == (2, 2)
        assert (row.before.loop.each_iteration or 0) > 40
        least[row.arch] = min(least.get(row.arch, 99), row.after.loop.each_iteration or 99)
    assert least.keys() == set(archs)
    assert max(least.values()) <= 27


def test_why_a_program_is_left_alone() -> None:
    (note,) = table("dct", "bank-conflicts", mode="auto")
    assert isinstance(note, Note)
    assert "no clear gain" in note.text
    shown = show([note]).splitlines()
    assert shown[-1].split()[:2] == ["dct", "bank-conflicts"]


def test_what_still_conflicts() -> None:
    notes = [one for one in table("scan-double", "bank-conflicts") if isinstance(one, Note)]
    assert any("16-way to 2-way: 1 with another" in note.text for note in notes)


def test_names_that_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        rewrites.main(["no-such-program"])
    assert "no-such-program" in capsys.readouterr().err


# ---------------------------------------------------------------- wavefronts


@pytest.mark.parametrize(
    ("shared", "addresses", "size", "width", "count"),
    [
        (True, range(0, 128, 4), 4, 4, 1),
        (True, range(0, 4096, 128), 4, 4, 32),
        (True, range(0, 1024, 32), 4, 16, 8),  # a quarter warp at a time, two words in a bank
        (True, [0] * 32, 4, 4, 1),
        (False, range(0, 128, 4), 4, 4, 1),
        (False, range(64, 192, 4), 4, 4, 2),
        (False, range(0, 1024, 32), 4, 4, 8),
        (False, range(0, 1024, 32), 4, 16, 8),
        (False, range(0, 512, 16), 16, 16, 4),
        (False, [512] * 32, 8, 8, 1),
    ],
)
def test_wavefronts_of_a_request(
    shared: bool, addresses: range, size: int, width: int, count: int
) -> None:
    assert Request(shared, tuple(addresses), size).wavefronts(width) == count


def test_what_was_joined_counts_once() -> None:
    """Two accesses of a program of which the machine code has one, twice as wide."""
    program = MEMORY["particles8"]
    text = program.path.read_text()
    executed = execute(parse(text), program.entry, program.launches[0]())
    loads = [at for at in sorted(executed.requests) if text.startswith("ld.global", at)]
    assert len(loads) == 2
    made = [_instruction("LDG.E.64", loads[0])]
    found = wavefronts(executed, made)
    assert found[loads[1]] == 0
    assert found[loads[0]] == sum(r.wavefronts(8) for r in executed.requests[loads[0]]) > 0


def _instruction(opcode: str, ptx: int | None) -> MachineInstruction:
    return MachineInstruction(0, opcode, "", "", Control(0, False, None, None, 0, 0), "lsu", 1, ptx)
