"""Triton: rewrites the PTX of each kernel before Triton assembles it.

    import ptxsw.integrations.triton as ptxsw_triton
    ptxsw_triton.install()

Triton offers one hook for this (`knobs.runtime.add_stages_inspection_hook`); one that is there
already is called as well. The settings are part of Triton's cache key.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any

import ptxsw
from ptxsw.driver.pipeline import Options
from ptxsw.integrations import rewrite
from ptxsw.toolchain.settings import tuned_file, tuned_state

_installed: list[tuple[Any, Any]] = []  # our hook, and the one that was there before


def install(options: Options | None = None) -> None:
    """Rewrites all kernels that are compiled from now on. Raises ImportError without Triton."""
    from triton import knobs

    uninstall()
    before = knobs.runtime.add_stages_inspection_hook
    hook = _hook(options or Options(), before)
    knobs.runtime.add_stages_inspection_hook = hook
    _installed.append((hook, before))


def uninstall() -> None:
    """Undoes `install`, unless somebody has put another hook there since."""
    if not _installed:
        return
    from triton import knobs

    hook, before = _installed.pop()
    if knobs.runtime.add_stages_inspection_hook is hook:
        knobs.runtime.add_stages_inspection_hook = before


def _hook(options: Options, before: Callable[..., Any] | None) -> Callable[..., Any]:
    """Triton calls it without arguments for its part of the cache key, and with the back end
    and its stages when it compiles."""
    name = f"ptxsw {ptxsw.__version__} {options!r}"

    def hook(*arguments: Any) -> tuple[str, str] | None:
        if not arguments:
            state = tuned_state(tuned_file(os.environ)) if options.mode == "auto" else ""
            key = f"{name} {state}" + (before()[0] if before is not None else "")
            return key, hashlib.sha256(key.encode()).hexdigest()
        if before is not None:
            before(*arguments)
        stages = arguments[1]
        make_ptx = stages.get("ptx")
        if make_ptx is not None:
            stages["ptx"] = lambda source, metadata: _rewritten(make_ptx(source, metadata), options)
        return None

    return hook


def _rewritten(ptx: Any, options: Options) -> Any:
    return rewrite(ptx, options) if isinstance(ptx, str) else ptx
