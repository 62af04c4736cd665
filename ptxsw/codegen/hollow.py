"""A module in which all kernels but one are hollow: what that one costs, and whether it is right,
can be asked without the others."""

from __future__ import annotations

from ptxsw.codegen.splice import Edit, apply
from ptxsw.ir import Module


def hollow(module: Module) -> dict[str, Edit]:
    """For each kernel what makes its body an empty one, with as many lines."""
    text = module.source.text
    spans = ((k.name, k.body_span) for k in module.kernels if k.body_span is not None)
    return {
        name: Edit(span, "{" + "\n" * text.count("\n", span.start, span.end) + "}")
        for name, span in spans
    }


def alone(module: Module, name: str) -> str:
    """The text of a module in which the kernel of this name is the only one with a body."""
    edits = (edit for kernel, edit in hollow(module).items() if kernel != name)
    return apply(module.source.text, edits)
