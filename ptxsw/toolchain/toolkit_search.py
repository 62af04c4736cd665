"""Which CUDA toolkit a build would use.

Where no variable names it, nvcc is asked, and takes longer to answer than Python takes to import
what else `ptxsw exec` needs. So this imports nothing heavy, and asks first.
"""

from __future__ import annotations

import contextlib
import os

from ptxsw.toolchain import find
from ptxsw.toolchain.process import Running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

MARKER: Final = ".ptxsw-toolkit"
"""In the top directory of every shadow toolkit: the real one's path."""

_PATIENCE: Final = 20.0  # seconds for nvcc
_HERE: Final = "#$ _HERE_="


class ToolkitSearch:
    """Looks for the CUDA toolkit that a build would use: named by the environment, or nvcc's own,
    which is asked meanwhile."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        named = (environ.get(variable) for variable in ("CUDA_HOME", "CUDA_PATH"))
        self._named = next((path for path in map(_unshadowed, named) if path is not None), None)
        self._nvcc = None
        nvcc = find.on_path("nvcc", environ) if self._named is None else None
        if nvcc is not None:
            with contextlib.suppress(OSError):
                self._nvcc = Running(nvcc, [nvcc, "--dryrun", "-c", "none.cu"], environ)

    def found(self) -> str | None:
        """Its directory. To be asked once."""
        if self._named is not None:
            return self._named
        return self._of_nvcc() or _unshadowed("/usr/local/cuda")

    def _of_nvcc(self) -> str | None:
        """What nvcc says of itself: it may be a script that starts another one."""
        if self._nvcc is None:
            return None
        try:
            done = self._nvcc.finish_within(_PATIENCE)
        except OSError:
            return None
        said = done.stderr.decode(errors="replace") if done is not None else ""
        for line in said.splitlines():
            if line.startswith(_HERE):
                return _unshadowed(os.path.dirname(line[len(_HERE) :]))
        return None


def _unshadowed(path: str | None) -> str | None:
    """The toolkit in a directory, or that of which it is a shadow."""
    if not path:
        return None
    marker = os.path.join(path, MARKER)
    if os.path.exists(marker):
        with open(marker, encoding="utf-8") as file:
            path = file.read().strip()
    return path if os.path.exists(os.path.join(path, "bin", "ptxas")) else None
