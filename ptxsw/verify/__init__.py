"""Do two kernels do the same? A proof shows that they do; a run can only show that they do not.

`ptxsw.verify(a, b)` is `ptxsw.verify.verdict.verify(a, b)`; importing the package alone imports no
numpy.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxsw.verify.verdict import Different, Proved, Undecided, Verdict, verify

__all__ = ["Different", "Proved", "Undecided", "Verdict", "verify"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from ptxsw.verify import verdict

        return getattr(verdict, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Callable(ModuleType):
    """The package under the name that the Python interface promises for a function."""

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """What `help(ptxsw.verify)` shows: the function's own."""
        from inspect import getdoc

        from ptxsw.verify.verdict import verify

        return f"verify{self.__signature__}\n\n{getdoc(verify)}"

    @property
    def __signature__(self) -> Any:
        from inspect import signature

        from ptxsw.verify.verdict import verify

        return signature(verify)

    def __call__(self, *args: Any, **options: Any) -> Any:
        from ptxsw.verify.verdict import verify

        return verify(*args, **options)


sys.modules[__name__].__class__ = _Callable
