"""`python -m benchmarks.demotion`: what it demotes still computes the same."""

from __future__ import annotations

import numpy as np

from benchmarks.demotion import candidates, demoted, of_block
from ptxsw.parser import parse
from ptxsw.simt import launch
from tests.heads import head
from tests.parsed import parsed

THREADS = 64
TEXT = of_block(
    head("7.0")
    + """.visible .entry k(.param .u64 in, .param .u64 out)
{
\t.reg .b32 %r<9>;
\t.reg .b64 %rd<7>;
\t.reg .f32 %f<9>;
\t.reg .pred %p1;
\tld.param.u64 %rd1, [in];
\tld.param.u64 %rd2, [out];
\tmov.u32 %r1, %tid.x;
\tmul.wide.u32 %rd3, %r1, 4;
\tadd.s64 %rd4, %rd1, %rd3;
\tadd.s64 %rd5, %rd2, %rd3;
\tld.global.f32 %f1, [%rd4];
\tld.global.f32 %f2, [%rd4+256];
\tadd.f32 %f3, %f1, %f2;
\tmov.f32 %f4, %f2;
\tmov.u32 %r2, 0;
L:
\tfma.rn.f32 %f4, %f4, %f3, %f1;
\tadd.s32 %r2, %r2, 1;
\tsetp.lt.u32 %p1, %r2, 5;
\t@%p1 bra L;
\tmul.f32 %f5, %f4, %f2;
\tst.global.f32 [%rd5], %f5;
\tret;
}
""",
    THREADS,
)


def outputs(text: str) -> bytes:
    given = np.random.default_rng(3).random(2 * THREADS, np.float32)
    done = launch(parsed(text), "k", 1, THREADS, (given, np.zeros(THREADS, np.float32)))
    assert done.buffers[1].all()
    return done.buffers[1].tobytes()


def test_what_is_accessed_least_comes_first() -> None:
    """Of what is live in the loop: values from before it that are read behind it."""
    (function,) = parse(TEXT).kernels
    names = [register.name for register in candidates(function)]
    assert set(names[:2]) == {"%f2", "%rd5"}
    assert names.index("%rd5") < names.index("%f3")
    assert "%f4" not in names and "%r2" not in names  # written twice


def test_demoted_values_are_the_same() -> None:
    for count in (1, 2, 4, 9):
        text = demoted(TEXT, count=count, threads=THREADS)
        assert text.count("st.volatile.shared.") == min(
            count, len(candidates(parse(TEXT).kernels[0]))
        )
        assert outputs(text) == outputs(TEXT)
