"""What the plan of a nest of uniform loops says, once the nest is known to be right."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxsw.changes.plan import UniformLoop
from ptxsw.flow.dataflow import closure, in_order
from ptxsw.flow.flow_graph import Loop
from ptxsw.flow.loop_exits import executes_every_iteration
from ptxsw.ptx.ir import Reg
from ptxsw.shuffle.loop_nest import LoopNest, LoopShape, NestCode, RefusedNest

_CLEARABLE = (1, 16, 32, 64)  # widths in bits of registers that `mov` can set to zero

InStep = Callable[[Loop, LoopNest], bool]
"""Do all lanes, those that have left the nest too, go round a loop inside it together?"""


def nest_plans(code: NestCode, nest: LoopNest, in_step: InStep) -> Iterator[UniformLoop]:
    inside: dict[int, set[int]] = {}
    lasting: dict[int, set[int]] = {}
    under: dict[int, set[int]] = {}
    for effect in code.effects(nest):
        inside.setdefault(effect.header, set()).add(effect.index)
        if effect.lasts:
            lasting.setdefault(effect.header, set()).add(effect.index)
        if effect.lasts or effect.is_access:
            under.setdefault(effect.header, set()).add(effect.index)
    gathered = _gathered(code, nest, in_step)
    for header, shape in nest.shapes.items():
        inner = frozenset(inside[header])
        outer = _outer(code, shape, nest)
        yield UniformLoop(
            code.cfg.blocks[header].start,
            code.cfg.blocks[shape.start].end - 1,
            shape.enters,
            code.cfg.blocks[shape.leave].end - 1,
            shape.stays,
            inner,
            frozenset(under.get(header, ())),
            frozenset(lasting.get(header, ())),
            inner & gathered,
            None if outer is None else code.cfg.blocks[outer].start,
            _cleared(code, nest) if outer is None else (),
            frozenset(
                code.cfg.blocks[h].start
                for h in nest.shapes
                if h != header and h in shape.loop.blocks
            ),
        )


def _cleared(code: NestCode, nest: LoopNest) -> tuple[Reg, ...]:
    """Registers to be cleared before the nest: only lanes inside a loop set them, but branches and
    guards depend on them in every lane. Registers that already have a value keep it."""
    inside: list[int] = []
    under: set[Reg] = set()
    for effect in code.effects(nest):
        inside.append(effect.index)
        if effect.is_access or effect.lasts:
            under.update(code.sets(effect.index))
    # In a lane that never entered the loop they would be undefined, and its branches could go
    # anywhere.
    guards = (code.cfg.instructions[index].guard for index in inside)
    wanted = closure(code.cfg, [guard.reg for guard in guards if guard is not None], inside)
    root = next(iter(nest.shapes.values()))
    behind = code.cfg.blocks[root.start].successors
    live_before = frozenset[Reg]().union(*(code.live[number] for number in behind))
    registers = in_order((wanted & under) - live_before)
    body, start = code.trace.function.body, code.cfg.blocks[root.start].end - 1
    for reg in registers:
        if not body.means(reg, start) or body.width(reg) not in _CLEARABLE:
            raise RefusedNest(f"a branch in it depends on {reg.name}, which cannot be cleared")
    return tuple(registers)


def _outer(code: NestCode, shape: LoopShape, nest: LoopNest) -> int | None:
    """The header of the uniform loop around a loop."""
    around = code.cfg.loops_around(shape.loop.header)[1:]
    return next((h for h in around if h in nest.shapes), None)


def _gathered(code: NestCode, nest: LoopNest, in_step: InStep) -> frozenset[int]:
    """The instructions of a nest that all lanes reach together, once in each iteration."""
    leads = {n for shape in nest.shapes.values() for n in shape.lead}
    kept: dict[int, bool] = {}
    positions: set[int] = set()
    for number in nest.blocks:
        header = code.cfg.loop_of.get(number)
        if number in leads:
            positions.update(code.indices(number))
            continue
        assert header is not None
        loop = code.cfg.loops[header]
        shape = nest.shapes.get(header)
        if shape is None and header not in kept:
            kept[header] = in_step(loop, nest)
        always = executes_every_iteration(code.cfg, number, loop)
        # All lanes come to the exit of a uniform loop, so what stands before it is passed even in
        # the last iteration.
        if shape is not None:
            each_iteration = code.cfg.dominates(number, shape.leave) or always
        else:
            each_iteration = kept[header] and always
        if each_iteration:
            positions.update(code.indices(number))
    return frozenset(positions)
