"""Which permutation is chosen, over programs: what conflicts are left, and what it costs."""

from __future__ import annotations

import re
from functools import cache

import pytest
from msgspec.structs import replace

from benchmarks.machine_loops import count
from benchmarks.programs.memory import MEMORY
from benchmarks.rewrites import Left, conflicts_left
from ptxsw.analysis.shared_banks import bank_traffic, block_shapes, places, shared_arrays
from ptxsw.changes.permutation import Permutation
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.excerpt import Excerpts
from ptxsw.codegen.lower_bank_conflicts import PermutedBanks
from ptxsw.codegen.permuted_addresses import (
    AddressCode,
    AddressValues,
    PermutedAddresses,
)
from ptxsw.codegen.splice import apply
from ptxsw.cost import sass
from ptxsw.cost.decide import dominates, ends_by_counts
from ptxsw.driver.kernel_state import KernelState
from ptxsw.driver.passes import Passes
from ptxsw.driver.pipeline import Options
from ptxsw.parser import parse
from ptxsw.rewrites import bank_choice
from ptxsw.rewrites.bank_choice import NONE_HELPS, added_instructions, permuted
from ptxsw.rewrites.bank_conflicts import scene_behind, scene_of
from ptxsw.toolchain.ptxas import NoPtxas
from tests.heads import head
from tests.real import CORPUS, CORPUS_FOLDER, name_of, text_of

SHARED = sorted(name for name, each in MEMORY.items() if ".shared" in each.path.read_text())
CONFLICTING = [name for name in SHARED if not name.endswith("-padded")]
TILES = [path for path in CORPUS if "unrolls" in path.stem and "_O0_" not in path.stem]
NUMBA = CORPUS_FOLDER / "ptx" / "numba" / "matmul_shared_sm80.ptx"


def passed(text: str, mode: str = "force", **options: object) -> KernelState:
    """The one kernel with conflicts on its way through `bank-conflicts`."""
    names = ("memory-spaces", "bank-conflicts")
    module = parse(text)
    excerpts = Excerpts(module)
    passes = Passes(Options(mode, rewrites=names, **options), module.targets[0])  # type: ignore[arg-type]
    runs = [passes.run(excerpts.of(function)) for function in module.kernels]
    return next((run for run in runs if chosen(run)), runs[0])


def chosen(run: KernelState) -> list[PermutedBanks]:
    details = [change.detail for made in run.attempts for change in made.changes]
    return [detail for detail in details if isinstance(detail, PermutedBanks)]


def left(run: KernelState) -> list[Left]:
    """What still conflicts."""
    (detail,) = chosen(run)
    return list(conflicts_left(scene_of(run.attempts[-1].kernel), detail.permutation))


@cache
def of_program(name: str, mode: str = "force") -> KernelState:
    program = MEMORY[name]
    return passed(program.path.read_text(), mode, block=program.launches[0]().block)


@pytest.mark.parametrize("name", CONFLICTING)
def test_what_is_left(name: str) -> None:
    """No access, in a loop or not, is worse than 2-way where a permutation serves it better."""
    run = of_program(name)
    assert all(one.after <= max(2, one.least) for one in left(run))


@pytest.mark.parametrize("name", CONFLICTING)
def test_nothing_becomes_dearer(name: str) -> None:
    """But the border of an alignment's table, once a block; no permutation that helps spares it."""
    (detail,) = chosen(of_program(name))
    dearer = [access for access in detail.accesses if access.after > access.before]
    assert len(dearer) == (5 if name == "alignment" else 0)
    assert all(access.after <= 2 for access in dearer)


@pytest.mark.parametrize("name", sorted({*SHARED} - {*CONFLICTING}))
def test_what_is_padded_stays(name: str) -> None:
    run = of_program(name)
    assert not chosen(run)
    reasons = {one.reason for made in run.attempts for one in made.refusals}
    assert reasons <= {NONE_HELPS, "its bank conflicts depend on run-time values"}


AUTO = {
    "alignment", "bitonic", "bitreversal", "lu", "matmul-double", "matmul-float",
    "reduction-double", "reduction-float", "scan-double", "scan-float", "scan-int", "scan-short",
    "staged",
    "transpose-double", "transpose-float",
}  # fmt: skip


@pytest.mark.usefixtures("no_ptxas")
@pytest.mark.parametrize("name", CONFLICTING)
def test_what_auto_makes(name: str) -> None:
    """All but a tile of 16 x 16 words, whose launch may not even have whole rows, and a transform
    that computes more than it accesses."""
    run = of_program(name, "auto")
    assert bool(chosen(run)) == (name in AUTO)
    reasons = [refusal.reason for made in run.attempts for refusal in made.refusals]
    assert (name in AUTO) != any("no clear gain" in reason for reason in reasons)


@pytest.mark.parametrize("name", CONFLICTING)
def test_no_more_is_added_than_estimated(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each instruction counted once, loops as they are: how often ptxas unrolls them is its own
    matter. Before sm_90 it folds products into addresses, from then on the start of an array."""
    run = of_program(name)
    with monkeypatch.context() as context:
        context.setattr(bank_choice, "times", lambda cfg, at: 1.0)
        permutation = chosen(run)[0].permutation
        scene = scene_behind(run.attempts[-1].kernel, permutation)
        estimated = added_instructions(scene, permutation)
    old = MEMORY[name].path.read_text()
    new = apply(old, run.since)
    for arch in ("sm_75", "sm_90"):
        before, after = (machine_instructions(one, arch, MEMORY[name].entry) for one in (old, new))
        assert 0 < after - before <= estimated, arch


@pytest.mark.parametrize("name", SHARED)
def test_what_is_counted_is_what_is_written(name: str) -> None:
    """Of each permutation, access by access; of `and` and `xor` ptxas makes one, and where an
    address of the text is shifted two may be added."""
    kernel = of_program(name).attempts[-1].kernel
    scene, cfg = scene_of(kernel), kernel.trace.cfg
    for permutation in bank_choice.family(scene):
        builder = Builder(kernel.text, kernel.function, cfg.instructions)
        code = AddressCode(builder, permutation)
        addresses = PermutedAddresses(code, AddressValues(cfg, builder.width), permutation)
        for at in permuted(scene):
            code.lines, code.instructions = [], 0
            addresses.of(at, at in scene.in_row)
            shifts = sum("shr" in line and ", %sw_" not in line for line in code.lines)
            others = sum(not line.startswith(("and.", "cvt.")) for line in code.lines)
            assert code.instructions == shifts + others


def machine_instructions(text: str, arch: str, kernel: str) -> int:
    aimed = re.sub(r"(?m)^\.target\s+sm_\d+", f".target {arch}", text)
    aimed = aimed.replace(".address_size 64", '.address_size 64\n.pragma "nounroll";')
    try:
        made = sass.read(aimed, arch, lines=False)
    except NoPtxas as error:
        pytest.skip(str(error))
    if made.note:
        pytest.skip(made.note)
    return count(made.kernel(kernel).instructions).instructions


# ---------------------------------------------------------------- real files


@pytest.mark.skipif(not TILES, reason="no corpus")
@pytest.mark.parametrize("path", TILES, ids=name_of)
def test_tiles_of_the_corpus(path: object) -> None:
    """Products of 32 x 32 tiles, 4-way on what ptxas joins; unoptimised code through generic
    pointers, too."""
    assert left(passed(text_of(path))) == []  # type: ignore[arg-type]


@pytest.mark.skipif(not NUMBA.is_file(), reason="no corpus")
def test_numbas_product_of_doubles() -> None:
    """By a granule of padding none conflicts; exchanges would leave two stores 2-way, or split 16
    joined loads of its inner product in two."""
    run = passed(text_of(NUMBA), block=(16, 16))
    assert left(run) == [] and chosen(run)[0].permutation.padded
    accesses = chosen(run)[0].accesses
    assert max(access.before for access in accesses) == 32


# ---------------------------------------------------------------- blocks


def diagonal(threads: str) -> str:
    """A column of a tile of 16 x 16 words, by threads of an unknown block."""
    return f"""
        .version 8.0
        .target sm_80
        .address_size 64
        .visible .entry k(.param .u64 out) {threads}
        {{
        .reg .b32 %r<9>;
        .reg .b64 %rd<3>;
        .shared .align 4 .b8 tile[4096];
        ld.param.u64 %rd1, [out];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, %tid.y;
        mov.u32 %r3, tile;
        shl.b32 %r4, %r1, 6;
        add.s32 %r5, %r3, %r4;
        shl.b32 %r6, %r2, 2;
        add.s32 %r7, %r5, %r6;
        ld.shared.u32 %r8, [%r7];
        st.global.u32 [%rd1], %r8;
        ret;
        }}
    """


@pytest.mark.parametrize(
    ("threads", "block", "before"),
    [
        (".reqntid 16", None, 8),
        (".reqntid 16, 16", (32, 8, 1), 8),  # what is declared goes before what was said
        (".maxntid 64, 2", (16, 16, 1), 8),
        (".maxntid 64, 2", None, 16),
        ("", (16,), 8),
        ("", (16, 16), 8),
        ("", (64, 1, 1), 16),
        ("", None, 12),  # rows of 32 and of 16 threads
    ],
)
def test_the_block_decides(threads: str, block: object, before: float) -> None:
    (detail,) = chosen(passed(diagonal(threads), block=block))
    assert detail.accesses[0].before == before


# ---------------------------------------------------------------- what pays


@pytest.mark.parametrize(
    ("before", "after", "pays"),
    [
        ((100, 100), (110, 50), True),  # banks are busiest, and are so less
        ((400, 100), (404, 50), True),  # instructions are as busy, and hardly more so
        ((400, 100), (420, 50), False),  # nothing may wait for the banks
        ((400, 100), (400, 98), False),  # too little
        ((0, 100), (400, 100), False),
        ((100, 100), (100, 100), False),
    ],
)
def test_what_dominates(before: tuple[int, int], after: tuple[int, int], pays: bool) -> None:
    old, new = (ends_by_counts(instructions=i, wavefronts=w) for i, w in (before, after))
    assert dominates(new, old) == pays


def test_the_family_keeps_the_widest_access_together() -> None:
    run = of_program("transpose-double")
    members = list(bank_choice.family(scene_of(run.attempts[-1].kernel)))
    assert {member.granule for member in members} == {8, 16}
    assert Permutation((4,), 0x78) in members


@pytest.mark.parametrize("shifts", [(5,), (9,), (5, 7), (6, 10), (5, 6, 7)])
def test_banks_of_words_are_those_of_their_addresses(shifts: tuple[int, ...]) -> None:
    permutation = Permutation(shifts, 0x7C)
    words = [*range(300), *range(1 << 12, 1 << 20, 9973)]
    assert permutation.banks_of(words) == [permutation.of(4 * word) // 4 % 32 for word in words]


def test_accesses_that_differ_by_a_number_are_placed_as_each_alone() -> None:
    """Lanes that lie outside the array in one access, and not in the other, are left out."""
    run = passed(TWO_ROWS)
    kernel = run.attempts[-1].kernel if run.attempts else None
    assert kernel is not None
    arrays = shared_arrays(kernel.trace)
    at, end = places(arrays)
    shapes = block_shapes(kernel.trace, (32, 1, 1))
    together = bank_traffic(kernel.trace, shapes, at, end)
    assert [len(one.requests[0]) for one in together] == [32, 32, 16]
    for access, one in zip(kernel.trace.accesses, together, strict=True):
        alone = replace(kernel.trace, accesses=(access,))
        assert bank_traffic(alone, shapes, at, end) == (one,)


TWO_ROWS = (
    head()
    + """.visible .entry k()
{
	.reg .b32 %r<9>;
	.reg .f32 %f<9>;
	.shared .align 4 .b8 tile[2048];
	mov.u32 %r1, %tid.x;
	shl.b32 %r2, %r1, 6;
	mov.u32 %r3, tile;
	add.s32 %r4, %r3, %r2;
	ld.shared.f32 %f1, [%r4];
	st.shared.f32 [%r4+32], %f1;
	st.shared.f32 [%r4+1024], %f1;
	ret;
}
"""
)


def test_accesses_of_fewer_warps_are_counted_for_their_own() -> None:
    """Four warps load two words and two warps a double: both times two words are wanted four
    times."""
    run = passed(WORDS_AND_DOUBLES, block=(256, 1, 1))
    (detail,) = chosen(run)
    assert [access.before for access in detail.accesses] == [1, 2, 32]


WORDS_AND_DOUBLES = (
    head()
    + """.visible .entry k()
{
	.reg .pred %p<2>;
	.reg .b32 %r<9>;
	.reg .f32 %f<3>;
	.reg .f64 %fd<3>;
	.shared .align 128 .b8 words[1024];
	.shared .align 128 .b8 doubles[2048];
	.shared .align 128 .b8 tile[32768];
	mov.u32 %r1, %tid.x;
	and.b32 %r2, %r1, 16;
	shr.u32 %r2, %r2, 2;
	mov.u32 %r3, words;
	add.s32 %r3, %r3, %r2;
	shr.u32 %r8, %r1, 5;
	shl.b32 %r8, %r8, 7;
	add.s32 %r3, %r3, %r8;
	ld.shared.f32 %f1, [%r3];
	setp.ge.u32 %p1, %r1, 64;
	@%p1 bra DONE;
	mov.u32 %r5, doubles;
	add.s32 %r5, %r5, %r8;
	ld.shared.f64 %fd1, [%r5];
DONE:
	shl.b32 %r6, %r1, 7;
	mov.u32 %r7, tile;
	add.s32 %r7, %r7, %r6;
	st.shared.f32 [%r7], %f1;
	ret;
}
"""
)
