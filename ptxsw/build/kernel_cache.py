"""What became of single kernels, kept from build to build beside the answers for whole files.

After a change of one kernel the others of its file are not run again.
"""

from __future__ import annotations

from ptxsw.toolchain.cache import KERNEL, Answer, Cache, key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


class KernelCache:
    """Entries named by all that decides what becomes of a kernel: its text with what it needs of
    its file, and what `settings` tells. Reports hold line numbers: with `lines`, a kernel that has
    moved in its file is another one."""

    def __init__(self, cache: Cache, settings: bytes, *, lines: bool) -> None:
        self._cache: Final = cache
        self._settings: Final = settings
        self._lines: Final = lines

    def get(self, text: str, line: int) -> bytes | None:
        data = self._cache.get(self._name(text, line))
        return None if data is None else data.report

    def put(self, text: str, line: int, data: bytes) -> None:
        """Adds an entry. What cannot be written is not kept."""
        try:
            self._cache.put(self._name(text, line), Answer(None, data), trim=False)
        except OSError:
            return

    def _name(self, text: str, line: int) -> str:
        place = b"%d" % line if self._lines else b""
        return KERNEL + key(text.encode(), self._settings, place)
