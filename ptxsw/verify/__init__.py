"""Are two PTX texts equal? A proof where one is found, the machine otherwise.

`ptxsw.verify.local` is the quick check of what `optimize` wrote; importing it imports no numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxsw.verify.verdict import Different, Equal, Undecided, Verdict, verify

__all__ = ["Different", "Equal", "Undecided", "Verdict", "verify"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from ptxsw.verify import verdict

        return getattr(verdict, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
