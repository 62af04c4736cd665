"""Who runs a process: the way up to the programs of a build, as far as Linux tells."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def lineage(process: int) -> Iterator[tuple[int, str]]:
    """A process and those that run it, the nearest first: their numbers and the names of their
    programs, of which the kernel keeps 15 bytes."""
    while process > 1:
        try:
            with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
                # `13687 (make) S 13682 …`: number, name, state, parent (proc(5))
                name, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            return
        yield process, name
        process = int(rest.split()[1])
