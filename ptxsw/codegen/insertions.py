"""Lines to put around, or in place of, the instructions of a body."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from ptxsw.codegen.splice import Edit, insert, insert_lines, line_end
from ptxsw.ptx.ir import Body


class Insertions(Struct):
    """What is collected for each instruction, by its position in the body.

    `before` and `after` are lines around it, `replaced` those in its place, and `guards` the
    predicate (`%p1`, `!%p1`) under which an unguarded instruction that stays is to run.
    """

    before: dict[int, list[str]] = field(default_factory=dict)
    after: dict[int, list[str]] = field(default_factory=dict)
    replaced: dict[int, list[str]] = field(default_factory=dict)
    guards: dict[int, str] = field(default_factory=dict)

    def put_before(self, index: int, *lines: str) -> None:
        self.before.setdefault(index, []).extend(lines)

    def put_after(self, index: int, *lines: str) -> None:
        self.after.setdefault(index, []).extend(lines)

    def replace(self, index: int, *lines: str) -> None:
        self.replaced[index] = list(lines)

    def over(self, other: Insertions) -> Insertions:
        """Both sets of lines: those of `other` come first, and where both replace an instruction,
        `self` wins."""
        return Insertions(
            {i: [*other.before.get(i, ()), *self.before.get(i, ())]
             for i in {**other.before, **self.before}},
            {i: [*other.after.get(i, ()), *self.after.get(i, ())]
             for i in {**other.after, **self.after}},
            {**other.replaced, **self.replaced},
            {**other.guards, **self.guards},
        )  # fmt: skip

    def edits(self, text: str, body: Body, within: range | None = None) -> Iterator[Edit]:
        """The edits that splice the lines into the text, around the instructions of a body; only
        those of the instructions `within`, if given."""
        touched = {*self.before, *self.after, *self.replaced, *self.guards}
        for index in sorted(touched):
            if within is not None and index not in within:
                continue
            instruction = body.instructions[index]
            start = instruction.span.start
            # An edit at `start` comes before the one that replaces the instruction (`splice`).
            if self.before.get(index):
                yield insert_lines(text, body.begin(index), self.before[index])
            if index in self.replaced:
                yield Edit(instruction.span, joined(text, start, self.replaced[index]))
            elif index in self.guards:
                yield insert(start, f"@{self.guards[index]} ")
            if self.after.get(index):
                lines = joined(text, start, ["", *self.after[index]])
                yield insert(instruction.span.end, lines)


def joined(text: str, start: int, lines: Sequence[str]) -> str:
    """Lines as they stand behind each other where the statement at offset `start` stands: on
    lines of their own, or on one line if it shares its line with others."""
    begin = text.rfind("\n", 0, start) + 1
    lead = text[begin:start]
    if lead.strip(" \t"):
        return " ".join(lines)
    return f"{line_end(text)}{lead}".join(lines)
