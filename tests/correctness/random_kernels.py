"""Random kernels that share memory: loops, barriers in some of them, and indices of many kinds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n)
{
	.reg .pred %p<199>; .reg .b32 %r<199>; .reg .b64 %rd<199>;
	.shared .align 16 .b8 tile[65536];
	.shared .align 16 .b8 other[16384];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %ntid.x;
	ld.param.u32 %r3, [n];
	mov.u32 %r4, tile;
	mov.u32 %r5, other;
	and.b32 %r6, %r1, 31;
	shr.u32 %r7, %r1, 5;
	mov.u32 %r8, %ctaid.x;
	ld.param.u64 %rd1, [out];
	mad.lo.u32 %r9, %r8, %r2, %r1;
"""


class Writer:
    """Writes one kernel. `counts` are the registers of the loops around, innermost last."""

    def __init__(self, random: Random, barriers: bool = True) -> None:
        self.random, self.barriers = random, barriers
        self.lines: list[str] = []
        self.counts: list[str] = []
        self.used = 9

    def new(self) -> str:
        self.used += 1
        return f"%r{self.used}"

    def op(self, name: str, *sources: str) -> str:
        target = self.new()
        self.lines.append(f"{name} {target}, {', '.join(sources)};")
        return target

    def test(self, name: str, *sources: str) -> str:
        self.used += 1
        self.lines.append(f"setp.{name} %p{self.used}, {', '.join(sources)};")
        return f"%p{self.used}"

    # ------------------------------------------------------------ values

    def count(self) -> str:
        return self.random.choice(self.counts) if self.counts else "%r3"

    def index(self) -> str:
        op, count = self.op, self.count()
        choices: list[Callable[[], str]] = [
            lambda: "%r1", lambda: "%r1", lambda: "%r1", lambda: "%r6", lambda: "%r7",
            lambda: "0", lambda: count, lambda: "%r3",
            lambda: op("add.u32", "%r1", "1"),
            lambda: op("xor.b32", "%r1", self.random.choice(["1", "16", "32"])),
            lambda: op("add.u32", "%r1", "%r2"),
            lambda: op("add.u32", "%r1", count),
            lambda: op("mad.lo.u32", count, "%r2", "%r1"),
            lambda: op("mad.lo.u32", op("and.b32", count, "1"), "%r2", "%r1"),
            lambda: op("mad.lo.u32", op("and.b32", count, "1"), "256", op("xor.b32", "%r1", "1")),
            lambda: op("mad.lo.u32", op("and.b32", count, "1"), "256", "%r1"),
            lambda: op("sub.u32", op("sub.u32", "%r2", "1"), "%r1"),
            lambda: op("shl.b32", "%r1", "1"),
            lambda: op("add.u32", op("shl.b32", "%r1", "1"), "1"),
            lambda: op("mul.lo.u32", "%r1", count),
            lambda: op("add.u32", "%r1", "%r3"),
            lambda: op("mad.lo.u32", "%r7", "32", "%r6"),
            lambda: op("rem.u32", op("add.u32", "%r1", "1"), "%r2"),
        ]  # fmt: skip
        return self.random.choice(choices)()

    def guard(self) -> str:
        """A predicate that threads need not share, or none."""
        if self.random.random() < 0.5:
            return ""
        count = self.count()
        number = self.random.choice(["1", "16", "32", "%r3", count])
        choices: list[Callable[[], str]] = [
            lambda: self.test("eq.u32", "%r1", "0"),
            lambda: self.test("lt.u32", "%r1", number),
            lambda: self.test("eq.u32", "%r6", "0"),
            lambda: self.test("ge.u32", "%r1", number),
            lambda: self.test("eq.u32", "%r1", count),
            lambda: self.test("eq.u32", self.op("and.b32", count, "3"), "0"),
        ]
        return self.random.choice(choices)()

    def shared_test(self) -> str:
        """A predicate that all threads of a block share."""
        count = self.count()
        choices: list[Callable[[], str]] = [
            lambda: self.test("eq.u32", self.op("and.b32", count, "3"), "0"),
            lambda: self.test("gt.u32", "%r3", "2"),
            lambda: self.test("eq.u32", count, "0"),
            lambda: self.test("eq.u32", "%r8", "0"),
        ]
        return self.random.choice(choices)()

    # ------------------------------------------------------------ statements

    def block(self, depth: int, barriers: bool) -> None:
        kinds = ["access"] * 6 + (["barrier"] * 3 if barriers else [])
        if depth:
            kinds += ["loop", "choice", "arm"] + (["tree", "leave"] if barriers else [])
        for _ in range(self.random.randint(2, 4)):
            getattr(self, self.random.choice(kinds))(depth - 1, barriers)

    def access(self, depth: int, barriers: bool) -> None:
        guard = self.guard()
        index = self.index()
        guard = f"@{guard} " if guard else ""
        kind = self.random.choice(["ld", "ld", "st", "st", "red"])
        if self.random.random() < 0.15:
            self.far(guard, index if self.random.random() < 0.5 else "%r9", kind)
            return
        base = self.random.choice(["%r4", "%r4", "%r5"])
        address = self.op("mad.lo.u32", index, "4", base)
        if index in ("0", "%r6") and self.random.random() < 0.5:
            address = "tile+4" if index == "0" else "other"
        self.touch(guard, "shared", address, kind)

    def far(self, guard: str, index: str, kind: str) -> None:
        number = self.used = self.used + 1
        self.lines.append(f"mul.wide.u32 %rd{number}, {index}, 4;")
        self.lines.append(f"add.s64 %rd{number}, %rd1, %rd{number};")
        self.touch(guard, "global", f"%rd{number}", kind)

    def touch(self, guard: str, space: str, address: str, kind: str) -> None:
        value = self.random.choice(["%r1", "%r1", "7"])
        if kind == "ld":
            self.lines.append(f"{guard}ld.{space}.u32 {self.new()}, [{address}];")
        elif kind == "st":
            self.lines.append(f"{guard}st.{space}.u32 [{address}], {value};")
        else:
            self.lines.append(f"{guard}red.{space}.add.u32 [{address}], 1;")

    def barrier(self, depth: int, barriers: bool) -> None:
        self.lines.append("bar.sync 0;" if self.random.random() < 0.75 else "bar.warp.sync -1;")

    def leave(self, depth: int, barriers: bool) -> None:
        guard = self.guard()
        if guard and self.random.random() < 0.4:
            self.lines.append(f"@{guard} ret;")

    def choice(self, depth: int, barriers: bool) -> None:
        self._arm(self.shared_test(), depth, barriers)

    def arm(self, depth: int, barriers: bool) -> None:
        self._arm(self.guard() or self.shared_test(), depth, False)

    def _arm(self, test: str, depth: int, barriers: bool) -> None:
        self.used += 1
        label = f"OVER{self.used}"
        self.lines.append(f"@!{test} bra {label};")
        self.block(depth, barriers)
        self.lines.append(f"{label}:")

    def loop(self, depth: int, barriers: bool) -> None:
        limit = self.random.choice(["%r3", "%r3", "2", "5", "%r1"])
        barriers = barriers and limit != "%r1"
        count = self.op("mov.u32", "0")
        label = self.used
        top = self.random.random() < 0.5
        self.lines.append(f"LOOP{label}:")
        if top:
            self.lines.append(f"@{self.test('ge.u32', count, limit)} bra OUT{label};")
        self.counts.append(count)
        self.block(depth, barriers)
        self.counts.pop()
        self.lines.append(f"add.u32 {count}, {count}, 1;")
        if top:
            self.lines.append(f"bra LOOP{label};")
        else:
            self.lines.append(f"@{self.test('lt.u32', count, limit)} bra LOOP{label};")
        self.lines.append(f"OUT{label}:")

    def tree(self, depth: int, barriers: bool) -> None:
        """s[t] += s[t + h] for h = ntid / 2, ntid / 4, …, with its barrier, or without."""
        half = self.op("shr.u32", "%r2", "1")
        label = self.used
        self.lines.append(f"LOOP{label}:")
        inside = self.test("lt.u32", "%r1", half)
        mine = self.op("mad.lo.u32", "%r1", "4", "%r4")
        theirs = self.op("mad.lo.u32", half, "4", mine)
        value, own = self.new(), self.new()
        self.lines += [
            f"@{inside} ld.shared.u32 {value}, [{theirs}];",
            f"@{inside} ld.shared.u32 {own}, [{mine}];",
            f"add.u32 {own}, {own}, {value};",
            f"@{inside} st.shared.u32 [{mine}], {own};",
        ]
        if self.random.random() < 0.8:
            self.lines.append("bar.sync 0;")
        self.lines.append(f"shr.u32 {half}, {half}, 1;")
        self.lines.append(f"@{self.test('ne.u32', half, '0')} bra LOOP{label};")


def kernel(random: Random) -> str:
    writer = Writer(random)
    writer.block(2, True)
    return HEAD + "\n".join([*writer.lines, "ret;", "}"])
