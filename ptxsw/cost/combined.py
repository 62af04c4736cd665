"""One text for ptxas that holds several texts of a kernel, and those of several kernels.

Starting ptxas and nvdisasm takes longer than what they do for a kernel, so that they are started
once for many. What ptxas makes of a kernel must not depend on the others: kernels that call
functions, which it inlines by the number of calls, or whose module declares shared memory that it
lays out, share a file with nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from ptxsw.ir import Module
from ptxsw.patterns import pattern

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


class Combined(Struct, frozen=True):
    """One text, and the names that the kernels of each question have in it."""

    text: str
    names: tuple[tuple[str, ...], ...]


def around(module: Module, name: str) -> tuple[str, str]:
    """What stands before and behind a kernel."""
    text, span = module.source.text, module.kernel(name).span
    return text[: span.start], text[span.end :]


def differ_in_one_kernel(texts: Sequence[Module], name: str) -> bool:
    """Do these texts differ in this kernel alone, so that one run serves all?"""
    return len({around(module, name) for module in texts}) == 1


def combined(questions: Sequence[Question]) -> Combined:
    """One text for questions that may be asked together. It begins as the first one's."""
    before, after = around(questions[0].texts[0], questions[0].name)
    bodies: list[str] = []
    names = []
    for question in questions:
        own = [f"{question.name}$sw{n}" if n else question.name for n in range(len(question.texts))]
        pairs = zip(question.texts, own, strict=True)
        bodies += (_renamed(text, question.name, new) for text, new in pairs)
        names.append(tuple(own))
    return Combined(before + "\n".join(bodies) + after, tuple(names))


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
    if alone or any(_CALL.search(_body(module, question.name)) for module in question.texts):
        return None
    return before, after, question.arch


def _code(text: str) -> str:
    """A text without comments, blanks made one."""
    return _NO_CODE.sub(lambda match: match[1] or " ", text).strip()
