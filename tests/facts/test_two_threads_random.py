"""Two threads held against all pairs of threads of a small block, for addresses drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace

import pytest

from ptxsw.emulator.run import emulate
from ptxsw.facts.two_threads import Answer, Apart, Meet, Meeting, TwoThreads
from ptxsw.parser import parse
from ptxsw.terms.solver import Solver
from tests.heads import head

TOP = 1 << 32
NUMBERS = (0, 1, 2, 3, 5, 8, 31, 100, 1 << 16, (1 << 31) - 1, 1 << 31, TOP - 1)
SHAPES = (None, (8, 1, 1), (33, 1, 1), (4, 4, 1), (3, 5, 1), (2, 3, 4))
TYPES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}


class Wraps(Exception):
    """A value is another one than without 32 bits."""


@dataclass(frozen=True)
class Expression:
    """Code that leaves a value in a register, and the same in Python: over the thread's place and
    `n`. With `exact` it raises Wraps where a sum or product wraps."""

    code: str
    register: str
    value: Callable[[tuple[int, int, int], int, bool], int]


class Drawer:
    def __init__(self, random: Random, axes: str) -> None:
        self.random, self.axes, self.count = random, axes, 20

    def register(self) -> str:
        self.count += 1
        return f"%r{self.count}"

    def leaf(self) -> Expression:
        kind = self.random.choice(["tid", "tid", "tid", "n", "number"])
        if kind == "tid":
            at = self.random.randrange(len(self.axes))
            return Expression("", f"%r{3 + at}", lambda place, n, exact: place[at])
        if kind == "n":
            return Expression("", "%r1", lambda place, n, exact: n)
        number = self.random.choice([0, 1, 2, 3, 4, 7, 8, 16, 31, 32, 33])
        return Expression("", str(number), lambda place, n, exact: number)

    def expression(self, depth: int) -> Expression:
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf()
        name = self.random.choice(list(OPERATIONS))
        a = self.expression(depth - 1)
        if name.endswith("c"):
            number = self.random.choice([1, 2, 3, 4, 5, 8])
            b = Expression("", str(number), lambda place, n, exact: number)
        else:
            b = self.expression(depth - 1)
        text, compute = OPERATIONS[name]
        target, copy = self.register(), ""
        if not a.register.startswith("%"):
            first = self.register()
            copy, a = f"mov.u32 {first}, {a.register};", Expression(a.code, first, a.value)

        def value(place: tuple[int, int, int], n: int, exact: bool) -> int:
            result = compute(a.value(place, n, exact), b.value(place, n, exact))
            if exact and not 0 <= result < TOP:
                raise Wraps
            return result % TOP

        code = f"{a.code} {b.code} {copy} {text} {target}, {a.register}, {b.register};"
        return Expression(code, target, value)


OPERATIONS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "add": ("add.s32", lambda a, b: a + b),
    "sub": ("sub.s32", lambda a, b: a - b),
    "mul c": ("mul.lo.s32", lambda a, b: a * b),
    "mul": ("mul.lo.s32", lambda a, b: a * b),
    "shl c": ("shl.b32", lambda a, b: a << b),
    "shr c": ("shr.u32", lambda a, b: a >> b),
    "and": ("and.b32", lambda a, b: a & b),
    "or": ("or.b32", lambda a, b: a | b),
    "xor": ("xor.b32", lambda a, b: a ^ b),
    "div c": ("div.u32", lambda a, b: a // b),
    "rem c": ("rem.u32", lambda a, b: a % b),
    "min": ("min.u32", min),
    "max": ("max.u32", max),
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "lt.u32": lambda a, b: a < b,
    "ge.u32": lambda a, b: a >= b,
    "eq.s32": lambda a, b: a == b,
    "lt.s32": lambda a, b: _signed(a) < _signed(b),
}


def _signed(value: int) -> int:
    return value - TOP if value >> 31 else value


@dataclass(frozen=True)
class Case:
    """Two accesses of shared or global memory behind a guard."""

    text: str
    shape: tuple[int, int, int] | None
    places: tuple[Callable[[tuple[int, int, int], int, bool], int], ...]
    sizes: tuple[int, int]
    holds: Callable[[tuple[int, int, int], int, bool], bool]


def case(seed: int, *, blocks: bool = False) -> Case:
    """With `blocks` the second coordinate of a place is the number of a block of 4 threads."""
    random = Random(seed)
    shape = (4, 3, 1) if blocks else random.choice(SHAPES)
    axes = "x" if shape is None or shape[1:] == (1, 1) else "xyz" if shape[2] > 1 else "xy"
    draw = Drawer(random, axes)
    space = random.choice(["shared", "global.s32", "global.u32"])
    first = draw.expression(random.choice([1, 2, 2, 3]))
    second = first if random.random() < 0.6 else draw.expression(random.choice([1, 2]))
    types = [random.choice(list(TYPES)) for _ in range(2)]
    if random.random() < 0.6:
        types[1] = types[0]
    scale = random.choice([1, 2, 4, 4, 8])
    a, b = draw.expression(1), draw.leaf()
    compared = random.choice([None, *COMPARISONS])
    guard, accesses = "", ""
    if compared is not None:
        x, y = draw.register(), draw.register()
        guard = f"{a.code} mov.u32 {x}, {a.register}; mov.u32 {y}, {b.register};"
        guard += f"setp.{compared} %p1, {x}, {y}; @!%p1 bra END;"
    for at, (one, kind) in enumerate(zip((first, second), types, strict=True)):
        code = one.code if at == 0 or second is not first else ""
        accesses += f"{code} mov.u32 %r{10 + at}, {one.register};"
        if space == "shared":
            accesses += f"mul.lo.s32 %r{10 + at}, %r{10 + at}, {scale};"
            accesses += f"add.s32 %r{10 + at}, %r{10 + at}, %r7;"
            accesses += f"st.shared.{kind} [%r{10 + at}], {'%rd9' if kind == 'u64' else '%r9'};"
        else:
            accesses += f"mul.wide.{space[-3:]} %rd{3 + at}, %r{10 + at}, {scale};"
            accesses += f"add.s64 %rd{3 + at}, %rd{3 + at}, %rd1;"
            accesses += f"st.global.{kind} [%rd{3 + at}], {'%rd9' if kind == 'u64' else '%r9'};"
    text = head() + HEAD + guard + accesses + "\nEND:\n\tret;\n}\n"

    def place(one: Expression) -> Callable[[tuple[int, int, int], int, bool], int]:
        def address(thread: tuple[int, int, int], n: int, exact: bool) -> int:
            value = one.value(thread, n, exact)
            if exact and space == "shared" and value * scale >= TOP:
                raise Wraps
            if space == "shared":
                return value * scale % TOP
            if exact and space == "global.s32" and value >> 31:
                raise Wraps
            return (_signed(value) if space == "global.s32" else value) * scale

        return address

    def holds(thread: tuple[int, int, int], n: int, exact: bool) -> bool:
        if compared is None:
            return True
        sides = a.value(thread, n, exact), b.value(thread, n, exact)
        if exact and compared.endswith("s32") and any(side >> 31 for side in sides):
            raise Wraps
        return COMPARISONS[compared](*sides)

    sizes = TYPES[types[0]], TYPES[types[1]]
    return Case(text, shape, (place(first), place(second)), sizes, holds)


HEAD = """.visible .entry k(.param .u64 out, .param .u32 n)
{
	.reg .pred %p<9>;
	.reg .b32 %r<99>;
	.reg .b64 %rd<19>;
	.shared .align 8 .b8 s[8192];
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r1, [n];
	mov.u32 %r3, %tid.x;
	mov.u32 %r7, s;
	mov.u32 %r9, 0;
	mov.u64 %rd9, 0;
"""
DEEPER = "\tmov.u32 %r4, %tid.y;\n\tmov.u32 %r5, %tid.z;\n"


def answered(one: Case) -> Answer:
    text = one.text
    if one.shape is not None and one.shape[1:] != (1, 1):
        text = text.replace("\tmov.u32 %r7", DEEPER + "\tmov.u32 %r7")
    module = parse(text)
    trace = emulate(module, module.functions[0])
    accesses = [a for a in trace.accesses if a.space != "param"]
    if len(accesses) < 2:
        return Apart()  # nobody passes the guard
    first, second = accesses
    return TwoThreads(trace, one.shape, Solver()).ask(Meeting(first, second, True))


BLOCK = "\tmov.u32 %r4, %ctaid.x;\n"


def answered_of_blocks(one: Case) -> Answer:
    """By threads of two blocks of 4 threads."""
    module = parse(one.text.replace("\tmov.u32 %r7", BLOCK + "\tmov.u32 %r7"))
    trace = emulate(module, module.functions[0])
    accesses = [a for a in trace.accesses if a.space != "param"]
    if len(accesses) < 2 or accesses[0].space == "shared":
        return Apart()
    first, second = accesses
    return TwoThreads(trace, (4, 1, 1), Solver()).ask(Meeting(first, second, False))


def threads(shape: tuple[int, int, int] | None) -> Iterator[tuple[int, int, int]]:
    x, y, z = shape or (40, 1, 1)
    return ((i, j, k) for k in range(z) for j in range(y) for i in range(x))


def common(one: Case, t: tuple[int, int, int], u: tuple[int, int, int], n: int) -> bool:
    """Do two threads touch a byte in common?"""
    if not (one.holds(t, n, False) and one.holds(u, n, False)):
        return False
    distance = one.places[1](u, n, False) - one.places[0](t, n, False)
    around = (0, -TOP, TOP) if "st.shared" in one.text else (0,)
    return any(-one.sizes[1] < distance + by < one.sizes[0] for by in around)


def contradicts(one: Case, answer: Apart, *, blocks: bool = False) -> tuple[object, ...] | None:
    """Two threads that meet all the same, of two blocks where these are asked for."""
    exact = "no 32-bit index wraps" in answer.conditions
    others = [c for c in answer.conditions if c != "no 32-bit index wraps"]
    for n in NUMBERS:
        x, y, z = one.shape or (40, 1, 1)
        names = {"n": n, "blockDim": SimpleNamespace(x=x, y=y, z=z)}
        if blocks:
            names |= {"blockDim": SimpleNamespace(x=x), "gridDim": SimpleNamespace(x=y)}
        if not all(eval(condition, {}, names) for condition in others):
            continue
        every = []
        try:
            for thread in threads(one.shape):
                met = one.holds(thread, n, exact)
                every.append(thread)
                for place in one.places if met else ():
                    place(thread, n, exact)
        except Wraps:
            continue
        for t in every:
            for u in every:
                if (t[1] != u[1] if blocks else t != u) and common(one, t, u, n):
                    return n, t, u
    return None


def check(seed: int) -> str:
    one = case(seed)
    answer = answered(one)
    if isinstance(answer, Apart):
        wrong = contradicts(one, answer)
        assert wrong is None, (seed, answer, wrong, one.text)
        return "apart"
    if isinstance(answer, Meet) and answer.certain:
        values = {str(term.value): value for term, value in answer.values.items()}
        t, u = (tuple(values.get(f"{who}%tid.{a}", 0) for a in "xyz") for who in ("", "u "))
        assert t != u, (seed, values)
        assert common(one, t, u, values.get("n", 0)), (seed, values, one.text)  # type: ignore[arg-type]
        return "meet"
    return "unsure"


@pytest.mark.parametrize("part", range(4))
def test_answers_agree_with_all_pairs_of_threads(part: int) -> None:
    answers = [check(seed) for seed in range(part * 40, part * 40 + 40)]
    assert answers.count("unsure") < len(answers) // 4


@pytest.mark.parametrize("part", range(2))
def test_answers_agree_with_all_pairs_of_threads_of_three_blocks(part: int) -> None:
    for seed in range(part * 40, part * 40 + 40):
        one = case(seed, blocks=True)
        if "st.shared" in one.text:
            continue
        answer = answered_of_blocks(one)
        if isinstance(answer, Apart):
            wrong = contradicts(one, answer, blocks=True)
            assert wrong is None, (seed, answer, wrong, one.text)
        elif isinstance(answer, Meet) and answer.certain:
            values = {str(term.value): value for term, value in answer.values.items()}
            t, u = (
                (values.get(f"{who}%tid.x", 0), values.get(f"{who}%ctaid.x", 0), 0)
                for who in ("", "u ")
            )
            assert t[1] != u[1], (seed, values)
            assert common(one, t, u, values.get("n", 0)), (seed, values, one.text)
