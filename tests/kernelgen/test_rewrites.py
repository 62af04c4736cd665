"""The table of rewrites and programs, and the wavefronts in it."""

from __future__ import annotations

import pytest

from benchmarks import rewrites
from benchmarks.programs.memory import MEMORY
from benchmarks.rewrites import Note, Row, measured, programs, show
from benchmarks.wavefronts import Request, execute, wavefronts
from ptxsw.cost.sass import Control, MachineInstruction
from ptxsw.parser import parse
from ptxsw.toolchain.ptxas import NoPtxas


def table(program: str, *names: str, mode: str = "force") -> list[Row | Note]:
    try:
        found = measured(program, names, ("sm_80",), mode)
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


def test_why_a_program_is_left_alone() -> None:
    (note,) = table("dct", "bank-conflicts", mode="auto")
    assert isinstance(note, Note)
    assert "not certainly pay" in note.text
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
    made = [_load("LDG.E.64", loads[0])]
    found = wavefronts(executed, made)
    assert found[loads[1]] == 0
    assert found[loads[0]] == sum(r.wavefronts(8) for r in executed.requests[loads[0]]) > 0


def _load(opcode: str, ptx: int) -> MachineInstruction:
    return MachineInstruction(0, opcode, "", "", Control(0, False, None, None, 0, 0), "lsu", 1, ptx)
