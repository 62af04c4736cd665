"""Starting ptxas so that glibc takes memory for it in few large pages, and keeps what it frees.

For a small kernel ptxas touches thousands of small pages, which takes a fifth of its time, and for
a large one it gives memory back and takes it again. What it writes is the same; it holds some 5 MB
more. Other C libraries, and a glibc before 2.35, take no notice of most of it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

VARIABLE: Final = "GLIBC_TUNABLES"
# glibc takes no `mmap_threshold` above 32 MiB, half of what a heap may be.
TUNABLES: Final = (
    f"glibc.malloc.hugetlb=1:glibc.malloc.top_pad={32 << 20}:"
    f"glibc.malloc.mmap_threshold={32 << 20}:glibc.malloc.trim_threshold={128 << 20}"
)


def with_large_pages(environ: Mapping[str, str]) -> Mapping[str, str]:
    """An environment in which it does so, unless it says itself what glibc is to do."""
    return environ if VARIABLE in environ else {**environ, VARIABLE: TUNABLES}
