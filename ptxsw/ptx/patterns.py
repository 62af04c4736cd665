"""Regular expressions that are compiled when they are first used.

Compiling those of all modules takes longer than reading most kernels, which need a third of them.
"""

from __future__ import annotations

import re
from typing import Any, cast


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, but an error in `text` shows at the first use. The functions of `re` do not
    take it in the place of a pattern."""
    lazy = _Pattern(text, flags)
    _ALL.append(lazy)
    return cast("re.Pattern[str]", lazy)


def compile_all() -> None:
    """Compile those of all modules imported so far, for processes that will be forked."""
    for lazy in _ALL:
        lazy.compiled()


class _Pattern:
    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        """Called once for each name, since the value is kept in the object."""
        value = getattr(self.compiled(), name)
        setattr(self, name, value)
        return value

    def compiled(self) -> re.Pattern[str]:
        return re.compile(self._text, self._flags)  # `re` remembers it


_ALL: list[_Pattern] = []
