"""Verdicts, launches, and the two commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ptxsw
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.verify import Different, Proved, Undecided, verify
from ptxsw.verify.arguments import Data, parse_argument
from ptxsw.verify.differential import compare
from ptxsw.verify.invented import invent
from ptxsw.verify.launches import Fields, Launch, from_json
from ptxsw.verify.parameters import parameters
from ptxsw.verify.runs import run
from tests.heads import head
from tests.real import FIXTURES
from tests.verify.programs import KERNELGEN, OWN, original, rewritten

HEAD = head("7.0", "sm_70") + ""


def kernel(body: str, params: str = ".param .u64 out") -> str:
    return (
        f"{HEAD}.visible .entry k({params})\n{{\n"
        ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<4>;\n"
        f"{body}\n}}\n"
    )


STORE = """ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
"""


def cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ptxsw", *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


# ---------------------------------------------------------------- verdicts


def test_a_text_equals_itself() -> None:
    text = original("jacobi")
    assert verify(text, text) == Proved()
    assert ptxsw.verify(text, text) == Proved()


def test_other_instructions_with_the_same_effect_are_proved() -> None:
    first = kernel(STORE + "add.u32 %r2, %r1, %r1;\nst.global.u32 [%rd3], %r2;\nret;")
    second = kernel(STORE + "shl.b32 %r2, %r1, 1;\nst.global.u32 [%rd3], %r2;\nret;")
    assert verify(first, second) == Proved()  # a proof ends the work
    verdict = verify(first, second, seeds=(1,), also_run=True)
    assert isinstance(verdict, Proved) and verdict.launches >= 15
    assert str(verdict).startswith(f"proved; no difference in {verdict.launches} launches, ")


def test_without_a_proof_nothing_is_decided() -> None:
    start = STORE + "cvt.rn.f32.u32 %f1, %r1;\n"
    first = kernel(start + "add.f32 %f2, %f1, %f1;\nst.global.f32 [%rd3], %f2;\nret;")
    second = kernel(start + "mul.f32 %f2, %f1, 0f40000000;\nst.global.f32 [%rd3], %f2;\nret;")
    verdict = verify(first, second, seeds=(1,))
    assert isinstance(verdict, Undecided)
    assert verdict.launches >= 15 and verdict.runs_tell
    start = f"not decided: no difference in {verdict.launches} launches, "
    assert str(verdict).startswith(start)
    assert "memory may differ after the stores (line 13 of the second kernel)" in str(verdict)


def test_a_difference_names_element_thread_and_line() -> None:
    first = kernel(STORE + "add.u32 %r2, %r1, 1;\nst.global.u32 [%rd3], %r2;\nret;")
    second = kernel(
        STORE + "add.u32 %r2, %r1, 1;\nsetp.eq.u32 %p1, %r1, 5;\n@%p1 add.u32 %r2, %r2, 1;\n"
        "st.global.u32 [%rd3], %r2;\nret;"
    )
    verdict = verify(first, second)
    assert isinstance(verdict, Different)
    assert verdict.reason == (
        "out[5] is 6 in the first and 7 in the second; stored first by thread (5,0,0) of block "
        "(0,0,0) at line 14: st.global.u32 [%rd3], %r2; (in the first at line 12: st.global.u32 "
        "[%rd3], %r2;)"
    )
    assert verdict.difference is not None
    assert verdict.difference.launch.threads == 7


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("st.global.u32 [%rd3], %r7;\nret;", "an undefined value"),
        ("st.global.u32 [%rd3+2], %r1;\nret;", "not aligned"),
        ("bar.warp.sync 0xffffffff;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bar.sync 0, 64;\n"
         "st.global.u32 [%rd3], %r1;\nret;", "waits for"),
    ],
)  # fmt: skip
def test_what_only_the_second_does_wrong_is_a_difference(body: str, says: str) -> None:
    first = kernel(STORE + "st.global.u32 [%rd3], %r1;\nret;")
    verdict = verify(first, kernel(STORE + body))
    assert isinstance(verdict, Different)
    assert says in verdict.reason


def test_a_kernel_that_races_decides_nothing() -> None:
    """Every thread stores its number to one place: the last one wins, whoever that is."""
    body = "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\n"
    first = kernel(body + "st.global.u32 [%rd1], %r1;\nret;")
    second = kernel(body + "xor.b32 %r1, %r1, 1;\nst.global.u32 [%rd1], %r1;\nret;")
    launch = Launch((1, 1, 1), (96, 1, 1), (Data("zeros", 4, "u32"),))
    verdict = verify(first, second, launches=[launch])
    assert isinstance(verdict, Undecided)
    assert "depend on the schedule" in verdict.reason


def test_a_missing_kernel_is_a_difference() -> None:
    assert isinstance(verify(original("jacobi"), original("vecadd")), Different)
    with pytest.raises(ValueError, match="no kernel 'nothing' with a body; available: "):
        verify(original("jacobi"), original("jacobi"), kernel="nothing")


def test_what_is_not_modelled_is_not_decided() -> None:
    texture = "tex.1d.v4.u32.s32 {%r2,%r3,%r4,%r5}, [%rd1, {%r1}];\n"
    first = kernel(STORE + texture + "st.global.u32 [%rd3], %r2;\nret;")
    verdict = verify(first, first.replace("%r2;\nret", "%r3;\nret"))
    assert isinstance(verdict, Undecided)


# ---------------------------------------------------------------- launches


def test_pointers_are_told_from_numbers() -> None:
    module = parse(original("jacobi"))
    found = parameters(emulate(module, module.functions[0]))
    assert [(p.type, p.pointee) for p in found] == [
        ("u32", None), ("u32", None), ("f32", None), ("f32", None), ("f32", None),
        ("u64", "f32"), ("u64", "f32"),
    ]  # fmt: skip


@pytest.mark.parametrize("path", sorted(KERNELGEN.glob("*.ptx")), ids=lambda path: path.stem)
def test_invented_launches_run_clean_and_do_something(path: Path) -> None:
    module = parse(path.read_text())
    function = module.functions[0]
    launches = list(invent(emulate(module, function)))
    blocks = {launch.block for launch in launches}
    assert {(7, 1, 1), (32, 1, 1), (33, 1, 1), (48, 1, 1), (128, 1, 1), (1024, 1, 1), (16, 16, 1),
            (32, 4, 1), (8, 8, 4)} <= blocks  # fmt: skip
    for launch in launches[:1] + launches[6:8]:
        outcome = run(module, function.name, launch)
        assert outcome.error is None
        before = [d.array() for a in launch.args if isinstance(d := a, Data)]
        after = [array for _, array in outcome.buffers]
        assert any(a.tobytes() != b.tobytes() for a, b in zip(after, before, strict=True))


def test_buffers_grow_and_sizes_shrink_until_the_original_stays_in_bounds() -> None:
    far = "mul.wide.u32 %rd2, %r1, 4096;\nadd.s64 %rd3, %rd1, %rd2;\n"
    text = kernel(STORE + far + "st.global.u32 [%rd3+-65536], %r1;\nret;")
    module = parse(text)
    launches = list(invent(emulate(module, module.functions[0])))
    found = compare(module, module, "k", launches, seeds=())
    assert found.launches == len(launches)
    assert not found.skipped


def test_structures_are_filled_field_by_field() -> None:
    body = """ld.param.u64 %rd1, [s];
ld.param.u32 %r2, [s+8];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r2;
ret;"""
    module = parse(kernel(body, ".param .align 8 .b8 s[16]"))
    launch = next(iter(invent(emulate(module, module.functions[0]))))
    fields = launch.args[0]
    assert isinstance(fields, Fields)
    assert [(at, type_) for at, type_, _ in fields.fields] == [(0, "u64"), (8, "u32")]
    outcome = run(module, "k", launch)
    assert outcome.error is None
    assert outcome.buffers[0][1].view(np.uint32)[1024:1031].tolist() == [15] * 7
    assert from_json(str(launch)) == (launch,)


def test_json_round_trip() -> None:
    text = '{"grid": [2, 1, 1], "block": [48, 1, 1], "args": [3, 0.5, "iota:64:u32+16"], ' \
        '"shared": 256, "memory": {"0x100000000": "zeros:8:f64"}, "only": [1, 2]}'  # fmt: skip
    (launch,) = from_json(text)
    assert launch.args == (3, 0.5, Data("iota", 64, "u32", 0, 16))
    assert json.loads(str(launch)) == json.loads(text)
    for bad in ("[1]", '{"grid": 1}', '{"grid": 0, "block": 1, "args": []}',
                '{"grid": 1, "block": 1, "args": [true]}',
                '{"grid": 1, "block": 1, "args": [], "threads": 2}'):  # fmt: skip
        with pytest.raises(ValueError):
            from_json(bad)


def test_arguments() -> None:
    assert parse_argument("0x10") == 16
    assert parse_argument("-2.5") == -2.5
    assert parse_argument("random:8:s32:4") == Data("random", 8, "s32", 4)
    for bad in ("random:8:f31", "nothing.npy", "much"):
        with pytest.raises(ValueError):
            parse_argument(bad)


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("clang_plain_O2_sm_60", "smooth"), ("nvcc_stencil_sm_80", "_Z6jacobiPKfPfii"),
        ("nvcc_stencil_sm_80", "_Z4blurPKfPfiiS0_"), ("triton_add_sm_80", "add"),
        ("nvcc_stencil_sm_80", "_Z12seven_pointsPKdPdi"),
    ],
)  # fmt: skip
def test_compilers_kernels_run_on_what_is_invented(stem: str, name: str) -> None:
    path = next(p for p in FIXTURES if p.stem == stem)
    module = parse(path.read_bytes().decode())
    function = next(f for f in module.functions if f.name == name)
    found = compare(module, module, name, invent(emulate(module, function)), seeds=())
    assert found.difference is None
    assert found.launches >= 3


# ---------------------------------------------------------------- commands


def test_verify_exits_0_1_2_3(tmp_path: Path) -> None:
    good, bad, racy = (tmp_path / name for name in ("good.ptx", "bad.ptx", "racy.ptx"))
    good.write_text(rewritten("smooth"))
    bad.write_text(rewritten("smooth").replace("%sw_src1, 1, 31", "%sw_src1, 3, 31"))
    smooth = OWN / "smooth.ptx"
    proved = cli("verify", smooth, good, "--seeds", "1")
    assert (proved.returncode, proved.stderr) == (0, "")
    assert proved.stdout == "proved\n"
    different = cli("verify", smooth, bad, "--seeds", "0")
    assert different.returncode == 1
    assert "at line" in different.stdout and "launch: {" in different.stdout
    assert cli("verify", smooth, tmp_path / "none.ptx").returncode == 2
    assert cli("verify", smooth, good, "--kernel", "none").returncode == 2
    spec = tmp_path / "spec.json"
    spec.write_text('{"grid": 1, "block": 32, "args": ["zeros:1:f32", "zeros:1:f32", 1]}')
    racy.write_text(rewritten("smooth").replace("add.f32 %f4, %f1, %f2", "add.f32 %f4, %f1, %f1"))
    undecided = cli("verify", smooth, racy, "--launch", spec)
    assert undecided.returncode == 3
    assert "not decided" in undecided.stdout
    spec.write_text("{")
    assert cli("verify", smooth, good, "--launch", spec).returncode == 2


def test_run_writes_buffers_and_prints_counters(tmp_path: Path) -> None:
    values = np.arange(100, dtype=np.float32)
    np.save(tmp_path / "in.npy", values)
    done = cli(
        "run", OWN / "smooth.ptx", "--grid", "2", "--block", "32", "--arg", tmp_path / "in.npy",
        "--arg", "zeros:100:f32", "--arg", "2", "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "warp instructions, load.global   6" in done.stdout
    out = np.load(tmp_path / "out" / "out.npy")
    assert np.array_equal(out[1:65], values[:64] + values[1:65] + values[2:66])
    fault = cli(
        "run", OWN / "smooth.ptx", "--grid", "2", "--block", "8x8", "--arg", "zeros:8:f32",
        "--arg", "zeros:100:f32", "--arg", "2",
    )  # fmt: skip
    assert fault.returncode == 2
    assert "past the end of buffer" in fault.stderr
