"""Damaged kernels of real compilers, as deep as a command goes: `analyze` and `optimize --mode
force` end in a report or in a `PtxError` that draws a place, and never blame ptxsw.

Lines are cut, swapped and doubled, tokens and numbers replaced, so that most mutants still read as
PTX (`tests/parser/test_fuzz.py` has those that do not).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from ptxsw.changes.options import FORMS, SCHEMES, Options
from ptxsw.driver import pipeline
from ptxsw.parser import parse
from ptxsw.ptx.errors import PtxError
from tests.real import FIXTURES, text_of

ROOT = Path(__file__).parents[2]
FILES = [
    *FIXTURES,
    *sorted((ROOT / "benchmarks" / "kernelgen" / "ptx").glob("*.ptx")),
    *sorted((ROOT / "tests" / "emulator" / "ptx").glob("*.ptx")),
    ROOT / "tests" / "regressions" / "ptx" / "vector_registers.ptx",
    ROOT / "tests" / "regressions" / "ptx" / "vector_neighbours.ptx",
]
_LONGEST = 20_000  # characters; longer kernels tell no more and take longer
_BATCH = 500
_TOKEN = re.compile(r"[%$.\w]+|[^\s\w]")
_NUMBER = re.compile(r"(?<![\w%$.])(?:0[xX][0-9a-fA-F]+|[0-9]+)(?![\w.])")
_NUMBERS = """
0 1 2 3 4 7 8 16 31 32 33 63 64 128 255 1024 65535 2147483647 2147483648 4294967295
""".split()  # noqa: SIM905
_TOKENS = """
.u8 .u16 .u32 .u64 .s32 .b32 .b64 .f32 .f64 .pred .v2 .v4 .global .shared .local .param .const .nc
.volatile .relaxed .cc .wide .lo .hi .sync .uni ld st mov add sub addc subc mad mul shl shr and or
xor selp setp cvt cvta bra ret exit bar atom red shfl vote call membar @ ! { } [ ] ( ) , ; : + - |
_ %tid.x %laneid %ntid.x %r1 %rd1 %f1 %p1 0 1 -1
""".split()  # noqa: SIM905


@cache
def kernels() -> tuple[tuple[str, int, int], ...]:
    """Files with one kernel each, the others cut out, and where that kernel's body is."""
    found = []
    for path in FILES:
        text = text_of(path)
        module = parse(text)
        for kept in module.kernels:
            parts, at = [], 0
            for function in module.kernels:
                if function is not kept:
                    parts.append(text[at : function.span.start])
                    at = function.span.end
            alone = "".join((*parts, text[at:]))
            span = parse(alone).kernels[0].body_span
            if span is not None and len(alone) <= _LONGEST:
                found.append((alone, span.start, span.end))
    return tuple(found)


def mutant(seed: int) -> str:
    """A kernel with one to three places changed, nearly always in its body."""
    dice = random.Random(seed)
    text, start, end = dice.choice(kernels())
    if dice.random() < 0.05:
        start, end = 0, len(text)
    head, lines, tail = text[:start], text[start:end].splitlines(keepends=True), text[end:]
    for _ in range(dice.choice((1, 1, 2, 3))):
        at = dice.randrange(len(lines))
        match dice.randrange(6):
            case 0:
                del lines[at : at + dice.choice((1, 1, 2, 5))]
            case 1:
                other = dice.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case 2:
                lines.insert(dice.randrange(len(lines)), lines[at])
            case 3:
                lines[at] = _replaced(dice, _NUMBER, lines[at], _NUMBERS)
            case 4:
                lines[at] = _replaced(dice, _TOKEN, lines[at], _TOKENS)
            case _:
                borrowed = _TOKEN.findall(dice.choice(lines)) or [";"]
                lines[at] = _replaced(dice, _TOKEN, lines[at], borrowed)
        if not lines:
            break
    return head + "".join(lines) + tail


def _replaced(dice: random.Random, what: re.Pattern[str], line: str, by: list[str]) -> str:
    """A line with one match replaced; the line itself where there is none."""
    found = list(what.finditer(line))
    if not found:
        return line
    chosen = dice.choice(found)
    return line[: chosen.start()] + dice.choice(by) + line[chosen.end() :]


def outcome(seed: int) -> str:
    """Either "read", "refused", or the reason that blames ptxsw; other exceptions go through."""
    dice = random.Random(~seed)
    options = Options(
        mode="force", scheme=dice.choice(SCHEMES), form=dice.choice(FORMS), budget_s=2.0
    )
    try:
        report = pipeline.inspect(mutant(seed), options).report
    except PtxError as error:
        assert error.line >= 1 and error.column >= 1 and error.message in str(error)
        return "refused"
    for kernel in report.kernels:
        for refusal in kernel.refusals or ():
            if "bug in ptxsw" in refusal.reason:
                return refusal.reason
    return "read"


def _try(seeds: Iterable[int]) -> None:
    for seed in seeds:
        try:
            found = outcome(seed)
        except Exception as error:
            raise AssertionError(f"mutant {seed}: {error!r}") from error
        assert found in ("read", "refused"), f"mutant {seed}: {found}"


BROKE_SOMETHING = (2312, 3731, 5178, 6625, 7476, 9132, 11184, 15204, 16094, 19137)
"""Seeds that once ended in an exception, or in a fault of ours."""


def test_some_mutants() -> None:
    _try((*range(100, 160), *BROKE_SOMETHING))


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(40))
def test_many_mutants(batch: int) -> None:
    _try(range(_BATCH * batch, _BATCH * (batch + 1)))
