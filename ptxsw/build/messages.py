"""ptxas's messages about a rewritten text, as if they were about the original."""

from __future__ import annotations

import re
from difflib import SequenceMatcher


def map_back(message: bytes, path: str, original_path: str, lines: LineMap) -> bytes:
    """Replaces the path, and the line numbers that follow it."""
    place = re.compile(re.escape(path.encode()) + rb"(?!\d)(, line (\d+))?")

    def original(match: re.Match[bytes]) -> bytes:
        line = b"" if match[2] is None else b", line %d" % lines.original(int(match[2]))
        return original_path.encode() + line

    return place.sub(original, message)


class LineMap:
    """Lines of a rewritten text to lines of the original; compared only when asked."""

    def __init__(self, original: str, rewritten: str) -> None:
        self._texts = (original, rewritten)
        self._lines: list[int] | None = None

    def original(self, line: int) -> int:
        """The line of the original (from 1) that became `line`; for an added line the one
        before it."""
        if self._lines is None:
            self._lines = _align(*(text.split("\n") for text in self._texts))
        return self._lines[min(line, len(self._lines)) - 1] if line > 0 else line


def _align(original: list[str], rewritten: list[str]) -> list[int]:
    lines = [1] * len(rewritten)
    last = 1
    matcher = SequenceMatcher(None, original, rewritten, autojunk=False)
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        for offset in range(b_end - b):
            if tag != "insert":
                last = min(a + offset, a_end - 1) + 1
            lines[b + offset] = last
        last = max(last, a_end)
    return lines
