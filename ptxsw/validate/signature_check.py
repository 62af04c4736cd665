"""What must be the same of two kernels before their instructions are compared: all around them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ptxsw.analysis.instruction_kinds import Kind, kind
from ptxsw.flow.dataflow import in_order
from ptxsw.ptx.ir import (
    Directive,
    Function,
    Instruction,
    Label,
    Module,
    Reg,
    Variable,
    leaves,
    says_nothing,
    type_width,
)
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.target import MOST_THREADS
from ptxsw.validate.functions import functions_alike, words
from ptxsw.validate.layout import declared_alike

NOTHING: Mapping[str, str] = {}

_LIMIT = "maxnreg"
_REGISTERS = 65536  # of a block, at most
_OLDEST = 50  # the first GPU of which all is the same but for threads and order of memory
_OWN_COUNTERS = 70


def difference(
    a: Module,
    b: Module,
    first: Function,
    second: Function,
    *,
    permuted: bool = False,
    moved: Collection[str] = (),
    renamed: Mapping[str, str] = NOTHING,
) -> str | None:
    """What differs outside the instructions of two kernels; None where nothing does. Where shared
    memory is `permuted`, the second text's shared arrays may have more alignment and bytes; those
    that are `moved` are not compared. The functions that were `renamed` have other names in the
    second module than in its kernel."""
    return (
        _targets(a, b, first, second)
        or _modules(a, b, first, permuted, moved, renamed)
        or _headers(first, second)
        or _bodies(a, b, first, second, permuted, moved)
    )


def _targets(a: Module, b: Module, first: Function, second: Function) -> str | None:
    """What an instruction means does not depend on the GPU, but for what orders memory and brings
    threads together: since sm_70 (manual 8, 9.7.13.1) each thread has its own program counter. What
    the manual leaves open, such as the last bits of `ex2.approx`, the GPU at hand gives alike."""
    if (a.version, a.address_size) != (b.version, b.address_size):
        return "the versions of the modules differ"
    if a.targets == b.targets:
        return None
    options = [[t for t in m.targets if not t.startswith("sm_")] for m in (a, b)]
    if options[0] != options[1] or min(a.sm, b.sm) < _OLDEST:
        return "the targets of the modules differ"
    bodies = (*first.body.instructions, *second.body.instructions)
    if (a.sm < _OWN_COUNTERS) != (b.sm < _OWN_COUNTERS) and not all(map(_is_plain, bodies)):
        return "the targets of the modules differ in how threads meet and memory is ordered"
    return None


def _is_plain(instruction: Instruction) -> bool:
    return kind(instruction) in (Kind.COMPUTE, Kind.LOAD, Kind.STORE, Kind.CONTROL)


def _modules(
    a: Module, b: Module, kernel: Function, permuted: bool, moved: Collection[str],
    renamed: Mapping[str, str],
) -> str | None:  # fmt: skip
    kept = [_kept(m.variables, moved) for m in (a, b)]
    if not _same_variables(a, kept[0], b, kept[1], permuted=permuted):
        return "the variables of the modules differ"
    if _of_modules(a) != _of_modules(b):
        return "the directives of the modules differ"
    # A call is an event of which only name and arguments are compared.
    called = [[m.source.slice(f.span) for f in m.functions if f.kind == "func"] for m in (a, b)]
    alike = functions_alike(a, b) if called[0] != called[1] or renamed else {}
    if alike is None:
        return "functions that the kernels may call differ"
    if any(renamed.get(name, name) != other for name, other in alike.items()):
        return "functions that the kernels may call have other names"
    return None if kernel.kind == "entry" else "only kernels are compared, not functions"


def _of_modules(module: Module) -> list[str]:
    """The module's directives that mean something other than functions and variables, such as
    `.alias`."""
    told = (d for d in module.directives if not says_nothing(d))
    return [words(module.source, directive.span) for directive in told]


def _headers(first: Function, second: Function) -> str | None:
    if [_variable(v) for v in first.params] != [_variable(v) for v in second.params]:
        return "the parameters of the kernels differ"
    if first.linkage != second.linkage:
        return "the linkage of the kernels differs"
    kept = [[d for d in f.directives if d[0] not in (_LIMIT, "pragma")] for f in (first, second)]
    if kept[0] != kept[1]:
        shown = [", ".join(f".{name} {text}".strip() for name, text in d) or "none" for d in kept]
        return f"the directives of the kernels differ: {shown[0]}; {shown[1]}"
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
    threads = second.most_threads or MOST_THREADS
    if len(after) != 1 or not after[0].isdigit() or int(after[0]) * threads > _REGISTERS:
        return f"the limit of registers may be too high for blocks of {threads} threads"
    return None


def _bodies(
    a: Module, b: Module, first: Function, second: Function, permuted: bool, moved: Collection[str]
) -> str | None:
    if _directives(a, first) != _directives(b, second):
        return "the directives in the kernels differ"
    kept = [_kept(f.body.variables, moved) for f in (first, second)]
    if not _same_variables(a, kept[0], b, kept[1], permuted=permuted):
        return "the variables of the kernels differ"
    for body in (first.body, second.body):
        labels = [(s.name, s.scope) for s in body.others if isinstance(s, Label)]
        if len(labels) != len(set(labels)):
            return "a label is defined twice"
    return _registers(first, second)


def _kept(variables: Iterable[Variable], moved: Collection[str]) -> list[Variable]:
    """Those that are compared."""
    return [
        v for v in variables
        if v.space != "reg" and not (v.space == "shared" and v.name in moved)
    ]  # fmt: skip


def _same_variables(
    a: Module, first: Sequence[Variable], b: Module, second: Sequence[Variable], *, permuted: bool
) -> bool:
    """Are the same variables declared?"""
    return len(first) == len(second) and all(
        _declared_alike((_said(a, v), v), (_said(b, w), w)) or (permuted and declared_alike(v, w))
        for v, w in zip(first, second, strict=True)
    )


def _said(module: Module, variable: Variable) -> str:
    """A declaration as written, but for a name that means nothing outside."""
    text = words(module.source, variable.span)
    if variable.linkage or not variable.name:
        return text
    declared, equals, initial = text.partition("=")
    return _NAME.sub(variable.name, declared) + equals + initial


_NAME = pattern(r"[\w$%']+(?=( ?\[[^\]]*\])* ?;?$)")


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
    """A register of both kernels that is of another type in the second. An operation on registers
    reads their widths only, but a name must not change its meaning."""
    body = second.body
    named = {r for i in body.instructions for r in leaves((*i.operands, *_guarding(i)))}
    for reg in in_order(r for r in named if type(r) is Reg):
        old, new = first.body.declaration(reg), body.declaration(reg)
        if old is not None and (new is None or new.type != old.type):
            return f"register {reg.name} is declared differently"
    return None


def _guarding(instruction: Instruction) -> tuple[Reg, ...]:
    return () if instruction.guard is None else (instruction.guard.reg,)


def _directives(module: Module, function: Function) -> list[str]:
    """Branch targets, prototypes, as written. Of pragmas instructions tell."""
    directives = (s for s in function.body.code if isinstance(s, Directive))
    return [_directive(module, d) for d in directives if d.name != "pragma"]


def _directive(module: Module, directive: Directive) -> str:
    if directive.name == "branchtargets":
        return f"{directive.label}: {', '.join(directive.names)}"
    return words(module.source, directive.span)


def _variable(v: Variable) -> tuple[object, ...]:
    return (v.space, v.type, v.name, v.count, v.dims, v.vector, v.align, v.attributes)
