"""Machine code read back: listings of three kernels, and facts that hold for any ptxas."""

from __future__ import annotations

import contextlib
import random
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks import sass as table
from benchmarks.machine_loops import count, inner_loops
from ptxsw.cost import cubin, disassembly, sass
from ptxsw.cost.cubin import BadCubin
from ptxsw.cost.machine_code import MachineInstruction, MachineKernel, control, pipe
from ptxsw.cost.sass import Sass
from ptxsw.toolchain import ptxas
from tests.cost.conftest import ARCHES, KERNELS, Tools
from tests.heads import head

GOLDEN = Path(__file__).parent / "golden"
NAMES = ("quotient", "stencil", "tile")
Made = Callable[[str, str], Sass]


def text_of(name: str) -> str:
    return (KERNELS / f"{name}.ptx").read_text()


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", NAMES)
def test_listings(
    name: str,
    arch: str,
    made: Made,
    tools: Tools,
    golden: Callable[[Path, str], None],
    request: pytest.FixtureRequest,
) -> None:
    """The golden files are of one version of ptxas, which stands in their first line."""
    path, head = GOLDEN / f"{name}.{arch}.txt", f"ptxas {ptxas.version(tools.ptxas)}\n"
    if not request.config.getoption("--update-golden") and not path.read_text().startswith(head):
        pytest.skip(f"{path.name} is of {path.read_text().partition(chr(10))[0]}")
    golden(path, head + table.listing(made(text_of(name), arch)))


# ---------------------------------------------------------------- for any ptxas


@pytest.mark.parametrize("arch", ARCHES)
def test_the_hot_loop_of_a_stencil(made: Made, arch: str) -> None:
    """nvcc makes four iterations at a time of the loop, and a loop for the rest."""
    kernel = made(text_of("stencil"), arch).kernel("stencil")
    four, rest = (count(loop) for loop in inner_loops(kernel))
    assert (four.of("LDG"), four.of("STG")) == (20, 4)
    assert (rest.of("LDG"), rest.of("STG")) == (5, 1)
    assert four.pipes["lsu"] == 24
    assert four.accesses["LDG", 4] == 20
    assert rest.instructions < four.instructions < len(kernel.instructions)


@pytest.mark.parametrize("arch", ARCHES)
def test_a_tile_in_shared_memory(made: Made, arch: str) -> None:
    kernel = made(text_of("tile"), arch).kernel("tile")
    counts = count(kernel.instructions)
    assert [counts.of(name) for name in ("LDG", "STS", "LDS", "STG")] == [4, 4, 4, 4]
    assert counts.pipes["adu"] >= 1  # the barrier
    assert (kernel.shared, kernel.barriers, kernel.spill_stores) == (32 * 33 * 4, 1, 0)
    assert inner_loops(kernel) == ()


@pytest.mark.parametrize("arch", ARCHES)
def test_double_precision_and_what_it_calls(made: Made, arch: str) -> None:
    kernel = made(text_of("quotient"), arch).kernel("quotient")
    counts = count(kernel.instructions)
    assert counts.accesses["LDG", 16] == 2
    assert counts.accesses["STG", 16] == 1
    assert counts.pipes["fp64"] > 16
    assert counts.pipes["xu"] >= 2
    called = [routine.name for routine in kernel.routines[1:]]
    assert any("div_rn_f64" in name for name in called)
    assert any("dsqrt_rn_f64" in name for name in called)
    (loop,) = inner_loops(kernel)
    assert sum(i.root == "CALL" for i in loop) == 2


def registers(operand: str, width: int) -> set[int]:
    """Registers of a destination: `R16` with 16 bytes is R16 to R19."""
    found = re.fullmatch(r"R(\d+)(?:\.\w+)*", operand)
    return set(range(int(found[1]), int(found[1]) + -(-width // 4))) if found else set()


def named(operands: str) -> set[int]:
    return {int(n) for n in re.findall(r"(?<![\w.])R(\d+)", operands)}


def loads(
    kernel: MachineKernel,
) -> Iterator[tuple[MachineInstruction, tuple[MachineInstruction, ...]]]:
    """Each load from memory, and what follows it in its block."""
    for routine in kernel.routines:
        for block in routine.flow.blocks:
            inside = kernel.of_block(block)
            for number, instruction in enumerate(inside):
                if instruction.root in ("LDG", "LDS"):
                    yield instruction, inside[number + 1 :]


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", NAMES)
def test_a_load_sets_a_barrier_that_its_consumer_waits_for(
    made: Made, name: str, arch: str
) -> None:
    consumed = 0
    for kernel in made(text_of(name), arch).kernels:
        for load, after in loads(kernel):
            barrier = load.control.write
            assert barrier is not None and barrier < 6
            results = registers(load.operands.partition(",")[0], load.width or 0)
            assert results
            waited = False
            for instruction in after:
                waited = waited or bool(instruction.control.wait >> barrier & 1)
                if results & named(instruction.operands):
                    assert waited, (load, instruction)
                    consumed += 1
                    break
    assert consumed  # others wait in another block


@pytest.mark.parametrize("arch", ARCHES)
def test_what_takes_a_while_sets_a_barrier_and_what_does_not_stalls(made: Made, arch: str) -> None:
    """Special functions and special registers take no fixed time; arithmetic does."""
    kernel = made(text_of("quotient"), arch).kernel("quotient")
    for i in kernel.instructions:
        if i.root in ("MUFU", "S2R"):
            assert i.control.write is not None
        if i.root in ("IADD3", "IMAD", "FADD", "LOP3"):
            assert i.control.write is None and i.control.stall > 0


def test_a_control_word_bit_by_bit() -> None:
    word = (0b1010 << 17 | 0b100001 << 11 | 3 << 8 | 7 << 5 | 1 << 4 | 9) << 105
    assert control(word) == (9, False, None, 3, 0b100001, 0b1010)
    assert control(7 << 113 | 2 << 110) == (0, True, 2, None, 0, 0)


# ---------------------------------------------------------------- PTX lines


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_instructions_know_their_lines(made: Made, arch: str) -> None:
    text = text_of("stencil")
    for i in made(text, arch).kernel("stencil").instructions:
        if i.root in ("LDG", "STG", "FFMA", "FADD"):
            assert i.line is not None and i.ptx is not None
            word = {"LDG": "ld.global", "STG": "st.global", "FFMA": "fma", "FADD": "add"}[i.root]
            assert word in text.splitlines()[i.line - 1]
            assert text[i.ptx :].startswith(word)


def test_lines_of_a_source_do_not_matter(made: Made) -> None:
    """`.loc` names lines of CUDA; those of the PTX are what is wanted."""
    plain = text_of("stencil")
    body = plain.index("\n\tld.param")
    located = f'{plain[:body]}\n\t.loc 1 7 3{plain[body:]}\n\t.file 1 "stencil.cu"\n'
    lines = [i.line for i in made(plain, "sm_80").kernel("stencil").instructions]
    moved = [i.line for i in made(located, "sm_80").kernel("stencil").instructions]
    assert moved == [None if line is None else line + 1 for line in lines]


def test_two_instructions_on_one_line_are_told_apart(made: Made) -> None:
    plain = text_of("stencil")
    joined = re.sub(r";\n\t(fma|add)", r"; \1", plain)
    assert joined.count("\n") < plain.count("\n")
    before = made(plain, "sm_80").kernel("stencil").instructions
    after = made(joined, "sm_80").kernel("stencil").instructions
    words = [None if i.ptx is None else plain[i.ptx :].partition(";")[0] for i in before]
    assert [None if i.ptx is None else joined[i.ptx :].partition(";")[0] for i in after] == words
    assert [i.line for i in after] != [i.line for i in before]
    for i in after:
        assert i.ptx is None or i.line == joined.count("\n", 0, i.ptx) + 1


def test_lines_are_not_found_where_nobody_asked(tools: Tools) -> None:
    quick = sass.read(
        text_of("tile"), "sm_80", lines=False, ptxas=tools.ptxas, disassembler=tools.nvdisasm
    )
    assert {i.line for i in quick.kernel("tile").instructions} == {None}


# ---------------------------------------------------------------- sizes


DYNAMIC = (
    head("7.0", "sm_75")
    + """.extern .shared .align 4 .b8 s[];
.shared .align 4 .b8 q[256];
.visible .entry none(.param .u64 p) { ret; }
.visible .entry both(.param .u64 p)
{
	.reg .b64 %rd<3>;
	.reg .b32 %r<5>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	shl.b32 %r2, %r1, 2;
	mov.u32 %r3, q;
	add.s32 %r3, %r3, %r2;
	st.shared.u32 [%r3], %r1;
	mov.u32 %r4, s;
	add.s32 %r4, %r4, %r2;
	st.shared.u32 [%r4], %r1;
	bar.sync 0;
	bar.sync 3;
	ld.shared.u32 %r1, [%r4+4];
	st.global.u32 [%rd1], %r1;
	ret;
}
"""
)


@pytest.mark.parametrize("arch", ARCHES)
def test_sizes_are_those_that_ptxas_prints(tools: Tools, made: Made, arch: str) -> None:
    """From sm_90 on the section of shared memory has the system's share in it, too."""
    for text in (DYNAMIC, *map(text_of, NAMES)):
        said = ptxas.assemble(text, arch, ptxas=tools.ptxas).messages
        parts = re.split(r"Compiling entry function '(\w+)'", said)[1:]
        for name, part in zip(parts[::2], parts[1::2], strict=True):
            kernel = made(text, arch).kernel(name)
            shared = re.search(r"(\d+) bytes smem", part)
            barriers = re.search(r"used (\d+) barriers", part)
            assert f"Used {kernel.registers} registers" in part
            assert kernel.shared == (int(shared[1]) if shared else 0)
            assert kernel.barriers == (int(barriers[1]) if barriers else 0)
            assert f"{kernel.stack} bytes stack frame" in part


def test_spills(made: Made) -> None:
    text = text_of("stencil").replace(")\n{", ")\n.maxnreg 16\n{", 1)
    kernel = made(text, "sm_75").kernel("stencil")
    counts = count(kernel.instructions)
    assert kernel.registers <= 24  # the least that ptxas agrees to
    assert kernel.spill_stores and kernel.spill_loads and kernel.stack
    assert counts.of("STL") and counts.of("LDL")


# ---------------------------------------------------------------- branches


SWITCH = (
    head("7.0", "sm_75")
    + """.visible .entry pick(.param .u64 p, .param .u32 n)
{
	.reg .b64 %rd<3>;
	.reg .b32 %r<5>;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [n];
	and.b32 %r1, %r1, 3;
ts:	.branchtargets A, B, C, D;
	brx.idx %r1, ts;
A:	st.global.u32 [%rd1], 5;
	bra E;
B:	ld.global.u32 %r2, [%rd1];
	st.global.u32 [%rd1+8], %r2;
	bra E;
C:	atom.global.add.u32 %r2, [%rd1+4], 3;
	st.global.u32 [%rd1], %r2;
	bra E;
D:	bar.sync 0;
E:	st.global.u32 [%rd1+16], 1;
	ret;
}
"""
)


@pytest.mark.parametrize("arch", ARCHES)
def test_an_indirect_branch_goes_where_the_cubin_says(made: Made, arch: str) -> None:
    kernel = made(SWITCH, arch).kernel("pick")
    (body,) = kernel.routines
    jumps = [b for b in body.flow.blocks if kernel.of_block(b)[-1].root in ("BRX", "BRXU")]
    assert len(jumps) == 1
    assert len(jumps[0].successors) == 4
    assert len(body.flow.order) == len(body.flow.blocks)
    assert body.unresolved == frozenset()


ENDLESS = (
    head("7.0", "sm_75")
    + """.visible .entry wait(.param .u64 p)
{
	.reg .b64 %rd<2>;
	.reg .b32 %r<2>;
	.reg .pred %p<2>;
	ld.param.u64 %rd1, [p];
L:	ld.volatile.global.u32 %r1, [%rd1];
	setp.eq.u32 %p1, %r1, 0;
	@%p1 bra L;
M:	bra M;
}
"""
)


def test_a_loop_that_never_ends_is_no_padding(made: Made) -> None:
    kernel = made(ENDLESS, "sm_80").kernel("wait")
    assert any(i.root == "BRA" and not i.predicate for i in kernel.instructions)
    assert len(inner_loops(kernel)) == 2
    assert all(i.root != "NOP" for i in made(text_of("tile"), "sm_80").kernels[0].instructions)


def test_every_instruction_lies_in_one_block(made: Made) -> None:
    for name in NAMES:
        for kernel in made(text_of(name), "sm_90").kernels:
            blocks = [b for r in kernel.routines for b in r.flow.blocks]
            inside = [n for b in blocks for n in range(b.start, b.end)]
            assert inside == list(range(len(kernel.instructions)))


# ---------------------------------------------------------------- pipes


def test_half_precision_moved_into_the_fma_pipe() -> None:
    assert [pipe("HFMA2", arch) for arch in (70, 75, 80, 86, 89, 90, 100)] == [
        "fp16", "fp16", "fp16", "fma", "fma", "fma", "fma",
    ]  # fmt: skip
    assert pipe("HFMA2.MMA", 80) == "unknown"
    assert pipe("IMAD.WIDE.U32", 75) == "fma"
    assert pipe("LDG.E.128.CONSTANT", 80) == "lsu"
    assert pipe("UIADD3", 70) == pipe("FROB", 90) == pipe("MOV", 90) == "unknown"


def test_every_group_of_opcodes_has_a_source() -> None:
    given = tomllib.loads((Path(sass.__file__).parent / "pipes.toml").read_text())
    for rule in given["rule"]:
        cited = re.findall(r"\[(\d)\]", rule["source"])
        assert cited and set(cited) <= given["sources"].keys()


# ---------------------------------------------------------------- what is missing


def test_without_nvdisasm_sizes_and_the_ptx_remain(tools: Tools, tmp_path: Path) -> None:
    gone = str(tmp_path / "nvdisasm")
    made = sass.read(text_of("tile"), "sm_80", ptxas=tools.ptxas, disassembler=gone)
    kernel = made.kernel("tile")
    assert made.note.startswith("registers and PTX counts alone: ")
    assert "cannot be run" in made.note
    assert (kernel.instructions, kernel.routines, inner_loops(kernel)) == ((), (), ())
    assert (kernel.shared, kernel.barriers, kernel.spill_loads) == (4224, 1, 0)
    assert kernel.registers > 0


def test_an_nvdisasm_that_prints_text_only(tools: Tools, tmp_path: Path) -> None:
    old = tmp_path / "nvdisasm"
    old.write_text("#!/bin/sh\necho \"nvdisasm fatal   : Unknown option '-json'\" >&2\nexit 1\n")
    old.chmod(0o755)
    made = sass.read(text_of("tile"), "sm_80", ptxas=tools.ptxas, disassembler=str(old))
    assert "Unknown option '-json'" in made.note
    assert "install a newer one" in made.note
    old.write_text("#!/bin/sh\necho '[{}, [{\"name\": 1}]]'\n")
    made = sass.read(text_of("tile"), "sm_80", ptxas=tools.ptxas, disassembler=str(old))
    assert "JSON of another form" in made.note


def test_nvdisasm_is_looked_for_beside_ptxas_and_on_path(tmp_path: Path) -> None:
    for place in ("toolkit/bin", "path"):
        (tmp_path / place).mkdir(parents=True)
        for name in ("ptxas", "nvdisasm") if place != "path" else ("nvdisasm",):
            (tmp_path / place / name).write_text("\x7fELF")
            (tmp_path / place / name).chmod(0o755)
    on_path = {"PATH": str(tmp_path / "path"), "PTXSW_REAL_PTXAS": str(tmp_path / "no/ptxas")}
    assert disassembly.locate(on_path) == str(tmp_path / "path/nvdisasm")
    both = {**on_path, "PTXSW_REAL_PTXAS": str(tmp_path / "toolkit/bin/ptxas")}
    assert disassembly.locate(both) == str(tmp_path / "toolkit/bin/nvdisasm")


@pytest.mark.parametrize("data", [b"", b"\x7fELF\x01", b"\x7fELF\x02" + bytes(70), b"x" * 999])
def test_what_is_no_cubin(data: bytes) -> None:
    with pytest.raises(BadCubin):
        cubin.read(data)


def test_a_damaged_cubin(tools: Tools) -> None:
    """Cut anywhere, or with a few bytes changed: a message or what remains, and no other end."""
    data = ptxas.assemble(text_of("tile"), "sm_80", ptxas=tools.ptxas, options=["-lineinfo"]).cubin
    for end in range(0, len(data), 97):
        with contextlib.suppress(BadCubin):
            cubin.read(data[:end])
    rng = random.Random(0)
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 20)):
            changed[rng.randrange(5, len(data))] = rng.randrange(256)
        with contextlib.suppress(BadCubin):
            cubin.read(bytes(changed))
    with pytest.raises(BadCubin):
        cubin.read(data[:100])


# ---------------------------------------------------------------- the table


def test_the_table(tools: Tools, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.sass", str(KERNELS / "quotient.ptx")]
    root = Path(__file__).parents[2]
    environ = {"PATH": "/usr/bin:/bin", "PTXSW_REAL_PTXAS": tools.ptxas}
    done = subprocess.run(
        [*command, "--arch", "sm_80", "--block", "256"],
        capture_output=True, text=True, cwd=root, env=environ, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    head, kernel, *rest = done.stdout.splitlines()
    assert head.split() == [
        "arch", "instr", "LDG", "STG", "LDS", "STS", "regs", "spill", "B", "shared", "B",
        "occupancy",
    ]  # fmt: skip
    assert kernel.split()[:2] == ["quotient", "sm_80"]
    assert kernel.endswith("% of 256")
    assert any(line.startswith("  block 2, loop 1") for line in rest)
    assert rest[-1].startswith("  calls dsqrt")
    (tmp_path / "no.ptx").write_text("nothing")
    bad = subprocess.run(
        [*command[:3], str(tmp_path / "no.ptx")],
        capture_output=True, text=True, cwd=root, env=environ, timeout=120,
    )  # fmt: skip
    assert bad.returncode == 2
    assert "expected .version" in bad.stderr
