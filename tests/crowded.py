"""Kernels that take all registers that there are."""

from __future__ import annotations

from tests.heads import head

SUMS = 36  # ptxas has no register left for them


def crowded_kernel(name: str, sums: int = SUMS, rates: int = 400) -> str:
    """Values `x` of a thread, far apart in memory, and as many sums, all held to the end. A rate
    `k`, next to the one before, multiplies two values in each: `vectorize` may join the rates,
    where `k` is aligned."""
    body = [
        f"ld.param.u64 %rd1, [{name}_x];", f"ld.param.u64 %rd2, [{name}_k];",
        f"ld.param.u32 %r1, [{name}_n];", "mov.u32 %r2, %tid.x;", "mul.wide.u32 %rd3, %r2, 8;",
        "add.s64 %rd10, %rd1, %rd3;", "mul.wide.s32 %rd4, %r1, 8;",
    ]  # fmt: skip
    for n in range(sums):
        body += [
            f"ld.global.f64 %fd{n}, [%rd{10 + n}];",
            f"mov.f64 %fd{100 + n}, 0d0000000000000000;",
        ]
        body += [f"add.s64 %rd{11 + n}, %rd{10 + n}, %rd4;"]
    for n in range(rates):
        a, b, to = n * 7 % sums, (n * 11 + 3) % sums, 100 + n % sums
        body += [
            f"ld.global.f64 %fd{1000 + 2 * n}, [%rd2+{8 * n}];",
            f"mul.f64 %fd{1001 + 2 * n}, %fd{1000 + 2 * n}, %fd{a};",
            f"fma.rn.f64 %fd{to}, %fd{1001 + 2 * n}, %fd{b}, %fd{to};",
            f"sub.f64 %fd{to}, %fd{to}, %fd{100 + (n + 1) % sums};",
        ]
    body += [f"st.global.f64 [%rd{10 + n}], %fd{100 + n};" for n in range(sums)]
    lines = "".join(f"\t{line}\n" for line in body)
    return (
        f".visible .entry {name}(\n\t.param .u64 {name}_x,\n\t.param .u64 {name}_k,\n"
        f"\t.param .u32 {name}_n\n)\n"
        "{\n\t.reg .b32 %r<3>;\n\t.reg .b64 %rd<200>;\n"
        f"\t.reg .f64 %fd<{1002 + 2 * rates}>;\n\n{lines}\tret;\n}}\n"
    )  # fmt: skip


def crowded(kernels: int = 1, sums: int = SUMS) -> str:
    """A text of such kernels."""
    each = (crowded_kernel(f"crowded{number}", sums) for number in range(kernels))
    return head("7.0", "sm_80") + "".join(each)
