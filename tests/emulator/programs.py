"""Random small integer programs in PTX: straight lines, branches, loops of any shape."""

from __future__ import annotations

import random

from tests.heads import head

_HEAD = (
    head()
    + """.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n, .param .u32 m)
{
.reg .pred %p<6>;
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
.reg .b32 %thread, %cta;
.shared .b8 tile[4096];
ld.param.u64 %rd1, [p];
ld.param.u64 %rd2, [q];
mov.u32 %thread, %tid.x;
mov.u32 %cta, %ctaid.x;
ld.param.u32 %r7, [n];
"""
)
_TAIL = "$END:\nret;\n}\n"


class Writer:
    """Writes one program; every choice comes from `source`."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.lines: list[str] = []
        self.labels = 0

    def label(self) -> str:
        self.labels += 1
        return f"$L{self.labels}"

    def reg(self) -> str:
        return f"%r{self.source.randrange(6)}"

    def pred(self) -> str:
        return f"%p{self.source.randrange(4)}"

    def operand(self) -> str:
        pick = self.source.random()
        if pick < 0.45:
            return self.reg()
        if pick < 0.75:
            return str(self.source.choice([0, 1, 1, 2, 3, 4, -1, -2, 7, 32]))
        return "%r7" if pick < 0.9 else "%r8"

    def emit(self, text: str, guarded: float = 0.15) -> None:
        if self.source.random() < guarded:
            text = f"@{self.source.choice(['', '!'])}{self.pred()} {text}"
        self.lines.append(text)

    # ------------------------------------------------------------ straight lines

    def compute(self) -> None:
        d, a, b = self.reg(), self.reg(), self.operand()
        kinds = [
            f"add.s32 {d}, {a}, {b};", f"add.s32 {d}, {d}, {b};", f"add.s32 {d}, {d}, 1;",
            f"sub.s32 {d}, {a}, {b};", f"mov.u32 {d}, {b};", f"mov.u32 {d}, %tid.x;",
            f"mul.lo.s32 {d}, {a}, {b};", f"and.b32 {d}, {a}, 3;", f"shl.b32 {d}, {a}, 1;",
            f"min.s32 {d}, {a}, {b};", f"selp.b32 {d}, {a}, {b}, {self.pred()};",
            f"xor.b32 {d}, {a}, {b};", f"shr.s32 {d}, {a}, 1;", f"mad.lo.s32 {d}, {a}, 4, {b};",
            f"add.cc.u32 {d}, {a}, {b};", f"addc.u32 {d}, {a}, 0;",
        ]  # fmt: skip
        self.emit(self.source.choice(kinds))

    def compare(self, pred: str | None = None) -> str:
        pred = pred or self.pred()
        test = self.source.choice(["lt", "ge", "eq", "ne", "gt"])
        left = self.source.choice([self.reg(), self.reg(), "%thread", "%cta"])
        self.lines.append(f"setp.{test}.s32 {pred}, {left}, {self.operand()};")
        return pred

    def access(self) -> None:
        index, offset, base = self.reg(), 4 * self.source.randrange(-2, 3), ""
        extend = self.source.choice(["u32", "s32"])
        kind = self.source.choice(["ld", "ld", "ld", "nc", "st", "st", "shared", "shared_st",
                                   "generic", "generic_st"])  # fmt: skip
        if kind.startswith(("shared", "generic")):
            self.lines += [f"and.b32 {index}, {index}, 255;", f"cvt.u64.u32 %rd3, {index};",
                           "mov.u64 %rd4, tile;"]  # fmt: skip
            if kind.startswith("generic"):
                self.generic()
            self.lines.append("add.s64 %rd5, %rd3, %rd4;")
        else:
            base = "%rd2" if kind == "nc" else "%rd1"
            self.lines += [f"mul.wide.{extend} %rd3, {index}, 4;", f"add.s64 %rd5, {base}, %rd3;"]
        at = f"[%rd5+{offset}]" if offset and base else "[%rd5]"
        text = {
            "ld": f"ld.global.u32 {self.reg()}, {at};",
            "nc": f"ld.global.nc.u32 {self.reg()}, {at};",
            "st": f"st.global.u32 {at}, {self.reg()};",
            "shared": f"ld.shared.u32 {self.reg()}, {at};",
            "shared_st": f"st.shared.u32 {at}, {self.reg()};",
            "generic": f"ld.u32 {self.reg()}, {at};",
            "generic_st": f"st.u32 {at}, {self.reg()};",
        }[kind]
        self.emit(text)

    def generic(self) -> None:
        """A generic address from that of a shared variable, or of global memory, or of either."""
        self.lines.append("cvta.shared.u64 %rd4, %rd4;")
        pick = self.source.random()
        if pick < 0.2:
            self.lines.append("mov.u64 %rd4, %rd1;")
        elif pick < 0.4:
            self.lines.append(f"@{self.pred()} mov.u64 %rd4, %rd1;")
        elif pick < 0.6:
            self.lines += [f"@{self.compare()} bra {(skip := self.label())};",
                           "mov.u64 %rd4, %rd1;", f"{skip}:"]  # fmt: skip

    def neighbours(self) -> None:
        """Two loads that neighbouring lanes may share, if nothing comes between that forbids it."""
        first = self.reg()
        for number in range(2):
            offset = 4 * self.source.randrange(3)
            again = first if self.source.random() < 0.8 else self.reg()
            self.lines += ["mov.u32 %r6, %tid.x;", "cvt.u64.u32 %rd3, %r6;",
                           f"cvt.s64.s32 %rd6, {again};", "add.s64 %rd3, %rd3, %rd6;",
                           "shl.b64 %rd3, %rd3, 2;", "add.s64 %rd5, %rd1, %rd3;",
                           f"ld.global.u32 %r6, [%rd5+{offset}];"]  # fmt: skip
            if number == 0 and self.source.random() < 0.5:
                self.compute() if self.source.random() < 0.5 else self.block(1, [])

    def reread(self) -> None:
        """Two loads of one address, often with a store between, and what they differ by in an
        address: 0 wherever the store missed them."""
        first, second, index = self.reg(), self.reg(), self.reg()
        self.lines += [f"mul.wide.u32 %rd3, {index}, 4;", "add.s64 %rd7, %rd1, %rd3;",
                       f"ld.global.u32 {first}, [%rd7];", f"mov.u32 %r6, {first};"]  # fmt: skip
        pick = self.source.random()
        space = self.source.choice(["global.", "global.", ""])
        if pick < 0.5:
            at = self.source.choice(["", "+4", "+-4", "+128"])
            self.emit(f"st.{space}u32 [%rd7{at}], {self.reg()};", 0.4)
        elif pick < 0.75:
            other, test = self.reg(), self.source.choice(["ne", "lt", "gt", "eq"])
            self.lines += [f"setp.{test}.u32 %p3, {other}, {index};",
                           f"mul.wide.u32 %rd3, {other}, 4;", "add.s64 %rd8, %rd1, %rd3;",
                           f"@%p3 st.{space}u32 [%rd8], {self.reg()};"]  # fmt: skip
        elif pick < 0.9:
            self.block(1, [])
        self.lines += [f"ld.global.u32 {second}, [%rd7];", f"sub.s32 %r6, %r6, {second};",
                       "mul.wide.s32 %rd3, %r6, 4;", "add.s64 %rd5, %rd2, %rd3;",
                       f"ld.global.u32 {first}, [%rd5];"]  # fmt: skip

    def quotient(self) -> None:
        """A row and a column of a flat index by a parameter: divided in 64 bits, or in 32 where
        both operands fit, as compilers do. The parameter is not 0: no quotient by 0 is defined."""
        index, row, column = self.reg(), self.reg(), self.reg()
        wide, both = self.label(), self.label()
        sign = self.source.choice(["u", "s"])
        self.lines += ["or.b32 %r6, %r7, 1;", f"cvt.{sign}64.{sign}32 %rd6, %r6;",
                       f"cvt.{sign}64.{sign}32 %rd7, {index};"]  # fmt: skip
        if self.source.random() < 0.7:
            field = self.source.choice(["shr.u64 %rd8, %rd8, 32;",
                                        "and.b64 %rd8, %rd8, -4294967296;"])  # fmt: skip
            self.lines += ["or.b64 %rd8, %rd7, %rd6;", field, "setp.ne.s64 %p4, %rd8, 0;",
                           f"@%p4 bra {wide};", f"cvt.u32.u64 {row}, %rd7;",
                           f"div.u32 {row}, {row}, %r6;", f"cvt.u64.u32 %rd8, {row};",
                           f"bra {both};", f"{wide}:"]  # fmt: skip
        self.lines += [f"div.{sign}64 %rd8, %rd7, %rd6;", f"{both}:", f"cvt.u32.u64 {row}, %rd8;",
                       "mul.lo.s64 %rd8, %rd8, %rd6;", "sub.s64 %rd8, %rd7, %rd8;",
                       f"cvt.u32.u64 {column}, %rd8;"]  # fmt: skip

    def run(self) -> None:
        pick = self.source.random()
        if pick < 0.12:
            self.neighbours()
        elif pick < 0.22:
            self.reread()
        elif pick < 0.32:
            self.quotient()
        for _ in range(self.source.randrange(1, 5)):
            pick = self.source.random()
            if pick < 0.6:
                self.compute()
            elif pick < 0.75:
                self.compare()
            else:
                self.access()

    # ------------------------------------------------------------ structured flow

    def block(self, depth: int, leave: list[str]) -> None:
        """`leave` are labels of the loops around, to break out to."""
        for _ in range(self.source.randrange(1, 4)):
            pick = self.source.random()
            if depth == 0 or pick < 0.3:
                self.run()
            elif pick < 0.6:
                self.branch(depth, leave)
            elif pick < 0.9:
                self.loop(depth, leave)
            elif pick < 0.94:
                self.lines.append(f"@{self.compare()} ret;")
            elif leave:
                self.lines.append(f"@{self.compare()} bra {self.source.choice(leave)};")

    def branch(self, depth: int, leave: list[str]) -> None:
        other, done = self.label(), self.label()
        self.lines.append(f"@{self.compare()} bra{self.source.choice(['', '.uni'])} {other};")
        self.block(depth - 1, leave)
        if self.source.random() < 0.5:
            self.lines += [f"bra {done};", f"{other}:"]
            self.block(depth - 1, leave)
            self.lines.append(f"{done}:")
        else:
            self.lines.append(f"{other}:")

    def loop(self, depth: int, leave: list[str]) -> None:
        head, done, again = self.label(), self.label(), self.label()
        counter, step = f"%r{self.source.randrange(6)}", self.source.choice([1, 1, 2, -1])
        bound = self.source.choice(["%r7", "%r8", "3", self.reg(), "%thread"])
        rotated = self.source.random() < 0.5
        if self.source.random() < 0.7:
            self.lines.append(f"mov.u32 {counter}, {self.source.choice(['0', '1', '%tid.x'])};")
        test = "lt" if step > 0 else "gt"
        if rotated:
            self.lines += [f"setp.{'ge' if step > 0 else 'le'}.s32 %p4, {counter}, {bound};",
                           f"@%p4 bra {done};"]  # fmt: skip
        self.lines.append(f"{head}:")
        if not rotated:
            self.lines += [f"setp.{test}.s32 %p4, {counter}, {bound};", f"@!%p4 bra {done};"]
        self.block(depth - 1, [*leave, done, again])
        moved = self.source.choice([f"add.s32 {counter}, {counter}, {step};"] * 3 + [
            f"shr.u32 {counter}, {counter}, 1;",
            f"shl.b32 {counter}, {counter}, 1;",
        ])  # fmt: skip
        self.lines += [f"{again}:", moved]
        if rotated:
            self.lines += [f"setp.{test}.s32 %p5, {counter}, {bound};", f"@%p5 bra {head};"]
        else:
            self.lines.append(f"bra {head};")
        self.lines.append(f"{done}:")

    # ------------------------------------------------------------ any flow

    def graph(self) -> None:
        """Blocks that branch anywhere: irreducible flow, self loops, code nobody reaches."""
        names = [self.label() for _ in range(self.source.randrange(3, 8))]
        for name in names:
            self.lines.append(f"{name}:")
            if self.source.random() < 0.85:
                self.run()
            pick = self.source.random()
            target = self.source.choice([*names, *names, "$END"])
            if pick < 0.6:
                guard = f"@{self.source.choice(['', '!'])}{self.compare()} "
                self.lines.append(f"{guard}bra {target};")
            elif pick < 0.7:
                self.lines.append(f"bra {target};")
            elif pick < 0.78:
                self.lines.append(f"@{self.compare()} exit;")
            elif pick < 0.84:
                table, count = self.label(), self.source.choice([2, 4])
                chosen = [self.source.choice(names) for _ in range(count)]
                self.lines += [f"and.b32 %r6, {self.reg()}, {count - 1};",
                               f"{table}: .branchtargets {', '.join(chosen)};"]  # fmt: skip
                self.emit(f"brx.idx %r6, {table};")


def program(seed: int) -> str:
    """The text of the program of a seed."""
    source = random.Random(seed)
    writer = Writer(source)
    for number in range(6):
        if source.random() < 0.8:
            value = source.choice(["0", "1", "%tid.x", "%r7", "%ctaid.x"])
            writer.lines.append(f"mov.u32 %r{number}, {value};")
    writer.lines.append("mov.u32 %r8, 4;" if source.random() < 0.5 else "ld.param.u32 %r8, [m];")
    if source.random() < 0.65:
        writer.block(3, [])
    else:
        writer.graph()
    writer.access()
    writer.reread()
    writer.neighbours()
    return _HEAD + "\n".join(writer.lines) + "\n" + _TAIL
