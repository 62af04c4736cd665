"""What lanes that have left a nest may hold differently: as a plain search for a fixed point."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.codegen.excerpt import Excerpts
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Trace
from ptxsw.parser import parse
from ptxsw.ptx.ir import Reg
from ptxsw.shuffle.loop_nest import LoopNest, LoopShape, NestCode
from tests.real import text_of
from tests.shuffle.test_uniform_random import program

FOLDER = Path(__file__).parents[2] / "benchmarks" / "kernelgen" / "ptx"


def nests(trace: Trace) -> list[LoopNest]:
    """Each loop with an exit, alone and with those inside it, as if it were to become uniform."""
    cfg = trace.cfg
    shapes = {
        header: LoopShape(loop, -1, None, (), loop.exits[0][0], True, loop.exits[0][1])
        for header, loop in cfg.loops.items()
        if loop.exits
    }
    alone = [LoopNest({header: shape}) for header, shape in shapes.items()]
    together = []
    for header, shape in shapes.items():
        inner = {h: s for h, s in shapes.items() if h in shape.loop.blocks and h != header}
        together.append(LoopNest({header: shape, **inner}))
    return [*alone, *together]


def by_rounds(code: NestCode, nest: LoopNest) -> frozenset[Reg]:
    cfg, tainted, astray = code.cfg, set[Reg](), set[int]()
    around = {n: [s for s in nest.shapes.values() if n in s.blocks] for n in nest.blocks}
    for number in nest.blocks:
        live = frozenset[Reg]().union(*(code.live[s.after] for s in around[number]))
        for index in code.indices(number):
            if code.is_access(index) or not live.isdisjoint(cfg.written[index]):
                tainted.update(cfg.written[index])
    size = -1
    while size != len(tainted) + len(astray):
        size = len(tainted) + len(astray)
        for number in nest.blocks:
            for index in code.indices(number):
                if number in astray or not tainted.isdisjoint(cfg.read[index]):
                    tainted.update(cfg.written[index])
            guard = code.last(number).guard
            if guard is not None and guard.reg in tainted and number not in nest.votes:
                meet = {cfg.ipdom.get(number, -1)}
                astray |= cfg.reached_from(cfg.blocks[number].successors, meet) & nest.blocks
    return frozenset(tainted)


def compared(trace: Trace) -> int:
    code = NestCode(trace)
    several = nests(trace)
    for nest in several:
        assert code.tainted(nest) == by_rounds(code, nest)
    return len(several)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ptx")), ids=lambda path: path.stem)
def test_kernels(path: Path) -> None:
    module = parse(text_of(path))
    (excerpt,) = map(Excerpts(module).of, module.kernels)
    assert compared(emulate(excerpt.module, excerpt.function)) >= 2


@pytest.mark.parametrize("seed", range(32))
def test_random_kernels(seed: int) -> None:
    module = parse(program(seed))
    compared(emulate(module, module.functions[0]))


def test_the_random_kernels_have_nests() -> None:
    modules = [parse(program(seed)) for seed in range(32)]
    found = [nests(emulate(module, module.functions[0])) for module in modules]
    assert sum(any(len(nest.shapes) > 1 for nest in each) for each in found) > 8
