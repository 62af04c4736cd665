"""What is to be rewritten in one kernel: data only, all that code generation sees."""

from __future__ import annotations

from dataclasses import dataclass

from ptxsw.ir import Function, Instruction, Reg


@dataclass(frozen=True, slots=True)
class WrapGuard:
    """`reg + addend` must not leave the range of its type when `step` is added to it.

    The test stands before instruction `index`, where `reg` is extended into an address. Where it
    fails the rewritten load is made as it was.
    """

    index: int
    reg: Reg
    width: int  # bits
    addend: int
    step: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Proof:
    """Why a rewrite is right: outright, under guards tested at run time, or assuming things."""

    guards: tuple[WrapGuard, ...] = ()
    block_shape: bool = False  # rows must not wrap inside a warp; tested at run time
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Load `dest` takes the value that load `source` gave lane i + `delta`; 0 is a copy."""

    dest: int  # positions in the body's instructions
    source: int
    delta: int
    scheme: str
    form: str
    proof: Proof


@dataclass(frozen=True)
class Plan:
    """The rewrites of one function, in order of their destinations.

    `segments` numbers the straight-line stretches: within one, all lanes that an `activemask`
    names go on together, so one query serves all its shuffles.
    """

    function: Function
    instructions: tuple[Instruction, ...]
    rewrites: tuple[Rewrite, ...]
    segments: tuple[int, ...]
