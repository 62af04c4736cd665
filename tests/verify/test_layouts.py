"""Permuted shared memory is proved by `verify`, which reads the permutation off the second text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ptxsw import verify
from ptxsw.changes.options import Options
from ptxsw.changes.permutation import Permutation
from ptxsw.driver.pipeline import optimize
from ptxsw.parser import parse
from ptxsw.verify.proving import layouts
from ptxsw.verify.verdict import Proved

PROGRAMS = Path(__file__).parents[2] / "benchmarks" / "programs" / "ptx"


def permuted(name: str) -> tuple[str, str]:
    text = (PROGRAMS / f"{name}.ptx").read_text()
    made = optimize(text, Options(mode="force", rewrites=("bank-conflicts",))).text
    assert made != text
    return text, made


@pytest.mark.parametrize("name", ["transpose-float", "transpose-double", "reduction-float"])
def test_a_permutation_is_proved(name: str) -> None:
    verdict = verify(*permuted(name))
    assert isinstance(verdict, Proved)


def test_the_permutation_is_read_off_the_text() -> None:
    old, new = (parse(text) for text in permuted("transpose-float"))
    found = tuple(layouts(new, old.kernels[0], new.kernels[0]))
    assert Permutation((4,), 0x78) in found


def test_other_shifts_at_one_access_are_no_permutation() -> None:
    old, new = permuted("transpose-float")
    shift = re.search(r"shr\.u32 %sw_\w+, %\w+, 4;", new)
    assert shift is not None
    verdict = verify(old, new.replace(shift[0], shift[0].replace(", 4;", ", 5;"), 1))
    assert not isinstance(verdict, Proved)


def test_without_shared_memory_nothing_is_tried() -> None:
    text = (PROGRAMS / "rgba.ptx").read_text()
    module = parse(text)
    changed = parse(text.replace("ret;", "shr.u32 %r1, %r1, 5;\nand.b32 %r1, %r1, 124;\nret;"))
    assert not tuple(layouts(changed, module.kernels[0], changed.kernels[0]))
