"""New names in a body: registers, labels, and what is computed once at its entry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from ptxsw.codegen.splice import Edit, indentation, insert, line_end
from ptxsw.ptx.ir import Body

_PREFIX = "%sw_"
OVERLAP = "overlap"
FALLBACKS = ("slow", OVERLAP)
"""Stems of labels behind which stands the code as it was, for where a test of ours fails."""


def is_label_of(label: str, *stems: str) -> bool:
    """Was a label made from one of these stems?"""
    return re.match(rf"\$sw\d*_(?:{'|'.join(stems)})\d+$", label) is not None


def fresh_prefix(text: str) -> str:
    """A prefix with which no register in the text begins; less its `%`, no other name either."""
    # Labels and parameters have no `%`. A text that went through ptxsw before holds `%sw_` names:
    # the second time the prefix is `%sw1_`.
    prefix, number = _PREFIX, 0
    while prefix[1:] in text:
        number += 1
        prefix = f"{_PREFIX[:-1]}{number}_"
    return prefix


class Names(Struct):
    """The registers and labels that a rewriting adds to one body."""

    prefix: str
    registers: dict[str, list[str]] = field(default_factory=dict)  # type -> names
    entry: list[str] = field(default_factory=list)  # lines at the body's begin
    _counts: dict[str, int] = field(default_factory=dict)

    def new(self, stem: str, kind: str) -> str:
        """A register of type `.kind` that nothing else uses."""
        name = f"{self.prefix}{self._number(stem)}"
        self.registers.setdefault(kind, []).append(name)
        return name

    def kind(self, name: str) -> str:
        """The type, without its dot, of a register that was made here."""
        return next(kind for kind, names in self.registers.items() if name in names)

    def label(self, stem: str) -> str:
        """A label that nothing else uses."""
        return f"${self.prefix[1:]}{self._number(stem)}"

    def once(self, stem: str, kind: str, lines: Iterable[str]) -> str:
        """A register set at the entry of the body by `lines`, in which `$` stands for it."""
        name = self.prefix + stem
        names = self.registers.setdefault(kind, [])
        if name not in names:
            names.append(name)
            self.entry.extend(line.replace("$", name) for line in lines)
        return name

    def _number(self, stem: str) -> str:
        self._counts[stem] = self._counts.get(stem, 0) + 1
        return f"{stem}{self._counts[stem]}"

    def head(self, text: str, body: Body) -> Iterator[Edit]:
        """Declarations and what is computed once, behind the body's own declarations."""
        # Behind the leading declarations, since lines of the entry may name the kernel's variables.
        at, indent = body.span.start + 1, "\t"
        if body.leading:
            last = body.leading[-1].span
            at, indent = last.end, indentation(text, last.start)
        end = line_end(text)
        declared = [f".reg .{kind} {', '.join(names)};" for kind, names in self.registers.items()]
        yield insert(at, "".join(f"{end}{indent}{line}" for line in (*declared, *self.entry)))
