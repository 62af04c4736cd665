"""What is read from the bits of machine code is what nvdisasm says of it."""

from __future__ import annotations

import random

import pytest

from benchmarks.scale import many_kernels
from ptxsw.cost import cubin, disassembly, sass
from ptxsw.cost.disassembly import decoded
from ptxsw.cost.machine_code import MachineInstruction, MachineKernel
from ptxsw.toolchain.ptxas import assemble
from tests.cost.conftest import KERNELS, Tools
from tests.heads import head

TEXTS = [path.read_text() for path in sorted(KERNELS.glob("*.ptx"))]


def seen(one: MachineInstruction) -> tuple[object, ...]:
    """What counting looks at."""
    root = "RED" if one.root == "REDG" else one.root
    guarded = root != "P2R" and one.predicate != ""  # nvdisasm lists `PR`, an operand, there
    return root, one.width, one.pipe, guarded, one.control, one.ptx


def called(kernel: MachineKernel) -> list[str]:
    return [i.operands.strip("`()") for i in kernel.instructions if i.root == "CALL"]


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_kernels_are_read_as_nvdisasm_reads_them(tools: Tools, arch: str) -> None:
    read = 0
    for text in [*TEXTS, many_kernels(8).replace("sm_80", "sm_75")]:
        both = [
            sass.read(
                text, arch, compared=False, briefly=briefly,
                ptxas=tools.ptxas, disassembler=tools.nvdisasm,
            )
            for briefly in (True, False)
        ]  # fmt: skip
        for mine, theirs in zip(both[0].kernels, both[1].kernels, strict=True):
            assert list(map(seen, mine.instructions)) == list(map(seen, theirs.instructions))
            assert mine.routines == theirs.routines
            assert called(mine) == called(theirs)
            read += len(mine.instructions)
    assert read > 1000


def test_it_is_read_without_nvdisasm(tools: Tools) -> None:
    found = sass.read(
        TEXTS[0], "sm_80", compared=False, briefly=True, ptxas=tools.ptxas, disassembler="/none"
    )
    assert found.note == "" and found.kernels[0].instructions


LINKED_LATER = (
    head("7.0", "sm_75")
    + """.extern .func (.param .b32 r) elsewhere (.param .b32 a);
.visible .entry one(.param .u64 out)
{
\t.reg .b32 %r<3>;
\t.reg .b64 %rd<2>;
\tld.param.u64 %rd1, [out];
\tmov.u32 %r1, %tid.x;
\t{
\t.param .b32 a;
\tst.param.b32 [a], %r1;
\t.param .b32 r;
\tcall.uni (r), elsewhere, (a);
\tld.param.b32 %r2, [r];
\t}
\tst.global.b32 [%rd1], %r2;
\tret;
}
"""
)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_calls_of_what_is_linked_later(tools: Tools, arch: str) -> None:
    """nvdisasm 13.5 crashes on some cubins that have them."""
    mine, theirs = (
        sass.read(
            LINKED_LATER, arch, compared=False, briefly=briefly,
            ptxas=tools.ptxas, disassembler=tools.nvdisasm if not briefly else "/none",
        )
        for briefly in (True, False)
    )  # fmt: skip
    (one,), (other,) = mine.kernels, theirs.kernels
    assert (mine.note, theirs.note) == ("", "")
    assert list(map(seen, one.instructions)) == list(map(seen, other.instructions))
    assert one.routines == other.routines
    assert [i.root for i in one.instructions].count("CALL") == 1


TOGETHER = (
    head("7.0", "sm_75")
    + """.visible .entry one(.param .u64 out)
{
\t.reg .pred %p;
\t.reg .b32 %r<4>;
\t.reg .b64 %rd<3>;
\tld.param.u64 %rd1, [out];
\tmov.u32 %r1, %tid.x;
\tsetp.gt.u32 %p, %r1, 9;
\t@%p bra Left;
\tbar.warp.sync 1023;
\tmul.wide.u32 %rd2, %r1, 4;
\tadd.s64 %rd1, %rd1, %rd2;
Left:
\tst.global.b32 [%rd1], %r1;
\tret;
}
"""
)


def test_a_branch_of_warps_that_are_together(tools: Tools) -> None:
    """Control goes on behind it where the warp is not."""
    for briefly in (True, False):
        (kernel,) = sass.read(
            TOGETHER, "sm_75", compared=False, briefly=briefly,
            ptxas=tools.ptxas, disassembler=tools.nvdisasm,
        ).kernels  # fmt: skip
        if not briefly:
            assert "BRA.CONV" in [i.opcode for i in kernel.instructions]
        flow = kernel.routines[0].flow
        ends = [kernel.instructions[block.end - 1] for block in flow.blocks]
        (asking,) = (
            b for b, end in zip(flow.blocks, ends, strict=True)
            if end.root == "BRA" and len(b.successors) == 2 and not end.predicate
        )  # fmt: skip
        assert asking.end < len(kernel.instructions)


UNKNOWN = (
    head("7.0")
    + """.visible .entry one()
{
\tpmevent 3;
\tret;
}
"""
)


def test_what_is_not_in_the_table_is_left_to_nvdisasm(tools: Tools) -> None:
    made = assemble(UNKNOWN, "sm_80", ptxas=tools.ptxas)
    (code,) = cubin.read(made.cubin).functions
    assert decoded(code, 80) is None
    assert "PMTRIG" in [line.opcode for line in disassembly.disassemble(made.cubin)[code.name]]
    found = sass.read(
        UNKNOWN, "sm_80", compared=False, briefly=True,
        ptxas=tools.ptxas, disassembler=tools.nvdisasm,
    )  # fmt: skip
    assert found.note == "" and found.kernels[0].instructions


def test_other_architectures_are_left_to_nvdisasm(tools: Tools) -> None:
    (code, *_) = cubin.read(assemble(TEXTS[0], "sm_75", ptxas=tools.ptxas).cubin).functions
    assert decoded(code, 70) is None
    assert decoded(code, 200) is None


@pytest.mark.parametrize("arch", [75, 80, 90, 121])
def test_bits_that_are_not_looked_at_tell_nothing(arch: int) -> None:
    """Instructions are read once for all that agree in a few bits: of each opcode, with any other
    bits, it is what all bits say."""
    source = random.Random(arch)
    for operation in range(0x200):
        words = [source.getrandbits(128) & ~0x1FF | operation for _ in range(20)]
        words += [word & ~0xF00 | 0x900 for word in words]  # calls whose target stands in them
        for word in words:
            data = word.to_bytes(16, "little")
            code = cubin.FunctionCode(
                name="k", entry=True, code=data, registers=0, stack=0, shared=0, barriers=0,
                routines=((64, "div"),), branches={}, lines=(),
            )  # fmt: skip
            line = disassembly._line(word, 0, arch, {64: "div"})
            assert decoded(code, arch) == (None if line is None else [line])
