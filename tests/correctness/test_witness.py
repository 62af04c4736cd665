"""Launches that show a fault, and those that show none of a kernel whose callers keep a promise.

The kernels are `cuda/*.cu`, made by `nvcc -ptx -arch=sm_80 -O3`. Here all rules are open: nothing
was proved.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from ptxsw.analysis.warps import Block
from ptxsw.correctness.deciding import checked
from ptxsw.correctness.drawing import drawing
from ptxsw.correctness.fault_rules import RULES as RULES_
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Fault, Proof, Suspect
from ptxsw.correctness.witness import search
from ptxsw.emulator.budget import Budget
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.terms.node import Variance
from ptxsw.terms.origin import Origin
from ptxsw.verify.launches import from_json
from tests.command_line import ptxsw

HERE = Path(__file__).parent / "ptx"
RULES = (
    "data-race", "divergent-barrier", "warp-mask", "out-of-bounds", "misaligned-access",
    "undefined-value", "deadlock", "async-wait",
)  # fmt: skip


@cache
def program(name: str) -> Module:
    return parse((HERE / f"{name}.ptx").read_text(), f"{name}.ptx")


def subject(name: str, kernel: str, block: Block | None = None, launch: str = "") -> Subject:
    module = program(name)
    function = next(f for f in module.kernels if f.name == kernel)
    given = from_json(launch)[0] if launch else None
    return Subject(module, function, Budget(10.0), block, given)


def found(
    name: str, kernel: str, block: Block | None = None, launch: str = ""
) -> tuple[Fault, ...]:
    return search(
        subject(name, kernel, block, launch), {rule: Proof(unknown="?") for rule in RULES}
    ).faults


def names(module: str) -> list[str]:
    return [f.name for f in program(module).kernels]


# ---------------------------------------------------------------- promises


@pytest.mark.parametrize("kernel", names("promised"))
def test_nothing_is_said_where_a_caller_keeps_a_promise(kernel: str) -> None:
    assert found("promised", kernel) == ()


# ---------------------------------------------------------------- faults

SHOWN: dict[str, tuple[Block, str, str]] = {
    "reduce": ((256, 1, 1), "data-race", "put `__syncthreads()` between lines"),
    "transpose": ((16, 16, 1), "data-race", "put `__syncthreads()` between lines"),
    "stencil": ((128, 1, 1), "data-race", "write the results to another array"),
    "total": ((128, 1, 1), "data-race", "use an atomic operation"),
    "broadcast": ((64, 1, 1), "data-race", "put `__syncthreads()` between lines"),
    "shuffle": ((64, 1, 1), "warp-mask", "let exactly the lanes named by the mask reach it"),
    "mask": ((64, 1, 1), "warp-mask", "let exactly the lanes named by the mask reach it"),
    "barrier": ((64, 1, 1), "divergent-barrier", "move the barrier"),
    "unwritten": ((64, 1, 1), "undefined-value", "initialize the value on all paths"),
    "beyond": ((64, 1, 1), "out-of-bounds", "guard the access"),
    "vector": ((64, 1, 1), "misaligned-access", "use narrower accesses"),
    "wait_for": ((64, 1, 1), "deadlock", "write what the others wait for"),
    "count": ((64, 1, 1), "deadlock", "let all awaited threads arrive"),
    "bins": ((128, 1, 1), "data-race", "use an atomic operation"),
    "loaded_once": ((32, 1, 1), "deadlock", "write what the others wait for"),
    "copy": ((64, 1, 1), "async-wait", "wait for the copy before line"),
    "counted": ((64, 1, 1), "data-race", "put `__syncthreads()` between lines"),
    "rows_off": ((32, 8, 1), "data-race", "let each block write its own elements"),
    "rounds": ((64, 1, 1), "data-race", "put `__syncthreads()` between lines"),
    "placed": ((64, 1, 1), "data-race", "let one thread write it"),
}
ERRORS = {
    "data-race": "race", "async-wait": "a copy that", "divergent-barrier": "by part of a warp",
    "warp-mask": "", "undefined-value": "an undefined value", "out-of-bounds": "past the",
    "misaligned-access": "not aligned", "deadlock": "waits forever",
}  # fmt: skip


@pytest.mark.parametrize("kernel", SHOWN)
def test_a_fault_is_shown_and_its_witness_replays(kernel: str, tmp_path: Path) -> None:
    block, rule, advice = SHOWN[kernel]
    faults = found("shown", kernel, block)
    assert {(f.rule, f.level) for f in faults} == {(rule, "error")}
    assert advice in faults[0].advice
    spec = tmp_path / "witness.json"
    for fault in faults:
        assert fault.witness is not None
        assert fault.witness.block == block
        spec.write_text(json.dumps(fault.witness.json()))
        done = ptxsw("run", HERE / "shown.ptx", "--kernel", kernel, "--launch", spec)
        assert done.returncode != 0
        assert ERRORS[rule] in done.stderr.decode()


@pytest.mark.parametrize("kernel", SHOWN)
def test_nothing_is_said_of_the_mended_twin(kernel: str) -> None:
    assert found("shown", f"{kernel}_ok", SHOWN[kernel][0]) == ()


def test_a_fault_is_at_the_access_that_comes_second_and_names_the_byte() -> None:
    (fault,) = found("shown", "transpose", (16, 16, 1))
    cfg = subject("shown", "transpose").cfg
    assert cfg.instructions[fault.index].name == "ld.shared.f32"
    assert fault.other is not None
    assert cfg.instructions[fault.other].name == "st.shared.f32"
    assert "reads s[17], which thread" in fault.what
    assert len(fault.threads) == 2
    assert drawing(subject("shown", "transpose"), fault) == (
        "thread   at       instruction                 what it does",
        "(0,1,0)  PTX 330  st.shared.f32 [%r17], %f1;  writes s[17]",
        "                  -- no barrier --",
        "(1,0,0)  PTX 344  ld.shared.f32 %f2, [%r21];  reads s[17]",
    )


def test_what_another_iteration_does_wants_a_barrier_behind_it() -> None:
    text = program("turns").source.text
    (fault,) = found("turns", "turns", (64, 1, 1))
    assert "before the next iteration reaches line 13" in fault.advice, text
    told = drawing(subject("turns", "turns"), fault)
    assert [line.split()[1] for line in (told[1], told[3])] == ["turns.cu:15", "turns.cu:13"]


def test_as_many_keys_as_fit_are_tried_and_more_threads_have_to_meet() -> None:
    """Below 100 threads, all keys in range may differ."""
    assert found("shown", "bins", (128, 1, 1))
    assert not found("shown", "bins", (64, 1, 1))


def test_a_fault_that_another_schedule_shows_replays_under_it(tmp_path: Path) -> None:
    (fault,) = found("shown", "loaded_once", (32, 1, 1))
    assert fault.witness is not None
    assert fault.witness.seed is not None
    assert fault.witness.json()["seed"] == fault.witness.seed


def test_a_block_that_nobody_declares_is_a_condition() -> None:
    """Results of warps meet in shared memory: in blocks of one warp nothing is missing."""
    (fault,) = found("shown", "warps")
    assert (fault.level, fault.condition) == ("warning", "more than 32 threads")
    assert found("shown", "warps", (32, 1, 1)) == ()
    assert found("shown", "warps", (64, 1, 1))[0].level == "error"


# ---------------------------------------------------------------- given launches


def test_what_a_given_launch_does_is_taken_as_it_is() -> None:
    """Indices that come twice are no fault of the kernel, but they are one of this launch."""
    launch = {"grid": 1, "block": 64, "args": ["zeros:64:f32", "values:64:u32=1,2,3", 64]}
    (fault,) = found("promised", "scatter", launch=json.dumps(launch))
    assert (fault.rule, fault.level) == ("data-race", "error")
    assert "writes scatter_param_0[" in fault.what


def test_buffers_of_a_given_launch_end_where_it_says() -> None:
    launch = {"grid": 1, "block": 64, "args": ["zeros:64:f32", "iota:63:u32", 64]}
    (fault,) = found("promised", "scatter", launch=json.dumps(launch))
    assert (fault.rule, fault.level) == ("out-of-bounds", "error")
    assert "4 bytes past the end of scatter_param_1" in fault.what


def test_of_a_large_launch_the_first_blocks_are_run() -> None:
    launch = {"grid": 100000, "block": 256, "args": ["zeros:64:f32", "iota:64:f32", 64]}
    fault = found("shown", "total", launch=json.dumps(launch))[0]
    assert fault.witness is not None
    assert fault.witness.only == (0, 16)


# ---------------------------------------------------------------- models


def test_a_model_says_which_threads_and_sizes_to_try() -> None:
    """Only block 9 writes twice, and only where n is 777."""
    one = subject("shown", "rarely", (64, 1, 1))
    assert search(one, {"data-race": Proof(unknown="?")}).faults == ()
    terms = one.trace.terms
    special, number = Origin.SPECIAL, Origin.PARAMETER
    values = {
        terms.atom("%ctaid.x", 32, Variance.UNIFORM, 0x7FFFFFFF, special): 9,
        terms.atom("u %tid.x", 32, Variance.LANE, 1023, special): 5,
        terms.atom("rarely_param_1", 32, Variance.UNIFORM, (1 << 32) - 1, number): 777,
    }
    suspect = Suspect("data-race", 0, values=values)
    (fault,) = search(one, {"data-race": Proof(open=(suspect,))}).faults
    assert fault.witness is not None
    assert fault.witness.grid[0] >= 10
    assert fault.witness.args[1] == 777


def test_a_proof_that_fails_gives_such_a_model() -> None:
    races = [rule for rule in RULES_ if rule.name == "data-race"]
    faults = checked(subject("shown", "rarely", (64, 1, 1)), races).faults
    assert [(f.rule, f.level) for f in faults] == [("data-race", "error")]
