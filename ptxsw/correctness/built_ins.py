"""What functions do that compilers leave calls of and that are linked later, in PTX.

    get_global_id(0)          %ctaid.x * %ntid.x + %tid.x, where the host gives no offset
    cexpf(&result, re, im)    any two numbers, stored in `result`, as GCC hands over complex ones

The names of OpenCL's tell the types that they take: `_Z10atomic_incPU3AS1Vi` adds 1 to an `int` in
global memory. A function of a dimension is known where that is a number.
"""

from __future__ import annotations

import re
from functools import cache

from ptxsw.parser import parse
from ptxsw.ptx.ir import Function
from ptxsw.ptx.patterns import pattern

_NAMED = pattern(r"_Z\d+([a-z_]+?)(PU3AS[13]V?[ijx]|PVU3AS[13][ijx])?([ijx]*)")
_HALVES = pattern(r"_Z\d+(vload_half|vstore_half)f?[jmx]P(?:U3AS([13]))?K?Dh")
_COMPLEX = pattern(r"c(?:exp|log|sqrt|pow|a?(?:sin|cos|tan)h?)(f?)|__(?:mul|div)([sd])c3")
_SPACES = {"1": ".global", "3": ".shared", None: ""}
_TYPES = {"i": "s32", "j": "u32", "x": "s64"}
_IDS = {
    "get_local_id": "mov.u32 %a, %tid.{0}; cvt.u64.u32 %r, %a;",
    "get_group_id": "mov.u32 %a, %ctaid.{0}; cvt.u64.u32 %r, %a;",
    "get_local_size": "mov.u32 %a, %ntid.{0}; cvt.u64.u32 %r, %a;",
    "get_num_groups": "mov.u32 %a, %nctaid.{0}; cvt.u64.u32 %r, %a;",
    "get_global_offset": "mov.b64 %r, 0;",
    "get_global_size": "mov.u32 %a, %ntid.{0}; mov.u32 %b, %nctaid.{0}; mul.wide.u32 %r, %a, %b;",
    "get_global_id": (
        "mov.u32 %a, %ntid.{0}; mov.u32 %b, %ctaid.{0}; mul.wide.u32 %r, %b, %a;"
        " mov.u32 %a, %tid.{0}; cvt.u64.u32 %t, %a; add.u64 %r, %r, %t;"
    ),
}
_WAITS = {
    "barrier": "bar.sync 0;", "work_group_barrier": "bar.sync 0;", "mem_fence": "membar.cta;",
    "read_mem_fence": "membar.cta;", "write_mem_fence": "membar.cta;",
}  # fmt: skip
_UPDATES = {
    "add": "add", "sub": "add", "inc": "add", "dec": "add", "xchg": "exch", "min": "min",
    "max": "max", "and": "and", "or": "or", "xor": "xor", "cmpxchg": "cas",
}  # fmt: skip


def takes_no_offset(text: str) -> bool:
    """Does what is known of a text depend on the host, which may give an offset to the numbers of
    work items?"""
    return "get_global_idj" in text or "get_global_offsetj" in text


@cache
def built_in(name: str, numbers: tuple[int | None, ...], size: int) -> Function | None:
    """The function of a mangled name in a module whose addresses have `size` bits, for arguments of
    which some are known numbers; None where it is not known."""
    half = _HALVES.fullmatch(name)
    if half is not None:
        return _half(name, half[1], _SPACES[half[2]], size)
    complex_ = _COMPLEX.fullmatch(name)
    if complex_ is not None:
        width = 32 if "f" in (complex_[1] or "") or complex_[2] == "s" else 64
        return _complex(name, width, len(numbers) - 1, size)
    mangled = _NAMED.fullmatch(name)
    if mangled is None:
        return None
    called, pointer, others = mangled.groups()
    if called in _IDS and len(numbers) == 1 and numbers[0] in (0, 1, 2):
        return _function(name, f"b{size}", "b32", _of_axis(called, "xyz"[numbers[0]], size))
    if called in _WAITS:
        return _function(name, "", "b32", _WAITS[called])
    if pointer is not None and called.startswith(("atomic_", "atom_")):
        return _update(name, called.partition("_")[2], pointer, others, size)
    return None


def _of_axis(called: str, axis: str, size: int) -> str:
    body = _IDS[called].format(axis)
    return (
        f".reg .b32 %a, %b; .reg .b64 %r, %t; .reg .b{size} %w; {body}"
        f" cvt.u{size}.u64 %w, %r; st.param.b{size} [out], %w;"
    )


def _update(name: str, called: str, pointer: str, others: str, size: int) -> Function | None:
    update, space = _UPDATES.get(called), _SPACES[re.findall(r"AS([13])", pointer)[0]]
    kind = _TYPES[pointer[-1]]
    if update is None:
        return None
    width = kind[1:]
    loads = "".join(
        f" .reg .b{width} %v{at}; ld.param.b{width} %v{at}, [in{at + 1}];"
        for at in range(len(others))
    )
    values = ", ".join(f"%v{at}" for at in range(len(others)))
    if called == "sub":
        loads += f" neg.s{width} %v0, %v0;"
    if called in ("inc", "dec"):
        values = "1" if called == "inc" else "-1"
    words = f"b{width}" if update in ("exch", "cas", "and", "or", "xor") else kind
    if update == "add" and kind == "s64":
        words = "u64"
    body = (
        f".reg .b{size} %p; .reg .b{width} %o;{loads} ld.param.b{size} %p, [in0];"
        f" atom{space}.{update}.{words} %o, [%p], {values}; st.param.b{width} [out], %o;"
    )
    given = ", ".join([f"b{size}", *(f"b{width}" for _ in others)])
    return _function(name, f"b{width}", given, body)


def _complex(name: str, width: int, others: int, size: int) -> Function:
    """Of numbers of so many bits: what it computes is left open."""
    clock = "%clock" if width == 32 else "%clock64"
    body = (
        f".reg .b{size} %p; .reg .b{width} %x; ld.param.b{size} %p, [in0];"
        f" mov.u{width} %x, {clock}; st.b{width} [%p], %x;"
        f" mov.u{width} %x, {clock}; st.b{width} [%p+{width // 8}], %x;"
    )
    return _function(name, "", ", ".join([f"b{size}", *[f"b{width}"] * others]), body)


def _half(name: str, called: str, space: str, size: int) -> Function:
    loads = called == "vload_half"
    at = 0 if loads else 1
    place = (
        f".reg .b{size} %i, %p; .reg .b16 %h; .reg .b32 %f; ld.param.b{size} %i, [in{at}];"
        f" ld.param.b{size} %p, [in{at + 1}]; shl.b{size} %i, %i, 1; add.u{size} %p, %p, %i;"
    )
    if loads:
        move = f" ld{space}.b16 %h, [%p]; cvt.f32.f16 %f, %h; st.param.b32 [out], %f;"
        return _function(name, "b32", f"b{size}, b{size}", place + move)
    move = f" ld.param.b32 %f, [in0]; cvt.rn.f16.f32 %h, %f; st{space}.b16 [%p], %h;"
    return _function(name, "", f"b32, b{size}, b{size}", place + move)


def _function(name: str, result: str, given: str, body: str) -> Function:
    returns = f"(.param .{result} out) " if result else ""
    params = ", ".join(f".param .{kind} in{at}" for at, kind in enumerate(given.split(", ")))
    text = f".version 7.0\n.target sm_50\n.func {returns}{name} ({params})\n{{ {body} ret; }}\n"
    return parse(text).functions[0]
