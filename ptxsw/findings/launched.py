"""How often a launch executes each instruction, so that findings weigh what they cost in it.

Without a launch a loop whose end is not known counts 16 times, and each branch as if it were
taken. With one, a block from the middle of its grid is run in the interpreter and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ptxsw.ptx.errors import InvalidRequest, PtxError
from ptxsw.ptx.ir import Function, Module

if TYPE_CHECKING:
    from ptxsw.verify.launches import Launch


class Executed(Struct, frozen=True):
    """How often a warp executes each instruction, by its place in the text; those that are not in
    it are not executed. `block` is the shape of the launch's blocks."""

    block: tuple[int, int, int]
    times: Mapping[int, float]


def executed(module: Module, function: Function, launch: Launch) -> Executed | str:
    """What a launch does with a kernel, or why it could not be run."""
    from ptxsw.cost.sampled import TooLong, executions

    name = function.name
    try:
        return Executed(launch.block, executions(module, name, launch))
    except (PtxError, TooLong) as error:
        return f"{module.source.name}: the launch of {name} cannot be run: {error}"


def without_kernel(launches: Mapping[str, Launch], kernels: Sequence[str]) -> str | None:
    """The first name of a launch that no kernel has."""
    from ptxsw.ptx.cxx_names import matches

    named = (name for name in launches if name)
    return next((name for name in named if not any(matches(k, name) for k in kernels)), None)


def of_kernel(module: Module, function: Function, launches: Mapping[str, Launch]) -> Launch | None:
    """The launch of a kernel among those given by its PTX or C++ name, or by "" for the one kernel
    of a text. Raises ValueError where that could be several."""
    from ptxsw.ptx.cxx_names import matches

    for name, launch in launches.items():
        if name and matches(function.name, name):
            return launch
    if "" in launches and len(module.kernels) > 1:
        raise InvalidRequest(
            f"{module.source.name} has {len(module.kernels)} kernels: "
            "say which is launched, as in --launch KERNEL=SPEC.json"
        )
    return launches.get("")
