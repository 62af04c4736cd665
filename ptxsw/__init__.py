"""ptxsw: symbolic execution of PTX, memory traces, and proved shuffle synthesis.

    report = ptxsw.analyze(text)                            # a Report
    result = ptxsw.optimize(text, ptxsw.Options(mode="force"))
    result.text, result.report
    ptxsw.check(text, select="correctness")                 # a Report with verdicts
    ptxsw.verify(text, result.text)                         # proved, different or undecided
    ptxsw.steps(text)                                       # the symbolic run, step by step
    ptxsw.choose(text, (128, 1, 1)).text                    # the fastest that tune measured

Whatever is named here is imported when it is first asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself would double what the wrapper costs a build
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.2.0"

__all__ = [
    "Different", "LaunchChoice", "Options", "ParseError", "Prediction", "Proved", "PtxError",
    "Report", "Result", "SymbolicStep", "Undecided", "Unsupported", "__version__", "analyze",
    "check", "choose", "optimize", "parse", "plugins", "predict", "steps", "to_z3", "verify",
]  # fmt: skip

_HOMES = {
    "check": "ptxsw.driver.checking", "parse": "ptxsw.parser", "analyze": "ptxsw.driver.pipeline",
    "optimize": "ptxsw.driver.pipeline", "Options": "ptxsw.driver.pipeline",
    "Result": "ptxsw.driver.pipeline", "Report": "ptxsw.report",
    "Prediction": "ptxsw.report.prediction_text", "predict": "ptxsw.driver.prediction",
    "steps": "ptxsw.emulator.stepping", "to_z3": "ptxsw.emulator.stepping",
    "SymbolicStep": "ptxsw.emulator.stepping", "ParseError": "ptxsw.ptx.errors",
    "PtxError": "ptxsw.ptx.errors", "Unsupported": "ptxsw.ptx.errors",
    "choose": "ptxsw.gpu.launch_choice", "LaunchChoice": "ptxsw.gpu.launch_choice",
    "Proved": "ptxsw.verify.verdict", "Different": "ptxsw.verify.verdict",
    "Undecided": "ptxsw.verify.verdict",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in ("pipeline", "plugins"):  # modules
        return import_module(f"ptxsw.driver.{name}")
    if name == "verify":  # a package that can be called
        return import_module("ptxsw.verify")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})
