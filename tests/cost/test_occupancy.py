"""Resident blocks, held against what NVIDIA publishes and against its calculator."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from ptxsw.cost import occupancy as module
from ptxsw.cost.occupancy import (
    Limits,
    Occupancy,
    UnknownTarget,
    limits,
    occupancy,
    register_steps,
    targets,
)

KIB = 1024

# Where a case is from.
BEST = "CUDA C++ Best Practices Guide, Calculating Occupancy: the example in words"
LEVEL = "CUDA C++ Programming Guide, Multiprocessor Level: the example for 6.x in words"
GUIDE = "CUDA Programming Guide 13, occupancy of compute capability 10.0, its Table 2"
VOLTA = "Volta Tuning Guide: 96 KB for one block"
TURING = "Turing Tuning Guide: 32 warps, 16 blocks; 64 KB for one block"
AMPERE = "Ampere Tuning Guide: warps, blocks, 163 KB (8.0) or 99 KB (8.6) for one block"
ADA = "Ada Tuning Guide: 48 warps, 24 blocks, 99 KB for one block"
HOPPER = "Hopper Tuning Guide: 64 warps, 32 blocks, 227 KB for one block"
RUN = "no published example: cuda_occupancy.h (CUDA 13.5) was run on the numbers in limits.toml"

# Target, threads of a block, registers of a thread, shared memory of a block, resident blocks.
CASES = [
    ("sm_70", 128, 37, 0, 12, BEST),
    ("sm_70", 320, 37, 0, 4, BEST),
    ("sm_70", 1024, 32, 0, 2, BEST),
    ("sm_60", 512, 64, 0, 2, LEVEL),
    ("sm_60", 512, 65, 0, 1, LEVEL),
    ("sm_61", 512, 64, 0, 2, LEVEL),
    ("sm_61", 512, 65, 0, 1, LEVEL),
    ("sm_100", 768, 32, 0, 2, GUIDE),
    ("sm_100", 32, 32, 0, 32, GUIDE),
    ("sm_100", 256, 32, 100 * KIB, 2, GUIDE),
    ("sm_70", 256, 32, 96 * KIB, 1, VOLTA),
    ("sm_70", 256, 32, 96 * KIB + 1, 0, VOLTA),
    ("sm_75", 1024, 64, 0, 1, TURING),
    ("sm_75", 32, 32, 0, 16, TURING),
    ("sm_75", 256, 32, 64 * KIB, 1, TURING),
    ("sm_80", 1024, 32, 0, 2, AMPERE),
    ("sm_80", 256, 32, 163 * KIB, 1, AMPERE),
    ("sm_80", 256, 32, 163 * KIB + 1, 0, AMPERE),
    ("sm_86", 512, 40, 0, 3, AMPERE),
    ("sm_86", 32, 32, 0, 16, AMPERE),
    ("sm_86", 256, 32, 99 * KIB, 1, AMPERE),
    ("sm_86", 256, 32, 99 * KIB + 1, 0, AMPERE),
    ("sm_89", 512, 40, 0, 3, ADA),
    ("sm_89", 32, 32, 0, 24, ADA),
    ("sm_89", 256, 32, 99 * KIB, 1, ADA),
    ("sm_90", 1024, 32, 0, 2, HOPPER),
    ("sm_90", 32, 32, 0, 32, HOPPER),
    ("sm_90", 256, 32, 227 * KIB, 1, HOPPER),
    ("sm_90", 256, 32, 227 * KIB + 1, 0, HOPPER),
    ("sm_35", 256, 48, 16 * KIB, 3, RUN),
    ("sm_37", 256, 64, 16 * KIB, 7, RUN),
    ("sm_50", 96, 40, 5000, 12, RUN),
    ("sm_52", 96, 40, 5000, 16, RUN),
    ("sm_53", 1024, 33, 0, 0, RUN),
    ("sm_60", 224, 88, 0, 3, RUN),
    ("sm_61", 224, 88, 0, 2, RUN),
    ("sm_62", 256, 72, 0, 3, RUN),
    ("sm_72", 192, 56, 20_000, 4, RUN),
    ("sm_75", 256, 72, 20_000, 3, RUN),
    ("sm_80", 256, 40, 26_880, 6, RUN),
    ("sm_80", 256, 40, 26_881, 5, RUN),
    ("sm_86", 128, 72, 0, 7, RUN),
    ("sm_87", 128, 40, 12_000, 12, RUN),
    ("sm_88", 128, 40, 12_000, 7, RUN),
    ("sm_103", 128, 128, 49_152, 4, RUN),
    ("sm_110", 128, 40, 12_000, 12, RUN),
    ("sm_120", 256, 44, 0, 5, RUN),
    ("sm_121", 384, 41, 30_000, 3, RUN),
]


def held(
    target: str, threads: int, registers: int, shared: int = 0, **more: int | None
) -> Occupancy:
    """In the order of the columns above."""
    return occupancy(target, block_threads=threads, registers=registers, shared=shared, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("target", "threads", "registers", "shared", "blocks", "source"), CASES)
def test_cases(
    target: str, threads: int, registers: int, shared: int, blocks: int, source: str
) -> None:
    got = held(target, threads, registers, shared)
    assert got.blocks == blocks, source
    assert got.warps == blocks * -(-threads // 32)
    assert got.fraction == got.warps / limits(target).warps


def test_the_best_practices_guide_says_63_percent() -> None:
    assert round(100 * held("sm_70", 128, 37).fraction) == 75
    assert held("sm_70", 320, 37).fraction == 0.625


# ---------------------------------------------------------------- NVIDIA's calculator itself


@pytest.fixture(scope="module")
def calculator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program around `cuda_occupancy.h` of the wheel, or of a toolkit."""
    wheels = Path(sysconfig.get_path("purelib")).glob("nvidia/*/include/cuda_occupancy.h")
    toolkit = Path("/usr/local/cuda/include/cuda_occupancy.h")
    headers = [path for path in (*sorted(wheels, reverse=True), toolkit) if path.exists()]
    compiler = shutil.which("g++") or shutil.which("c++")
    if not headers or compiler is None:
        pytest.skip("no cuda_occupancy.h, or no C++ compiler")
    program = tmp_path_factory.mktemp("calculator") / "calculator"
    source = Path(__file__).with_name("calculator.cpp")
    command = [compiler, "-w", "-I", str(headers[0].parent), str(source), "-o", str(program)]
    subprocess.run(command, check=True, timeout=120)
    return program


def question(machine: Limits, block: tuple[int, int, int, int], carveout: int) -> str:
    """A line for calculator.cpp. `carveout` is in percent; -1 leaves it to the calculator."""
    number = int(machine.name[3:])
    threads, registers, shared, barriers = block
    properties = (number // 10, number % 10, machine.block_threads, machine.warps * 32)
    sizes = (machine.block_registers, machine.registers, 48 * KIB, machine.shared)
    rest = (machine.block_shared, machine.reserved, threads, registers, shared, barriers, carveout)
    return " ".join(map(str, (*properties, *sizes, *rest)))


def ask(calculator: Path, lines: list[str]) -> list[int]:
    done = subprocess.run(
        [str(calculator)], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    return [int(line) for line in done.stdout.split()]


def test_the_cases_are_what_the_calculator_says(calculator: Path) -> None:
    lines = [question(limits(t), (n, r, s, 1), -1) for t, n, r, s, _, _ in CASES]
    assert ask(calculator, lines) == [case[4] for case in CASES]


def test_as_the_calculator(calculator: Path) -> None:
    """Blocks of all kinds on all targets, with barriers and configured shared memory."""
    rng = random.Random(0)
    threads = (1, 32, 33, 64, 96, 100, 128, 192, 256, 320, 512, 640, 768, 1000, 1024)
    shared = (0, 1, 100, 1 << 12, 5000, 10_000, 49_152, 50_000, 80_000, 101_376, 101_377, 232_448)
    blocks, lines, ours = [], [], []
    for target in targets():
        machine = limits(target)
        for _ in range(400):
            barriers = rng.choice((0, 1, 2, 16))
            block = (rng.choice(threads), rng.randint(0, 255), rng.choice(shared), barriers)
            percent = rng.choice((-1, 0, 10, 25, 50, 66, 100)) if machine.carveouts else -1
            carveout = None if percent < 0 else percent * machine.shared // 100
            got = held(target, *block[:3], barriers=barriers, carveout=carveout)
            blocks.append((target, block, percent))
            lines.append(question(machine, block, percent))
            ours.append(got.blocks)
    theirs = ask(calculator, lines)
    different = [b for b, a, o in zip(blocks, theirs, ours, strict=True) if a != o]
    assert different == []


# ---------------------------------------------------------------- what limits, and what is next


def test_tricubic_of_256_threads_on_sm_80_is_one_step_from_full() -> None:
    now = held("sm_80", 256, 40)
    assert (now.blocks, now.fraction, now.limiter) == (6, 0.75, "registers")
    assert now.next_steps[0] == ("registers", 32, 8, 1.0)
    assert now.next_steps[1] == ("registers", 41, 5, 0.625)
    assert now.next_steps[2] == ("shared", 26_881, 5, 0.625)


def test_less_shared_memory_lets_more_blocks_in() -> None:
    now = held("sm_90", 128, 32, 48 * KIB)
    assert (now.limiter, now.blocks) == ("shared", 4)
    assert ("shared", 45_568, 5, 20 / 64) in now.next_steps
    assert held("sm_90", 128, 32, 45_568).blocks == 5
    assert held("sm_90", 128, 32, 45_569).blocks == 4


@pytest.mark.parametrize("target", targets())
def test_steps_are_the_nearest(target: str) -> None:
    rng = random.Random(target)
    for _ in range(40):
        threads, registers = rng.randint(1, 1024), rng.randint(1, 255)
        shared = rng.randint(0, limits(target).block_shared)
        now = held(target, threads, registers, shared)
        for step in now.next_steps:
            nearer = step.at + (1 if step.blocks > now.blocks else -1)
            at, near = (
                (value, shared) if step.resource == "registers" else (registers, value)
                for value in (step.at, nearer)
            )
            assert held(target, threads, *at).blocks == step.blocks != now.blocks
            assert held(target, threads, *near).blocks == now.blocks
            assert step.fraction == held(target, threads, *at).fraction


def test_all_steps_in_registers() -> None:
    steps = register_steps("sm_80", block_threads=256)
    assert [(s.blocks, s.at) for s in steps] == [
        (1, 255), (2, 128), (3, 80), (4, 64), (5, 48), (6, 40), (8, 32),
    ]  # fmt: skip
    assert register_steps("sm_80", block_threads=256, shared=164 * KIB) == ()


@pytest.mark.parametrize(
    ("target", "registers"), [("sm_75", 64), ("sm_80", 32), ("sm_86", 40), ("sm_120", 40)]
)
def test_registers_that_leave_a_full_multiprocessor(target: str, registers: int) -> None:
    assert register_steps(target, block_threads=256)[-1][1:] == (
        registers,
        limits(target).warps // 8,
        1.0,
    )


def test_barriers_limit_from_sm_90_on() -> None:
    assert held("sm_90", 64, 16, barriers=16).limiter == "barriers"
    assert held("sm_90", 64, 16, barriers=16).blocks == 4
    assert held("sm_80", 64, 16, barriers=16).blocks == 32


def test_a_configured_carveout_is_rounded_up() -> None:
    assert held("sm_80", 128, 16, 7 * KIB, carveout=20 * KIB).allowed.shared == 4
    assert held("sm_80", 128, 16, 7 * KIB).allowed.shared == 20


def test_a_block_that_no_multiprocessor_takes() -> None:
    assert held("sm_80", 1025, 16).blocks == 0
    assert held("sm_80", 1024, 128).limiter == "registers"
    assert held("sm_80", 1024, 128).blocks == 0
    assert held("sm_80", 256, 256).blocks == 0


def test_architectures_by_all_their_names() -> None:
    assert limits("sm_90a") == limits("compute_90") == limits("sm_90")
    with pytest.raises(UnknownTarget, match=r"no limits are known for 'sm_30'; known: sm_35, "):
        limits("sm_30")
    with pytest.raises(UnknownTarget):
        held("gfx90a", 128, 32)
    with pytest.raises(ValueError, match="no resource is negative"):
        held("sm_80", 0, 32)


def test_every_number_has_its_source() -> None:
    text = Path(module.__file__).with_name("limits.toml").read_text()
    body, _, sources = text.partition("[sources]")
    named = set(re.findall(r"^(\d+) = \"NVIDIA", sources, re.MULTILINE))
    numbers = [line for line in body.splitlines() if " = " in line and not line.startswith("#")]
    assert len(numbers) == 14 * len(targets())
    marks = [re.search(r"# \[(\d)\]$", line) for line in numbers]
    assert {mark[1] if mark else None for mark in marks} == named
