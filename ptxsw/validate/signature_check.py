"""What must be right of two kernels before their instructions are compared.

All around the instructions must be the same, and ptxas must take each instruction that only the
second has: what it refuses is no kernel, and equals none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxsw.parser.scan import blank_comments
from ptxsw.ptx import isa
from ptxsw.ptx.ir import (
    Directive,
    Function,
    Instruction,
    Label,
    Module,
    Operand,
    Reg,
    Symbol,
    Variable,
    Vec,
    flatten,
    says_nothing,
    type_width,
)
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.source import Source, Span
from ptxsw.semantics import meaning
from ptxsw.validate.layout import declared_alike

_LIMIT = "maxnreg"
_THREADS, _REGISTERS = 1024, 65536  # of a block, at most
_TAKE_WIDER = frozenset({"cvt", "ld", "st"})  # registers (manual 9.4.1)


def difference(
    a: Module, b: Module, first: Function, second: Function, *, permuted: bool = False
) -> str | None:
    """What differs outside the instructions of two kernels; None where nothing does. Where shared
    memory is `permuted`, the second text's shared arrays may have more alignment and bytes."""
    return (
        _modules(a, b, first, permuted=permuted)
        or _headers(first, second)
        or _bodies(a, b, first, second, permuted=permuted)
    )


def _modules(a: Module, b: Module, kernel: Function, *, permuted: bool) -> str | None:
    if (a.version, a.targets, a.address_size) != (b.version, b.targets, b.address_size):
        return "the versions or targets of the modules differ"
    if not _same_variables(a, a.variables, b, b.variables, permuted=permuted):
        return "the variables of the modules differ"
    if _of_modules(a) != _of_modules(b):
        return "the directives of the modules differ"
    # A call is an event of which only name and arguments are compared.
    called = [[m.source.slice(f.span) for f in m.functions if f.kind == "func"] for m in (a, b)]
    if called[0] != called[1] and list(_of_functions(a)) != list(_of_functions(b)):
        return "functions that the kernels may call differ"
    return None if kernel.kind == "entry" else "only kernels are compared, not functions"


def _of_functions(module: Module) -> Iterator[list[str]]:
    """What stands in each function of a module that means something."""
    for function in module.functions:
        if function.kind == "func":
            end = function.span.end if function.body_span is None else function.body_span.start
            parts = (Span(function.span.start, end), *(s.span for s in function.body.code))
            yield [_words(module.source, part) for part in parts]


def _words(source: Source, span: Span) -> str:
    """Part of a text without comments, its words divided by one blank each."""
    return " ".join(blank_comments(source.slice(span)).split())


def _of_modules(module: Module) -> list[str]:
    """The module's directives that mean something other than functions and variables, such as
    `.alias`."""
    told = (d for d in module.directives if not says_nothing(d))
    return [_words(module.source, directive.span) for directive in told]


def _headers(first: Function, second: Function) -> str | None:
    if [_variable(v) for v in first.params] != [_variable(v) for v in second.params]:
        return "the parameters of the kernels differ"
    if first.linkage != second.linkage:
        return "the linkage of the kernels differs"
    kept = [[d for d in f.directives if d[0] not in (_LIMIT, "pragma")] for f in (first, second)]
    if kept[0] != kept[1]:
        return "the directives of the kernels differ"
    return _limits(first, second)


def _limits(first: Function, second: Function) -> str | None:
    """Why the second kernel's limit of registers might keep it from being launched; what a kernel
    computes does not depend on it."""
    before, after = (
        [text for name, text in f.directives if name == _LIMIT] for f in (first, second)
    )
    if before == after:
        return None
    # More registers for a thread than a block of this size leaves it: the launch would fail.
    threads = second.most_threads or _THREADS
    if len(after) != 1 or not after[0].isdigit() or int(after[0]) * threads > _REGISTERS:
        return f"the limit of registers may be too high for blocks of {threads} threads"
    return None


def _bodies(
    a: Module, b: Module, first: Function, second: Function, *, permuted: bool
) -> str | None:
    if _directives(a, first) != _directives(b, second):
        return "the directives in the kernels differ"
    kept = [[v for v in f.body.variables if v.space != "reg"] for f in (first, second)]
    if not _same_variables(a, kept[0], b, kept[1], permuted=permuted):
        return "the variables of the kernels differ"
    for body in (first.body, second.body):
        labels = [(s.name, s.scope) for s in body.others if isinstance(s, Label)]
        if len(labels) != len(set(labels)):
            return "a label is defined twice"
    return _registers(first, second)


def _same_variables(
    a: Module, first: Sequence[Variable], b: Module, second: Sequence[Variable], *, permuted: bool
) -> bool:
    """Are the same variables declared?"""
    return len(first) == len(second) and all(
        _declared_alike((_words(a.source, v.span), v), (_words(b.source, w.span), w))
        or (permuted and declared_alike(v, w))
        for v, w in zip(first, second, strict=True)
    )


def _declared_alike(old: tuple[str, Variable], new: tuple[str, Variable]) -> bool:
    """Do two declarations say the same, but that a variable that no other module knows may have
    more alignment in the second?"""
    (text, variable), (other, aligned) = old, new
    if text == other:
        return True
    natural = type_width(variable.type) * variable.vector // 8
    more = (aligned.align or 1) >= (variable.align or natural)
    known = variable.linkage or variable.attributes
    return more and not known and _ALIGN.sub("", text) == _ALIGN.sub("", other)


_ALIGN = pattern(r" \.align \w+")


def _registers(first: Function, second: Function) -> str | None:
    """Registers of the first kernel that are of another type in the second. An operation on
    registers reads their widths only, but a name must not change its meaning."""
    for variable in first.body.variables:
        if variable.space != "reg":
            continue
        # `.reg .b32 %r<8>;` declares %r0 to %r7. If %r7 means the same, so do the others.
        last = (variable.count or 1) - 1
        name = variable.name if variable.count is None else f"{variable.name}{last}"
        other = second.body.declaration(Reg(name, variable.scope))
        if last >= 0 and (other is None or other.type != variable.type):
            return f"register {name} is declared differently"
    return None


def _directives(module: Module, function: Function) -> list[str]:
    """Branch targets, prototypes, as written. Of pragmas instructions tell."""
    directives = (s for s in function.body.code if isinstance(s, Directive))
    return [_words(module.source, d.span) for d in directives if d.name != "pragma"]


def _variable(v: Variable) -> tuple[object, ...]:
    return (v.space, v.type, v.name, v.count, v.dims, v.vector, v.align, v.attributes)


# ---------------------------------------------------------------- instructions


def ill_typed(first: Function, second: Function) -> tuple[Instruction, str] | None:
    """The first instruction of the second text that ptxas would refuse for its operands, and why;
    None where there is none. What the first text has is taken for right; which kinds of operands an
    opcode takes, the parser has seen to."""
    known = {instruction[:4] for instruction in first.body.instructions}
    for instruction in second.body.instructions:
        reason = None if instruction[:4] in known else _refused(second, instruction)
        if reason is not None:
            return instruction, reason
    return None


def _refused(function: Function, instruction: Instruction) -> str | None:
    for name in (o.name for o in instruction.operands if type(o) is Symbol):
        if _takes_none(function, instruction, name):
            return f"{instruction.name} takes no name of a variable, as {name}"
    for operand, width in _expected(instruction):
        if type(operand) is not Reg or not width:
            continue
        given = function.body.width(operand)
        wider = given > width and instruction.opcode in _TAKE_WIDER
        if given not in (0, width) and not wider:
            return f"{instruction.name} takes {width} bits, and {operand.name} has {given}"
    return None


def _takes_none(function: Function, instruction: Instruction, name: str) -> bool:
    """May what can be named here not be a variable? `st` stores the addresses of functions."""
    if instruction.opcode == "st":
        return any(name == variable.name for variable in function.body.variables)
    return instruction.opcode == "cvta" and "to" in instruction.modifiers


def _expected(instruction: Instruction) -> Iterator[tuple[Operand, int]]:
    """Operands with their widths in bits, as far as these are known."""
    opcode, modifiers, operands = instruction[:3]
    if opcode in ("ld", "st"):
        width = type_width(isa.access_type(instruction) or "")
        value = operands[0 if opcode == "ld" else 1 :][:1]
        yield from ((each, width) for each in flatten(value))
        return
    row, sense = isa.row(opcode, modifiers), meaning(opcode, modifiers)
    if row is None or sense is None or any(type(o) is Vec for o in operands):
        return
    written = list(flatten(operands[: row.defs]))
    if sense.pair is not None and len(written) != len(sense.results):
        sense = sense.pair
    yield from zip(written, sense.results, strict=False)
    yield from zip(operands[row.defs :], sense.inputs, strict=False)
