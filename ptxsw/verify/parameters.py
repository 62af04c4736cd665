"""What the parameters of a kernel are for, by its trace and its text.

Pointers are told from numbers by the addresses that the trace has. What a buffer holds is told by
what becomes of the values that are loaded from it and stored to it: the type of the instructions
that compute with them, through moves and packings, and whether they end up in an address or decide
how often a loop is gone round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ptxsw.emulator.trace import Access, Trace
from ptxsw.ptx.ir import Function, Instruction, Operand, Pair, Reg, Variable, flatten, type_width
from ptxsw.ptx.isa import access_type
from ptxsw.terms import op
from ptxsw.terms.node import Term, factors, split, walk
from ptxsw.terms.origin import OF_LOOPS, Origin
from ptxsw.verify.contents import is_float


class Parameter(Struct, frozen=True):
    """What a parameter, or a field of one, is for: `pointee` is the type it points to. `steers`: it
    is part of an address or of the condition of a loop; a buffer steers if what it holds does.
    `unit`: the text says that a pointer is aligned to so many bytes, or a number counts bytes
    between elements of this size."""

    name: str
    type: str
    pointee: str | None = None
    fields: tuple[tuple[int, Parameter], ...] = ()
    steers: bool = False
    unit: int = 1  # a pointer's alignment in bytes; of a number of bytes, what divides it


def parameters(trace: Trace) -> tuple[Parameter, ...]:
    """The parameters of a kernel, pointers told from numbers."""
    scaled = frozenset(_scaled(trace))
    pointees = _pointees(trace, scaled)
    named = {
        str(node.value)
        for access in trace.accesses
        for variant in access.variants
        for node in walk(variant.address, variant.guard, *variant.conditions)
        if node.kind is op.ATOM
    }
    steering, units = frozenset(_steering(trace, scaled)), _units(trace)
    return tuple(
        _parameter(p, trace, pointees, named, steering, units) for p in trace.function.params
    )


def flat(inferred: Iterable[Parameter]) -> Iterator[Parameter]:
    """The parameters with the fields of structures in their place."""
    for parameter in inferred:
        if parameter.fields:
            yield from flat(inner for _, inner in parameter.fields)
        else:
            yield parameter


def pointer_of(address: Term) -> str | None:
    """The parameter or variable that is the base of an address; None where it is not known."""
    bases = [term for term, factor in split(address)[1] if factor == 1 and term.width == 64]
    atoms = [term for term in bases if term.kind is op.ATOM and term.origin in _BASES]
    return str(atoms[0].value).lstrip("&") if len(atoms) == 1 else None


_BASES = (Origin.PARAMETER, Origin.SYMBOL)


def _parameter(
    variable: Variable, trace: Trace, pointees: Mapping[str, str], named: set[str],
    steering: frozenset[str], units: Mapping[str, int],
) -> Parameter:  # fmt: skip
    name = variable.name
    if variable.dims:
        fields = []
        for offset, type_ in _read_fields(variable, trace):
            inner = f"{name}+{offset}" if offset else name
            field = Parameter(
                inner, type_, pointees.get(inner), (), inner in steering, units.get(inner, 1)
            )
            fields.append((offset, field))
        return Parameter(name, variable.type, None, tuple(fields))
    pointee = pointees.get(name)
    wide = type_width(variable.type) == trace.module.address_size
    if pointee is None and wide and variable.type[0] != "f":
        # Passed on to a function, or never used for what the trace follows.
        pointee = "f32" if "ptr" in variable.attributes or name not in named else None
    unit = _alignment(variable) if pointee is not None else units.get(name, 1)
    return Parameter(name, variable.type, pointee, (), name in steering, unit)


def _alignment(variable: Variable) -> int:
    """What `.ptr .align N` says; 1 where the text says nothing."""
    said = [a.partition(" ") for a in variable.attributes]
    return max((int(n) for word, _, n in said if word == "align" and n.isdigit()), default=1)


def _read_fields(variable: Variable, trace: Trace) -> Iterator[tuple[int, str]]:
    """Offset and type of each piece of a structure that the kernel reads."""
    seen = set()
    for access in trace.accesses:
        if access.space != "param" or access.kind != "load":
            continue
        address = access.variants[0].address
        offset, items = split(address)
        if [str(t.value) for t, _ in items] != [f"&{variable.name}"]:
            continue
        type_ = access.instruction.modifiers[-1]
        for element in range(access.elements):
            at = offset + element * access.bits // 8
            if at not in seen:
                seen.add(at)
                yield at, type_


# ---------------------------------------------------------------- what decides addresses and loops


def _steering(trace: Trace, scaled: frozenset[str]) -> Iterator[str]:
    """The parameters that are part of addresses or of conditions of loops, and the buffers of which
    loaded values are. What is loaded elsewhere and gets there through a loop is not seen."""
    for access in trace.accesses:
        if access.space == "param":
            continue
        for variant in access.variants:
            yield from _parts(variant.address, set(_bases(variant.address, scaled)))
            for condition in variant.conditions:
                if any(node.origin in OF_LOOPS for node in walk(condition)):
                    yield from _parts(condition, set())


def _units(trace: Trace) -> Mapping[str, int]:
    """Of parameters that are added to addresses, or multiply an index in them, the bytes that the
    access is aligned to, if nothing else makes a multiple of that of them."""
    units: dict[str, int] = {}
    for access in trace.accesses:
        if access.space == "param" or access.bytes == 0:
            continue
        for variant in access.variants:
            for term, coefficient in split(variant.address)[1]:
                if term.kind is op.ATOM or coefficient % access.bytes == 0:
                    continue
                for factor in factors(term):
                    inner = factor.args[0] if factor.kind in op.EXTENSIONS else factor
                    if inner.kind is op.ATOM and inner.origin is Origin.PARAMETER:
                        name = str(inner.value)
                        units[name] = max(units.get(name, 1), access.bytes)
    return units


def _parts(term: Term, bases: set[str]) -> Iterator[str]:
    """The parameters and buffers that a term is made of, but for `bases`."""
    stack, seen = [term], {term}
    while stack:
        node = stack.pop()
        if node.origin is Origin.LOAD and node.args:
            name = pointer_of(node.args[0])
            if name is not None:
                yield name
            continue  # how its address comes about is the load's own matter
        if node.kind is op.ATOM and node.origin is Origin.PARAMETER and node.value not in bases:
            yield str(node.value)
        stack += [arg for arg in node.args if arg not in seen]
        seen.update(node.args)


def _bases(address: Term, scaled: frozenset[str]) -> Iterator[str]:
    """What stands in an address by itself: pointers, but for what other addresses multiply."""
    for term, coefficient in split(address)[1]:
        if term.kind is op.ATOM and coefficient == 1 and str(term.value) not in scaled:
            yield str(term.value)


def _scaled(trace: Trace) -> Iterator[str]:
    """The parameters that some address multiplies, such as strides: no pointers."""
    for access in trace.accesses:
        for variant in access.variants:
            for term, coefficient in split(variant.address)[1]:
                some = factors(term)
                for factor in some if len(some) > 1 or coefficient != 1 else ():
                    inner = factor.args[0] if factor.kind in op.EXTENSIONS else factor
                    if inner.kind is op.ATOM and inner.origin is Origin.PARAMETER:
                        yield str(inner.value)


# ---------------------------------------------------------------- types


def _pointees(trace: Trace, scaled: frozenset[str]) -> Mapping[str, str]:
    """The type of element behind each parameter that is the base of an address; atoms of
    parameters are named after them, with the offset of the field."""
    found: dict[str, Counter[str]] = {}
    used = used_types(trace.function)
    for access in trace.accesses:
        if access.space == "param":
            continue
        type_ = _element(access, used)
        for variant in access.variants:
            for name in _bases(variant.address, scaled):
                found.setdefault(name, Counter())[type_] += 8 if is_float(type_) else 1
    return {name: types.most_common(1)[0][0] for name, types in found.items()}


def _element(access: Access, used: Mapping[Reg, str]) -> str:
    """The type of what an access moves: by its uses, else as the instruction says."""
    said = next((m for m in reversed(access.instruction.modifiers) if type_width(m) > 1), "b8")
    if said[0] == "f":
        return said
    operands = access.instruction.operands
    moved = operands[:1] if access.kind == "load" else operands[1:]
    for reg in flatten(moved):
        type_ = used.get(reg) if isinstance(reg, Reg) else None
        if type_ is not None:
            narrow = type_width(said) == 16 and type_ == "f32"  # the upper half of one
            return "bf16" if narrow else type_
    return said


_FLOATS = {
    "f16": "f16", "f16x2": "f16", "bf16": "bf16", "bf16x2": "bf16", "f32": "f32", "f32x2": "f32",
    "tf32": "f32", "f64": "f64",
}  # fmt: skip


def used_types(function: Function) -> Mapping[Reg, str]:
    """The floating-point type of the values that registers hold, by the instructions that compute
    with them. Registers that a move, a selection, a shuffle or a packing joins are of one type."""
    parents: dict[Reg, Reg] = {}

    def root(reg: Reg) -> Reg:
        while (parent := parents.get(reg, reg)) != reg:
            parents[reg] = reg = parents.get(parent, parent)
        return reg

    votes: list[tuple[Reg, str]] = []
    for instruction in function.body.instructions:
        joined = _joined(instruction)
        for reg in joined[1:]:
            parents[root(reg)] = root(joined[0])
        votes += _votes(instruction)
    counted: dict[Reg, Counter[str]] = {}
    for reg, type_ in votes:
        counted.setdefault(root(reg), Counter())[type_] += 1
    best = {reg: types.most_common(1)[0][0] for reg, types in counted.items()}
    return {reg: best[root(reg)] for reg in {*parents, *counted} if root(reg) in best}


def _registers(operands: Sequence[Operand]) -> list[Reg]:
    return [reg for reg in flatten(operands) if isinstance(reg, Reg)]


def _joined(instruction: Instruction) -> list[Reg]:
    """The registers that an instruction gives the same value, or the parts of one."""
    operands = instruction.operands
    match instruction.opcode:
        case "mov":
            return _registers(operands)
        case "selp":
            return _registers(operands[:3])
        case "shfl":
            given = operands[0]
            return _registers([given.first if isinstance(given, Pair) else given, operands[1]])
    return []


def _votes(instruction: Instruction) -> Iterator[tuple[Reg, str]]:
    """What an instruction that computes says of the types of its registers."""
    types = [m for m in instruction.modifiers if m in _FLOATS or type_width(m) > 1]
    operands = instruction.operands
    if not types or not any(t in _FLOATS for t in types):
        return
    match instruction.opcode:
        case "cvt":
            sides: list[tuple[Sequence[Operand], str]] = [
                (operands[:1], types[0]), (operands[1:], types[-1]),
            ]  # fmt: skip
        case "setp" | "testp":
            sides = [(operands[1:], types[-1])]
        case "set":
            sides = [(operands[:1], types[0]), (operands[1:], types[-1])]
        case "slct":
            sides = [(operands[:3], types[0]), (operands[3:], types[-1])]
        case "mma" if len(types) >= 4:
            sides = [((one,), type_) for one, type_ in zip(operands, types, strict=False)]
        case _:
            sides = [(operands, access_type(instruction) or types[0])]
    for some, type_ in sides:
        if type_ in _FLOATS:
            for reg in _registers(some):
                yield reg, _FLOATS[type_]
