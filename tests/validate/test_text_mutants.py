"""Compiled kernels with one line changed: another modifier, a load gone, a store moved, an access
widened. `validate` refuses all; what the interpreter runs differs for most."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from ptxsw.validate import Proved
from tests.validate.test_warp import judged
from tests.verify.programs import original

KERNELS = ("gameoflife", "gradient", "laplacian", "wave13pt")
MODIFIERS = tuple(
    (f"{opcode}.{old}", f"{opcode}.{new}")
    for opcode, old, new in (
        ("mul", "rn.f32", "rz.f32"), ("add", "rn.f32", "rm.f32"), ("sub", "rn.f32", "rp.f32"),
        ("fma", "rn.f32", "rn.ftz.f32"), ("mad", "lo.s32", "hi.s32"), ("mul", "lo.s32", "hi.s32"),
        ("mul", "wide.s32", "wide.u32"), ("setp", "ge.s32", "ge.u32"), ("setp", "lt.s32", "le.s32"),
        ("setp", "eq.s32", "ne.s32"), ("ld", "param.u32", "param.u16"), ("shl", "b32", "b64"),
        ("ld", "global.f32", "volatile.global.f32"), ("st", "global.f32", "volatile.global.f32"),
        ("st", "global.f32", "relaxed.gpu.global.f32"), ("cvta", "to.global", "to.shared"),
    )
)  # fmt: skip

Lines = list[str]


def changed_modifiers(lines: Lines) -> Iterator[Lines]:
    """The first and the last line of each kind."""
    for old, new in MODIFIERS:
        found = [at for at, line in enumerate(lines) if old in line]
        for at in dict.fromkeys((*found[:1], *found[-1:])):
            yield [*lines[:at], lines[at].replace(old, new), *lines[at + 1 :]]


def removed_loads(lines: Lines) -> Iterator[Lines]:
    for at, line in enumerate(lines):
        if "ld.global" in line:
            yield [*lines[:at], *lines[at + 1 :]]


def moved_stores(lines: Lines) -> Iterator[Lines]:
    """Up over the last load, and out of the loop."""
    for at in [n for n, line in enumerate(lines) if "st.global" in line]:
        rest = [*lines[:at], *lines[at + 1 :]]
        load = max((n for n, line in enumerate(lines[:at]) if "ld.global" in line), default=None)
        if load is not None:
            yield [*rest[:load], lines[at], *rest[load:]]
        branch = next((n for n, line in enumerate(rest) if n >= at and "bra" in line), None)
        if branch is not None:
            yield [*rest[: branch + 1], lines[at], *rest[branch + 1 :]]


def widened(lines: Lines) -> Iterator[Lines]:
    """An element becomes two, or the next two bytes come along."""
    declared = lines.index("{") + 1
    for at, line in enumerate(lines):
        load = re.search(r"(ld\.global(?:\.nc)?)\.f32\s+(%f\d+), (\[.*\]);", line)
        store = re.search(r"st\.global\.f32\s+(\[.*\]), (%f\d+);", line)
        if load:
            new = f"{load[1]}.v2.f32 {{{load[2]}, %more}}, {load[3]};"
        elif store:
            new = f"st.global.v2.f32 {store[1]}, {{{store[2]}, {store[2]}}};"
        else:
            continue
        changed = [*lines[:at], new, *lines[at + 1 :]]
        yield [*changed[:declared], ".reg .f32 %more;", *changed[declared:]]


MUTATORS: tuple[Callable[[Lines], Iterator[Lines]], ...] = (
    changed_modifiers, removed_loads, moved_stores, widened,
)  # fmt: skip
MUTANTS = [
    pytest.param(
        name,
        "\n".join(mutant),
        id=f"{name}: {mutator.__name__} {number}",
        marks=[pytest.mark.slow] if number or name not in KERNELS[:2] else [],
    )
    for name in KERNELS
    for mutator in MUTATORS
    for number, mutant in enumerate(mutator(original(name).splitlines()))
]


def test_there_are_a_hundred() -> None:
    assert len(MUTANTS) >= 100


@pytest.mark.parametrize(("name", "mutant"), MUTANTS)
def test_a_mutant_is_refused(name: str, mutant: str) -> None:
    assert mutant != original(name)
    assert not isinstance(judged(original(name), mutant), Proved)
