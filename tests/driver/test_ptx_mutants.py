"""Faulty PTX ends in an error of ours, whatever reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ptxsw.cli.commands import app
from tests.heads import head
from tests.ptx_mutants import LIMIT_SECONDS, faults, faults_of, limited, mutant, without_tools

FILE = Path(__file__).parents[1] / "regressions" / "ptx" / "memory_operand.ptx"

COMMANDS: dict[str, list[object]] = {
    "analyze": [FILE], "report": [FILE], "check": [FILE], "predict": [FILE],
    "optimize": [FILE, "-o", "-", "--mode", "force"], "verify": [FILE, FILE],
    "run": [FILE, "--grid", 1, "--block", 1, "--arg", "zeros:64:f32", "--arg", "zeros:64:f32"],
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_an_address_as_a_source(command: str) -> None:
    """`selp.b32 %r2, [%rd2+32], 1, 1`: every command draws the operand."""
    done = CliRunner().invoke(app, [command, *map(str, COMMANDS[command])])
    told = (
        f"{FILE}:10:14: 'selp.b32' takes a register or a number here, not an address in brackets\n"
        "   10 | selp.b32 %r2,[%rd2+32],1,1;\n"
        "      |              ^^^^^^^^^"
    )
    assert done.exit_code and told in f"{done.exception}\n{done.output}"


@pytest.mark.parametrize("shape", ["-1, 1, 1", "0", "99999, 99999, 99999", "1024, 2"])
def test_a_block_that_there_is_not(shape: str) -> None:
    text = (
        f"{head('8.0', 'sm_80')}.visible .entry k(.param .u64 a) .reqntid {shape}\n{{\n{LOAD}}}\n"
    )
    with without_tools():
        assert list(faults_of(text, text)) == []


LOAD = """.reg .b32 %r<2>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [a];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
ld.global.u32 %r1, [%rd3];
st.global.u32 [%rd3+4], %r1;
ret;
"""

BODIES = {
    "a predicate as an address": "isspacep.global %rd2, %rd1;\nst.global.b32 [%rd2], 1;\n"
    "ld.global.b32 %r1, [%rd1];\nst.global.b32 [%rd1+4], %r1;",
    "more bytes than cp.async copies": ".shared .align 16 .b8 s[64];\nmov.u32 %r1, s;\n"
    "cp.async.ca.shared.global [%r1], [%rd1], 4294967295;",
    "no mask": "bar.warp.sync;",
    "no table": "ts: .callprototype _ (.param .b32 _);\nmov.u32 %r1, 0;\nbrx.idx %r1, ts;",
    "a number as an index": "TABLE: .branchtargets ZERO, ONE;\nbrx.idx 1, TABLE;\nZERO:\nONE:",
    "a predicate as an index": ".reg .pred %p1;\nsetp.eq.u64 %p1, %rd1, 0;\n"
    "TABLE: .branchtargets ZERO, ONE;\nbrx.idx %p1, TABLE;\nZERO:\nONE:",
}


@pytest.mark.parametrize("body", BODIES)
def test_what_mutants_have_found(body: str) -> None:
    text = (
        f"{head('8.0', 'sm_80')}.visible .entry k(.param .u64 a)\n{{\n.reg .b32 %r<2>;\n"
        f".reg .b64 %rd<3>;\nld.param.u64 %rd1, [a];\n{BODIES[body]}\nret;\n}}\n"
    )
    other = text.replace("ret;", "mov.b32 %r1, 1;\nret;")  # equal texts are not looked into
    with without_tools():
        assert list(faults_of(text, other)) == []


def survive(seeds: range) -> None:
    changed = 0
    with without_tools():
        for seed in seeds:
            old, new = mutant(seed)
            changed += old != new
            with limited(LIMIT_SECONDS):
                wrong = [f"{step}: {error!r}" for step, error in faults(seed)]
            assert not wrong, f"python -m tests.ptx_mutants --show {seed}: {wrong}"
    assert changed > 0.8 * len(seeds)


def test_a_few_mutants() -> None:
    survive(range(200, 300))


@pytest.mark.slow
def test_many_mutants() -> None:
    survive(range(1_000, 21_000))
