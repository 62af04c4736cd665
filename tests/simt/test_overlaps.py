"""Every opcode with sources that are also destinations: what `run` computes is the symbolic value.

The cases come from the tables: all forms of opcodes with a meaning (`tests.semantics.reference`
and `FLOATING`), and `OTHERS` for what the interpreter does by itself. An opcode that is added to
`ptxsw.semantics` or to the interpreter without a case here fails `test_every_opcode_has_a_case`.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from ptxsw.emulator.state import State
from ptxsw.emulator.symbolic_machine import SymbolicMachine
from ptxsw.flow.dataflow import CARRY
from ptxsw.parser import parse
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Module, Reg
from ptxsw.semantics import meaning, opcodes
from ptxsw.simt import launch
from ptxsw.simt.lanes import Bits, Lanes, dtype_of
from ptxsw.simt.translate import _HANDLERS as HANDLERS
from ptxsw.terms import op
from ptxsw.terms.evaluate import value_of
from ptxsw.terms.node import Term, Variance, walk
from ptxsw.terms.terms import Terms
from tests.heads import head
from tests.semantics.reference import FORMS
from tests.semantics.test_forms import draw

LANES = 32
IN, OUT, DATA = 0x10000000, 0x20000000, 0x30000000
"""Where the values of registers before and after lie, and what addresses point to."""
FLOATING = """
    fma.rn.f32 fma.rn.f64 fma.rn.f16x2 rcp.rn.f32 rcp.approx.ftz.f64 sqrt.rn.f32 rsqrt.approx.f32
    sin.approx.f32 cos.approx.f32 lg2.approx.f32 ex2.approx.f32 tanh.approx.f32 testp.finite.f32
    add.f32 add.rn.f64 sub.f16 mul.f32 mad.rn.f32 div.rn.f32 abs.f32 neg.f64 min.f32 max.NaN.f16
    cvt.rzi.s32.f32 cvt.f64.f32 cvt.rn.f16.f32 cvt.rn.f16x2.f32 setp.lt.and.f32 set.gt.f32.f32
    slct.f32.f32 copysign.f32 selp.f32
""".split()  # noqa: SIM905


@dataclass(frozen=True)
class Case:
    """An instruction, of which `@0`, `@1`, … are the destinations. `overlap` names registers for
    them that it reads, too; `widths` are those of all registers by name, in bits."""

    text: str
    overlap: tuple[str, ...]
    widths: Mapping[str, int]

    def written(self, names: tuple[str, ...]) -> str:
        text = self.text
        for at, name in enumerate(names):
            text = text.replace(f"@{at}", name)
        return text


def _others() -> dict[str, list[Case]]:
    """By row of `isa.OPS`. r: 32 bits, d: 64 bits, p: predicates; m is a mask of all lanes, a an
    address of the thread's own; both are registers like others."""
    widths = {"r0": 32, "r1": 32, "d0": 64, "d1": 64, "p0": 1, "p1": 1, "m": 32, "a": 64}
    table: dict[str, list[tuple[str, str]]] = {
        "ld": [
            ("ld.global.u64 @0, [a];", "a"),
            ("ld.global.v2.u64 {@0, @1}, [a];", "a d0"),
            ("ld.global.v2.u64 {@0, @1}, [a+16];", "d0 a"),
            ("ld.v2.u64 {@0, @1}, [a];", "a d0"),
            ("ld.global.nc.v2.u32 {@0, @1}, [a];", "a r0"),
        ],
        "ldu": [("ldu.global.v2.u64 {@0, @1}, [a];", "a d0")],
        "atom": [
            ("atom.global.add.u64 @0, [a], d0;", "a"),
            ("atom.global.add.u64 @0, [a], d0;", "d0"),
            ("atom.global.cas.b64 @0, [a], d0, d1;", "d1"),
            ("atom.global.exch.b32 @0, [a], r0;", "r0"),
        ],
        "shfl": [
            ("shfl.sync.down.b32 @0|@1, r0, 1, 31, m;", "r0 p0"),
            ("shfl.sync.idx.b32 @0|@1, r0, r1, 31, m;", "r1 p0"),
            ("shfl.sync.bfly.b32 @0, r0, 3, 31, m;", "m"),
        ],
        "vote": [
            ("vote.sync.any.pred @0, p0, m;", "p0"),
            ("vote.sync.ballot.b32 @0, p0, m;", "m"),
        ],
        "match": [
            ("match.any.sync.b32 @0, r0, m;", "r0"),
            ("match.all.sync.b32 @0|@1, r0, m;", "m p0"),
        ],
        "redux": [("redux.sync.add.u32 @0, r0, m;", "r0"), ("redux.sync.or.b32 @0, r0, m;", "m")],
        "elect": [("elect.sync @0|@1, m;", "m p0")],
        "activemask": [("activemask.b32 @0;", "m")],
        "isspacep": [("isspacep.global @0, a;", "p0")],
        "createpolicy": [("createpolicy.fractional.L2::evict_last.b64 @0, 1.0;", "d0")],
        "bar.red": [("bar.red.and.pred @0, 0, p0;", "p0"), ("bar.red.popc.u32 @0, 0, p0;", "r0")],
        "barrier.red": [("barrier.red.or.pred @0, 0, p0;", "p0")],
        "barrier.cta.red": [("barrier.cta.red.or.pred @0, 0, p0;", "p0")],
        "call": [("call (@0, @1), crossed, (r0, r1);", "r0 r1")],
    }
    return {
        row: [Case(text, tuple(names.split()), widths) for text, names in cases]
        for row, cases in table.items()
    }


OTHERS = _others()


def _operands(name: str, dests: list[str], sources: list[str]) -> str:
    """As the instruction wants them: packed in vectors, as a pair, or side by side."""
    pair = len(dests) > 1 and not name.startswith("mov")
    dest = "|".join(dests) if pair else dests[0] if len(dests) == 1 else f"{{{', '.join(dests)}}}"
    if name.startswith("mov") and len(sources) > 1:
        return f"{dest}, {{{', '.join(sources)}}}"
    return ", ".join((dest, *sources))


def _mixed(dice: random.Random, names: list[str]) -> list[str]:
    return dice.sample(names, len(names))


def _case(
    name: str, inputs: tuple[int, ...], outputs: tuple[int, ...], literal: int | None, seed: int
) -> Case:
    """The first case of a form is unguarded and rotates its registers: each source is the next
    destination. Others draw them, under a guard that they may write."""
    dice = random.Random(f"{name} {inputs} {outputs} {seed}")
    count = {w: max(inputs.count(w), outputs.count(w)) for w in {*inputs, *outputs, 1}}
    pool = {w: [f"w{w}_{at}" for at in range(count[w] or 1)] for w in count}
    free = {w: iter(names if seed == 0 else _mixed(dice, names)) for w, names in pool.items()}
    overlap = tuple(next(free[w]) for w in outputs)
    iterations = {w: itertools.cycle((*names[1:], names[0])) for w, names in pool.items()}
    sources = []
    for at, width in enumerate(inputs):
        written = [r for r, w in zip(overlap, outputs, strict=True) if w == width]
        if at == literal:
            sources.append(str(draw(dice, min(width, 31))))
        elif seed == 0:
            sources.append(next(iterations[width]))
        else:
            sources.append(dice.choice((written or pool[width]) + pool[width]))
    dests = [f"@{at}" for at in range(len(outputs))]
    guard = f"@{dice.choice(('', '!'))}{dice.choice(pool[1])} " if seed else ""
    widths = {name: w for w, names in pool.items() for name in names}
    return Case(f"{guard}{name} {_operands(name, dests, sources)};", overlap, widths)


@cache
def cases() -> Mapping[str, list[Case]]:
    """By opcode, or by row of `isa.OPS` for `OTHERS`."""
    found: dict[str, list[Case]] = {row: list(several) for row, several in OTHERS.items()}
    for form in FORMS:
        for seed in range(2):
            case = _case(form.name, form.inputs, form.outputs, form.literal, seed)
            found.setdefault(form.name.partition(".")[0], []).append(case)
    for name in FLOATING:
        opcode, *modifiers = name.split(".")
        built = meaning(opcode, tuple(modifiers))
        if built is None:
            continue
        for seed in range(2):
            found.setdefault(opcode, []).append(
                _case(name, built.inputs, built.results, None, seed)
            )
    return found


def test_every_opcode_has_a_case() -> None:
    """What the interpreter runs, by its tables, and writes registers, by that of opcodes."""
    runs = {*HANDLERS, *opcodes()}
    writes = {row for row, op in isa.OPS.items() if op.defs and row.partition(".")[0] in runs}
    writes.add("call")
    assert writes - cases().keys() == set()
    assert all(meaning(n.split(".")[0], tuple(n.split(".")[1:])) for n in FLOATING)


# ---------------------------------------------------------------- running them

CROSSED = """
.func (.reg .u32 x, .reg .u32 y) crossed(.reg .u32 a, .reg .u32 b)
{ mov.u32 x, b; mov.u32 y, a; ret; }
"""


def _moved(case: Case, slot: int, load: bool) -> Iterator[str]:
    """The registers of a case and the carry from memory or to it, in order."""
    for at, (name, width) in enumerate(case.widths.items()):
        offset = (slot + at) * LANES * 8
        if width == 1 and load:
            yield f"ld.global.u32 word, [in+{offset}]; setp.ne.u32 {name}, word, 0;"
        elif width == 1:
            yield f"selp.u32 word, 1, 0, {name}; st.global.u32 [out+{offset}], word;"
        elif load:
            yield f"ld.global.b{width} {name}, [in+{offset}];"
        else:
            yield f"st.global.b{width} [out+{offset}], {name};"
    offset = (slot + len(case.widths)) * LANES * 8
    if load:
        yield f"ld.global.u32 word, [in+{offset}]; add.cc.u32 word, word, 0xffffffff;"
    elif not case.text.startswith("call"):  # which does not preserve the carry
        yield f"addc.u32 word, 0, 0; st.global.u32 [out+{offset}], word;"


def _program(several: list[tuple[Case, tuple[str, ...]]]) -> Module:
    """A kernel that runs cases one after another."""
    names = {n: w for case, written in several for n, w in _widths(case, written).items()}
    lines: list[str] = []
    slot = 0
    for case, written in several:
        lines += [*_moved(case, slot, True), case.written(written)]
        lines += _moved(_after(case, written), slot, False)
        slot += len(case.widths) + 1
    declared = [f".reg .{'pred' if w == 1 else f'b{w}'} {n};" for n, w in names.items()]
    body = "\n".join((*declared, *lines))
    text = (
        head("8.0", "sm_90") + f"{CROSSED}"
        f".visible .entry k(.param .u64 p, .param .u64 q) {{\n.reg .b64 in, out; .reg .b32 word;\n"
        "mov.u32 word, %tid.x; ld.param.u64 in, [p]; ld.param.u64 out, [q];\n"
        "mad.wide.u32 in, word, 8, in; mad.wide.u32 out, word, 8, out;\n"
        f"{body}\nret; }}"
    )
    return parse(text)


def _widths(case: Case, written: tuple[str, ...]) -> dict[str, int]:
    return dict(case.widths) | {
        new: case.widths[old] for old, new in zip(case.overlap, written, strict=True)
    }


def _after(case: Case, written: tuple[str, ...]) -> Case:
    """With the registers that hold afterwards what those of the case would."""
    new = dict(zip(case.overlap, written, strict=True))
    return Case(case.text, case.overlap, {new.get(n, n): w for n, w in case.widths.items()})


def _values(case: Case, seed: str) -> np.ndarray:
    """What its registers hold before, and the carry: a row each."""
    dice = random.Random(seed)
    rows = [[draw(dice, w) for _ in range(LANES)] for w in (*case.widths.values(), 1)]
    for at, name in enumerate(case.widths):
        if name == "m":
            rows[at] = [2**32 - 1] * LANES
        if name == "a":
            rows[at] = [DATA + 64 * lane for lane in range(LANES)]
    return np.array(rows, np.uint64)


def _run(several: list[tuple[Case, tuple[str, ...]]], rows: list[np.ndarray]) -> list[np.ndarray]:
    """What the registers of each case hold after it has run."""
    module = _program(several)
    before = np.concatenate(rows)
    memory = {IN: before, OUT: np.zeros_like(before), DATA: DATA_WORDS}
    done = launch(module, "k", 1, LANES, [IN, OUT], memory=memory)
    cuts = np.cumsum([len(r) for r in rows])[:-1]
    return np.split(done.memory[OUT], cuts)


DATA_WORDS = np.random.default_rng(7).integers(0, 2**64, 8 * LANES, np.uint64)


def _symbolic(case: Case, rows: np.ndarray) -> dict[int, list[int]]:
    """The symbolic values of the registers after a case, by their place, as far as they are known,
    evaluated for each lane."""
    module = _program([(case, case.overlap)])
    function = module.kernels[0]
    terms = Terms()
    machine = SymbolicMachine(module, function, terms)
    registers = [*(Reg(name) for name in case.widths), CARRY]
    atoms = [terms.atom(f"before({r.name})", machine.width(r), Variance.LANE) for r in registers]
    step = machine.prepare(_instruction(module, case), frozenset(registers))
    assert step is not None, case
    state = State(dict(zip(registers, atoms, strict=True)))
    machine.run(step, state, 0)
    found: dict[int, list[int]] = {}
    for at, reg in enumerate(registers):
        lanes = []
        for lane in range(LANES):
            known = {atom: int(row[lane]) for atom, row in zip(atoms, rows, strict=True)}
            value = _evaluated(state.env[reg], known)
            if value is not None:
                lanes.append(value)
        if len(lanes) == LANES:
            found[at] = lanes
    return found


def _instruction(module: Module, case: Case) -> Instruction:
    text = case.written(case.overlap)
    source = module.source
    return next(i for i in module.kernels[0].body.instructions if source.slice(i.span) == text)


def _evaluated(term: Term, known: dict[Term, int]) -> int | None:
    """The value of a term; None where it is not known."""
    values = dict(known)
    for node in walk(term):
        if node in values:
            continue
        args = [values[a] for a in node.args]
        if node.kind is op.FLOAT:
            bits = [Bits(np.array([values[a]], dtype_of(a.width)), a.width) for a in node.args]
            values[node] = int(Lanes().floating(str(node.value), node.width, bits).array[0])
        elif node.kind is op.APPLY and node.value[0][0] == "load":
            at = args[0] - DATA
            values[node] = int.from_bytes(DATA_WORDS.tobytes()[at : at + node.width // 8], "little")
        elif node.kind is op.ATOM and str(node.value).startswith("window("):
            values[node] = 0  # where the interpreter has all windows
        elif node.kind in (op.ATOM, op.APPLY):
            return None
        else:
            values[node] = value_of(node, args)
    return values[term]


@pytest.mark.parametrize("row", sorted(cases()))
def test_overlapping_operands(row: str) -> None:
    several = cases()[row]
    apart = tuple((case, tuple(f"{name}_apart" for name in case.overlap)) for case in several)
    rows = [_values(case, f"{row} {at}") for at, case in enumerate(several)]
    with np.errstate(all="ignore"):
        together = _run([(case, case.overlap) for case in several], rows)
        alone = _run(list(apart), rows) if row in OTHERS else together
        for case, before, after, other in zip(several, rows, together, alone, strict=True):
            assert after.tolist() == other.tolist(), case.text
            known = _symbolic(case, before)
            for at, want in known.items():
                name = [*case.widths, "the carry"][at]
                assert after.reshape(-1, LANES)[at].tolist() == want, (
                    case.text,
                    case.overlap,
                    name,
                )
            # The term of `fns` is too large to be kept; of `OTHERS` some are no function of terms.
            assert row in OTHERS or row == "fns" or len(known) == len(before), case.text
