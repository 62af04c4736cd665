"""The programs of `benchmarks/faults`: each says what is wrong with it, and runs show that."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.faults.make import one_half
from benchmarks.faults.programs import CLEAN, FAULTY, MENDED, RULES, Program, program, programs
from benchmarks.faults.runs import SEEDS, SHOWS, seen
from ptxsw.parser import parse
from ptxsw.toolchain.ptxas import NoPtxas, locate

PROGRAMS = programs()
SAMPLE = (
    "broadcast_overwritten", "flag_no_fence", "half_rows", "absent_source", "window_of_four",
    "packed_record", "no_guard", "window_half_full", "opposite_order",
    "cleared_while_copied", "block_scan", "grid_barrier", "roles_of_warps", "copies_three_stages",
)  # fmt: skip


def test_there_are_enough_of_each_kind() -> None:
    count = Counter(p.rule for p in PROGRAMS)
    assert set(count) == {*RULES, CLEAN}
    assert min(count[rule] for rule in RULES) >= 8
    assert count[CLEAN] >= 60 and len(PROGRAMS) >= 120
    assert len({p.name for p in PROGRAMS}) == len(PROGRAMS)


@pytest.mark.parametrize("one", PROGRAMS, ids=lambda p: p.name)
def test_sources_say_what_is_expected(one: Program) -> None:
    """The kernel has the name of its file; a fault has a line, and a run or a reason for none."""
    assert bool(one.faults) == (one.rule != CLEAN)
    assert one.unseen or one.launches
    for twin in one.twins:
        text = one.path(twin).read_text()
        assert [k.name for k in parse(text).kernels] == [one.name]
        assert not re.search(r'\.file\s+\d+ "/(?!cuda/)', text), "a path of some machine"
    for number in one.faults:
        assert "// fault: " in one.source.read_text().splitlines()[number - 1]


def runs_of(one: Program, twin: str, seeds: tuple[int | None, ...]) -> set[str]:
    """The rules whose faults runs show."""
    module = parse(one.path(twin).read_text())
    return {each.rule for it in one.launches for seed in seeds for each in seen(module, it, seed)}


def shown(one: Program, seeds: tuple[int | None, ...]) -> None:
    if one.rule == CLEAN or not one.launches:
        assert runs_of(one, FAULTY, seeds) == set()
        return
    if not one.unseen and one.rule in SHOWS:
        assert runs_of(one, FAULTY, SEEDS) & SHOWS[one.rule]
    assert runs_of(one, MENDED, seeds) == set()


@pytest.mark.parametrize("name", SAMPLE)
def test_runs_show_faults_and_pass_twins(name: str) -> None:
    [one] = programs(names=(name,))
    shown(one, (None,))


@pytest.mark.slow
@pytest.mark.parametrize("one", [p for p in PROGRAMS if p.launches], ids=lambda p: p.name)
def test_all_runs_show_faults_and_pass_twins(one: Program) -> None:
    shown(one, SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("one", programs("ptxas-warning"), ids=lambda p: p.name)
def test_ptxas_warns_of_the_fault_alone(one: Program) -> None:
    try:
        ptxas = locate()
    except NoPtxas as error:
        pytest.skip(str(error))
    for twin in one.twins:
        command = [str(ptxas), f"-arch={one.target}", str(one.path(twin)), "-o", "/dev/null"]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
        assert bool(re.search(r"\(C75\d\d\)", said.stdout + said.stderr)) == (twin == FAULTY)


def test_a_source_in_ptx_has_two_halves() -> None:
    text = "#ifdef MENDED\nmov.u32 %r1, 0;\n#else\nmov.u32 %r1, 1;\n#endif\nret;\n"
    assert one_half(text, mended=True) == "\nmov.u32 %r1, 0;\n\n\n\nret;\n"
    assert one_half(text, mended=False) == "\n\n\nmov.u32 %r1, 1;\n\nret;\n"


def test_a_source_that_does_not_say_what_it_is(tmp_path: Path) -> None:
    source = tmp_path / "no.cu"
    source.write_text("#include <x>\n")
    with pytest.raises(ValueError, match=r"no\.cu: the first line does not say what it is"):
        program(source)
    with pytest.raises(ValueError, match="no program 'nothing'"):
        programs(names=("nothing",))
