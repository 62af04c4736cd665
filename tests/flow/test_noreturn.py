"""A call of a function that says `.noreturn` ends the path: what stands behind it is reached by
other ways alone. (A front end that knows so writes no branch behind the call.)

        @%p1 bra FAIL;                       what %r4 holds at JOIN is what this side has set,
        shl.b32 %r4, %r1, 2;                 and a store before the call is no store before JOIN
        bra JOIN;
    FAIL:
        call raise_bounds;
    JOIN:
        ...
"""

from __future__ import annotations

from pathlib import Path

from ptxsw.flow.cfg import build
from ptxsw.parser import parse
from tests.command_line import ptxsw
from tests.heads import head

RAISE = ".func raise_bounds() {directive}\n{{ trap; exit; }}\n"
KERNEL = """
.visible .entry k(.param .u64 src, .param .u64 dst, .param .u32 len)
{{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .reg .f32 %f<9>;
    .reg .pred %p<4>;
    .shared .align 4 .b8 tile[256];
    ld.param.u64 %rd1, [src];
    ld.param.u64 %rd2, [dst];
    ld.param.u32 %r1, [len];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra FAIL;
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.f32 %f1, [%rd4];
    shl.b32 %r3, %r2, 2;
    mov.u32 %r4, tile;
    add.s32 %r4, %r4, %r3;
    st.shared.f32 [%r4], %f1;
    bra JOIN;
FAIL:
    {call}
JOIN:
    bar.sync 0;
    xor.b32 %r5, %r3, 4;
    mov.u32 %r6, tile;
    add.s32 %r6, %r6, %r5;
    ld.shared.f32 %f2, [%r6];
    mul.wide.u32 %rd5, %r2, 4;
    add.s64 %rd6, %rd2, %rd5;
    st.global.f32 [%rd6], %f2;
    ret;
}}
"""


def text(directive: str = ".noreturn", call: str = "call.uni raise_bounds;") -> str:
    return head() + RAISE.format(directive=directive) + KERNEL.format(call=call)


def shared_load(source: str, tmp_path: Path) -> str:
    """The row of the load behind the label JOIN."""
    (tmp_path / "k.ptx").write_text(source)
    done = ptxsw("analyze", tmp_path / "k.ptx")
    assert (done.returncode, done.stderr) == (0, b"")
    [row] = [line for line in done.stdout.decode().splitlines() if "ld.shared" in line]
    return row


def test_what_is_behind_is_reached_by_the_other_side_alone(tmp_path: Path) -> None:
    assert " ok " in shared_load(text(), tmp_path)
    assert " ? " in shared_load(text(directive=""), tmp_path)


def edges(source: str) -> dict[str, set[str]]:
    """Where each labelled block goes to, by label; "" for what has none."""
    cfg = build(parse(source).kernel("k").body)
    names = {b.number: next(iter(b.labels), "") for b in cfg.blocks}
    return {names[b.number]: {names[n] for n in b.successors} for b in cfg.blocks if b.labels}


def test_edges() -> None:
    assert edges(text())["FAIL"] == set()
    assert edges(text(directive=""))["FAIL"] == {"JOIN"}
    behind = "call.uni raise_bounds; mov.u32 %r3, 0; bra JOIN;"
    assert edges(text(call=behind))["FAIL"] == set()  # what follows has no label: nothing leads in
    guarded = "@%p1 call.uni raise_bounds; bra JOIN;"
    assert edges(text(call=guarded))["FAIL"] == {""}
    assert ".noreturn" in (declared := text().replace("{ trap; exit; }", ";"))
    assert edges(declared)["FAIL"] == set()


def test_only_the_function_that_says_so() -> None:
    other = ".func other()\n{ ret; }\n"
    source = text(call="call.uni other;").replace(".func raise", f"{other}.func raise")
    assert edges(source)["FAIL"] == {"JOIN"}


def test_what_is_rewritten_is_proved(tmp_path: Path) -> None:
    """Loads on either side of the call: those before it do not serve those behind JOIN; one before
    the branch serves both."""
    call = "ld.global.f32 %f3, [%rd1]; st.global.f32 [%rd2], %f3; call.uni raise_bounds;"
    source = text(call=call).replace("bar.sync 0;", "ld.global.f32 %f4, [%rd1];")
    (tmp_path / "k.ptx").write_text(source)
    made = ptxsw("optimize", tmp_path / "k.ptx", "-o", tmp_path / "out.ptx", "--mode", "force")
    assert made.returncode == 0, made.stderr.decode()
    written = (tmp_path / "out.ptx").read_text()
    assert "mov.b32 %f4, %f3" not in written
    assert written.index("ld.global.f32 %sw_before1, [%rd1];") < written.index("@%p1 bra FAIL")
    done = ptxsw("verify", tmp_path / "k.ptx", tmp_path / "out.ptx")
    assert (done.returncode, done.stdout.split()[0]) == (0, b"proved")


def test_what_the_call_leaves_out_is_a_difference(tmp_path: Path) -> None:
    """The call itself is something that the kernel does."""
    (tmp_path / "a.ptx").write_text(text())
    (tmp_path / "b.ptx").write_text(text(call="bra JOIN;"))
    done = ptxsw("verify", tmp_path / "a.ptx", tmp_path / "b.ptx")
    assert done.returncode != 0 and not done.stdout.startswith(b"proved")
