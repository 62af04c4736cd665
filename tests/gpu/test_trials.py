"""Launches made hostile, programs made at random, and small kernels with a fault."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from benchmarks.gpu import arithmetic, faults, random_programs
from benchmarks.gpu.interpreter import InterpreterDriver
from benchmarks.gpu.prepared import word_launch
from benchmarks.gpu.subjects import GROUPS, subjects
from benchmarks.gpu.trials import USUAL, Trial, changed, hostile, inputs, made, prepared
from ptxsw.gpu.driver import Array, GpuError
from ptxsw.gpu.problem import DeviceArray, PreparedLaunch, Stage, from_launch
from ptxsw.parser import parse
from ptxsw.toolchain.ptxas import assemble


def left(
    text: str, entry: str, launch: PreparedLaunch, *, races: bool = True, limit: int = 1 << 14
) -> list[Array]:
    """What a kernel leaves in the buffers of a launch."""
    function = next(f for f in parse(text).functions if f.name == entry)
    driver = InterpreterDriver(races=races, limit=limit)
    with closing(driver), Stage(driver, function, launch) as stage:
        return stage.results(driver.load(text, entry, "sm_90"))


@pytest.mark.parametrize("name", ["jacobi-gcc", "wavelet-gcc", "transpose-double", "conv1d"])
def test_own_launches_give_numpys_results(name: str) -> None:
    """Those of GCC hold addresses in memory, which lie elsewhere on a device."""
    subject = subjects()[name]
    for number, run in enumerate(subject.runs):
        launch = made(subject, Trial(number, USUAL))
        found = left(subject.text, subject.entry, launch)
        names = [*run().arrays, *run().placed]
        for array, expected in run().expected.items():
            assert found[names.index(array)].tobytes() == expected.tobytes(), (number, array)


def test_addresses_in_memory_are_no_results() -> None:
    """They differ from device to device."""
    launch = prepared(subjects()["jacobi-gcc"].runs[0]())
    (words,) = (each for each in launch.buffers if len(each.pointers) > 2)
    found = left(subjects()["jacobi-gcc"].text, "jacobi$_omp_fn$0", launch)
    assert not found[launch.buffers.index(words)].any()


def test_changes() -> None:
    a, b = np.arange(1, 9, dtype=np.float32), np.full(4, 9, np.float32)
    launch = PreparedLaunch((2, 1, 1), (64, 1, 1), (8, 0.5, DeviceArray(a), DeviceArray(b)))
    assert list(hostile(launch))[:3] == ["shifted", "block 1", "block 7"]
    assert changed(launch, "block 7").block == (7, 1, 1)
    assert changed(launch, "sizes 0").values[:2] == (0, 0.5)
    _, _, shifted, _ = changed(launch, "shifted").values
    assert isinstance(shifted, DeviceArray) and shifted.before == 4
    assert shifted.array.tolist() == [1, *a.tolist()]
    over = changed(launch, "overlap 0 1 -1")
    (one,) = over.buffers  # both arguments lie in it, the second an element before the first
    first, second = over.values[2:]
    assert isinstance(first, DeviceArray) and isinstance(second, DeviceArray)
    assert (first.before, second.before) == (4, 0)
    assert one.array.view(np.float32).tolist() == [9, *a.tolist()]
    assert len({inputs(changed(launch, change)) for change in hostile(launch)}) == len(
        list(hostile(launch))
    )


def test_equal_words_are_two_buffers() -> None:
    launch = word_launch('{"grid": 1, "block": 1, "args": ["zeros:4:f32", "zeros:4:f32"]}')
    assert len(launch.buffers) == 2


@pytest.mark.parametrize("group", GROUPS)
def test_a_share_of_the_large_launches_writes_something(group: str) -> None:
    chosen = [each for each in subjects().values() if each.group == group and each.large]
    assert len(chosen) > 5
    for subject in chosen[::7]:
        assert subject.large is not None
        launch = from_launch(subject.large(0.0003).launch)
        found = left(subject.text, subject.entry, launch, races=False)
        before = [each.array.tobytes() for each in launch.buffers]
        assert [each.tobytes() for each in found] != before, subject.name


def test_large_launches_are_large() -> None:
    for subject in subjects().values():
        if subject.large is not None and subject.group not in ("shuffles", "further"):
            large = subject.large(1.0)
            assert large.launch.threads >= 1 << 15, subject.name
            assert large.moved >= 1 << 23, subject.name


# ---------------------------------------------------------------- random programs


def test_arithmetic_is_what_ptxas_takes() -> None:
    """All of it in one text."""
    forms = (*arithmetic.EXACT, *arithmetic.OPEN)
    assert len(forms) > 300
    lines = [line for form in forms for line in arithmetic.instruction(form, 0)]
    text = "\n".join([arithmetic.HEAD, *lines, "ret;\n}\n"])
    assert assemble(text, "sm_90").cubin
    launch = word_launch(random_programs.arithmetic_of(1).words)
    assert left(text, "k", launch)[0].any()


@pytest.mark.parametrize("kind", list(random_programs.KINDS))
def test_random_programs(kind: str) -> None:
    """Some run without a fault, and write results."""
    make, _ = random_programs.KINDS[kind]
    clean = 0
    for seed in range(6):
        program = make(seed)
        launch = word_launch(program.words)
        try:
            found = left(program.text, "k", launch, limit=1 << 11)
        except GpuError:
            continue
        clean += any(
            array.tobytes() != each.array.tobytes()
            for array, each in zip(found, launch.buffers, strict=True)
        )
    assert clean >= 2


def test_how_many_of_each_kind() -> None:
    assert random_programs.wanted(200) == {"flow": 80, "lanes": 60, "arithmetic": 60}
    assert sum(random_programs.wanted(7).values()) == 7


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize("fault", faults.KERNELS, ids=lambda fault: fault.name)
def test_faults(fault: faults.Faulty) -> None:
    launch = word_launch(fault.words)
    if fault.faulty:
        with pytest.raises(GpuError):
            left(fault.text, "k", launch)
    else:
        left(fault.text, "k", launch)
    assert len(faults.KERNELS) == 2 * sum(each.faulty for each in faults.KERNELS) == 20
