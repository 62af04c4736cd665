"""The machine code of several texts of one kernel, from one run of ptxas.

All texts go into one file, the kernel under a name of its own for each (`combined`). What is told
of each text is as if it had been read by itself, briefly (`sass.read`): places are those of its
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ptxsw.cost import sass
from ptxsw.cost.combined import Question, combined, differ_in_one_kernel
from ptxsw.ir import Module
from ptxsw.parser import parse
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
    module = parse(whole.text)
    machine_code = sass.read(
        whole.text, arch, module=module, compared=False, briefly=True, timeout=timeout
    )
    (names,) = whole.names
    kernels: list[Assembled] = []
    for text, own in zip(texts, names, strict=True):
        pairs = zip(
            module.kernel(own).body.instructions, text.kernel(name).body.instructions, strict=True
        )
        places = {new.start: old.start for new, old in pairs}
        kernels.append(_placed(machine_code.kernel(own), text, name, places))
    return kernels, machine_code.note


def _placed(
    kernel: sass.MachineKernel, text: Module, name: str, places: Mapping[int, int]
) -> sass.MachineKernel:
    """The kernel under its name, with places of its own text in place of those of the file."""
    instructions = []
    for instruction in kernel.instructions:
        at = None if instruction.ptx is None else places[instruction.ptx]
        instructions.append(
            instruction._replace(
                operands=instruction.operands.replace(kernel.name, name),
                line=None if at is None else text.source.line(at),
                ptx=at,
            )
        )
    routines = (
        replace(each, name=each.name.replace(kernel.name, name)) for each in kernel.routines
    )
    return replace(kernel, name=name, instructions=tuple(instructions), routines=tuple(routines))
