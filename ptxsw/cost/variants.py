"""The machine code of several texts of one kernel, from one run of ptxas.

All texts go into one file, the kernel under a name of its own for each (`combined`). What is told
of each text is as if it had been read by itself, briefly (`sass.read`): places are those of its
own.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ptxsw.cost import sass
from ptxsw.cost.combined import Question, combined, differ_in_one_kernel
from ptxsw.ptx.ir import Module
from ptxsw.toolchain.ptxas import AssemblyError

Assembled = sass.MachineKernel | AssemblyError
"""What ptxas made of a text, or why it refused that."""


def read(
    texts: Sequence[Module],
    name: str,
    arch: str,
    *,
    timeout: float | None = None,
) -> tuple[list[Assembled], str]:
    """What ptxas makes of a kernel in each of these texts, for an architecture such as "sm_80", and
    a note such as that of `sass.Sass`. Where it refuses one of them, it is asked about each by
    itself. `timeout` is in seconds, for each program run. Raises NoPtxas, BadCubin,
    subprocess.TimeoutExpired."""
    if not texts:
        return [], ""
    if differ_in_one_kernel(texts, name):
        try:
            return _read(texts, name, arch, timeout)
        except AssemblyError as error:
            if len(texts) == 1:
                return [error], ""
    each = [read([text], name, arch, timeout=timeout) for text in texts]
    return [kernel for kernels, _ in each for kernel in kernels], next(
        (n for _, n in each if n), ""
    )


def _read(
    texts: Sequence[Module], name: str, arch: str, timeout: float | None
) -> tuple[list[Assembled], str]:
    whole = combined([Question(tuple(texts), name, arch)])
    machine_code = sass.read(
        whole.text, arch, functions=whole.functions, compared=False, briefly=True, timeout=timeout
    )
    (placed,) = whole.kernels
    kernels: list[Assembled] = [
        _named(machine_code.kernel(one.name), text, name)
        for text, one in zip(texts, placed, strict=True)
    ]
    return kernels, machine_code.note


def _named(kernel: sass.MachineKernel, text: Module, name: str) -> sass.MachineKernel:
    """The kernel under its name, with lines of its own text in place of those of the file."""
    instructions = [
        instruction._replace(
            operands=instruction.operands.replace(kernel.name, name),
            line=None if instruction.ptx is None else text.source.line(instruction.ptx),
        )
        for instruction in kernel.instructions
    ]
    routines = (
        replace(each, name=each.name.replace(kernel.name, name)) for each in kernel.routines
    )
    return replace(kernel, name=name, instructions=tuple(instructions), routines=tuple(routines))
