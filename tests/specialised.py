"""A kernel whose warps have roles: one loads tiles by TMA, four multiply them by wgmma."""

from __future__ import annotations

from tests.heads import head

BY_WARP = """
    shr.u32 %r2, %r1, 5;
    mov.u32 %r3, -1;
    shfl.sync.idx.b32 %r4|%p1, %r2, 0, 31, %r3;
    setp.lt.s32 %p2, %r4, 4;
    @%p2 bra MULTIPLY;
    setp.ne.s32 %p3, %r4, 4;
    @%p3 bra DONE;
    bra.uni LOAD;
"""
BY_THREAD = """
    setp.lt.u32 %p2, %r1, 128;
    @%p2 bra MULTIPLY;
    setp.ge.u32 %p3, %r1, 160;
    @%p3 bra DONE;
    elect.sync %r2|%p4, -1;
    @!%p4 bra DONE;
    bra.uni LOAD;
"""
BY_TABLE = """
    st.shared.v2.b32 [states], {0, 33751041};
    bar.sync 0;
    shr.u32 %r2, %r1, 5;
    mov.b32 %r3, states;
    add.s32 %r4, %r3, %r2;
    ld.shared.b8 %r5, [%r4];
    brx.idx %r5, TABLE;
"""
"""0 for warps 0 to 3, then 1, 0, 3, 2: bytes of 0x02030001."""


def wrapping(stages: int) -> str:
    """The next stage, 0 behind the last."""
    return f"""
    add.s32 %stage0, %stage, 1;
    setp.eq.s32 %p5, %stage0, {stages};
    selp.b32 %stage, 0, %stage0, %p5;
"""


def specialised(
    choose: str = BY_WARP, stages: int = 3, size: str = "24576", arch: str = "sm_90a",
    next_stage: str | None = None, wgmma: int = 4, n: int = 128,
) -> str:  # fmt: skip
    """Tiles of `size` bytes, each multiplied by so many wgmma of m64 k16 and `n` columns."""
    sums = ", ".join(f"%f{number}" for number in range(n // 2))
    step = wrapping(stages) if next_stage is None else next_stage
    multiply = "\n".join(
        f"    wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{sums}}}, %rd3, %rd4, "
        "1, 1, 1, 0, 0;"
        for _ in range(wgmma)
    )
    return f"""{head("8.7", arch)}
.visible .entry k(.param .u64 map, .param .u64 out, .param .u32 n, .param .u32 size)
.reqntid 256, 1, 1
{{
    .reg .pred %p<9>;
    .reg .b32 %r<20>;
    .reg .b32 %stage<2>;
    .reg .b32 %stage;
    .reg .b32 %size;
    .reg .f32 %f<{n // 2}>;
    .reg .b64 %rd<9>;
    .shared .align 8 .b8 full[128];
    .shared .align 8 .b8 states[8];
    .shared .align 1024 .b8 tiles[16384];
TABLE: .branchtargets MULTIPLY, LOAD, DONE, DONE;
    ld.param.u64 %rd1, [map];
    ld.param.u64 %rd2, [out];
    ld.param.u32 %r8, [n];
    ld.param.u32 %size, [size];
    mov.u32 %r1, %tid.x;
    mov.u64 %rd3, 4611686293305294848;
    mov.u64 %rd4, 4611686293305294848;
    mov.u32 %r9, 0;
    mov.u32 %r10, 0;
    mov.u32 %stage, %r10;
    {choose}
LOAD:
    setmaxnreg.dec.sync.aligned.u32 40;
LOADS:
    shl.b32 %r11, %stage, 3;
    mov.u32 %r12, full;
    add.u32 %r13, %r12, %r11;
WAIT1:
    mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r13+64], %r9;
    @!%p6 bra WAIT1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], {size};
    mov.u32 %r14, tiles;
    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r14],
        [%rd1, {{%r9, %r9}}], [%r13];
    {step}
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p7, %r9, %r8;
    @%p7 bra LOADS;
    bra.uni DONE;
MULTIPLY:
    setmaxnreg.inc.sync.aligned.u32 232;
MULTIPLIES:
    shl.b32 %r11, %stage, 3;
    mov.u32 %r12, full;
    add.u32 %r13, %r12, %r11;
WAIT2:
    mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r13], %r9;
    @!%p6 bra WAIT2;
    wgmma.fence.sync.aligned;
{multiply}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    mbarrier.arrive.shared::cta.b64 _, [%r13+64];
    {step}
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p7, %r9, %r8;
    @%p7 bra MULTIPLIES;
    st.global.f32 [%rd2], %f0;
DONE:
    ret;
}}
"""
