"""Equal pairs of PTX texts, made from one text by hand's and compilers' ways: each way yields a
text that does the same as the one it was made from.

A way takes a text and a seeded generator of random numbers, and returns the other text, or None
where the text has nothing that it changes. They work on spans of the parsed text, so all that a
way does not mean to change stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from random import Random
from typing import NamedTuple

from ptxsw.codegen.splice import Edit, apply, insert
from ptxsw.flow.cfg import ends_block
from ptxsw.parser import parse
from ptxsw.ptx import isa
from ptxsw.ptx.ir import (
    Body,
    Directive,
    Function,
    Instruction,
    Int,
    Label,
    Module,
    Reg,
    Statement,
    Symbol,
)
from ptxsw.ptx.source import Span
from ptxsw.semantics import meaning

Way = Callable[[str, Random], str | None]

_WORD = re.compile(r"%?[\w$]+")
_COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor", "min", "max"})
_TRIANGLE = 8  # instructions that a branch skips, at most
_TARGETS = {"sm_75": "sm_80", "sm_80": "sm_90", "sm_86": "sm_90", "sm_90": "sm_100"}


def _words(text: str, span: Span, names: Mapping[str, str]) -> Edit:
    """Part of a text with other names."""
    part = text[span.start : span.end]
    return Edit(span, _WORD.sub(lambda m: names.get(m[0], m[0]), part))


def _changed(text: str, edits: list[Edit]) -> str | None:
    return apply(text, edits) if edits else None


def _kernels(text: str) -> tuple[Module, list[Function]]:
    module = parse(text)
    return module, list(module.kernels)


# ---------------------------------------------------------------- spelling


def registers(text: str, random: Random) -> str | None:
    """Other names for all registers, and their numbers shuffled."""
    edits = []
    for kernel in _kernels(text)[1]:
        names: dict[str, str] = {}
        for variable in kernel.body.variables:
            if variable.space != "reg" or variable.scope:
                continue
            other = f"%z_{variable.name.strip('%')}_"
            if variable.count is None:
                names[variable.name] = other
                continue
            numbers = list(range(variable.count))
            random.shuffle(numbers)
            names[variable.name] = other
            names |= {f"{variable.name}{a}": f"{other}{b}" for a, b in enumerate(numbers)}
        assert kernel.body_span is not None
        edits.append(_words(text, kernel.body_span, names))
    return _changed(text, edits)


def labels(text: str, _: Random) -> str | None:
    """Other names for all labels."""
    edits = []
    for kernel in _kernels(text)[1]:
        names = {s.name: f"Q_{s.name.strip('$')}" for s in kernel.body.others if type(s) is Label}
        if names and kernel.body_span is not None:
            edits.append(_words(text, kernel.body_span, names))
    return _changed(text, edits)


def parameters(text: str, _: Random) -> str | None:
    """Other names for the parameters of kernels."""
    edits = []
    for kernel in _kernels(text)[1]:
        names = {p.name: f"argument_{at}_of" for at, p in enumerate(kernel.params)}
        if names:
            edits.append(_words(text, kernel.span, names))
    return _changed(text, edits)


def functions(text: str, _: Random) -> str | None:
    """Other names for the functions that kernels call."""
    called = [f for f in parse(text).functions if f.kind == "func" and f.body_span is not None]
    names = {f.name: f"renamed_{f.name}" for f in called}
    return _words(text, Span(0, len(text)), names).text if names else None


def notes(text: str, _: Random) -> str | None:
    """A `.loc` before each third instruction, and no pragmas but those that tell of bytes."""
    edits = []
    for kernel in _kernels(text)[1]:
        body = kernel.body
        masked = set(body.masks)
        for at, instruction in enumerate(body.instructions):
            if at % 3 == 0 and at not in masked:
                edits.append(insert(instruction.start, f".loc 1 {at + 1} 3\n\t"))
        for s in body.others:
            if isinstance(s, Directive) and s.name == "pragma" and s.used_bytes is None:
                edits.append(Edit(s.span, ""))
    if not edits:
        return None
    at = parse(text).functions[0].span.start
    return apply(text, [insert(at, '.file 1 "notes.cu"\n'), *edits])


def counts(text: str, _: Random) -> str | None:
    """More registers than are used, and some of another family."""
    edits = []
    for kernel in _kernels(text)[1]:
        for v in kernel.body.variables:
            if v.space == "reg" and v.count is not None and not v.scope:
                said = text[v.span.start : v.span.end]
                edits.append(Edit(v.span, said.replace(f"<{v.count}>", f"<{v.count + 9}>")))
        assert kernel.body_span is not None
        edits.append(insert(kernel.body_span.start + 1, "\n\t.reg .b32 %spare<7>;"))
    return _changed(text, edits)


def target(text: str, _: Random) -> str | None:
    """For another GPU."""
    found = re.search(r"^\.target\s+(sm_\d+)", text, re.MULTILINE)
    if found is None or found[1] not in _TARGETS:
        return None
    return text[: found.start(1)] + _TARGETS[found[1]] + text[found.end(1) :]


# ---------------------------------------------------------------- order


def commuted(text: str, random: Random) -> str | None:
    """The sources of operations that commute in the other order: of integers and of singles."""
    edits = []
    for i in _instructions(text):
        kind = str(i.modifiers[-1]) if i.modifiers else ""
        single = kind == "f32" and i.opcode in ("add", "mul")  # of two NaNs, doubles keep one
        if i.opcode in _COMMUTATIVE and (single or kind[:1] in "subp") and random.random() < 0.7:
            edits += _exchanged(text, i)
    return _changed(text, edits)


def _exchanged(text: str, i: Instruction) -> list[Edit]:
    said = text[i.start : i.end]
    found = re.fullmatch(r"([^,]*,\s*)([^,{}\[\]]+?)(\s*,\s*)([^,{}\[\]]+?)(\s*;)", said)
    if found is None or not all(isinstance(o, Reg) for o in i.operands[1:]):
        return []
    return [Edit(i.span, found[1] + found[4] + found[3] + found[2] + found[5])]


def reordered(text: str, random: Random) -> str | None:
    """Neighbouring instructions that do not depend on each other exchanged, again and again."""
    edits = []
    for kernel in _kernels(text)[1]:
        for block in _blocks(kernel):
            order = list(block)
            for _ in range(2 * len(order)):
                at = random.randrange(len(order))
                if at and _independent(order[at - 1], order[at]):
                    order[at - 1], order[at] = order[at], order[at - 1]
            edits += [
                Edit(old.span, text[new.start : new.end])
                for old, new in zip(block, order, strict=True)
                if old is not new
            ]
    return _changed(text, edits)


def _blocks(kernel: Function) -> Iterator[list[Instruction]]:
    """Instructions that stand together, with nothing but instructions between."""
    for plain, part in groupby(kernel.body.code, lambda s: _is_simple(s)):
        if plain:
            yield [s for s in part if isinstance(s, Instruction)]


def _is_simple(statement: object) -> bool:
    if not isinstance(statement, Instruction) or statement.used_bytes is not None:
        return False
    effect = isa.effects(statement.opcode, statement.modifiers)
    plain = not effect & ~(isa.Effect.READ | isa.Effect.WRITE)
    together = isa.has(statement, isa.Trait.MASKED)  # what threads meet at has its order
    return plain and not together and statement.opcode != "call" and not ends_block(statement)


def _independent(a: Instruction, b: Instruction) -> bool:
    reads, writes = ({*isa.uses(i)} for i in (a, b)), ({*isa.defs(i)} for i in (a, b))
    (read_a, read_b), (written_a, written_b) = reads, writes
    if a.guard is not None or b.guard is not None or _carries(a) or _carries(b):
        return False
    if not (written_a.isdisjoint(read_b | written_b) and written_b.isdisjoint(read_a)):
        return False
    one, other = (isa.effects(i.opcode, i.modifiers) for i in (a, b))
    write = isa.Effect.WRITE
    return not ((one & write and other) or (other & write and one))


def _carries(i: Instruction) -> bool:
    return "cc" in i.modifiers or i.opcode in ("addc", "subc", "madc")


def _is_integer(body: Body, reg: Reg) -> bool:
    declared = body.declaration(reg)
    return declared is not None and declared.type in ("b32", "u32", "s32")


def dead_code(text: str, random: Random) -> str | None:
    """Computations of which nobody uses the result, and a block to which no control comes."""
    edits = []
    for kernel in _kernels(text)[1]:
        body, added = kernel.body, 0
        for i in body.instructions[:-1]:
            values = [r for r in isa.defs(i) if isinstance(r, Reg) and _is_integer(body, r)]
            plain = i.guard is None and not ends_block(i) and not _carries(i)
            if values and plain and not values[0].scope and random.random() < 0.2:
                what = random.choice(("add.s32", "xor.b32", "mul.lo.s32"))
                line = f"\n\t{what} %dead{added}, {values[0].name}, {random.randrange(99)};"
                edits.append(insert(i.end, line))
                added += 1
        if added and kernel.body_span is not None:
            declared = f"\n\t.reg .b32 %dead<{added + 1}>;"
            edits.append(insert(kernel.body_span.start + 1, declared))
            last = body.instructions[-1]
            if last.opcode in ("ret", "exit") and last.guard is None:
                never = (
                    f"\nNEVER_{kernel.name.strip('_$')[:20]}:\n\tadd.s32 %dead0, %dead0, 1;\n\tret;"
                )
                edits.append(insert(last.end, never))
    return _changed(text, edits)


# ---------------------------------------------------------------- other instructions


def products(text: str, random: Random) -> str | None:
    """Shifts for products with powers of two and products for shifts; sums of products taken
    apart."""
    edits = []
    for number, i in enumerate(_instructions(text)):
        said = text[i.start : i.end]
        guard = said[: said.index(i.opcode)]
        kind = str(i.modifiers[-1]) if i.modifiers else ""
        names = [o.name if isinstance(o, Reg) else "" for o in i.operands]
        by = i.operands[2].value if len(i.operands) > 2 and isinstance(i.operands[2], Int) else 0
        bits = kind[1:]
        if not all(names[:2]):
            continue
        if i.name == f"shl.b{bits}" and 0 < by < int(bits):
            new = f"mul.lo.s{bits} {names[0]}, {names[1]}, {1 << by};" if by < 31 else ""
        elif i.name in ("mul.lo.s32", "mul.lo.s64", "mul.lo.u32") and by > 1 and not by & (by - 1):
            new = f"shl.b{bits} {names[0]}, {names[1]}, {by.bit_length() - 1};"
        elif i.name == "mad.lo.s32" and not guard and _not_last(i):
            a, b, c = (text_of(text, i, at) for at in (1, 2, 3))
            part = f"%t{number}"
            product = f".reg .b32 {part}; mul.lo.s32 {part}, {a}, {b};"
            new = f"{{ {product} add.s32 {names[0]}, {part}, {c}; }}"
        else:
            continue
        if new:
            edits.append(Edit(i.span, guard + new))
    return _changed(text, edits)


def _not_last(i: Instruction) -> bool:
    return all(isinstance(o, Reg | Int) for o in i.operands)


def text_of(text: str, i: Instruction, at: int) -> str:
    """An operand as written, of an instruction without brackets or braces."""
    said = text[i.start : i.end].rstrip(";").split(None, 1)[1]
    return said.split(",")[at].strip()


def selections(text: str, _: Random) -> str | None:
    """For each branch over a few computations, these computations and `selp`."""
    edits = []
    for kernel in _kernels(text)[1]:
        declared = []
        for number, (branch, inside) in enumerate(_triangles(kernel)):
            assert branch.guard is not None
            skips, lines = branch.guard, []
            for at, i in enumerate(inside):
                (reg,) = (r for r in isa.defs(i) if isinstance(r, Reg))
                width, name = kernel.body.width(reg), f"%sel{number}_{at}"
                declared.append(f"\n\t.reg .b{width} {name};")
                said = text[i.start : i.end]
                lines.append(re.sub(rf"{re.escape(reg.name)}\b", name, said, count=1))
                old, new = (reg.name, name) if not skips.negated else (name, reg.name)
                lines.append(f"selp.b{width} {reg.name}, {old}, {new}, {skips.reg.name};")
            edits.append(Edit(branch.span, ""))
            edits.append(Edit(inside[0].span, "\n\t".join(lines)))
            edits += [Edit(i.span, "") for i in inside[1:]]
        if declared and kernel.body_span is not None:
            edits.append(insert(kernel.body_span.start + 1, "".join(declared)))
    return _changed(text, edits)


def _triangles(kernel: Function) -> Iterator[tuple[Instruction, list[Instruction]]]:
    code = kernel.body.code
    for at, branch in enumerate(code):
        if not isinstance(branch, Instruction) or branch.opcode != "bra" or branch.guard is None:
            continue
        inside: list[Instruction] = []
        for statement in code[at + 1 : at + 2 + _TRIANGLE]:
            if isinstance(statement, Label):
                goes = getattr(branch.operands[-1], "name", "")
                if inside and statement.name == goes and branch.guard.reg not in _written(inside):
                    yield branch, inside
                break
            if not isinstance(statement, Instruction) or not _selectable(kernel, statement):
                break
            inside.append(statement)


def _written(inside: list[Instruction]) -> set[Reg]:
    return {r for i in inside for r in isa.defs(i) if isinstance(r, Reg)}


def _selectable(kernel: Function, i: Instruction) -> bool:
    regs = [r for r in isa.defs(i) if isinstance(r, Reg)]
    effect = isa.effects(i.opcode, i.modifiers)
    known = i.opcode == "mov" or meaning(i.opcode, i.modifiers) is not None
    one = len(regs) == 1 and not regs[0].scope and kernel.body.width(regs[0]) in (16, 32, 64)
    return one and known and not effect and i.guard is None and not _carries(i)


def _instructions(text: str) -> Iterator[Instruction]:
    for kernel in _kernels(text)[1]:
        yield from (i for i in kernel.body.instructions if i.used_bytes is None)


# ---------------------------------------------------------------- loops


class _Loop(NamedTuple):
    """A loop whose text is one piece, from its label to its only branch back."""

    inside: Sequence[Statement]
    label: Label
    back: Instruction


def _loops(kernel: Function) -> Iterator[_Loop]:
    """The innermost loops, from a label to a guarded branch back to it."""
    code = kernel.body.code
    places = {s.name: at for at, s in enumerate(code) if isinstance(s, Label)}
    branches = [
        (at, s, s.operands[-1].name)
        for at, s in enumerate(code)
        if isinstance(s, Instruction) and s.opcode == "bra" and isinstance(s.operands[-1], Symbol)
    ]
    for at, back, name in branches:
        begin = places.get(name, at)
        others = [n for n, _, goes in branches if goes == name and n > begin and n != at]
        if begin >= at or back.guard is None or others:
            continue
        inside, label = code[begin + 1 : at], code[begin]
        plain = all(isinstance(s, Instruction | Label) or _is_pragma(s) for s in inside)
        leaves = any(isinstance(s, Instruction) and s.opcode in ("brx", "call") for s in inside)
        if plain and not leaves and isinstance(label, Label):
            yield _Loop(inside, label, back)


def _is_pragma(statement: Statement) -> bool:
    return isinstance(statement, Directive) and statement.name == "pragma"


def peeled(text: str, _: Random) -> str | None:
    """The first iteration of each innermost loop before the loop."""
    edits = []
    for kernel in _kernels(text)[1]:
        taken: list[Span] = []
        for number, loop in enumerate(_loops(kernel)):
            span = Span(loop.label.span.start, loop.back.end)
            if any(span.start < s.end and s.start < span.end for s in taken):
                continue
            taken.append(span)
            names = {s.name: f"{s.name}_first" for s in loop.inside if type(s) is Label}
            begin = loop.label.span.end
            first = _words(text, Span(begin, loop.back.end), names).text
            behind = f"BEHIND_{number}_{kernel.name.strip('_$')[:20]}"
            copy = f"{first}\n\tbra {behind};\n"
            edits += [insert(loop.label.span.start, copy), insert(loop.back.end, f"\n{behind}:\n")]
    return _changed(text, edits)


def rotated(text: str, _: Random) -> str | None:
    """Loops of one block begin in their middle: the first half also stands before the loop."""
    edits = []
    for kernel in _kernels(text)[1]:
        for number, loop in enumerate(_loops(kernel)):
            inside = [s for s in loop.inside if isinstance(s, Instruction)]
            if len(inside) < 2 or len(inside) != len(loop.inside):
                continue
            if any(map(ends_block, inside)) or any(i.used_bytes is not None for i in inside):
                continue
            middle = inside[len(inside) // 2]
            half = text[inside[0].start : middle.start]
            guard = loop.back.guard
            assert guard is not None
            behind = f"BEHIND_{number}_{kernel.name.strip('_$')[:20]}"
            leave = f"@{'' if guard.negated else '!'}{guard.reg.name} bra {behind};"
            again = f"{leave}\n\t{half}\n\tbra {loop.label.name};\n{behind}:\n"
            edits.append(
                Edit(Span(loop.label.span.start, middle.start), f"{half}\n{loop.label.name}:\n\t")
            )
            edits.append(Edit(loop.back.span, again))
    return _changed(text, edits)


def all_spelling(text: str, random: Random) -> str | None:
    """All of the above but loops, one after another."""
    for way in (
        commuted,
        reordered,
        dead_code,
        notes,
        counts,
        labels,
        parameters,
        registers,
        target,
    ):
        text = way(text, random) or text
    return text


WAYS: Mapping[str, Way] = {
    "registers": registers, "labels": labels, "parameters": parameters, "functions": functions,
    "notes": notes, "counts": counts, "target": target, "commuted": commuted,
    "reordered": reordered, "dead code": dead_code, "products": products,
    "selections": selections, "together": all_spelling, "peeled": peeled, "rotated": rotated,
}  # fmt: skip
"""By name. Those that compilers make are in `benchmarks.proofs`."""
SPELLING = ("registers", "labels", "parameters", "functions", "notes", "counts", "target")
ORDER = ("commuted", "reordered", "together")
