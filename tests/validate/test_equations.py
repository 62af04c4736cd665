"""What the two copies of code that stands twice compute alike is known where they meet."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from ptxsw.analysis.instruction_kinds import is_equation, kind
from ptxsw.flow.cfg import Cfg, build
from ptxsw.parser import parse
from ptxsw.ptx.ir import Reg
from ptxsw.validate.equations import Equations
from tests.validate.stories import HEAD, START

COPIES = """
ld.global.u32 %r7, [%rd6];
setp.lt.u32 %p1, %r7, 7;
@%p1 bra SECOND;
{first}
bra MEET;
SECOND:
{second}
MEET:
bar.sync 0;
st.global.u32 [%rd7], %r4;
"""

ALIKE = "add.u32 %r3, %r7, 5;\nshr.u32 %r4, %r3, 8;"


def written_by(first: str, second: str) -> str | None:
    """The instruction that tells what %r4 holds where two copies meet."""
    text = HEAD.format(pointer="") + START + COPIES.format(first=first, second=second) + "ret;\n}\n"
    module = parse(text)
    cfg = build(module.kernels[0].body)
    meet = next(i for i, ins in enumerate(cfg.instructions) if ins.opcode == "bar")
    equations = Equations(cfg)
    writer = equations.writer(equations.at(meet), Reg("%r4"))
    return None if writer is None else module.source.slice(cfg.instructions[writer].span)


def test_both_copies_compute_the_same() -> None:
    assert written_by(ALIKE, ALIKE) == "shr.u32 %r4, %r3, 8;"


def test_other_instructions_may_stand_between() -> None:
    assert written_by(ALIKE, "mov.u32 %r8, 1;\n" + ALIKE.replace("\n", "\nadd.u32 %r9, %r8, 1;\n"))


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(ALIKE.replace("8;", "7;"), id="another constant"),
        pytest.param(ALIKE.replace("u32 %r4", "s32 %r4"), id="another type"),
        pytest.param(ALIKE.replace("shr.u32", "shl.b32"), id="another opcode"),
        pytest.param(ALIKE.replace("8;", "%r1;"), id="another operand"),
        pytest.param(ALIKE.replace("shr", "@%p1 shr"), id="guarded"),
        pytest.param(ALIKE + "\nsub.u32 %r4, %r1, %r2;", id="written again"),
        pytest.param(ALIKE + "\nmov.u32 %r3, %r2;", id="an operand written afterwards"),
        pytest.param("mov.u32 %r3, %r7;", id="not written"),
    ],
)
def test_copies_that_differ(second: str) -> None:
    """By one place: then nothing is known where they meet."""
    assert written_by(ALIKE, second) is None
    assert written_by(second, ALIKE) is None


def test_a_value_that_is_replaced_where_the_copies_have_met() -> None:
    """An operand that is written behind the meeting ends the equation of both copies."""
    text = HEAD.format(pointer="") + START + COPIES.format(first=ALIKE, second=ALIKE)
    module = parse(text + "mov.u32 %r3, %r2;\nbar.sync 0;\nret;\n}\n")
    cfg = build(module.kernels[0].body)
    equations = Equations(cfg)
    last = max(i for i, ins in enumerate(cfg.instructions) if ins.opcode == "bar")
    assert equations.writer(equations.at(last), Reg("%r4")) is None


def straight(count: int, registers: int, seed: int) -> Cfg:
    """A block of additions, some of them guarded, between a few registers."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        r, a, b = (f"%r{rng.randrange(registers)}" for _ in range(3))
        lines.append(rng.choice(("", "", "@%p1 ")) + f"add.u32 {r}, {a}, {b};\n")
    head = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n"
    declared = f".reg .b32 %r<{registers}>;\n.reg .pred %p<2>;\n"
    return build(parse(head + declared + "".join(lines) + "ret;\n}\n").kernels[0].body)


@pytest.mark.parametrize("seed", range(20))
def test_they_are_what_each_instruction_leaves(seed: int) -> None:
    """At each place of a block: the same as one instruction after the other."""
    cfg = straight(40, 6, seed)
    equations, held = Equations(cfg), set[int]()
    first: dict[object, int] = {}
    for index, ins in enumerate(cfg.instructions):
        assert equations.at(index) == sum(1 << number for number in held)
        written, read = cfg.written[index], cfg.read[index]
        held = {n for n in held if not {*cfg.written[n], *cfg.read[n]}.intersection(written)}
        if is_equation(ins, kind(ins), written, read):
            held.add(first.setdefault((ins.opcode, ins.modifiers, ins.operands), index))


def test_they_take_no_more_than_the_text() -> None:
    """Twice as many for twice the instructions, about."""

    def most(count: int) -> int:
        cfg = straight(count, count, 0)
        assert cfg.written and cfg.read
        tracemalloc.start()
        Equations(cfg).at(count)
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    assert most(8000) < 6 * most(2000)
