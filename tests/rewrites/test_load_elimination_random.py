"""Random loads and stores through two pointers: load elimination leaves memory as it was, wherever
the pointers lead."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptxsw.simt import launch
from tests.parsed import parsed
from tests.rewrites.pair import kernel, rewritten

WHERE = 1 << 44
_KINDS = (("f32", "%f", 4), ("u32", "%r1", 4), ("u16", "%r1", 2), ("u8", "%r1", 1))


def _access(choose: random.Random, values: list[str]) -> str:
    kind, stem, size = choose.choice(_KINDS[:2] if choose.random() < 0.7 else _KINDS)
    place = f"[%rd{choose.choice('45')}+{size * choose.randrange(8 // size)}]"
    if choose.random() < 0.5:
        register = f"{stem}{choose.randrange(1, 6)}"
        values.append(register)
        return f"ld.global.{kind} {register}, {place};"
    same = [value for value in values if value.startswith(stem)]
    return f"st.global.{kind} {place}, {choose.choice(same or [f'{stem}1'])};"


def _body(seed: int) -> str:
    """Some accesses, a part of them in an arm, in two arms, or in a loop of three iterations."""
    choose, values = random.Random(seed), list[str]()
    lines = [f"cvt.rn.f32.u32 %f{n}, %r2;\nmov.u32 %r1{n}, {n};" for n in range(1, 6)]
    for part in range(3):
        accesses = [_access(choose, values) for _ in range(choose.randrange(2, 6))]
        match choose.randrange(4):
            case 0:
                lines += accesses
            case 1:
                lines += [f"setp.lt.u32 %p1, %r2, {choose.randrange(40)};", f"@%p1 bra ARM{part};"]
                lines += [*accesses, f"ARM{part}:"]
            case 3:
                others = [_access(choose, values) for _ in range(choose.randrange(3))]
                lines += [f"setp.lt.u32 %p1, %r2, {choose.randrange(40)};", f"@%p1 bra ELSE{part};"]
                lines += [*accesses, f"bra JOIN{part};", f"ELSE{part}:", *others, f"JOIN{part}:"]
            case 2:
                lines += ["mov.u32 %r3, 0;", f"LOOP{part}:", *accesses]
                lines += ["add.u32 %r3, %r3, 1;", "setp.lt.u32 %p2, %r3, 3;"]
                lines += [f"@%p2 bra LOOP{part};"]
    lines += [f"st.global.u32 [%rd{choose.choice('45')}], %r1{n};" for n in range(1, 6)]
    return "\n".join(lines)


def _agree(seed: int) -> bool:
    text = kernel(_body(seed))
    new = rewritten("load-elimination", text).text
    for distance in (0, 4, -4, 8, 64, 512) if new != text else ():
        behind = []
        for one in (text, new):
            memory = {WHERE: (np.arange(2048) * 7 % 251).astype("u1")}
            given = [WHERE + 768, WHERE + 768 + distance, 30]
            done = launch(parsed(one), "k", 1, 37, given, memory=memory)
            behind.append(done.memory[WHERE].tobytes())
        assert behind[0] == behind[1], (seed, distance)
    return new != text


def test_some_kernels() -> None:
    assert sum(map(_agree, range(12))) >= 6


@pytest.mark.slow
def test_many_kernels() -> None:
    assert sum(map(_agree, range(12, 300))) >= 150
