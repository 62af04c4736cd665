"""ptxas makes one access of several side by side: then fewer passes through the banks are made than
the PTX says."""

from __future__ import annotations

import pytest

from ptxsw.cost.counted import cannot_count
from ptxsw.cost.merged_accesses import passes, widths
from ptxsw.cost.sampled import sample
from ptxsw.cost.sass import read_for
from ptxsw.driver.prediction import predict
from ptxsw.parser import parse
from ptxsw.verify.launches import from_json
from tests.cost.test_tensor import kernel

needs_ptxas = pytest.mark.skipif(bool(cannot_count("sm_80")), reason="no ptxas")

ROWS = """
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 6;
    mov.u32 %r3, tile;
    add.u32 %r4, %r3, %r2;
    st.shared.v4.b32 [%r4], {{%r1, %r1, %r1, %r1}};
    bar.sync 0;
    xor.b32 %r5, %r2, 64;
    add.u32 %r6, %r3, %r5;
    {loads}
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.f32 [%rd3], %f0;
"""
LOADS = "".join(f"ld.shared.f32 %f{n + 1}, [%r6+{4 * n}];" for n in range(4))
SUM = "add.f32 %f0, %f1, %f2; add.f32 %f0, %f0, %f3; add.f32 %f0, %f0, %f4;"
STORED = 4 * 16  # passes: of 8 lanes, 16 bytes each and 64 apart, the half are in the same banks


def counted(loads: str, *, align: int = 16) -> tuple[float, float]:
    """Of a block of four warps, by the PTX and by the code that ptxas makes of it."""
    text = kernel(ROWS.format(loads=loads)).replace(
        ".shared .align 8 .b64 bar;", f".shared .align {align} .b8 tile[8192];"
    )
    module = parse(text)
    [function] = module.kernels
    code = read_for(text, module, "sm_80", None, timeout=60)[0]["k"]
    [launch] = from_json('{"grid": [1], "block": [128], "args": ["zeros:128:f32", "1"]}')
    seen = sample(module, "k", launch, 1, widths(function, code))
    return passes(function, seen, None), passes(function, seen, code)


@needs_ptxas
def test_four_loads_become_one() -> None:
    """Of 32 lanes 64 bytes apart 16 want the same bank; of 8 that want 16 bytes each, 4."""
    assert counted(LOADS + SUM) == (STORED + 4 * 4 * 16, STORED + 4 * 16)


@needs_ptxas
def test_loads_that_stay_as_they_are_count_as_ever() -> None:
    apart = LOADS.replace("+8]", "+40]").replace("+4]", "+36]").replace("+12]", "+52]")
    by_text, by_code = counted(apart + SUM)
    assert by_text == by_code == STORED + 4 * 4 * 16


@needs_ptxas
def test_a_load_that_is_in_vain_counts_nothing() -> None:
    """Merged ones stand for those beside them, and what nobody reads is not loaded."""
    _, by_code = counted(LOADS + "ld.shared.f32 %f5, [%r6+32];" + SUM)
    assert by_code == STORED + 4 * 16


@needs_ptxas
def test_a_loop_is_counted_by_its_machine_code_too() -> None:
    """A warp of an iteration: what is stored is before the loop."""
    loop = f"mov.u32 %r9, 0; LOOP: {LOADS} {SUM} st.shared.f32 [%r6+16], %f0; add.u32 %r9, %r9, 1;"
    text = kernel(ROWS.format(loads=loop + "setp.lt.u32 %p1, %r9, %r8; @%p1 bra LOOP;")).replace(
        ".shared .align 8 .b64 bar;", ".shared .align 16 .b8 tile[8192];"
    )
    [stretch] = predict(text, gpu="a100", rewrites=False).kernels[0].stretches
    [shared] = [load.time for load in stretch.resources if load.name == "shared"]
    assert (shared.low, shared.high) == (16 + 16, 16 + 16)  # one load of 16 bytes, one store of 4
