"""Small kernels for rules that look at one thread: a text, its proof, and runs that show faults."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Proof
from ptxsw.emulator.budget import Budget
from ptxsw.parser.parse import parse
from ptxsw.simt import RunError, launch
from ptxsw.verify.launches import Launch
from tests.parsed import parsed

Block = tuple[int, int, int]


def kernel(body: str, *, params: str = ".param .u64 out, .param .u32 n", directives: str = "",
           ahead: str = "") -> str:  # fmt: skip
    """A module with the kernel `k`, which has registers of all kinds."""
    return f""".version 8.0
.target sm_80
.address_size 64
{ahead}
.visible .entry k({params}) {directives}
{{
.reg .pred %p<20>;
.reg .b16 %h<20>;
.reg .b32 %r<40>;
.reg .b64 %d<40>;
.reg .f32 %f<20>;
{body}
}}
"""


def subject(text: str, *, block: Block | None = None, launched: Launch | None = None) -> Subject:
    module = parse(text)
    function = next(f for f in module.functions if f.name == "k")
    return Subject(module, function, Budget(10.0), block, launched)


def proof(
    rule: str, text: str, *, block: Block | None = None, launched: Launch | None = None
) -> Proof | None:
    """What the rule shows of the kernel; None where it does not speak of it."""
    module = import_module(f"ptxsw.correctness.{rule}")
    asked = subject(text, block=block, launched=launched)
    with asked.budget:
        return module.prove(asked) if module.occurs(asked) else None


def is_absent(found: Proof | None) -> bool:
    """Is the fault proved absent, whatever is passed?"""
    return found is not None and not (
        found.open or found.unknown or found.condition or found.faults
    )


def error_of_run(text: str, block: Block, n: int, words: int = 4096, seed: int = 0) -> str:
    """What a run of the kernel on a buffer of words ends with; nothing where it runs clean."""
    out = np.random.default_rng(seed).integers(0, 1 << 32, words, np.uint32)
    try:
        launch(parsed(text), "k", (1, 1, 1), block, (out, np.uint32(n)), counters=False)
    except RunError as error:
        return str(error)
    return ""
