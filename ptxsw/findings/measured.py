"""What ptxas makes of the kernels of a text, for the rules that ask."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from ptxsw.codegen.splice import Edit, apply
from ptxsw.cost import cubin
from ptxsw.findings.base import KernelResources
from ptxsw.findings.register_use import BOUNDS
from ptxsw.ptx.ir import Module
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.source import Span
from ptxsw.toolchain.ptxas import AssemblyError, assemble, older_text

_BOUND = pattern(rf"\.(?:{'|'.join(BOUNDS)})\b[^.{{]*")


def measured(module: Module, arch: str) -> Mapping[str, KernelResources]:
    """By kernel, for a target such as "sm_80". Kernels with launch bounds that spill are assembled
    without these, too; but not where `setmaxnreg` needs them (ptxas would ignore it). Raises
    NoPtxas, AssemblyError."""
    text = module.source.text
    bounded = _assembled(text, arch)
    edits = {
        function.name: _without_bounds(text, function.span.start, function.body_span)
        for function in module.kernels
        if function.body_span is not None
        and _spills(bounded.get(function.name))
        and not any(one.opcode == "setmaxnreg" for one in function.body.instructions)
    }
    every = [edit for several in edits.values() for edit in several]
    free = _assembled(apply(text, every), arch) if every else {}
    return {
        name: replace(used, unbounded=free.get(name)) if edits.get(name) else used
        for name, used in bounded.items()
    }


def _spills(used: KernelResources | None) -> bool:
    return used is not None and bool(used.spill_stores or used.spill_loads)


def _without_bounds(text: str, start: int, body: Span) -> tuple[Edit, ...]:
    return tuple(
        Edit(Span(match.start(), match.end()), "\n" * match[0].count("\n"))
        for match in _BOUND.finditer(text, start, body.start)
    )


def _assembled(text: str, arch: str) -> dict[str, KernelResources]:
    try:
        result = assemble(text, arch)
    except AssemblyError as error:
        older = older_text(text, error)
        if older is None:
            raise
        result = assemble(older.text, arch)
    shared = {code.name: code.shared for code in cubin.read(result.cubin).functions}
    return {
        each.kernel: KernelResources(
            registers=each.registers,
            stack=each.stack,
            spill_stores=each.spill_stores,
            spill_loads=each.spill_loads,
            shared=shared.get(each.kernel, 0),
        )
        for each in result.resources
    }
