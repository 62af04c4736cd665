"""Random kernels that load from few places again and again: in rows, vectors, reversed, behind
branches, in loops, through registers that change, with stores and barriers between. They race in
no way, and read only within their array."""

from __future__ import annotations

import random
import re

from tests.shuffle.pairs import Pair

POOL = range(10, 18)  # %f10 to %f17 are loaded into, again and again
SCOPED = re.compile(r"(ld\.global\S* )(%f\d+|%h\d+|%rd\d+)(, \[(%rd\d+)[^;]*;)")
TYPES = {"%f": "f32", "%h": "b16", "%r": "b64"}
STRIDES = (4, 4, 4, 8, 4, 4)
"""Of the bases %rd10 to %rd15, in bytes."""

BASES = """	and.b32 %r10, %r3, -32;
	and.b32 %r11, %r3, 31;
	add.s32 %r12, %r1, %r3;
	sub.s32 %r13, %r1, %r3;
	mad.lo.s32 %r14, %r32, 96, %r3;
	sub.s32 %r15, %r10, %r11;
	mul.wide.u32 %rd10, %r3, 4;
	mul.wide.s32 %rd11, %r12, 4;
	mul.wide.s32 %rd12, %r14, 4;
	mul.wide.u32 %rd13, %r3, 8;
	mul.wide.s32 %rd14, %r13, 4;
	mul.wide.s32 %rd15, %r15, 4;
"""


class Writer:
    """Writes one kernel; everything it does follows from the seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._labels = 0
        self._left = False  # have some threads gone to the end?
        self._lines: list[str] = []

    def pair(self) -> Pair:
        """The kernel, as the right one of a pair."""
        self._lines = [BASES, "setp.lt.u32 %p5, %r3, 20;"]
        for number in range(10, 16):
            self._lines.append(f"add.s64 %rd{number}, %rd{number}, %rd1;")
        for number in POOL:
            self._lines.append(f"mov.f32 %f{number}, 0f{0x3F800000 + number:08X};")
            self._lines.append(f"mov.b64 %rd{number + 8}, {number};")
            self._lines.append(f"mov.u16 %h{number}, {number};")
        for _ in range(self._random.randint(2, 5)):
            self._statement(depth=0)
        self._lines.append("END:")
        return Pair("", "\n".join(self._lines), "", "", "")

    def _statement(self, depth: int) -> None:
        kinds = ["row", "row", "row", "mix"]
        if depth < 2:
            kinds += ["branch", "loop"]
        if depth == 0:
            kinds += ["barrier", "leave"]
        getattr(self, f"_{self._random.choice(kinds)}")(depth)

    # ------------------------------------------------------------ loads

    def _row(self, depth: int) -> None:
        """Loads from one base, and what may stand between them."""
        base = self._random.randrange(len(STRIDES))
        kind = self._random.choice(("f32", "f32", "f32", "u64", "u16", "s8", "v2.f32"))
        for _ in range(self._random.randint(2, 6)):
            self._load(base, kind)
            if self._random.random() < 0.3:
                self._between(base)

    def _mix(self, depth: int) -> None:
        for _ in range(self._random.randint(2, 4)):
            base = self._random.randrange(len(STRIDES))
            self._load(base, self._random.choice(("f32", "u64", "u16", "v2.f32")))

    def _load(self, base: int, kind: str) -> None:
        pick, stride = self._random, STRIDES[base]
        offset = stride * pick.choice((0, 0, 1, -1, 2, -2, 3, 5, -4, 9, -31, 20, 33))
        address = f"%rd{10 + base}"
        if kind in ("u64", "v2.f32"):  # eight bytes have to lie on a multiple of eight
            address = "%rd13"
            offset = offset // stride * 8
        elif pick.random() < 0.1:
            offset += {"f32": 4, "u16": 2, "s8": 1}[kind]
        through = pick.choice(("global", "global.nc", "global.nc"))
        guard = "@%p5 " if pick.random() < 0.05 else ""
        number = pick.choice(POOL)
        register = {
            "f32": f"%f{number}",
            "u64": f"%rd{number + 8}",
            "u16": f"%h{number}",
            "s8": f"%h{number}",
            "v2.f32": f"{{%f{number}, %f{(number - 9) % 8 + 10}}}",
        }[kind]
        self._lines.append(f"{guard}ld.{through}.{kind} {register}, [{address}+{offset}];")
        self._use(number, kind)

    def _use(self, number: int, kind: str) -> None:
        if self._random.random() < 0.15:
            return
        target = self._random.choice((1, 2))
        if kind == "u64":
            self._lines.append(f"cvt.u32.u64 %r16, %rd{number + 8};")
        elif kind in ("u16", "s8"):
            self._lines.append(f"cvt.s32.s16 %r16, %h{number};")
        else:
            self._lines.append(f"fma.rn.f32 %f{target}, %f{target}, 0f3F000000, %f{number};")
            return
        self._lines.append("mov.b32 %r17, %f3;\nxor.b32 %r17, %r17, %r16;\nmov.b32 %f3, %r17;")

    def _between(self, base: int) -> None:
        self._lines.append(
            self._random.choice(
                (
                    f"add.s64 %rd{10 + base}, %rd{10 + base}, {8 * self._random.randint(-9, 9)};",
                    "st.shared.f32 [scratch], %f9;",
                    "not.b32 %r18, %r3;",
                    "st.global.f32 [%rd31], %f9;",
                    "membar.cta;",
                    f"mov.f32 %f{self._random.choice(POOL)}, 0f40000000;",
                )
            )
        )

    # ------------------------------------------------------------ control

    def _condition(self, register: str) -> None:
        side, limit = self._random.choice(
            (("%r3", 40), ("%r3", 7), ("%r1", 5), ("%r4", 16), ("%r32", 2), ("%r3", 2000))
        )
        self._lines.append(f"setp.lt.u32 {register}, {side}, {limit};")

    def _branch(self, depth: int) -> None:
        self._labels += 1
        label = f"OVER{self._labels}"
        self._condition("%p1")
        self._lines.append(f"@{self._random.choice(('', '!'))}%p1 bra {label};")
        self._statement(depth + 1)
        self._lines.append(f"{label}:")

    def _loop(self, depth: int) -> None:
        self._labels += 1
        label, count = f"AGAIN{self._labels}", f"%r{20 + depth}"
        iterations = self._random.choice(("3", "%r1", "%r4", "%r32"))
        guarded = self._random.random() < 0.5
        self._lines.append(f"mov.u32 {count}, 0;\nmin.u32 %r{24 + depth}, {iterations}, 5;")
        if guarded:
            self._lines.append(f"setp.eq.u32 %p2, %r{24 + depth}, 0;\n@%p2 bra DONE{label};")
        self._lines.append(f"{label}:")
        self._statement(depth + 1)
        if self._random.random() < 0.7:
            moved = self._random.randrange(10, 16)
            self._lines.append(f"add.s64 %rd{moved}, %rd{moved}, {self._random.choice((8, 512))};")
        self._lines.append(f"add.s32 {count}, {count}, 1;")
        self._lines.append(f"setp.lt.u32 %p3, {count}, %r{24 + depth};\n@%p3 bra {label};")
        self._lines.append(f"DONE{label}:")

    def _barrier(self, depth: int) -> None:
        self._lines.append("membar.gl;" if self._left else "bar.sync 0;")

    def _leave(self, depth: int) -> None:
        """Some threads go to the end at once; no barrier may follow."""
        self._left = True
        self._condition("%p4")
        self._lines.append(f"@{self._random.choice(('', '!'))}%p4 bra END;")


def in_scopes(text: str, seed: int) -> str:
    """A kernel with some of its loads in scopes of their own, which use the names of registers
    outside for others."""
    pick = random.Random(seed)
    lines = (_scoped(line, pick) for line in text.split("\n"))
    return "\n".join(lines)


def _scoped(line: str, pick: random.Random) -> str:
    load = SCOPED.fullmatch(line)
    if load is None or pick.random() > 0.35:
        return line
    opcode, register, address, base = load.groups()
    kind = TYPES[register[:2]]
    return pick.choice(
        (
            f"{{\n.reg .{kind} %x;\n{opcode}%x{address}\nmov.{kind} {register}, %x;\n}}",
            f"{{\n.reg .b32 %r3;\nmov.u32 %r3, 5;\n{line}\n}}",
            f"{{\n.reg .b64 %rd1;\nadd.s64 %rd1, {base}, 0;\n{line.replace(base, '%rd1')}\n}}",
            f"{{\n.reg .b64 %rd10, %q;\nmov.b64 %rd10, 0;\nmov.b64 %q, %rd10;\n}}\n{line}",
        )
    )
