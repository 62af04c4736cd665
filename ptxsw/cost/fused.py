"""What ptxas made of products and sums: fused, or each by itself.

    mul.f32 %f4, %f1, %f2;
    add.f32 %f5, %f4, %f3;      FFMA R5, R0, R3, R2

The places in the PTX are those of `sass`. What a cubin holds counts only if the ptxas at hand makes
the same code of the text, for only then it is known which instruction comes from where; or if
nothing in it is fused at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from subprocess import TimeoutExpired
from typing import Final

from ptxsw.cost import cubin, sass
from ptxsw.cost.disassembly import NoNvdisasm, disassemble
from ptxsw.cost.machine_code import MachineKernel
from ptxsw.parser import parse
from ptxsw.ptx.ir import Function, Module
from ptxsw.toolchain.ptxas import AssemblyError, NoPtxas
from ptxsw.verify.contraction import Arithmetic, MachineCode, Role

_FUSED: Final = frozenset({"FFMA", "FFMA32I", "FFMA2", "DFMA", "HFMA2"})
_SUMS: Final = frozenset({"FADD", "FADD32I", "FADD2", "DADD", "HADD2"})
_PRODUCTS: Final = frozenset({"FMUL", "FMUL32I", "FMUL2", "DMUL", "HMUL2"})
_ONE: Final = frozenset({"1", "-1"})
_ZERO: Final = frozenset({"RZ", "-RZ", "URZ", "-URZ", "0", "-0"})
_SECONDS: Final = 300.0  # of each program that is run


def assembled(text: str, name: str, arch: str) -> MachineCode:
    """ptxas's output for the kernels of a text, for an architecture such as "sm_80". Raises
    ParseError, NoPtxas and AssemblyError."""
    module = parse(text, name)
    made = sass.read(text, arch, name=name, timeout=_SECONDS)
    unknown = made.note if made.note else "ptxas's output has no such kernel"
    if made.note:
        return {function.name: unknown for function in module.kernels}
    kernels = {kernel.name: arithmetic(kernel) for kernel in made.kernels}
    return {function.name: kernels.get(function.name, unknown) for function in module.kernels}


def given(text: str, name: str, data: bytes) -> MachineCode:
    """The same for a cubin that was assembled from a text. Raises ParseError and BadCubin."""
    parsed = cubin.read(data)
    module = parse(text, name)
    codes = {function.name: function.code for function in parsed.functions}
    target = _target(module, parsed.arch)
    try:
        again, code = sass.codes(text, target, timeout=_SECONDS), assembled(text, name, target)
        why = f"this ptxas generates different code for {target} than the cubin contains"
    except (NoPtxas, AssemblyError, TimeoutExpired) as error:
        again, code = {}, {}
        why = f"to find places in the PTX, it is assembled again: {str(error).splitlines()[0]}"
    nothing = _nothing_fused(data, module)
    told: dict[str, Arithmetic | str] = {}
    for function in module.kernels:
        kernel = function.name
        if kernel not in codes:
            told[kernel] = "the cubin has no such kernel"
        elif codes[kernel] == again.get(kernel):
            told[kernel] = code[kernel]
        else:
            told[kernel] = nothing.get(kernel, why)
    return told


def _target(module: Module, arch: int) -> str:
    """The target of a text if a cubin is for that one, with what it ends with, such as sm_90a."""
    named = (t for t in module.targets if t.rstrip("abcdef") == f"sm_{arch}")
    return next(named, f"sm_{arch}")


def _nothing_fused(data: bytes, module: Module) -> MachineCode:
    """Of kernels in whose machine code nothing is fused: whatever was a sum is one."""
    try:
        listings = disassemble(data, timeout=_SECONDS)
    except (NoNvdisasm, TimeoutExpired):
        return {}
    return {
        function.name: _all_sums(function)
        for function in module.kernels
        if function.name in listings
        and not any(line.opcode.partition(".")[0] in _FUSED for line in listings[function.name])
    }


def _all_sums(function: Function) -> Arithmetic:
    return {i.start: frozenset[Role]({"sum"}) for i in function.body.instructions}


# ---------------------------------------------------------------- one kernel


def arithmetic(kernel: MachineKernel) -> Arithmetic:
    """What the machine instructions from each PTX instruction compute."""
    roles = defaultdict[int, set[Role]](set)
    for instruction in kernel.instructions:
        if instruction.ptx is not None:
            roles[instruction.ptx] |= _roles(instruction.root, instruction.operands.split(","))
    return {at: frozenset(some) for at, some in roles.items()}


def _roles(root: str, operands: Sequence[str]) -> set[Role]:
    if root in _SUMS:
        return {"sum"}
    if root in _PRODUCTS:
        return {"product"}
    if root not in _FUSED:
        return set()
    # A register of two halves says which: -RZ.H0_H0.
    *factors, summand = (operand.strip().partition(".H")[0] for operand in operands[1:])
    if not _ZERO.isdisjoint(factors):
        return set()  # a number
    if not _ONE.isdisjoint(factors):
        return {"sum"}
    # With zero it is both: a product rounds once, too.
    return {"fused", "product"} if summand in _ZERO else {"fused"}
