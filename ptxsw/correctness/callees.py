"""The calls that are left where the bodies of functions stand in place of calls."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.flow.cfg import Cfg
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function, Instruction, Module
from ptxsw.ptx.isa import call_parts
from ptxsw.ptx.patterns import pattern

_RUN_TIME = frozenset({
    "vprintf", "printf", "puts", "malloc", "free", "__assertfail", "__assert_fail",
    "__nv_assertfail",
})  # fmt: skip
"""Functions of run times: of memory that a kernel names they touch what they are given."""

_PURE = pattern(
    r"__nv_\w+|(a?(sin|cos|tan)h?|atan2|exp[12m]*0?|expm1|log(2|10|1p|b)?|pow|sqrt|cbrt|hypot|fmod"
    r"|floor|ceil|round|trunc|fabs|erfc?|[tl]gamma|fmin|fmax|remainder)f?"
    r"|_Z\d+(native_|half_)?(a?(sin|cos|tan)h?|exp(2|10|m1)?|log(2|10|1p)?|pow[nr]?|r?sqrt|recip"
    r"|divide|fma|mad|mad24|mul24|fabs|abs|floor|ceil|round|rint|trunc|fmod|f?min|f?max|clamp|mix"
    r"|dot|length|distance|normalize|cross|step|smoothstep|select|hypot|sign|popcount|clz)"
    r"(Dv\d+_[a-zDh]|S\d*_|[a-z]|Dh)+"
)
"""Functions of numbers alone: of libdevice, of C, and of OpenCL, there by the types they take."""

OWN = frozenset({"local", "param", "const"})
"""Spaces that no other thread writes, or sees."""


def is_known(call: Instruction) -> bool:
    """Does it touch only what it is given and its own memory, and wait for nobody?"""
    name = call_parts(call).callee
    return name is not None and (name in _RUN_TIME or _PURE.fullmatch(name) is not None)


def outside(module: Module, cfg: Cfg) -> Iterator[tuple[int, str]]:
    """The calls that may do more, each with what it calls in words."""
    for index in cfg.indices(cfg.order):
        instruction = cfg.instructions[index]
        if instruction.opcode == "call" and not _is_private(module, instruction, set()):
            yield index, call_parts(instruction).callee or "a function through a pointer"


def circular(module: Module, cfg: Cfg) -> Iterator[Function]:
    """The functions of the module that are still called: they call themselves."""
    names = {call_parts(cfg.instructions[at]).callee for at in cfg.indices(cfg.order)
             if cfg.instructions[at].opcode == "call"}  # fmt: skip
    return (f for f in module.functions if f.name in names and f.body_span is not None)


def _is_private(module: Module, call: Instruction, met: set[str]) -> bool:
    """Does a call touch only memory of its own thread, and wait for nobody?"""
    name = call_parts(call).callee
    if is_known(call) or name in met:
        return True
    bodies = [f for f in module.functions if f.name == name and f.body_span is not None]
    if not bodies:
        return False
    met.add(bodies[0].name)
    return all(_is_own(module, one, met) for one in bodies[0].body.instructions)


def _is_own(module: Module, instruction: Instruction, met: set[str]) -> bool:
    if instruction.opcode == "call":
        return _is_private(module, instruction, met)
    if not isa.known(instruction):
        return False
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    touched = effects & ~(isa.Effect.BRANCH | isa.Effect.EXIT)
    return not touched or isa.space(instruction) in OWN
