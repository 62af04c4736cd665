"""Pairs of small texts, before and after, each with its wrong twins.

A twin is the text after with one place changed. All are refused, and most are shown by the
interpreter to do something else; `silent` ones differ only where the interpreter cannot look.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxsw.validate import Claim
from tests.heads import head

HEAD = (
    head("8.3")
    + """.visible .entry k(.param .u64 {pointer} a, .param .u64 {pointer} b, .param .u32 n)
{{
.reg .pred %p<10>;
.reg .f32 %f<20>;
.reg .b16 %h<8>;
.reg .b32 %r<30>;
.reg .b64 %rd<40>;
.shared .align 16 .b8 tile[1024];
"""
)

START = """
ld.param.u64 %rd1, [a];
ld.param.u64 %rd2, [b];
ld.param.u32 %r1, [n];
cvta.to.global.u64 %rd3, %rd1;
cvta.to.global.u64 %rd4, %rd2;
mov.u32 %r2, %tid.x;
mul.wide.u32 %rd5, %r2, 16;
add.s64 %rd6, %rd3, %rd5;
add.s64 %rd7, %rd4, %rd5;
"""


@dataclass(frozen=True)
class Twin:
    """`find` in the text after becomes `replace`."""

    name: str
    find: str
    replace: str
    silent: bool = False


@dataclass(frozen=True)
class Story:
    name: str
    before: str
    after: str
    twins: tuple[Twin, ...]
    claims: tuple[Claim, ...] = ()
    assumptions: tuple[str, ...] = ()
    assume: tuple[str, ...] = ()  # allowed beside the default
    pointer: str = ""

    def texts(self) -> tuple[str, str]:
        return self.text(self.before), self.text(self.after)

    def text(self, body: str) -> str:
        return HEAD.format(pointer=self.pointer) + START + body + "ret;\n}\n"

    def twin(self, twin: Twin) -> str:
        assert twin.find in self.after, (self.name, twin.name)
        return self.text(self.after.replace(twin.find, twin.replace, 1))


T = Twin

REMAINDER = Story(
    "a remainder by a power of two is a mask",
    """
ld.global.u64 %rd8, [%rd6];
rem.u64 %rd9, %rd8, 8;
div.u64 %rd10, %rd8, 16;
st.global.u64 [%rd7], %rd9;
st.global.u64 [%rd7+8], %rd10;
""",
    """
ld.global.u64 %rd8, [%rd6];
and.b64 %rd9, %rd8, 7;
shr.u64 %rd10, %rd8, 4;
st.global.u64 [%rd7], %rd9;
st.global.u64 [%rd7+8], %rd10;
""",
    (
        T("another mask", "%rd8, 7", "%rd8, 15"),
        T("or for and", "and.b64", "or.b64"),
        T("the shift is arithmetic", "shr.u64", "shr.s64"),
        T("another shift", "%rd8, 4", "%rd8, 3"),
        T("the wrong register is stored", "[%rd7], %rd9", "[%rd7], %rd8"),
        T("a narrower load", "ld.global.u64 %rd8", "ld.global.u32 %rd8"),
        T("a signed load", "ld.global.u64 %rd8, [%rd6]", "ld.global.s32 %rd8, [%rd6]"),
    ),
)

SPACE = Story(
    "a generic access behind cvta.to.global is global",
    """
ld.f32 %f1, [%rd6];
add.f32 %f2, %f1, %f1;
st.f32 [%rd7+4], %f2;
""",
    """
ld.global.f32 %f1, [%rd6];
add.f32 %f2, %f1, %f1;
st.global.f32 [%rd7+4], %f2;
""",
    (
        T("the load is from shared memory", "ld.global", "ld.shared"),
        T("the store is to shared memory", "st.global", "st.shared"),
        T("the load is from local memory", "ld.global", "ld.local"),
        T("another offset", "[%rd7+4]", "[%rd7+8]"),
        T("a product for a sum", "add.f32", "mul.f32"),
        T("another rounding", "add.f32", "add.rz.f32", silent=True),
        T("subnormals are flushed", "add.f32", "add.ftz.f32", silent=True),
    ),
)

PARAMETERS = Story(
    "pointers of parameters are taken to be global, by name",
    """
add.s64 %rd10, %rd1, %rd5;
add.s64 %rd11, %rd2, %rd5;
ld.u32 %r3, [%rd10+16];
st.u32 [%rd11], %r3;
""",
    """
add.s64 %rd10, %rd1, %rd5;
add.s64 %rd11, %rd2, %rd5;
ld.global.u32 %r3, [%rd10+16];
st.global.u32 [%rd11], %r3;
""",
    (
        T("shared memory", "st.global", "st.shared"),
        T("the other pointer", "[%rd10+16]", "[%rd11+16]"),
        T("sixteen bits", "ld.global.u32 %r3", "ld.global.u16 %r3"),
    ),
)

BYPASS = Story(
    "a division of small numbers is done in 32 bits",
    """
ld.global.u64 %rd8, [%rd6];
ld.global.u64 %rd9, [%rd6+8];
div.u64 %rd10, %rd8, %rd9;
rem.u64 %rd11, %rd8, %rd9;
st.global.u64 [%rd7], %rd10;
st.global.u64 [%rd7+8], %rd11;
""",
    """
ld.global.u64 %rd8, [%rd6];
ld.global.u64 %rd9, [%rd6+8];
or.b64 %rd12, %rd8, %rd9;
shr.u64 %rd12, %rd12, 32;
setp.ne.u64 %p1, %rd12, 0;
@%p1 bra SLOW;
cvt.u32.u64 %r3, %rd8;
cvt.u32.u64 %r4, %rd9;
div.u32 %r5, %r3, %r4;
rem.u32 %r6, %r3, %r4;
cvt.u64.u32 %rd10, %r5;
cvt.u64.u32 %rd11, %r6;
bra DONE;
SLOW:
div.u64 %rd10, %rd8, %rd9;
rem.u64 %rd11, %rd8, %rd9;
DONE:
st.global.u64 [%rd7], %rd10;
st.global.u64 [%rd7+8], %rd11;
""",
    (
        T("the test is turned round", "setp.ne", "setp.eq"),
        T("the branch is turned round", "@%p1 bra", "@!%p1 bra"),
        T("one operand is not tested", "or.b64 %rd12, %rd8, %rd9", "mov.b64 %rd12, %rd8"),
        T("and for or", "or.b64", "and.b64"),
        T("some bits are not tested", "%rd12, 32;\n", "%rd12, 40;\n"),
        T("operands change places", "div.u32 %r5, %r3, %r4", "div.u32 %r5, %r4, %r3"),
        T("a signed division", "div.u32", "div.s32"),
        T("the result is sign-extended", "cvt.u64.u32 %rd10", "cvt.s64.s32 %rd10"),
        T("the slow side divides signed", "div.u64", "div.s64"),
        T("the slow side is empty", "div.u64 %rd10, %rd8, %rd9;\nrem", "rem"),
        T("no guard", "@%p1 bra SLOW;\n", ""),
        T("the remainder is the quotient", "cvt.u64.u32 %rd11, %r6", "cvt.u64.u32 %rd11, %r5"),
    ),
)

VECTOR = Story(
    "two loads become one of a vector where the pointer is aligned",
    """
ld.global.f32 %f1, [%rd6];
ld.global.f32 %f2, [%rd6+4];
sub.f32 %f3, %f1, %f2;
st.global.f32 [%rd7], %f3;
""",
    """
ld.global.v2.f32 {%f1, %f2}, [%rd6];
sub.f32 %f3, %f1, %f2;
st.global.f32 [%rd7], %f3;
""",
    (
        T("elements change places", "{%f1, %f2}", "{%f2, %f1}"),
        T("not aligned", "[%rd6]", "[%rd6+4]"),
        T("four elements", "v2.f32 {%f1, %f2}", "v4.f32 {%f1, %f2, %f4, %f5}", silent=True),
        T("wider elements", "v2.f32 {%f1, %f2}, [%rd6]", "v2.f64 {%rd20, %rd21}, [%rd6]"),
        T("the other array", "[%rd6]", "[%rd7]"),
        T("one element is dropped", "{%f1, %f2}", "{%f1, _}"),
    ),
    pointer=".ptr .global .align 16",
)

UNALIGNED = Story(
    "a mask aligns what a vector loads",
    """
and.b64 %rd10, %rd6, -8;
ld.global.u32 %r3, [%rd10];
ld.global.u32 %r4, [%rd10+4];
st.global.u32 [%rd7+4], %r4;
st.global.u32 [%rd7], %r3;
""",
    """
and.b64 %rd10, %rd6, -8;
ld.global.v2.u32 {%r3, %r4}, [%rd10];
st.global.u32 [%rd7], %r3;
st.global.u32 [%rd7+4], %r4;
""",
    (
        T(
            "the stores are no vector",
            "ld.global.v2.u32 {%r3, %r4}, [%rd10];\nst.global.u32 [%rd7], %r3;\n"
            "st.global.u32 [%rd7+4], %r4;",
            "ld.global.v2.u32 {%r3, %r4}, [%rd10];\nst.global.v2.u32 [%rd7], {%r3, %r4};",
        ),
        T("a smaller mask", "-8", "-4"),
        T("another mask", "-8", "-16"),
        T("from the unmasked address", "[%rd10]", "[%rd6]"),
        T("stored crosswise", "[%rd7], %r3", "[%rd7], %r4"),
    ),
)

REPEATED = Story(
    "what a thread has loaded it need not load again",
    """
ld.global.u32 %r3, [%rd6];
add.u32 %r5, %r3, 1;
st.global.u32 [%rd6+4], %r5;
ld.global.u32 %r4, [%rd6];
mul.lo.u32 %r6, %r4, 3;
st.global.u32 [%rd6+8], %r6;
""",
    """
ld.global.u32 %r3, [%rd6];
add.u32 %r5, %r3, 1;
st.global.u32 [%rd6+4], %r5;
mul.lo.u32 %r6, %r3, 3;
st.global.u32 [%rd6+8], %r6;
""",
    (
        T("the sum is taken for the load", "%r6, %r3, 3", "%r6, %r5, 3"),
        T("the store hits the load", "[%rd6+4], %r5", "[%rd6], %r5"),
        T("another factor", "%r3, 3", "%r3, 5"),
        T("a store is gone", "st.global.u32 [%rd6+4], %r5;\n", ""),
        T(
            "a store is guarded",
            "st.global.u32 [%rd6+8]",
            "setp.gt.u32 %p1, %r2, 3;\n@%p1 st.global.u32 [%rd6+8]",
        ),
        T("a store is narrower", "st.global.u32 [%rd6+8]", "st.global.u16 [%rd6+8]"),
        T(
            "a store is volatile",
            "st.global.u32 [%rd6+8]",
            "st.volatile.global.u32 [%rd6+8]",
            silent=True,
        ),
        T("a load is volatile", "ld.global.u32 %r3", "ld.volatile.global.u32 %r3", silent=True),
    ),
)

ALIASED = Story(
    "a load over a store that may hit it stays",
    """
ld.global.u32 %r3, [%rd6];
st.global.u32 [%rd7], %r2;
ld.global.u32 %r4, [%rd6];
add.u32 %r5, %r3, %r4;
st.global.u32 [%rd6+4], %r5;
""",
    """
ld.global.u32 %r3, [%rd6];
st.global.u32 [%rd7], %r2;
ld.global.u32 %r4, [%rd6];
add.u32 %r5, %r4, %r3;
st.global.u32 [%rd6+4], %r5;
""",
    (
        T(
            "the second load is gone",
            "ld.global.u32 %r4, [%rd6];\nadd.u32 %r5, %r4, %r3",
            "add.u32 %r5, %r3, %r3",
        ),
        T(
            "the load goes first",
            "st.global.u32 [%rd7], %r2;\nld.global.u32 %r4, [%rd6];",
            "ld.global.u32 %r4, [%rd6];\nst.global.u32 [%rd7], %r2;",
        ),
        T(
            "the store goes first",
            "ld.global.u32 %r3, [%rd6];\nst.global.u32 [%rd7], %r2;",
            "st.global.u32 [%rd7], %r2;\nld.global.u32 %r3, [%rd6];",
        ),
        T(
            "the last store goes up",
            "st.global.u32 [%rd7], %r2;\nld.global.u32 %r4, [%rd6];\n"
            "add.u32 %r5, %r4, %r3;\nst.global.u32 [%rd6+4], %r5;",
            "ld.global.u32 %r4, [%rd6];\nadd.u32 %r5, %r4, %r3;\n"
            "st.global.u32 [%rd6+4], %r5;\nst.global.u32 [%rd7], %r2;",
        ),
        T("the load is .nc", "ld.global.u32 %r4", "ld.global.nc.u32 %r4"),
        T("the value is forwarded", "ld.global.u32 %r4, [%rd6]", "mov.u32 %r4, %r2"),
    ),
)

FORWARDED = Story(
    "a load of what was just stored",
    """
ld.global.u32 %r3, [%rd6];
mul.lo.u32 %r4, %r3, %r3;
st.global.u32 [%rd7], %r4;
ld.global.u32 %r5, [%rd7];
ld.global.u16 %r7, [%rd7+2];
add.u32 %r6, %r5, %r7;
st.global.u32 [%rd7+4], %r6;
""",
    """
ld.global.u32 %r3, [%rd6];
mul.lo.u32 %r4, %r3, %r3;
st.global.u32 [%rd7], %r4;
shr.u32 %r7, %r4, 16;
add.u32 %r6, %r4, %r7;
st.global.u32 [%rd7+4], %r6;
""",
    (
        T("what was there before", "add.u32 %r6, %r4, %r7", "add.u32 %r6, %r3, %r7"),
        T("the lower half", "shr.u32 %r7, %r4, 16", "and.b32 %r7, %r4, 0xffff"),
        T("with the sign", "shr.u32 %r7, %r4, 16", "shr.s32 %r7, %r4, 16"),
        T("the store is gone", "st.global.u32 [%rd7], %r4;\n", ""),
        T("stored elsewhere", "[%rd7], %r4", "[%rd7+8], %r4"),
    ),
)

LOOP = """
setp.eq.u32 %p1, %r1, 0;
@%p1 bra END;
mov.u32 %r3, 0;
mov.u32 %r4, 7;
"""

HOISTED = Story(
    "a load that does not change is made before the loop, behind its test",
    LOOP
    + """LOOP:
ld.global.u32 %r5, [%rd6];
mad.lo.u32 %r4, %r4, %r5, %r3;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p2, %r3, %r1;
@%p2 bra LOOP;
st.global.u32 [%rd7+4], %r4;
END:
""",
    LOOP
    + """ld.global.u32 %r5, [%rd6];
LOOP:
mad.lo.u32 %r4, %r4, %r5, %r3;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p2, %r3, %r1;
@%p2 bra LOOP;
st.global.u32 [%rd7+4], %r4;
END:
""",
    (
        T(
            "before the test",
            LOOP + "ld.global.u32 %r5, [%rd6];",
            "ld.global.u32 %r5, [%rd6];" + LOOP,
        ),
        T("another address", "[%rd6]", "[%rd6+4]"),
        T(
            "the loop changes it",
            "add.u32 %r3, %r3, 1;",
            "add.u32 %r3, %r3, 1;\nadd.u32 %r5, %r5, 1;",
        ),
        T("one more iteration", "setp.lt.u32 %p2", "setp.le.u32 %p2"),
        T("a signed test", "setp.lt.u32 %p2", "setp.lt.s32 %p2", silent=True),
        T("steps of two", "%r3, %r3, 1", "%r3, %r3, 2"),
        T("a loop that ends at once", "@%p2 bra LOOP", "@!%p2 bra LOOP"),
        T("the test is gone", "@%p1 bra END;\n", ""),
        T("the test is turned round", "@%p1 bra END;\n", "@!%p1 bra END;\n"),
        T("it starts elsewhere", "mov.u32 %r4, 7", "mov.u32 %r4, 8"),
        T(
            "the store is in the loop",
            "@%p2 bra LOOP;\nst.global.u32 [%rd7+4], %r4;",
            "st.global.u32 [%rd7+4], %r4;\n@%p2 bra LOOP;",
            silent=True,
        ),
        T("no loop", "@%p2 bra LOOP;\n", ""),
    ),
)

STORING = Story(
    "a loop that stores keeps its load",
    LOOP
    + """LOOP:
ld.global.u32 %r5, [%rd6];
add.u32 %r4, %r4, %r5;
st.global.u32 [%rd7], %r4;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p2, %r3, %r1;
@%p2 bra LOOP;
END:
""",
    LOOP
    + """LOOP:
ld.global.u32 %r5, [%rd6];
add.u32 %r4, %r5, %r4;
st.global.u32 [%rd7], %r4;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p2, %r3, %r1;
@%p2 bra LOOP;
END:
""",
    (
        T(
            "it is made before the loop",
            "LOOP:\nld.global.u32 %r5, [%rd6];",
            "ld.global.u32 %r5, [%rd6];\nLOOP:",
        ),
        T(
            "the store is made behind it",
            "st.global.u32 [%rd7], %r4;\nadd.u32 %r3, %r3, 1;\n"
            "setp.lt.u32 %p2, %r3, %r1;\n@%p2 bra LOOP;",
            "add.u32 %r3, %r3, 1;\nsetp.lt.u32 %p2, %r3, %r1;\n@%p2 bra LOOP;\n"
            "st.global.u32 [%rd7], %r4;",
        ),
        T(
            "the store goes over the load",
            "ld.global.u32 %r5, [%rd6];\nadd.u32 %r4, %r5, %r4;\nst.global.u32 [%rd7], %r4;",
            "st.global.u32 [%rd7], %r4;\nld.global.u32 %r5, [%rd6];\nadd.u32 %r4, %r5, %r4;",
        ),
        T("the load is .nc", "ld.global.u32 %r5", "ld.global.nc.u32 %r5"),
    ),
)

MARCH = """
setp.eq.u32 %p1, %r1, 0;
@%p1 bra END;
mov.u32 %r3, 0;
mov.b64 %rd10, %rd6;
mov.u32 %r4, 0;
"""
MARCH_LOOP = """
add.u32 %r8, %r5, %r6;
mad.lo.u32 %r4, %r4, 3, %r8;
add.s64 %rd10, %rd10, 4;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p2, %r3, %r1;
"""
ROTATED = Story(
    "a value is carried into the next iteration",
    MARCH
    + "LOOP:\nld.global.u32 %r5, [%rd10];\nld.global.u32 %r6, [%rd10+4];"
    + MARCH_LOOP
    + "@%p2 bra LOOP;\nst.global.u32 [%rd7], %r4;\nEND:\n",
    MARCH
    + "ld.global.u32 %r20, [%rd10];\nLOOP:\nmov.u32 %r5, %r20;\nld.global.u32 %r6, [%rd10+4];"
    + MARCH_LOOP
    + "mov.u32 %r20, %r6;\n@%p2 bra LOOP;\nst.global.u32 [%rd7], %r4;\nEND:\n",
    (
        T("the wrong value is carried", "mov.u32 %r20, %r6", "mov.u32 %r20, %r5"),
        T("it is not carried", "mov.u32 %r20, %r6;\n", ""),
        T("another value at first", "ld.global.u32 %r20, [%rd10]", "ld.global.u32 %r20, [%rd10+4]"),
        T("nothing at first", "ld.global.u32 %r20, [%rd10];", "mov.u32 %r20, 0;"),
        T(
            "carried too early",
            "mov.u32 %r5, %r20;\nld.global.u32 %r6, [%rd10+4];",
            "ld.global.u32 %r6, [%rd10+4];\nmov.u32 %r20, %r6;\nmov.u32 %r5, %r20;",
        ),
        T("a longer step", "%rd10, %rd10, 4", "%rd10, %rd10, 8"),
        T(
            "a store between",
            "mov.u32 %r20, %r6;",
            "st.global.u32 [%rd7], %r4;\nmov.u32 %r20, %r6;",
            silent=True,
        ),
        T(
            "before the test",
            MARCH + "ld.global.u32 %r20, [%rd10];",
            "ld.global.u32 %r20, [%rd6];" + MARCH,
        ),
    ),
    claims=(Claim("LOOP", "%r20", "ld.global.u32 %v, [%rd10];", "%v", ".reg .b32 %v;"),),
)

STORES = Story(
    "two stores become one of a vector",
    """
ld.global.u32 %r3, [%rd6];
add.u32 %r4, %r3, %r2;
st.global.u32 [%rd7+4], %r4;
st.global.u32 [%rd7], %r3;
""",
    """
ld.global.u32 %r3, [%rd6];
add.u32 %r4, %r3, %r2;
st.global.v2.u32 [%rd7], {%r3, %r4};
""",
    (
        T("values change places", "{%r3, %r4}", "{%r4, %r3}"),
        T("one value twice", "{%r3, %r4}", "{%r3, %r3}"),
        T("another address", "[%rd7]", "[%rd7+8]"),
        T("four values", "v2.u32 [%rd7], {%r3, %r4}", "v4.u32 [%rd7], {%r3, %r4, %r3, %r4}"),
        T("one store is lost", "v2.u32 [%rd7], {%r3, %r4}", "u32 [%rd7], %r3"),
        T(
            "it comes before the load",
            "ld.global.u32 %r3, [%rd6];\nadd.u32 %r4, %r3, %r2;\n"
            "st.global.v2.u32 [%rd7], {%r3, %r4};",
            "st.global.v2.u32 [%rd7], {%r3, %r4};\nld.global.u32 %r3, [%rd6];\n"
            "add.u32 %r4, %r3, %r2;",
        ),
        T("sixteen bits", "v2.u32", "v2.u16"),
    ),
    pointer=".ptr .global .align 16",
)

BARRIER = Story(
    "a tile in shared memory: within a phase a value need not be loaded twice",
    """
mov.u32 %r3, tile;
shl.b32 %r4, %r2, 2;
add.u32 %r5, %r3, %r4;
ld.global.u32 %r6, [%rd6];
st.shared.u32 [%r5], %r6;
bar.sync 0;
xor.b32 %r7, %r4, 4;
add.u32 %r8, %r3, %r7;
ld.shared.u32 %r9, [%r8];
ld.shared.u32 %r10, [%r8];
bar.sync 0;
add.u32 %r11, %r9, %r10;
st.shared.u32 [%r5], %r11;
bar.sync 0;
ld.shared.u32 %r12, [%r8];
st.global.u32 [%rd7], %r12;
""",
    """
mov.u32 %r3, tile;
shl.b32 %r4, %r2, 2;
add.u32 %r5, %r3, %r4;
ld.global.u32 %r6, [%rd6];
st.shared.u32 [%r5], %r6;
bar.sync 0;
xor.b32 %r7, %r4, 4;
add.u32 %r8, %r3, %r7;
ld.shared.u32 %r9, [%r8];
bar.sync 0;
shl.b32 %r11, %r9, 1;
st.shared.u32 [%r5], %r11;
bar.sync 0;
ld.shared.u32 %r12, [%r8];
st.global.u32 [%rd7], %r12;
""",
    (
        T("over the barrier", "ld.shared.u32 %r12, [%r8];\n", "mov.u32 %r12, %r9;\n"),
        T(
            "a barrier is gone",
            "st.shared.u32 [%r5], %r6;\nbar.sync 0;",
            "st.shared.u32 [%r5], %r6;",
        ),
        T("another barrier is gone", "bar.sync 0;\nshl", "shl"),
        T("the last barrier is gone", "bar.sync 0;\nld", "ld"),
        T(
            "a store over a barrier",
            "bar.sync 0;\nshl.b32 %r11, %r9, 1;\nst.shared.u32 [%r5], %r11;",
            "shl.b32 %r11, %r9, 1;\nst.shared.u32 [%r5], %r11;\nbar.sync 0;",
        ),
        T(
            "the first store over a barrier",
            "st.shared.u32 [%r5], %r6;\nbar.sync 0;",
            "bar.sync 0;\nst.shared.u32 [%r5], %r6;",
        ),
        T(
            "a load over a barrier",
            "bar.sync 0;\nxor.b32 %r7, %r4, 4;\nadd.u32 %r8, %r3, %r7;\nld.shared.u32 %r9, [%r8];",
            "xor.b32 %r7, %r4, 4;\nadd.u32 %r8, %r3, %r7;\nld.shared.u32 %r9, [%r8];\nbar.sync 0;",
        ),
        T("another barrier's number", "bar.sync 0;\nshl", "bar.sync 1;\nshl", silent=True),
        T("a barrier for some", "bar.sync 0;\nshl", "bar.sync 0, 32;\nshl", silent=True),
        T("one's own value", "ld.shared.u32 %r9, [%r8]", "ld.shared.u32 %r9, [%r5]"),
        T("a warp's barrier", "bar.sync 0;\nshl", "bar.warp.sync -1;\nshl", silent=True),
    ),
)

GUARDED = Story(
    "a test at run time tells the arrays apart",
    """
ld.global.u32 %r3, [%rd6];
st.global.u32 [%rd7], %r2;
ld.global.u32 %r4, [%rd6];
add.u32 %r5, %r3, %r4;
st.global.u32 [%rd7+4], %r5;
""",
    """
sub.s64 %rd10, %rd7, %rd6;
add.s64 %rd11, %rd10, 3;
setp.le.u64 %p1, %rd11, 6;
@%p1 bra SLOW;
ld.global.u32 %r3, [%rd6];
st.global.u32 [%rd7], %r2;
shl.b32 %r5, %r3, 1;
bra DONE;
SLOW:
ld.global.u32 %r3, [%rd6];
st.global.u32 [%rd7], %r2;
ld.global.u32 %r4, [%rd6];
add.u32 %r5, %r3, %r4;
DONE:
st.global.u32 [%rd7+4], %r5;
""",
    (
        T("the test is turned round", "@%p1 bra", "@!%p1 bra"),
        T("the test is too narrow", "%rd11, 6", "%rd11, 2"),
        T("the test looks elsewhere", "%rd11, %rd10, 3", "%rd11, %rd10, 8"),
        T("no test", "@%p1 bra SLOW;\n", ""),
        T("another distance", "%rd7, %rd6;", "%rd7, %rd5;"),
        T("the fast copy stores less", "st.global.u32 [%rd7], %r2;\nshl", "shl"),
        T(
            "the slow copy is the fast one",
            "ld.global.u32 %r4, [%rd6];\nadd.u32 %r5, %r3, %r4;",
            "add.u32 %r5, %r3, %r3;",
        ),
    ),
)

SELECTED = Story(
    "a guarded store is a branch around it",
    """
ld.global.u32 %r3, [%rd6];
setp.gt.u32 %p1, %r3, %r1;
@%p1 st.global.u32 [%rd7], %r3;
selp.b32 %r4, %r3, %r1, %p1;
st.global.u32 [%rd7+4], %r4;
""",
    """
ld.global.u32 %r3, [%rd6];
setp.gt.u32 %p1, %r3, %r1;
mov.u32 %r4, %r1;
@!%p1 bra SKIP;
st.global.u32 [%rd7], %r3;
mov.u32 %r4, %r3;
SKIP:
st.global.u32 [%rd7+4], %r4;
""",
    (
        T("the other side", "@!%p1 bra", "@%p1 bra"),
        T("a signed comparison", "setp.gt.u32", "setp.gt.s32"),
        T("not strictly", "setp.gt.u32", "setp.ge.u32"),
        T("the skipped value", "mov.u32 %r4, %r1", "mov.u32 %r4, %r2"),
        T(
            "both sides store",
            "@!%p1 bra SKIP;\nst.global.u32 [%rd7], %r3;",
            "st.global.u32 [%rd7], %r3;\n@!%p1 bra SKIP;",
        ),
        T("operands change places", "%p1, %r3, %r1", "%p1, %r1, %r3"),
        T("uniform by word only", "@!%p1 bra SKIP", "@!%p1 bra.uni SKIP", silent=True),
    ),
)

READ_ONLY = Story(
    "what other pointers write is read by .nc, on two assumptions",
    """
ld.global.u32 %r3, [%rd6];
ld.global.u32 %r4, [%rd6+4];
add.u32 %r5, %r3, %r4;
st.global.u32 [%rd7], %r5;
""",
    """
ld.global.nc.u32 %r3, [%rd6];
ld.global.nc.u32 %r4, [%rd6+4];
add.u32 %r5, %r3, %r4;
st.global.u32 [%rd7], %r5;
""",
    (
        T(
            "a load from the array that is written",
            "ld.global.nc.u32 %r3, [%rd6];",
            "ld.global.nc.u32 %r3, [%rd7];",
        ),
        T("another offset", "[%rd6+4]", "[%rd6+8]"),
        T("of one byte", "nc.u32 %r4", "nc.u8 %r4"),
    ),
    assumptions=("no-outside-writer", "no-alias"),
    assume=("no-alias",),
)

WRITTEN = Story(
    "what the kernel writes is not read by .nc",
    """
ld.global.u32 %r3, [%rd6];
st.global.u32 [%rd6+4], %r3;
ld.global.u32 %r4, [%rd6+4];
st.global.u32 [%rd7], %r4;
""",
    """
ld.global.u32 %r3, [%rd6];
st.global.u32 [%rd6+4], %r3;
mov.u32 %r4, %r3;
st.global.u32 [%rd7], %r4;
""",
    (
        T("read by .nc", "mov.u32 %r4, %r3", "ld.global.nc.u32 %r4, [%rd6+4]"),
        T("the first read by .nc", "ld.global.u32 %r3", "ld.global.nc.u32 %r3", silent=True),
        T("another value", "mov.u32 %r4, %r3", "add.u32 %r4, %r3, 1"),
    ),
    assume=("no-alias",),
)

NARROW = Story(
    "products and sums by other instructions",
    """
ld.global.s32 %rd8, [%rd6];
cvt.s64.s32 %rd9, %r1;
mul.lo.s64 %rd10, %rd8, %rd9;
mul.lo.u32 %r5, %r2, 24;
add.u32 %r6, %r5, %r1;
st.global.u64 [%rd7], %rd10;
st.global.u32 [%rd7+8], %r6;
""",
    """
ld.global.u32 %r3, [%rd6];
mul.wide.s32 %rd10, %r3, %r1;
shl.b32 %r4, %r2, 3;
mad.lo.u32 %r6, %r4, 3, %r1;
st.global.u64 [%rd7], %rd10;
st.global.u32 [%rd7+8], %r6;
""",
    (
        T("an unsigned product", "mul.wide.s32", "mul.wide.u32"),
        T("another shift", "%r2, 3;", "%r2, 4;"),
        T("another factor", "%r4, 3, %r1", "%r4, 5, %r1"),
        T("the high half", "mad.lo.u32", "mad.hi.u32"),
        T("another summand", "3, %r1;", "3, %r2;"),
        T("sixteen bits", "ld.global.u32 %r3", "ld.global.s16 %r3"),
        T("stored as 32 bits", "st.global.u64", "st.global.u32"),
    ),
)

ATOMIC = Story(
    "a repeated load beside an atomic",
    """
ld.global.u32 %r3, [%rd6];
ld.global.u32 %r4, [%rd6];
add.u32 %r5, %r3, %r4;
atom.global.add.u32 %r6, [%rd4], %r5;
ld.global.u32 %r7, [%rd6];
add.u32 %r8, %r6, %r7;
st.global.u32 [%rd7+4], %r7;
""",
    """
ld.global.u32 %r3, [%rd6];
add.u32 %r5, %r3, %r3;
atom.global.add.u32 %r6, [%rd4], %r5;
ld.global.u32 %r7, [%rd6];
st.global.u32 [%rd7+4], %r7;
""",
    (
        T("another operation", "atom.global.add", "atom.global.max"),
        T("another operand", "[%rd4], %r5", "[%rd4], %r3"),
        T("another address", "[%rd4]", "[%rd4+4]"),
        T("it is gone", "atom.global.add.u32 %r6, [%rd4], %r5;\n", ""),
        T(
            "it is done twice",
            "atom.global.add.u32 %r6, [%rd4], %r5;\n",
            "atom.global.add.u32 %r6, [%rd4], %r5;\natom.global.add.u32 %r6, [%rd4], %r5;\n",
        ),
        T(
            "no atomic",
            "atom.global.add.u32 %r6, [%rd4], %r5;",
            "ld.global.u32 %r6, [%rd4];\nadd.u32 %r6, %r6, %r5;\nst.global.u32 [%rd4], %r6;",
        ),
        T("another scope", "atom.global.add", "atom.global.cta.add", silent=True),
        T("the load is carried over it", "ld.global.u32 %r7, [%rd6];", "mov.u32 %r7, %r3;"),
        T(
            "a store goes over it",
            "atom.global.add.u32 %r6, [%rd4], %r5;\nld.global.u32 %r7, [%rd6];\n"
            "st.global.u32 [%rd7+4], %r7;",
            "ld.global.u32 %r7, [%rd6];\nst.global.u32 [%rd7+4], %r7;\n"
            "atom.global.add.u32 %r6, [%rd4], %r5;",
        ),
    ),
)

WIDE = Story(
    "one load of 64 bits is two of 32",
    """
ld.global.u32 %r3, [%rd6];
ld.global.u32 %r4, [%rd6+4];
add.u32 %r5, %r3, %r4;
st.global.u32 [%rd7], %r3;
st.global.u32 [%rd7+4], %r5;
""",
    """
ld.global.b64 %rd10, [%rd6];
mov.b64 {%r3, %r4}, %rd10;
add.u32 %r5, %r3, %r4;
mov.b64 %rd11, {%r3, %r5};
st.global.b64 [%rd7], %rd11;
""",
    (
        T("the halves change places", "{%r3, %r4}, %rd10", "{%r4, %r3}, %rd10"),
        T("packed crosswise", "{%r3, %r5}", "{%r5, %r3}"),
        T("from four bytes on", "[%rd6]", "[%rd6+4]"),
        T("to eight bytes on", "[%rd7]", "[%rd7+8]"),
        T("half is stored", "st.global.b64 [%rd7], %rd11", "st.global.b32 [%rd7], %r3"),
    ),
    pointer=".ptr .global .align 8",
)

SHUFFLED = Story(
    "a shuffle of the first text stays, and its result with it",
    """
ld.global.u32 %r3, [%rd6];
shfl.sync.down.b32 %r4, %r3, 1, 31, -1;
rem.u32 %r5, %r4, 4;
st.global.u32 [%rd7], %r5;
""",
    """
ld.global.u32 %r3, [%rd6];
shfl.sync.down.b32 %r4, %r3, 1, 31, -1;
and.b32 %r5, %r4, 3;
st.global.u32 [%rd7], %r5;
""",
    (
        T("another distance", "%r3, 1, 31", "%r3, 2, 31"),
        T("another direction", "down", "up"),
        T("another value", "%r4, %r3, 1", "%r4, %r2, 1"),
        T("it is gone", "shfl.sync.down.b32 %r4, %r3, 1, 31, -1", "mov.b32 %r4, %r3"),
        T(
            "only some lanes",
            "shfl.sync.down.b32 %r4, %r3, 1, 31, -1;",
            "setp.lt.u32 %p1, %r2, 8;\nmov.b32 %r4, %r3;\n"
            "@%p1 shfl.sync.down.b32 %r4, %r3, 1, 31, 0xff;",
        ),
        T(
            "in two places",
            "shfl.sync.down.b32 %r4, %r3, 1, 31, -1;",
            "setp.lt.u32 %p1, %r2, 8;\n@%p1 bra L;\n"
            "shfl.sync.down.b32 %r4, %r3, 1, 31, -1;\nbra M;\nL:\n"
            "shfl.sync.down.b32 %r4, %r3, 1, 31, -1;\nM:",
            silent=True,
        ),
        T("another segment", "31, -1", "0x1f1f, -1", silent=True),
    ),
)

STORIES = (
    REMAINDER, SPACE, PARAMETERS, BYPASS, VECTOR, UNALIGNED, REPEATED, ALIASED, FORWARDED, HOISTED,
    STORING, ROTATED, STORES, BARRIER, GUARDED, SELECTED, READ_ONLY, WRITTEN, NARROW, ATOMIC, WIDE,
    SHUFFLED,
)  # fmt: skip
