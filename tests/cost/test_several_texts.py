"""Several texts of one kernel, read at once, are told as if each had been read by itself."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from ptxsw.cost import machine_code, sass
from ptxsw.cost.disassembly import NoNvdisasm, locate
from ptxsw.parser import parse
from ptxsw.toolchain import ptxas
from ptxsw.toolchain.ptxas import AssemblyError
from tests.heads import head

TEXT = (
    head("8.7")
    + """.const .align 4 .f32 factor = 0f40000000;
.visible .entry scale(.param .u64 p, .param .f32 a)
.reqntid 256, 1, 1
{
	.reg .b64 %rd<4>; .reg .b32 %r<3>; .reg .f32 %f<5>;
	ld.param.u64 %rd1, [p];
	ld.param.f32 %f1, [a];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd3, %rd2, %rd3;
	ld.const.f32 %f2, [factor];
	ld.global.f32 %f3, [%rd3]; div.rn.f32 %f4, %f3, %f1;
	fma.rn.f32 %f4, %f4, %f2, %f1;
	st.global.f32 [%rd3], %f4;
	ret;
}
"""
)
CHANGED = TEXT.replace("\tfma.rn.f32 %f4, %f4, %f2, %f1;\n", "")
LIMITED = TEXT.replace(".reqntid 256, 1, 1", ".reqntid 256, 1, 1\n.maxnreg 16")
WRONG = TEXT.replace("st.global.f32 [%rd3], %f4;", "st.global.u64 [%rd3], %r1;")
NUMBER = re.compile(r"__internal_\d+")


@pytest.fixture(autouse=True)
def programs() -> None:
    """Skips where ptxas or nvdisasm is missing."""
    try:
        ptxas.locate()
        locate()
    except (ptxas.NoPtxas, NoNvdisasm) as error:
        pytest.skip(str(error))


def read(*texts: str) -> list[sass.Assembled]:
    found, note = sass.read_several([parse(text) for text in texts], "scale", "sm_80")
    assert note == ""
    return found


def by_itself(text: str) -> machine_code.MachineKernel:
    return sass.read(text, "sm_80", compared=False, briefly=True).kernel("scale")


def plain(kernel: sass.Assembled) -> machine_code.MachineKernel:
    """Without the numbers that routines for division have in a file."""
    assert isinstance(kernel, machine_code.MachineKernel)
    return replace(
        kernel,
        instructions=tuple(
            i._replace(operands=NUMBER.sub("", i.operands)) for i in kernel.instructions
        ),
        routines=tuple(replace(r, name=NUMBER.sub("", r.name)) for r in kernel.routines),
    )


def test_as_if_each_had_been_read_by_itself() -> None:
    texts = TEXT, CHANGED, LIMITED
    kernels = [plain(kernel) for kernel in read(*texts)]
    assert kernels == [plain(by_itself(text)) for text in texts]
    assert len({len(kernel.instructions) for kernel in kernels}) > 1
    assert all(any(i.line for i in kernel.instructions) for kernel in kernels)


def test_ptxas_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    assemble = ptxas.assemble

    def counted(text: str, *given: Any, **more: Any) -> ptxas.Assembly:
        texts.append(text)
        return assemble(text, *given, **more)

    monkeypatch.setattr(sass, "assemble", counted)
    read(TEXT, CHANGED, LIMITED)
    assert len(texts) == 1


def test_what_ptxas_refuses_does_not_spoil_the_others() -> None:
    first, refused, last = read(TEXT, WRONG, CHANGED)
    assert isinstance(refused, AssemblyError) and "mismatch for instruction 'st'" in str(refused)
    assert plain(first) == plain(by_itself(TEXT)) and plain(last) == plain(by_itself(CHANGED))


def test_texts_that_differ_elsewhere_share_no_file() -> None:
    """The constant that both would declare has another value."""
    other = TEXT.replace("0f40000000", "0f3f000000")
    assert [plain(kernel) for kernel in read(TEXT, other)] == [
        plain(by_itself(text)) for text in (TEXT, other)
    ]
