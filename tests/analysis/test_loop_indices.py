"""Where the sums of a loop find an index or a product, a look at its addresses says they may."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ptxsw.analysis.loop_indices import may_have_index
from ptxsw.analysis.loop_sums import LoopSums
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Trace
from ptxsw.flow.flow_graph import Loop
from ptxsw.parser import parse
from ptxsw.rewrites.address_bases import Addresses
from ptxsw.rewrites.iteration_cost import IterationCost
from ptxsw.rewrites.loop_counter import Counting
from ptxsw.terms.node import Term, factors, split
from tests.heads import head
from tests.real import FIXTURES, text_of

PROGRAMS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*/ptx/*.ptx"))

LOOP = (
    head()
    + """.visible .entry k(.param .u64 in, .param .u32 n)
{{
	.reg .pred %p<4>;
	.reg .b32 %r<40>;
	.reg .b64 %rd<40>;
	ld.param.u64 %rd1, [in];
	cvta.to.global.u64 %rd2, %rd1;
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x;
	add.s32 %r3, %r1, 3;
	and.b32 %r4, %r2, 3;
	cvt.u64.u32 %rd3, %r2;
	mov.u32 %r5, 0;
	mov.u64 %rd4, %rd2;
LOOP:
{body}
	add.s32 %r5, %r5, 1;
	add.s64 %rd4, %rd4, 8;
	setp.lt.s32 %p1, %r5, %r1;
	@%p1 bra LOOP;
	ret;
}}
"""
)
NARROW = (
    "add.s32 $, $, $;", "add.s32 $, $, 5;", "sub.s32 $, $, $;", "mul.lo.s32 $, $, $;",
    "mul.lo.s32 $, $, 12;", "shl.b32 $, $, 2;", "shr.u32 $, $, 3;", "and.b32 $, $, 252;",
    "and.b32 $, $, -4;", "or.b32 $, $, $;", "xor.b32 $, $, 1;", "mul.hi.s32 $, $, $;",
    "div.u32 $, $, 7;", "rem.u32 $, $, $;", "min.u32 $, $, $;", "selp.b32 $, $, $, %p2;",
    "mov.u32 $, $;", "mov.u32 $, 6;", "mov.u32 $, %tid.x;", "ld.global.u32 $, [%rd2];",
    "setp.lt.s32 %p2, $, $;", "setp.eq.s32 %p2, $, 3;", "cvt.u32.u64 $, &;",
    "@%p2 add.s32 $, $, 1;",
)  # fmt: skip
WIDE = (
    "add.s64 &, &, &;", "add.s64 &, &, 16;", "sub.s64 &, &, &;", "mul.wide.s32 &, $, 4;",
    "mul.wide.u32 &, $, $;", "mad.wide.u32 &, $, 4, &;", "cvt.s64.s32 &, $;", "cvt.u64.u32 &, $;",
    "shl.b64 &, &, 2;", "shl.b64 &, &, 32;", "shr.s64 &, &, 32;", "shr.u64 &, &, 1;",
    "and.b64 &, &, 4294967292;", "and.b64 &, &, &;", "or.b64 &, &, &;", "mul.lo.s64 &, &, &;",
    "mov.b64 &, {$, $};", "selp.b64 &, &, &, %p2;", "mov.b64 &, &;", "ld.global.u64 &, [&];",
    "ld.global.u32 $, [&+4];", "ld.global.u32 $, [&];", "st.global.u32 [&], $;",
)  # fmt: skip


def random_loop(random: Random) -> str:
    """A loop that computes at random, from registers that are set before it and from its own, and
    loads from what it has computed."""
    registers = {"$": [f"%r{n}" for n in range(1, 6)], "&": [f"%rd{n}" for n in range(1, 5)]}
    lines = []
    for number in range(6, 6 + random.randrange(6, 20)):
        line = random.choice(random.choice((NARROW, WIDE)))
        start = line.index(" ", line.index(" ") + 1 if line.startswith("@") else 0)
        text = line[: start + 1]
        for sign in line[start + 1 :]:
            names = registers.get(sign, [])
            if text.endswith(" ") and names and "st." not in text:  # what it sets
                again = len(names) > 6 and random.random() < 0.1
                name = random.choice(names[5:]) if again else f"{names[0][:-1]}{number}"
                registers[sign] = [*names, name]
            elif names:
                name = random.choice(names[-6:] if random.random() < 0.7 else names)
            text += name if names else sign
        lines.append(f"\t{text}")
    lines += [f"\tld.global.u32 %r39, [{name}];" for name in random.choices(registers["&"], k=2)]
    index, base = random.choice(registers["$"]), random.choice(registers["&"])
    lines += [f"\tmad.wide.s32 %rd39, {index}, 4, {base};", "\tld.global.u32 %r39, [%rd39];"]
    return LOOP.format(body="\n".join(lines))


def is_carried(sums: LoopSums, addresses: Addresses, value: Term) -> bool:
    """Has a value a product of which all that changes is carried by the loop?"""
    parts = [factors(part) for part, _ in split(value)[1]]
    changing = [[one for one in part if not sums.stays(one)] for part in parts]
    return (
        value.width == 64
        and any(several and len(part) > 1 for several, part in zip(changing, parts, strict=True))
        and all(len(several) <= 1 for several in changing)
        and all(
            one in sums.registers or addresses._index(one) is not None
            for several in changing
            for one in several
        )
    )


def check(trace: Trace, loop: Loop) -> tuple[bool, bool]:
    """Is there an index or a product in the sums, and may there be one by the look?"""
    cfg = trace.cfg
    sums = LoopSums(trace, loop)
    addresses = Addresses(sums, Counting(sums, cfg, loop), cfg, IterationCost(cfg, loop))
    products = (sums.values[at] for at, _ in addresses._products(frozenset()))
    has = bool(list(addresses._indexed())) or any(
        is_carried(sums, addresses, value) for value in products
    )
    places = [p.index for p in sums.places if cfg.instructions[p.index].opcode in ("ld", "st")]
    may = may_have_index(trace.loop_facts[loop.header], places)
    assert may or not has, sums.places
    return has, may


@pytest.mark.parametrize("path", [*FIXTURES, *PROGRAMS], ids=lambda path: path.stem)
def test_programs(path: Path) -> None:
    module = parse(text_of(path))
    for function in module.kernels:
        trace = emulate(module, function)
        for header, loop in trace.cfg.innermost_loops.items():
            if header not in trace.cfg.irreducible:
                check(trace, loop)


@pytest.mark.parametrize("seed", range(6))
def test_random_loops(seed: int) -> None:
    random = Random(seed)
    seen = set()
    for _ in range(50):
        module = parse(random_loop(random))
        trace = emulate(module, module.kernels[0])
        (loop,) = trace.cfg.loops.values()
        seen.add(check(trace, loop))
    assert {(True, True), (False, False)} <= seen
