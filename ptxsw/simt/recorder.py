"""Who wants to see every access of a run: a cache model, for one. Where there is one, a value that
nobody defined may be stored: what counts is where, not what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ptxsw.ptx.ir import Instruction
    from ptxsw.simt.chunk import Chunk
    from ptxsw.simt.memory import AccessedBytes
    from ptxsw.simt.state import Fragment


class Recorder(Protocol):
    """Sees a run go by. What it raises ends the run."""

    def access(
        self, chunk: Chunk, fragment: Fragment, place: AccessedBytes, size: int, write: bool
    ) -> None:
        """Threads of a fragment access `size` bytes each; an atomic operation writes."""

    def executed(self, kernel: Sequence[Instruction], warps: Sequence[int]) -> None:
        """How many warps have executed each instruction of one function, when the run ends."""
