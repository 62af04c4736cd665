"""Every rule of the term table, proved by Z3; evaluation, substitution and variance."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxsw.terms import op
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, Variance, ones, walk
from ptxsw.terms.show import show
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms
from ptxsw.terms.z3_terms import Z3Terms
from tests.terms.shapes import (
    BINARY,
    COMPARISONS,
    DIVISIONS,
    conditions,
    random_term,
    shapes,
)

WIDTHS = [8, 16, 32]
HARD = frozenset({"mul", "udiv", "urem"})
ARITHMETIC = sorted(set(BINARY) - COMPARISONS)


def bits(value: Any) -> Any:
    """A Bool as a bit vector of width 1."""
    if z3.is_bool(value):
        return z3.If(value, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1))
    return value


class Prover:
    """Proves that two Z3 expressions are equal: by polynomial normal form, else by search."""

    def __init__(self) -> None:
        self.solver = z3.SolverFor("QF_BV")
        self.solver.set("timeout", 20_000)

    def equal(self, a: Any, b: Any, what: str, given: Iterable[Any] = ()) -> None:
        a, b = bits(a), bits(b)
        assert a.size() == b.size(), what
        difference = z3.simplify(a == b, som=True, bv_sort_ac=True)
        if z3.is_true(difference):
            return
        self.solver.push()
        self.solver.add(z3.Not(difference), *given)
        answer = self.solver.check()
        self.solver.pop()
        assert answer == z3.unsat, f"{what}: {answer}"


class StandIns:
    """Unknowns in place of products and quotients. Rules look at such a term's possible bits and
    at nothing else of it, so that one that holds for the unknown holds for the term; that the
    bits are right is proved in `test_ones_is_an_upper_bound`."""

    def __init__(self, terms: Terms, expression: Callable[[Term], Any]) -> None:
        self.terms, self.expression = terms, expression
        self.original: dict[Term, Term] = {}

    def __call__(self, term: Term) -> Term:
        if term.kind not in HARD:
            return term
        new = self.terms.atom(f"for {term.id}", term.width, term.variance, ones(term))
        self.original[new] = term
        return new

    def z3(self, term: Term) -> Any:
        """The meaning of a term over unknowns that have no bit but those of `ones`. Zeros in
        front make Z3 see the sign, which spares it a proof about signed division."""
        places = []
        for new in self.original:
            value, low = self.expression(new), ones(new).bit_length()
            if low < new.width:
                narrow = z3.BitVec(f"narrow {new.id}", low)
                places.append((value, z3.ZeroExt(new.width - low, narrow)))
        return z3.substitute(bits(self.expression(term)), *places)


def zero_outside(value: Any, mask: int) -> Any:
    value = bits(value)
    return value & z3.BitVecVal(~mask, value.size()) == 0


def is_plain(result: Term, name: str, a: Term, b: Term) -> bool:
    """Is the result the very operation on the very arguments? Then no rule was used."""
    return result.kind == name.rstrip("_") and result.args in ((a, b), (b, a))


@pytest.mark.parametrize("width", [8, pytest.param(16, marks=pytest.mark.slow), 32])
@pytest.mark.parametrize("name", sorted(BINARY))
def test_binary_rules(name: str, width: int) -> None:
    """Each operation on all pairs of shapes is what Z3's operation is on their meanings."""
    terms, expression, prover = Terms(), Z3Terms().expression, Prover()
    stand_in = StandIns(terms, expression)
    given_shapes = shapes(terms, width)
    commutes = name in ("add", "mul", "and_", "or_", "xor", "eq")
    seen = 0
    for left, a in given_shapes.items():
        for right, b in given_shapes.items():
            if commutes and a.id > b.id:
                assert getattr(terms, name)(a, b) is getattr(terms, name)(b, a)
                continue
            result = getattr(terms, name)(a, b)
            if is_plain(result, name, a, b) and name not in ("ule", "sle"):
                continue
            seen += 1
            x, y = (stand_in(t) if name in DIVISIONS else t for t in (a, b))
            alike = getattr(terms, name)(x, y)
            assert substitute(terms, alike, stand_in.original.get) is result
            plain = BINARY[name](stand_in.z3(x), stand_in.z3(y))
            told = f"{name}({left}, {right}) = {result}"
            prover.equal(stand_in.z3(alike), plain, told)
    assert seen >= 15


@pytest.mark.parametrize("width", WIDTHS)
def test_not_neg_and_scale(width: int) -> None:
    terms, expression, prover = Terms(), Z3Terms().expression, Prover()
    for name, a in shapes(terms, width).items():
        z = expression(a)
        prover.equal(expression(terms.not_(a)), ~z, f"not {name}")
        prover.equal(expression(terms.neg(a)), -z, f"neg {name}")
        for factor in (0, 1, -1, 2, 5, 1 << (width - 1)):
            prover.equal(expression(terms.scale(a, factor)), z * factor, f"{factor} {name}")


@pytest.mark.parametrize("width", WIDTHS)
def test_extract(width: int) -> None:
    terms, expression, prover = Terms(), Z3Terms().expression, Prover()
    half = width // 2
    places = [(0, 1), (0, half), (0, width - 1), (1, 3), (2, half), (half, half), (half - 1, 3)]
    for low, size in [*places, (width - 1, 1), (0, width)]:
        for name, a in shapes(terms, width).items():
            plain = z3.Extract(low + size - 1, low, expression(a))
            result = terms.extract(a, low, size)
            prover.equal(expression(result), plain, f"({name})[{low}+:{size}] = {result}")


@pytest.mark.parametrize("constant", [0, 5, 0xFFFF, 0x10000, 0x30007])
@pytest.mark.parametrize("factor", [1, 2, 0x8000, 0x10001, -1])
def test_fields_of_packed_values(constant: int, factor: int) -> None:
    """The upper half of a sum is that of the terms above where none below may carry into it."""
    terms, expression, prover = Terms(), Z3Terms().expression, Prover()
    low, high, byte = (terms.atom(n, w, Variance.LANE) for n, w in (("l", 16), ("h", 16), ("b", 8)))
    for below in (terms.zext(low, 32), terms.zext(byte, 32)):
        a = terms.scale(terms.zext(high, 32), 1 << 16)
        a = terms.add(terms.add(a, terms.scale(below, factor)), terms.const(constant, 32))
        for at, size in ((16, 16), (16, 8), (20, 4), (12, 16), (16, 1)):
            plain = z3.Extract(at + size - 1, at, expression(a))
            result = terms.extract(a, at, size)
            prover.equal(expression(result), plain, f"({a})[{at}+:{size}] = {result}")
    packed = terms.add(terms.scale(terms.zext(high, 32), 1 << 16), terms.zext(low, 32))
    assert terms.extract(packed, 16, 16) is high


@pytest.mark.parametrize("width", WIDTHS)
def test_extend_and_concatenate(width: int) -> None:
    terms, expression, prover = Terms(), Z3Terms().expression, Prover()
    given_shapes = shapes(terms, width)
    for name, a in given_shapes.items():
        z = expression(a)
        for more in (1, width // 2, width):
            for method, plain in (("zext", z3.ZeroExt), ("sext", z3.SignExt)):
                result = getattr(terms, method)(a, width + more)
                prover.equal(expression(result), plain(more, z), f"{method} {name}")
                again = getattr(terms, method)(result, 2 * width + more)
                prover.equal(expression(again), plain(width + more, z), f"{method} twice {name}")
        for other, b in given_shapes.items():
            result = terms.concat(a, b)
            if result.kind is op.CONCAT and result.args == (a, b):
                continue
            prover.equal(
                expression(result),
                z3.Concat(z, expression(b)),
                f"{name} : {other}",
            )
    whole = terms.atom("whole", 4 * width, Variance.LANE)
    for at in (0, 1, width):
        high, low = terms.extract(whole, at + width, width), terms.extract(whole, at, width)
        result = terms.concat(high, low)
        assert result is terms.extract(whole, at, 2 * width)
        plain = z3.Concat(expression(high), expression(low))
        prover.equal(expression(result), plain, f"join at {at}")


@pytest.mark.parametrize("width", WIDTHS)
def test_ite(width: int) -> None:
    terms, expression, prover = Terms(), Z3Terms().expression, Prover()
    arms = list(shapes(terms, width).items())[::3]
    for condition in conditions(terms).values():
        for left, a in arms:
            for right, b in arms:
                result = terms.ite(condition, a, b)
                plain = z3.If(expression(condition), expression(a), expression(b))
                prover.equal(expression(result), plain, f"{condition} ? {left} : {right}")


def test_a_choice_is_made_once() -> None:
    """A side that makes the same choice again is what it chooses there."""
    terms = Terms()
    first, second, third = (terms.atom(name, 8, Variance.LANE) for name in "abc")
    condition = terms.ult(first, second)
    again = terms.ite(condition, second, third)
    assert terms.ite(condition, again, first) is terms.ite(condition, second, first)
    for extend in (terms.zext, terms.sext):
        wide = terms.ite(condition, terms.const(-1, 16), extend(again, 16))
        assert wide is terms.ite(condition, terms.const(-1, 16), extend(third, 16))
    assert terms.ite(condition, third, again) is third


def test_conditions() -> None:
    """Operations of width 1, where Z3 has Booleans."""
    terms, expression, prover = Terms(), Z3Terms().expression, Prover()
    given_conditions = conditions(terms)
    for left, a in given_conditions.items():
        prover.equal(expression(terms.not_(a)), ~bits(expression(a)), f"! {left}")
        for name in ("add", "sub", "mul", "and_", "or_", "xor", "eq", "ult", "ule"):
            for right, b in given_conditions.items():
                result = getattr(terms, name)(a, b)
                plain = BINARY[name](bits(expression(a)), bits(expression(b)))
                prover.equal(expression(result), plain, f"{left} {name} {right} = {result}")
        for c in given_conditions.values():
            for d in given_conditions.values():
                plain = z3.If(*(expression(t) for t in (a, c, d)))
                prover.equal(expression(terms.ite(a, c, d)), plain, f"{left} ? {c} : {d}")


@pytest.mark.parametrize("width", WIDTHS)
def test_ones_is_an_upper_bound(width: int) -> None:
    """Bits outside `ones` are zero, in every term that an operation makes from two shapes: each
    of its nodes over unknowns that have the possible bits of its arguments, whatever they are."""
    terms, expression, prover = Terms(), Z3Terms().expression, Prover()
    given_shapes = list(shapes(terms, width).values())
    told: set[object] = set()
    for name in ARITHMETIC:
        for a in given_shapes:
            for b in given_shapes:
                for node in walk(getattr(terms, name)(a, b)):
                    masks = tuple(
                        t if t.kind is op.CONST else (t.width, ones(t)) for t in node.args
                    )
                    key = (node.kind, node.width, node.value, masks)
                    if not node.args or key in told or ones(node) == (1 << node.width) - 1:
                        continue
                    told.add(key)
                    args = [
                        t if t.kind is op.CONST else terms.fresh("a", t.width) for t in node.args
                    ]
                    alike = terms._node(node.kind, node.width, tuple(args), node.value)
                    pairs = zip(args, node.args, strict=True)
                    bounds = [zero_outside(expression(x), ones(t)) for x, t in pairs]
                    left = bits(expression(alike)) & z3.BitVecVal(~ones(node), node.width)
                    zero = z3.BitVecVal(0, node.width)
                    prover.equal(left, zero, f"ones({node}) = {ones(node):#x}", bounds)
    assert len(told) > 300


def test_bounded_atoms() -> None:
    """What is known of an atom's bits decides comparisons and drops masks."""
    terms = Terms()
    tid = terms.atom("%tid.x", 32, Variance.LANE, 0x3FF)
    assert terms.and_(tid, terms.const(0x3FF, 32)) is tid
    assert terms.ult(tid, terms.const(1024, 32)) is terms.const(1, 1)
    assert terms.sext(tid, 64).kind is op.ZEXT
    assert terms.or_(terms.shl(tid, terms.const(2, 32)), terms.const(3, 32)).kind is op.SUM


SEEDS = st.integers(0, 2**32)


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_z3_and_evaluation_agree(seed: int) -> None:
    source = random.Random(seed)
    terms, z3_of = Terms(), Z3Terms().expression
    atoms: list[Term] = []
    term = random_term(terms, source, source.choice([1, 8, 16, 32, 64]), 4, atoms)
    expression = bits(z3_of(term))
    for _ in range(3):
        values = {a: source.choice([0, 1, -1, source.getrandbits(64)]) for a in atoms}
        places = [
            (
                z3_of(a),
                z3.BoolVal(bool(v & 1)) if a.width == 1 else z3.BitVecVal(v, a.width),
            )
            for a, v in values.items()
        ]
        got = z3.simplify(z3.substitute(expression, *places))
        assert got.as_long() == evaluate(term, values)


@settings(max_examples=300, deadline=None)
@given(SEEDS)
def test_substitution_commutes_with_evaluation(seed: int) -> None:
    """Replacing atoms by terms and evaluating is evaluating with the values of those terms; and
    normal form is kept: rebuilding from the same parts gives the same object."""
    source = random.Random(seed)
    terms = Terms()
    atoms: list[Term] = []
    term = random_term(terms, source, source.choice([1, 8, 32]), 4, atoms)
    new = {a: random_term(terms, source, a.width, 2, atoms) for a in list(atoms)}
    values = {a: source.getrandbits(64) for a in atoms}
    moved = substitute(terms, term, new.get)
    inner = {**values, **{a: evaluate(t, values) for a, t in new.items()}}
    assert evaluate(moved, values) == evaluate(term, inner)


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_variance_and_bits_of_random_terms(seed: int) -> None:
    """A term varies as much as the most varying unknown that is left in it, and its value has no
    bit outside `ones`."""
    source = random.Random(seed)
    terms = Terms()
    atoms: list[Term] = []
    term = random_term(terms, source, source.choice([1, 8, 32]), 4, atoms)
    values = {a: source.getrandbits(64) for a in atoms}
    for node in walk(term):
        most = max((n.variance for n in walk(node) if n.kind is op.ATOM), default=Variance.UNIFORM)
        assert node.variance == most
        assert evaluate(node, values) & ~ones(node) == 0


def test_atoms_of_one_name_and_another_variance_differ() -> None:
    """An unknown that varies is never taken for a uniform one of the same name."""
    terms = Terms()
    uniform = terms.atom("loop(L, r)", 32, Variance.UNIFORM)
    varying = terms.atom("loop(L, r)", 32, Variance.LANE)
    assert uniform is not varying
    assert (uniform.variance, varying.variance) == (Variance.UNIFORM, Variance.LANE)


def test_equal_addresses_are_one_object() -> None:
    terms = Terms()
    x, y = (terms.atom(n, 32, Variance.LANE) for n in "xy")
    four = terms.const(4, 32)
    a = terms.mul(terms.add(terms.add(x, y), terms.const(1, 32)), four)
    b = terms.add(terms.shl(y, terms.const(2, 32)), terms.add(four, terms.scale(x, 4)))
    assert a is b
    assert terms.sub(terms.add(a, four), b).value == 4
    square = terms.mul(terms.add(x, y), terms.sub(x, y))
    assert square is terms.sub(terms.mul(x, x), terms.mul(y, y))


def test_loads_vary_with_their_addresses() -> None:
    terms = Terms()
    n = terms.atom("n", 64, Variance.UNIFORM)
    x = terms.atom("%tid.x", 64, Variance.LANE)
    load = terms.apply(("load", "const"), 32, (n,), Variance.UNIFORM)
    assert load.variance == Variance.UNIFORM
    assert terms.apply(("load", "const"), 32, (x,), Variance.UNIFORM).variance == Variance.LANE
    assert terms.apply(("load", "global", 0), 32, (n,), Variance.LANE).variance == Variance.LANE
    assert terms.floating("fma.rn.f32", 32, (load,)).variance == Variance.UNIFORM


def test_show() -> None:
    """The manner of the paper's Listing 5."""
    terms = Terms()
    pointer = terms.atom("w0", 64, Variance.UNIFORM)
    index = terms.add(
        terms.atom("%tid.x", 32, Variance.LANE), terms.atom("iter(L)", 32, Variance.UNIFORM)
    )
    address = terms.add(pointer, terms.scale(terms.sext(index, 64), 4))
    address = terms.add(address, terms.const(12, 64))
    assert show(address) == "0xc + w0 + (iter(L) + %tid.x) << 0x2"
    assert show(address, extensions=True) == "0xc + w0 + sext64(iter(L) + %tid.x) << 0x2"
    assert show(terms.const(-4, 32)) == "-0x4"
    assert show(terms.not_(terms.eq(index, terms.const(3, 32)))) == "!((iter(L) + %tid.x) == 0x3)"


def test_bits_that_are_all_zero_are_told_by_parts() -> None:
    """As PTX may test the start and the size of an array together."""
    terms = Terms()
    x, y = (terms.atom(n, 32, Variance.LANE) for n in "xy")
    zero = terms.const(0, 32)
    apart = terms.and_(terms.eq(x, zero), terms.eq(y, zero))
    assert terms.eq(terms.or_(x, y), zero) is apart
    assert terms.eq(terms.or_(x, y), terms.const(1, 32)).kind is op.EQ
    prover, expression = Prover(), Z3Terms().expression
    whole = expression(terms.or_(x, y), exact=True) == 0
    prover.equal(whole, expression(apart, exact=True), "a | b = 0")
