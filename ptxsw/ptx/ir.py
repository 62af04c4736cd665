"""The shape of a PTX text as frozen data with spans into it.

Nothing here prints PTX: output is made by splicing edits into the original text
(`ptxsw.codegen.splice`), so a tree only has to say what is where.

Operands carry no spans of their own: equal operand texts share one object, which is what
keeps parsing fast. `ptxsw.parser.operand_spans` finds them again when a message needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import takewhile
from math import prod
from typing import NamedTuple

from msgspec import Struct

from ptxsw.ptx.operand import (
    Args,
    Float,
    Int,
    Mem,
    Not,
    Operand,
    Pair,
    Reg,
    RegisterPart,
    Sink,
    Special,
    Sum,
    Symbol,
    Vec,
    components,
    flatten,
    leaves,
)
from ptxsw.ptx.source import Source, Span
from ptxsw.ptx.statement import (
    USED_BYTES,
    Close,
    Directive,
    Guard,
    Instruction,
    Label,
    Loc,
    Open,
    Statement,
    Variable,
    says_nothing,
    type_width,
)
from ptxsw.ptx.target import MOST_THREADS

__all__ = [
    "USED_BYTES", "Args", "Body", "Close", "Directive", "Float", "Function", "Guard",
    "Instruction", "Int", "Label", "Loc", "Mem", "Module", "Not", "Open", "Operand",
    "Pair", "Reg", "RegisterPart", "Signature", "Sink", "Special", "Statement", "Sum", "Symbol",
    "Variable", "Vec", "components",
    "flatten", "leaves", "says_nothing", "type_width",
]  # fmt: skip

# ---------------------------------------------------------------- functions and modules


class Body(Struct, frozen=True, dict=True):
    """The statements of a function, nested scopes flattened between `Open` and `Close`."""

    statements: tuple[Statement, ...]
    span: Span  # from `{` to `}`, both included
    parameters: tuple[Variable, ...] = ()  # results and parameters of the function
    never_return: frozenset[str] = frozenset()  # functions of the module that say `.noreturn`

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        return tuple([s for s in self.statements if type(s) is Instruction])

    def ends_path(self, instruction: Instruction) -> bool:
        """Is it a call of a function that never returns to what stands behind it?"""
        return (
            bool(self.never_return)
            and instruction.opcode == "call"
            and any(type(o) is Symbol and o.name in self.never_return for o in instruction.operands)
        )

    @cached_property
    def others(self) -> tuple[Statement, ...]:
        """The statements that are no instructions: few, as a rule."""
        return tuple([s for s in self.statements if type(s) is not Instruction])

    @cached_property
    def code(self) -> tuple[Statement, ...]:
        """The statements that mean something: all but line information and its like."""
        return tuple([s for s in self.statements if not says_nothing(s)])

    @cached_property
    def leading(self) -> tuple[Variable, ...]:
        """The declarations that come before all else."""
        return tuple(takewhile(lambda s: type(s) is Variable, self.code))  # type: ignore[arg-type]

    @cached_property
    def masks(self) -> Mapping[int, Directive]:
        """The pragmas that tell which bytes of a load are used, by the position of the instruction
        that is next behind each."""
        masks: dict[int, Directive] = {}
        if not any(type(s) is Directive and s.used_bytes is not None for s in self.others):
            return masks
        pragma: Directive | None = None
        position = 0
        for statement in self.code:
            if type(statement) is Instruction:
                if pragma is not None:
                    masks[position] = pragma
                pragma, position = None, position + 1
            elif type(statement) is Directive and statement.used_bytes is not None:
                pragma = statement
            elif type(statement) is not Directive:
                pragma = None  # what comes before a label is not run with what follows it
        return masks

    def begin(self, index: int) -> int:
        """Where an instruction begins in the text, with the pragma that tells of its bytes."""
        mask = self.masks.get(index)
        return self.instructions[index].start if mask is None else mask.span.start

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        return tuple(s for s in self.others if type(s) is Variable)

    @cached_property
    def _registers(self) -> Mapping[tuple[str, int], Variable]:
        declared = (*self.parameters, *self.variables)
        return {(v.name, v.scope): v for v in declared if v.space == "reg" and v.count is None}

    @cached_property
    def _families(self) -> Mapping[tuple[str, int], Variable]:
        return {
            (v.name, v.scope): v for v in self.variables if v.space == "reg" and v.count is not None
        }

    def declaration(self, reg: Reg) -> Variable | None:
        """The `.reg` that declares a register, or None for an undeclared one."""
        name, scope = reg
        if "." in name:
            name = name.partition(".")[0]  # of a component: the vector's
        plain = self._registers.get((name, scope))
        if plain is not None:
            return plain
        stem = max(len(name.rstrip("0123456789")), len(name) - 19)  # no count has more digits
        for cut in range(stem, len(name)):  # `t1<3>` declares t10, so every split is tried
            family = self._families.get((name[:cut], scope))
            if family is not None and int(name[cut:]) < (family.count or 0):
                return family
        return None

    @cached_property
    def _open(self) -> Mapping[int, tuple[int, ...]]:
        """The nested scopes around instructions that stand in some, by the position among the
        instructions, outer scopes first."""
        around: tuple[int, ...] = ()
        scopes: dict[int, tuple[int, ...]] = {}
        position = 0
        for statement in self.statements:
            match statement:
                case Open(scope):
                    around = (*around, scope)
                case Close():
                    around = around[:-1]
                case Instruction():
                    if around:
                        scopes[position] = around
                    position += 1
                case _:
                    pass
        return scopes

    def means(self, reg: Reg, index: int) -> bool:
        """Is a register called by its name before instruction `index`: is it declared there, and
        no other of its name in a scope inside its own?"""
        around = (0, *self._open.get(index, ()))
        declared = self.declaration(reg)
        if reg.scope not in around or declared is None:
            return False
        if declared.span.start > self.instructions[index].start:
            return False
        inner = around[around.index(reg.scope) + 1 :]
        return not any(self._names(reg.name, scope) for scope in inner)

    def _names(self, name: str, scope: int) -> bool:
        """Is anything of this name declared in a scope?"""
        return self.declaration(Reg(name, scope)) is not None or any(
            s.name == name and s.scope == scope
            for s in self.statements
            if isinstance(s, Variable | Label)
        )

    def width(self, reg: Reg) -> int:
        """Width of a register in bits (1 for a predicate); 0 where it is not declared."""
        width = self._widths.get(reg)
        if width is None:
            declaration = self.declaration(reg)
            width = type_width(declaration.type) if declaration is not None else 0
            self._widths[reg] = width
        return width

    @cached_property
    def _widths(self) -> dict[Reg, int]:
        """Of the registers that somebody has asked for."""
        return {}


class Signature(NamedTuple):
    """What stands in a function's header besides its name."""

    params: tuple[Variable, ...]
    returns: tuple[Variable, ...]
    directives: tuple[tuple[str, str], ...]


class Function(Struct, frozen=True, eq=False, dict=True):
    """A `.entry` or `.func`, with or without a body."""

    kind: str  # "entry" or "func"
    name: str
    linkage: tuple[str, ...]  # "visible", "extern", "weak"
    span: Span  # header and body
    body_span: Span | None  # from `{` to `}`, both included
    load_signature: Callable[[], Signature]
    load_body: Callable[[Function], Body]

    @cached_property
    def _signature(self) -> Signature:
        return self.load_signature()

    @property
    def params(self) -> tuple[Variable, ...]:
        return self._signature.params

    @property
    def returns(self) -> tuple[Variable, ...]:
        return self._signature.returns

    @property
    def directives(self) -> tuple[tuple[str, str], ...]:
        """`("reqntid", "32, 1, 1")`, `("noreturn", "")`."""
        return self._signature.directives

    @cached_property
    def block_shape(self) -> tuple[int, int, int] | None:
        """Threads of a block along x, y and z, if `.reqntid` gives a possible block."""
        for name, text in self.directives:
            if name == "reqntid":
                sizes = [_size(part) for part in text.replace(",", " ").split()]
                x, y, z = (*sizes, 1, 1, 1)[:3]
                return (x, y, z) if 1 <= x * y * z <= MOST_THREADS else None
        return None

    @cached_property
    def most_threads(self) -> int | None:
        """The most threads of a block, where `.reqntid` or `.maxntid` tells."""
        for name, text in self.directives:
            if name in ("reqntid", "maxntid"):
                sizes = [_size(part) for part in text.replace(",", " ").split()]
                return prod(sizes[:3]) or None
        return None

    @cached_property
    def body(self) -> Body:
        """The parsed body, parsed on first use. Raises ParseError; an empty body for a
        declaration."""
        return self.load_body(self)


class Module(Struct, frozen=True):
    """A PTX text."""

    source: Source
    version: tuple[int, int]  # .version 8.3 -> (8, 3)
    targets: tuple[str, ...]  # ("sm_80",), ("sm_90a", "debug")
    address_size: int  # bits; 64 where not given, as ptxas has it (the manual, 11.1.3, says 32)
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...]
    directives: tuple[Directive, ...]
    files: Mapping[int, str]  # .file 1 "kernel.cu"

    @property
    def kernels(self) -> tuple[Function, ...]:
        """The entries that have bodies."""
        return tuple(f for f in self.functions if f.kind == "entry" and f.body_span is not None)

    def kernel(self, name: str) -> Function:
        """The kernel of a name. Raises StopIteration where there is none."""
        return next(kernel for kernel in self.kernels if kernel.name == name)

    @property
    def sm(self) -> int:
        """The architecture number of the target: 80 for sm_80, 90 for sm_90a; 0 if unknown."""
        for target in self.targets:
            if target.startswith(("sm_", "compute_")):
                digits = "".join(c for c in target.partition("_")[2] if c.isdigit())
                return int(digits or 0)
        return 0


def _size(text: str) -> int:
    """A number of threads; 0 where it is no literal, or one that is no such number."""
    octal = len(text) > 1 and text[0] == "0" and text.isdigit()
    try:
        return max(0, int(text[:80].rstrip("U"), 8 if octal else 0))
    except ValueError:
        return 0
