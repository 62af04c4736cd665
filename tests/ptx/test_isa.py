"""The instruction table: every opcode of PTX ISA 9.0 and of every real file has a row."""

from __future__ import annotations

import csv
from collections import Counter

import pytest

from ptxsw.parser import parse
from ptxsw.ptx import isa, opcodes
from ptxsw.ptx.ir import Instruction, Reg, Special
from ptxsw.ptx.isa import Effect, Trait
from tests.heads import head
from tests.real import CORPUS, CORPUS_FOLDER, FIXTURES, text_of

# The instructions of PTX ISA 9.0, chapter 9.7, in the manual's order.
MANUAL = """
add sub mul mad mul24 mad24 sad div rem abs neg min max popc clz bfind fns brev bfe bfi szext bmsk
dp4a dp2a add.cc addc sub.cc subc mad.cc madc testp copysign fma rcp sqrt rsqrt sin cos lg2 ex2
tanh set setp selp slct and or xor not cnot lop3 shf shl shr mov shfl.sync prmt ld ld.global.nc
ldu st st.async st.bulk multimem.ld_reduce multimem.st multimem.red prefetch prefetchu
applypriority discard createpolicy.fractional isspacep cvta cvt cvt.pack mapa getctarank cp.async
cp.async.commit_group cp.async.wait_group cp.async.wait_all cp.async.bulk cp.reduce.async.bulk
cp.async.bulk.prefetch cp.async.bulk.tensor cp.reduce.async.bulk.tensor
cp.async.bulk.prefetch.tensor cp.async.bulk.commit_group cp.async.bulk.wait_group
tensormap.replace tex tld4 txq istypep suld sust sured suq bra brx.idx call ret exit bar.sync
bar.arrive bar.red barrier.sync barrier.cta.red bar.warp.sync barrier.cluster.arrive
barrier.cluster.wait membar fence atom red red.async vote vote.sync match.any.sync activemask
redux.sync griddepcontrol.wait elect.sync mbarrier.init mbarrier.inval mbarrier.expect_tx
mbarrier.complete_tx mbarrier.arrive mbarrier.arrive_drop cp.async.mbarrier.arrive
mbarrier.test_wait mbarrier.try_wait mbarrier.pending_count tensormap.cp_fenceproxy
clusterlaunchcontrol.try_cancel clusterlaunchcontrol.query_cancel wmma.load.a wmma.store.d
wmma.mma mma ldmatrix stmatrix movmatrix mma.sp wgmma.mma_async wgmma.fence wgmma.commit_group
wgmma.wait_group tcgen05.alloc tcgen05.dealloc tcgen05.relinquish_alloc_permit tcgen05.ld
tcgen05.st tcgen05.wait tcgen05.cp tcgen05.shift tcgen05.mma tcgen05.mma.sp tcgen05.fence
tcgen05.commit stacksave stackrestore alloca vadd vsub vabsdiff vmin vmax vshl vshr vmad vset
vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2 vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 vset4
brkpt nanosleep pmevent trap setmaxnreg
"""

REGISTERS = (
    ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>; .reg .f32 %f<9>; .reg .v2 .b64 %v;"
)


def _one(text: str) -> Instruction:
    module = parse(
        head("8.6", "sm_100a") + f".func f() {{ {REGISTERS}\n.param .b32 pp;\n{text}\nL:\n}}"
    )
    (found,) = module.functions[0].body.instructions
    return found


@pytest.mark.parametrize("name", MANUAL.split())
def test_every_instruction_of_the_manual_has_a_row(name: str) -> None:
    opcode, *modifiers = name.split(".")
    assert isa.row(opcode, tuple(modifiers)) is not None


def test_every_opcode_of_real_files_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    missing: Counter[str] = Counter()
    for path in FIXTURES + CORPUS[::5]:
        for function in parse(text_of(path), path.name).functions:
            for line in function.body.instructions:
                if not isa.known(line):
                    missing[line.name] += 1
    counts = CORPUS_FOLDER / "opcode_counts.csv"
    if counts.exists():
        with counts.open(newline="") as file:
            for row in csv.DictReader(file):
                opcode, *modifiers = row["opcode"].split(".")
                if opcode != "extern" and isa.row(opcode, tuple(modifiers)) is None:
                    missing[row["opcode"]] += int(row["count"])
    for name, count in missing.most_common():
        print(f"no row: {name} ({count})")
    assert not missing, capsys.readouterr().out


def test_an_unknown_opcode_does_everything() -> None:
    line = _one("@%p1 frobnicate.sync.b32 %r1|%p2, {%r2, _}, [%rd1+4, {%r3}], !%p3, (%r4), %tid.x;")
    named = ("%r1", "%p2", "%r2", "%rd1", "%r3", "%p3", "%r4")
    assert isa.defs(line) == tuple(map(Reg, named))
    assert isa.uses(line) == (Reg("%p1"), *map(Reg, named), Special("%tid.x"))
    assert isa.effects(line.opcode, line.modifiers) == isa.EVERYTHING
    assert isa.space(line) == "generic"


CASES = {  # text: written, read, space, type
    "@%p1 add.s32 %r1, %r2, 3;": ("%r1", "%p1 %r2", None, "s32"),
    "ld.global.nc.v2.f32 {%f1, _}, [%rd1+4];": ("%f1", "%rd1", "global", "f32"),
    "ld.u32 %r1, [%rd1];": ("%r1", "%rd1", "generic", "u32"),
    "ld.shared::cta.b64 %rd1, [%r1];": ("%rd1", "%r1", "shared", "b64"),
    "ld.param.b32 %r1, [pp];": ("%r1", "", "param", "b32"),
    "ld.global.L1::no_allocate.L2::128B.b32 %r1, [%rd1];": ("%r1", "%rd1", "global", "b32"),
    "st.local.v2.u32 [%rd1], {%r1, 5};": ("", "%rd1 %r1", "local", "u32"),
    "setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;": ("%p1 %p2", "%r1 %r2 %p3", None, "s32"),
    "shfl.sync.down.b32 %r1|%p1, %r2, 1, 31, -1;": ("%r1 %p1", "%r2", None, "b32"),
    "atom.global.add.u32 %r1, [%rd1], %r2;": ("%r1", "%rd1 %r2", "global", "u32"),
    "atom.add.u32 _, [%rd1], %r2;": ("", "%rd1 %r2", "generic", "u32"),
    "red.shared.add.u32 [%r1], %r2;": ("", "%r1 %r2", "shared", "u32"),
    "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f5,%f6}];": (
        "%f1 %f2 %f3 %f4", "%rd1 %f5 %f6", "tex", "f32",
    ),
    "sust.b.2d.b32.trap [%rd1, {%r1, %r2}], {%r3};": ("", "%rd1 %r1 %r2 %r3", "surf", "b32"),
    "mov.b64 {%r1, _}, %rd1;": ("%r1", "%rd1", None, "b64"),
    "mov.u32 %r1, %tid.x;": ("%r1", "%tid.x", None, "u32"),
    "mov.u64 %v.x, %rd1;": ("%v.x", "%rd1", None, "u64"),
    "mov.v2.u64 %v, {%v.y, %rd1};": ("%v.x %v.y", "%v.y %rd1", None, "u64"),
    "vadd.u32.u32.u32 %r1.b0, %r2.h1, %r3, %r4;": ("%r1", "%r1 %r2 %r3 %r4", None, "u32"),
    "call (%r1), f, (%r2, pp);": ("%r1", "%r2", None, None),
    "call f, (%r1);": ("", "%r1", None, None),
    "call (pp), %rd1, (%r1), proto;": ("", "%rd1 %r1", None, None),
    "bar.sync 0, %r1;": ("", "%r1", None, None),
    "barrier.cta.red.popc.aligned.u32 %r1, 0, %p1;": ("%r1", "%p1", None, "u32"),
    "bra L;": ("", "", None, None),
    "@!%p1 bra L;": ("", "%p1", None, None),
    "mbarrier.arrive.shared.b64 %rd1, [%r1];": ("%rd1", "%r1", "shared", "b64"),
    "mbarrier.arrive.shared::cluster.b64 _, [%r1];": ("", "%r1", "shared", "b64"),
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2}, %rd1, %rd2, 1, 1, 1, 0, 0;": (
        "%f1 %f2", "%f1 %f2 %rd1 %rd2", None, "f16",
    ),
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 9, [%r3];": (
        "", "%r1 %rd1 %r3", "shared", None,
    ),
    "cvta.to.global.u64 %rd1, %rd2;": ("%rd1", "%rd2", None, "u64"),
    "ldmatrix.sync.aligned.x2.shared.b16 {%r1,%r2}, [%r3];": ("%r1 %r2", "%r3", "shared", "b16"),
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_registers_and_spaces(text: str) -> None:
    written, read, space, kind = CASES[text]
    line = _one(text)
    assert [r.name for r in isa.defs(line)] == written.split()
    assert [r.name for r in isa.uses(line)] == read.split()
    assert isa.space(line) == space
    assert isa.access_type(line) == kind


R, W, B, F = Effect.READ, Effect.WRITE, Effect.BARRIER, Effect.FENCE
A, Y, NONE = Effect.ATOMIC, Effect.ASYNC, Effect.NONE
EFFECTS = {
    "add.s32": NONE,
    "shfl.sync.down.b32": NONE,
    "ld.global.f32": R,
    "ld.weak.global.f32": R,
    "ld.global.nc.f32": R,
    "ld.volatile.global.f32": R | A,
    "ld.relaxed.gpu.global.f32": R | A,
    "ld.mmio.relaxed.sys.global.u32": R | A,
    "ld.acquire.gpu.global.f32": R | A | F,
    "st.global.f32": W,
    "st.release.gpu.global.f32": W | A | F,
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32": W | A | Y,
    "atom.global.add.u32": R | W | A,
    "atom.acq_rel.gpu.global.cas.b32": R | W | A | F,
    "red.release.gpu.global.add.u32": R | W | A | F,
    "bar.sync": B | F,
    "bar.warp.sync": B | F,
    "barrier.cluster.wait.acquire": B | F,
    "membar.gl": F,
    "fence.proxy.async": F,
    "cp.async.ca.shared.global": R | W | Y,
    "cp.async.commit_group": Y,
    "cp.async.wait_group": Y | F,
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes": R | W | Y | A,
    "cp.async.bulk.global.shared::cta.bulk_group": R | W | Y,
    "cp.async.bulk.wait_group.read": Y | F,
    "cp.async.bulk.prefetch.L2.global": Y,
    "tex.2d.v4.f32.f32": R,
    "sust.b.2d.b32.trap": W,
    "discard.global.L2": W,
    "prefetch.global.L2": NONE,
    "call.uni": isa.EVERYTHING | Effect.CALL,
    "bra.uni": Effect.BRANCH,
    "brx.idx": Effect.BRANCH,
    "ret": Effect.EXIT,
    "exit": Effect.EXIT,
    "trap": Effect.EXIT,
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16": R | Y,
    "frobnicate": isa.EVERYTHING,
    "mbarrier.something_new": isa.EVERYTHING,
}


@pytest.mark.parametrize("name", EFFECTS)
def test_effects(name: str) -> None:
    opcode, *modifiers = name.split(".")
    assert isa.effects(opcode, tuple(modifiers)) == EFFECTS[name]


def test_every_trait_is_of_opcodes_that_have_rows() -> None:
    words = {name.partition(".")[0] for name in isa.OPS}
    for trait, named in opcodes._TRAITS.items():
        assert set(named.split()) <= words
        assert isa.opcodes(trait) == set(named.split()), trait


def test_traits_agree_with_effects() -> None:
    """What ends a function is what leaves it, and jumps are its branches."""
    for trait, effect in ((Trait.LEAVE, Effect.EXIT), (Trait.JUMP, Effect.BRANCH)):
        rows = {name for name, op in isa.OPS.items() if effect in op.effect}
        assert isa.opcodes(trait) == rows
    for name in isa.opcodes(Trait.BARRIER):
        assert Effect.BARRIER in isa.OPS[name].effect
    for name in isa.opcodes(Trait.SCALAR_ACCESS):
        assert isa.OPS[name].effect & (Effect.READ | Effect.WRITE)
