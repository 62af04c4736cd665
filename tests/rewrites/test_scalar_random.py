"""Random loops through scalar replacement: results agree wherever arrays lie, for few iterations,
odd blocks, indices that wrap, and lanes that leave early or store only sometimes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from ptxsw.simt import RunError, launch
from tests.parsed import parsed
from tests.rewrites.pair import kernel, rewritten

QUICK = 4
WHERE, ELEMENTS = 1 << 44, 2048
_BLOCKS: tuple[int | tuple[int, int], ...] = (1, 1, 37, (5, 7))


def drawn(random: Random) -> str:
    """A loop over elements of `in` and `out`, which go on by a fixed step, by rows of `n`, or by a
    32-bit index that may wrap."""
    kinds = {name: random.choice(["stays", "step", "rows", "index"]) for name in ("%rd4", "%rd5")}
    kinds[random.choice(["%rd4", "%rd5"])] = random.choice(["step", "rows"])
    step = {name: random.choice([4, -4, 8]) for name in kinds}
    lines, values = list[str](), ["%f1", "%f2"]
    for at in range(random.randint(2, 6)):
        base = random.choice(list(kinds))
        place = f"[{base}+{4 * random.choice([-1, 0, 0, 1, 2])}]"
        if random.random() < 0.55:
            lines.append(f"ld.global.f32 %f{at + 3}, {place};")
            lines.append(f"add.f32 %f1, %f1, %f{at + 3};")
            values.append(f"%f{at + 3}")
            continue
        store = f"st.global.f32 {place}, {random.choice(values)};"
        sometimes = random.random() < 0.2
        lines.append(f"@%p3 {store}" if sometimes else store)
        if random.random() < 0.3:
            lines.append(f"mul.f32 {values[-1]}, {values[-1]}, 0f3FC00000;")
    if random.random() < 0.25:
        lines.append("setp.gt.f32 %p2, %f1, 0f43480000;\n@%p2 bra END;")
    advance: dict[str, Callable[[str], str]] = {
        "stays": lambda base: "",
        "step": lambda base: f"add.s64 {base}, {base}, {step[base]};",
        "rows": lambda base: f"add.s64 {base}, {base}, %rd9;",
        "index": lambda base: (
            f"mad.lo.u32 %r7, %r3, {random.choice(['%r1', '3', '0x40000001'])}, %r2;\n"
            f"mul.wide.{random.choice('us')}32 %rd10, %r7, 4;\n"
            f"add.s64 {base}, {'%rd1' if base == '%rd4' else '%rd2'}, %rd10;"
        ),
    }
    grows = "\n".join(advance[kind](base) for base, kind in kinds.items())
    first = random.choice(["", "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra END;"])
    return f"""
    mul.wide.s32 %rd9, %r1, 4;
    mov.f32 %f1, 0f3F800000;
    mov.f32 %f2, 0f40000000;
    and.b32 %r6, %r2, 1;
    setp.eq.u32 %p3, %r6, 0;
    mov.u32 %r3, 0;
    {first}
LOOP:
    {chr(10).join(lines)}
    add.u32 %r3, %r3, 1;
    {grows}
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra LOOP;
END:
    st.global.f32 [%rd2+4000], %f1;
    """


def behind(text: str, distance: int, iterations: int, block: int | tuple[int, int]) -> bytes | str:
    """What is in memory behind a launch; a text where that fails, or threads race."""
    memory = {WHERE: np.arange(1, ELEMENTS + 1, dtype="f4").view("u1")}
    middle = WHERE + 4 * (ELEMENTS // 3)
    given = [middle, middle + distance, iterations]
    try:
        done = launch(
            parsed(text), "k", 1, block, given, memory=memory, limit=20_000, races=block != 1
        )
    except RunError as error:
        return "no end" if "no end after" in str(error) else "fails"
    return bytes(done.memory[WHERE].tobytes())


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=() if n < QUICK else pytest.mark.slow) for n in range(120)]
)
def test_results_agree(seed: int) -> None:
    random = Random(seed)
    text = kernel(drawn(random))
    new = rewritten("scalar-replacement", text).text
    if new == text:
        return
    for _ in range(12):
        distance = 4 * random.choice([0, 1, -1, 2, 3, 17, -30, 300])
        block = random.choice(_BLOCKS)
        given = distance, random.choice([0, 1, 2, 3, 7]), block
        old = behind(text, *given)
        assert old in ("fails", "no end") or old == behind(new, *given), (text, given)
