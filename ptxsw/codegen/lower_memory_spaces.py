"""Generic accesses name their state space; `rewrites/memory_spaces.py` has the lines before and
after. Those of functions that the kernel calls do so in copies of these, which stand before it.

    call f, (a);        =>        .func f$sw1_kernel(.param .b64 p) { … ld.shared.f32 … }
                                  …
                                  call f$sw1_kernel, (a);
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ptxsw.changes.change import Detail, Line
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.splice import Edit, edited_part, insert, line_end
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import defs
from ptxsw.parser import operand_spans
from ptxsw.parser.scan import blank_comments
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function, Instruction, Module, Reg
from ptxsw.ptx.source import Source, Span

WINDOWS = frozenset({"shared", "local"})
"""Windows of the generic address space: inside them an address is the window's base plus an offset,
and `ld.shared` wants the offset. A global address is the same number either way."""

_BEFORE_SPACE = frozenset({
    "weak", "relaxed", "acquire", "release", "acq_rel", "sc", "cta", "cluster", "gpu", "sys",
})  # fmt: skip
"""Modifiers that stand before the space (manual 9.7.9.8, 9.7.13.5)."""

Converted = dict[tuple[int, Reg], int]
"""The access at which an address register was converted last in a block."""


class KnownSpace(Struct, frozen=True):
    """Access `at` gets `space`. Where that is a window of the generic space its address register
    is converted just before access `converted` (this one or an earlier one of the block)."""

    at: int
    space: str
    converted: int | None = None

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        return {"space": self.space}


class FunctionCopy(Struct, frozen=True):
    """A copy of a function called `name`, whose accesses name their spaces and whose `calls`, by
    their positions in its body, are of other copies."""

    name: str
    function: str
    accesses: tuple[KnownSpace, ...]
    calls: tuple[tuple[int, FunctionCopy], ...] = ()

    def with_inner(self) -> Mapping[str, FunctionCopy]:
        """It and all copies that it needs, by name; what is called comes first."""
        inner = {n: c for _, copy in self.calls for n, c in copy.with_inner().items()}
        return {**inner, self.name: self}


class CallOfCopy(Struct, frozen=True):
    """Call `at` is of a copy of the function."""

    at: int
    copy: FunctionCopy

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        accesses = [a for copy in self.copy.with_inner().values() for a in copy.accesses]
        spaces = ", ".join(sorted({access.space for access in accesses}))
        return {"function": self.copy.function, "space": spaces, "accesses": len(accesses)}


def named_access(cfg: Cfg, at: int, space: str, converted: Converted) -> KnownSpace:
    """An access that names its space. Its address is converted where an earlier one of the block
    has done that, if the register has not been written since."""
    if space not in WINDOWS:
        return KnownSpace(at, space)
    base = isa.address(cfg.instructions[at]).base
    assert isinstance(base, Reg)
    key = cfg.block_of[at], base
    earlier = converted.get(key)
    if earlier is None or any(base in defs(cfg.instructions[i]) for i in range(earlier, at)):
        earlier = converted[key] = at
    return KnownSpace(at, space, earlier)


def lower(builder: Builder, module: Module, kernel: Function, details: Iterable[Detail]) -> None:
    """Write all changes of a kernel."""
    copies: dict[str, FunctionCopy] = {}
    accesses: list[KnownSpace] = []
    for detail in details:
        if isinstance(detail, CallOfCopy):
            builder.also(_renamed_call(builder.text, builder.instructions[detail.at], detail.copy))
            copies.update(detail.copy.with_inner())
        else:
            assert isinstance(detail, KnownSpace)
            accesses.append(detail)
    _name_spaces(builder, accesses)
    for edit in _with_copies(builder.text, module, kernel, list(copies.values())):
        builder.also(edit)


def _with_copies(
    text: str, module: Module, kernel: Function, copies: Sequence[FunctionCopy]
) -> Iterator[Edit]:
    """Copies before the kernel that calls them; where one of the functions stands further down,
    behind that, since only there all is known that it names. Then the kernel gets prototypes."""
    functions = {f.name: f for f in module.functions if f.body_span is not None}
    end, bodies, heads = line_end(text), "", ""
    for copy in copies:
        head, body = _copied(text, functions[copy.function], copy)
        heads += f"{blank_comments(head).rstrip()};{end}"
        bodies += f"{head}{body}{end}"
    last = max((functions[copy.function].span.end for copy in copies), default=0)
    if copies and last <= kernel.span.start:
        yield insert(kernel.span.start, bodies)
    elif copies:
        yield insert(kernel.span.start, heads)
        yield insert(last, end + bodies)


def name_place(text: str, function: Function) -> Span | None:
    """Where a function's name stands; None where more stands before it than its results. What comes
    before `.func` is not part of a copy."""
    assert function.body_span is not None
    head = blank_comments(text[function.span.start : function.body_span.start])
    found = re.search(rf"\.func\s*(?:\([^()]*\)\s*)?({re.escape(function.name)})(?![\w$])", head)
    if found is None:
        return None
    return Span(function.span.start + found.start(1), function.span.start + found.end(1))


def _copied(text: str, function: Function, copy: FunctionCopy) -> tuple[str, str]:
    """The head of a function under the name of its copy, without linkage, and its body."""
    builder = Builder(text, function, function.body.instructions)
    _name_spaces(builder, copy.accesses)
    for at, inner in copy.calls:
        builder.also(_renamed_call(text, builder.instructions[at], inner))
    place, body = name_place(text, function), function.body_span
    assert place is not None and body is not None
    start = blank_comments(text[function.span.start : place.start]).index(".func")
    head = Span(function.span.start + start, body.start)
    return edited_part(text, head, [Edit(place, copy.name)]), edited_part(
        text, body, builder.edits()
    )


def _renamed_call(text: str, call: Instruction, copy: FunctionCopy) -> Edit:
    return Edit(operand_spans(Source(text), call)[isa.destinations(call)], copy.name)


def _name_spaces(builder: Builder, accesses: Iterable[KnownSpace]) -> None:
    windows: dict[int, str] = {}  # by the access at which they are converted
    for access in accesses:
        instruction = builder.instructions[access.at]
        line = builder.text[instruction.span.start : instruction.span.end]
        line = line.replace(instruction.name, _named(instruction, access.space), 1)
        if access.converted is not None:
            base = _base(instruction)
            window = windows.get(access.converted)
            if window is None:
                window = windows[access.converted] = builder.register(access.space, "b64")
                builder.before(access.at, f"cvta.to.{access.space}.u64 {window}, {base};")
            head, bracket, rest = line.partition("[")
            line = f"{head}{bracket}{rest.replace(base, window, 1)}"
        builder.replace(access.at, line)


def _named(instruction: Instruction, space: str) -> str:
    """Opcode and modifiers with the space among them."""
    words = instruction.name.split(".")
    place = next(n for n, word in enumerate(words) if n and word not in _BEFORE_SPACE)
    return ".".join((*words[:place], space, *words[place:]))


def _base(instruction: Instruction) -> str:
    address = isa.address(instruction)
    assert isinstance(address.base, Reg)
    return address.base.name
