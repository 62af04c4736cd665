"""One text for ptxas that holds several texts of a kernel, and those of several kernels.

Starting ptxas and nvdisasm takes longer than what they do for a kernel, so that they are started
once for many. What ptxas makes of a kernel must not depend on the others: kernels that call
functions, which it inlines by the number of calls, or whose module declares shared memory that it
lays out, share a file with nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from ptxsw.ptx.ir import Function, Module
from ptxsw.ptx.patterns import pattern

_LONGEST: Final = 120_000  # characters of kernels in one file
_SHARED: Final = pattern(r"(?<!\.extern)\s\.shared\b")
_CALL: Final = pattern(r"\bcall\b")
_NO_CODE: Final = pattern(r'("[^"\n]*")|//[^\n]*|/\*.*?\*/|\s+', re.DOTALL)


class Question(Struct, frozen=True):
    """What does ptxas make of the kernel in each of these texts, for an architecture such as
    "sm_80"? They differ in this kernel alone, and hold best no other."""

    texts: tuple[Module, ...]
    name: str
    arch: str


class PlacedFunction(NamedTuple):
    """A function in another text than its own: its name there, and by how much its instructions
    stand further on. `asked`: it is what somebody asks about, and no function beside it."""

    name: str
    function: Function
    offset: int = 0
    asked: bool = True


class Combined(Struct, frozen=True):
    """One text; the kernels of each question in it; and what else stands there."""

    text: str
    kernels: tuple[tuple[PlacedFunction, ...], ...]
    others: tuple[PlacedFunction, ...]

    @property
    def functions(self) -> tuple[PlacedFunction, ...]:
        return (*(kernel for each in self.kernels for kernel in each), *self.others)


def around(module: Module, name: str) -> tuple[str, str]:
    """What stands before and behind a kernel."""
    text, span = module.source.text, module.kernel(name).span
    return text[: span.start], text[span.end :]


def differ_in_one_kernel(texts: Sequence[Module], name: str) -> bool:
    """Do these texts differ in this kernel alone, so that one run serves all?"""
    return len({around(module, name) for module in texts}) == 1


def combined(questions: Sequence[Question]) -> Combined:
    """One text for questions that may be asked together. It begins as the first one's."""
    first, name = questions[0].texts[0], questions[0].name
    before, after = around(first, name)
    bodies: list[str] = []
    kernels: list[tuple[PlacedFunction, ...]] = []
    at = len(before)
    for question in questions:
        placed = []
        for number, module in enumerate(question.texts):
            function = module.kernel(question.name)
            own = f"{question.name}$sw{number}" if number else question.name
            bodies.append(_renamed(module, question.name, own))
            offset = at - function.span.start + len(own) - len(question.name)
            placed.append(PlacedFunction(own, function, offset))
            at += len(bodies[-1]) + 1
        kernels.append(tuple(placed))
    replaced = first.kernel(name).span
    further_on = at - 1 - replaced.end
    others = tuple(
        PlacedFunction(f.name, f, further_on if f.span.start > replaced.start else 0, asked=False)
        for f in first.functions
        if f.span != replaced
    )
    return Combined(before + "\n".join(bodies) + after, tuple(kernels), others)


def _renamed(module: Module, name: str, own: str) -> str:
    span = module.kernel(name).span
    head, entry, rest = module.source.text[span.start : span.end].partition(".entry")
    return head + entry + rest.replace(name, own, 1)


def together(questions: Sequence[Question]) -> Iterator[list[int]]:
    """The numbers of the questions, those together that may be asked together."""
    groups: dict[object, list[int]] = {}
    for number, question in enumerate(questions):
        groups.setdefault(_company(question) or number, []).append(number)
    for group in groups.values():
        taken, length = list[int](), 0
        for number in group:
            question = questions[number]
            size = sum(len(_body(module, question.name)) for module in question.texts)
            if taken and length + size > _LONGEST:
                yield taken
                taken, length = [], 0
            taken.append(number)
            length += size
        yield taken


def _body(module: Module, name: str) -> str:
    span = module.kernel(name).span
    return module.source.text[span.start : span.end]


def _company(question: Question) -> tuple[str, str, str] | None:
    """Equal for questions that may be asked together; None where it has to be asked alone."""
    before, after = (_code(text) for text in around(question.texts[0], question.name))
    alone = _SHARED.search(f" {before} {after}") is not None
    if alone or any(_calls(_body(module, question.name)) for module in question.texts):
        return None
    return before, after, question.arch


def _calls(text: str) -> bool:
    return "call" in text and _CALL.search(text) is not None


def _code(text: str) -> str:
    """A text without comments, blanks made one."""
    return _NO_CODE.sub(lambda match: match[1] or " ", text).strip()
