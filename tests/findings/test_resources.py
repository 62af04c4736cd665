"""`check --resources`: what kernels use is pinned, and what uses more fails by name."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks.programs.faults.cases import HERE as FAULTS
from ptxsw.cost import disassembly
from ptxsw.findings.baseline import Usage, usages, worse
from ptxsw.toolchain import programs
from ptxsw.toolchain.ptxas import assemble
from tests.command_line import ptxsw

NVCC = shutil.which("nvcc")
CUOBJDUMP = next(programs.places("cuobjdump"), None)
PINNED = Usage(
    registers=32, frame=0, local_stores=0, local_loads=0, shared=1024, threads=256, warps=64
)


def used(**other: int) -> Usage:
    """As pinned, but for what is said."""
    return replace(PINNED, **other)


def told(now: Usage | None, drift: float = 0.0, pinned: Usage | None = PINNED) -> list[str]:
    after = {} if now is None else {"sm_80 k": now}
    return [what for _, what in worse(after, {} if pinned is None else {"sm_80 k": pinned}, drift)]


def test_what_is_worse() -> None:
    assert told(PINNED) == []
    assert told(used(registers=30)) == []
    assert told(None) == []
    assert told(used(registers=34)) == ["uses more registers: 32 -> 34"]
    assert told(used(registers=40, warps=48)) == [
        "loses occupancy: 64 -> 48 warps with blocks of 256 threads; uses more registers: 32 -> 40"
    ]
    assert told(used(frame=16, local_stores=3, local_loads=5)) == [
        "starts to spill: 0 -> 3 stores and 0 -> 5 loads of local memory; "
        "uses more bytes of stack frame: 0 -> 16"
    ]


def test_drift_allows_more_registers_but_no_spill_and_no_lost_step() -> None:
    assert told(used(registers=34, shared=1040), drift=0.1) == []
    assert told(used(registers=34, local_stores=1, local_loads=1), drift=0.1) == [
        "starts to spill: 0 -> 1 stores and 0 -> 1 loads of local memory"
    ]
    assert told(used(registers=34, warps=56), drift=0.1) == [
        "loses occupancy: 64 -> 56 warps with blocks of 256 threads"
    ]


def test_a_kernel_that_is_not_pinned() -> None:
    assert told(PINNED, pinned=None) == []
    spilling = used(frame=16, local_stores=3, local_loads=5)
    assert told(spilling, pinned=None) == ["is not pinned, and stores to local memory 3 times"]


@pytest.mark.usefixtures("needs_ptxas")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_spills_are_those_that_nvdisasm_shows(arch: str) -> None:
    text = (FAULTS / "ptx" / "bounded.ptx").read_text().replace(".target sm_90", f".target {arch}")
    cubin = assemble(text, arch).cubin
    [usage] = usages([cubin], None).values()
    assert usage.local_stores and usage.threads == 1024 and usage.registers == 32
    try:
        [lines] = disassembly.disassemble(cubin).values()
    except disassembly.NoNvdisasm:
        pytest.skip("no nvdisasm")
    roots = [line.opcode.partition(".")[0] for line in lines]
    assert (usage.local_stores, usage.local_loads) == (roots.count("STL"), roots.count("LDL"))


@pytest.mark.usefixtures("needs_ptxas")
def test_pinned_and_compared(tmp_path: Path) -> None:
    for name in ("capped-mended", "tile"):
        shutil.copy(FAULTS / "ptx" / f"{name}.ptx", tmp_path)
    pin = ("check", ".", "--resources", "--write-baseline", "pinned.json")
    compare = ("check", ".", "--resources", "--baseline", "pinned.json")
    assert ptxsw(*pin, cwd=tmp_path).returncode == 0
    pinned = json.loads((tmp_path / "pinned.json").read_text())["resources"]
    assert pinned.keys() == {"sm_90 capped", "sm_90 tile"}
    assert ptxsw(*compare, cwd=tmp_path).returncode == 0
    shutil.copy(FAULTS / "ptx" / "capped.ptx", tmp_path / "capped-mended.ptx")
    done = ptxsw(*compare, "--drift", "1000", "--format", "github", cwd=tmp_path)
    assert done.returncode == 1
    [line] = done.stdout.decode().splitlines()
    assert line.startswith("::error file=capped-mended.ptx,title=ptxsw-resources::")
    assert "capped (sm_90) starts to spill: 0 -> " in line
    assert ptxsw(*pin, cwd=tmp_path).returncode == 0  # pinned anew
    assert ptxsw(*compare, cwd=tmp_path).returncode == 0


@pytest.mark.usefixtures("needs_ptxas")
def test_a_check_that_compares_nothing_says_so(tmp_path: Path) -> None:
    """As with the baseline of findings in place of the one of resources."""
    tile = FAULTS / "ptx" / "tile.ptx"
    assert ptxsw("check", tile, "--write-baseline", "known.json", cwd=tmp_path).returncode == 0
    done = ptxsw("check", tile, "--resources", "--baseline", "known.json", cwd=tmp_path)
    plain = ptxsw("check", tile, "--resources", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, plain.stdout), 'the figures, not "no findings"'
    assert done.stderr.decode() == (
        "1 of 1 kernel is not in the baseline, so its resources are not compared: tile (sm_90); "
        "`--resources --write-baseline` pins it\n"
    )


@pytest.mark.usefixtures("needs_ptxas")
def test_a_table_of_what_kernels_use() -> None:
    done = ptxsw("check", FAULTS / "ptx" / "tile.ptx", "--resources")
    head, row = done.stdout.decode().splitlines()
    assert head.split() == [
        "arch", "kernel", "registers", "frame", "stores", "loads", "shared", "block", "warps"
    ]  # fmt: skip
    assert row.split()[:2] == ["sm_90", "tile"] and row.split()[-3:] == ["4096", "1024", "64"]


_KERNEL = """
extern "C" __global__ void {spill} k{number}(int n, const float *in, float *out)
{{
    __shared__ float s[{words}];
    float v[24];
#pragma unroll
    for (int k = 0; k < 24; k++) v[k] = in[k * 4096 + threadIdx.x];
#pragma unroll 1
    for (int t = 0; t < n; t++)
#pragma unroll
        for (int k = 0; k < 24; k++) v[k] = v[k] * v[(k + 1) % 24] + v[(k + 7) % 24];
    s[threadIdx.x] = v[0];
    __syncthreads();
    v[1] += s[255 - threadIdx.x];
#pragma unroll
    for (int k = 0; k < 24; k++) out[k * 4096 + threadIdx.x] = v[k];
}}
"""


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None or CUOBJDUMP is None, reason="no nvcc, or no cuobjdump")
def test_a_library_of_a_hundred_kernels(tmp_path: Path) -> None:
    """One that starts to spill and one that loses a step of occupancy fail it by name."""

    def build(worse_: bool) -> None:
        assert NVCC is not None
        for file in range(10):
            text = "".join(
                _KERNEL.format(
                    number=number,
                    spill="__maxnreg__(24)" * (worse_ and number == 37),
                    words=12000 if worse_ and number == 64 else 256,
                )
                for number in range(10 * file, 10 * file + 10)
            )
            (tmp_path / f"f{file}.cu").write_text(text)
            command = [NVCC, "-arch=sm_80", "-c", f"f{file}.cu"]
            subprocess.run(command, cwd=tmp_path, check=True)
        objects = sorted(str(path) for path in tmp_path.glob("*.o"))
        subprocess.run(["ar", "rcs", "lib.a", *objects], cwd=tmp_path, check=True)

    given = ("check", "lib.a", "--resources")
    build(False)
    assert ptxsw(*given, "--write-baseline", "pinned.json", cwd=tmp_path).returncode == 0
    assert len(json.loads((tmp_path / "pinned.json").read_text())["resources"]) == 100
    build(True)
    done = ptxsw(*given, "--baseline", "pinned.json", cwd=tmp_path)
    text = done.stdout.decode()
    assert done.returncode == 1 and text.endswith("\n2 errors in 100 kernels\n")
    assert "k37 (sm_80) starts to spill: 0 -> " in text
    assert "k64 (sm_80) loses occupancy: 64 -> 24 warps" in text
