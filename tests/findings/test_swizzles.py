"""Advice for tiles that tensor cores read: it knows how their descriptors say that they lie."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.analysis.test_descriptors import FIXED, WGMMA, kernel
from tests.command_line import ptxsw

STORE = """
    mov.u32 %r10, %tid.x;
    shl.b32 %r11, %r10, {shift};
    mov.u32 %r12, tile;
    add.u32 %r13, %r12, %r11;
    st.shared.v4.b32 [%r13], {{%r10, %r10, %r10, %r10}};
    mov.u32 %r1, tile;
    and.b32 %r2, %r1, 262112;
    shr.u32 %r3, %r2, 4;
    cvt.u64.u32 %rd3, %r3;
    or.b64 %rd1, %rd3, {bits};
"""
HIGH = "Copies or tensor cores fix how this tile lies"


def advice(tmp_path: Path, mode: int, shift: int = 7, multiply: str = WGMMA) -> str:
    """For stores of 16 bytes of each lane, 2 ** `shift` bytes apart."""
    before = FIXED + STORE.format(shift=shift, bits=mode << 62 | 64 << 32)
    (tmp_path / "k.ptx").write_text(kernel(before, multiply))
    done = ptxsw("check", tmp_path / "k.ptx", "--select", "bank-conflicts", "--format", "json")
    [finding] = json.loads(done.stdout)["findings"]
    assert finding["measure"].endswith("-way conflict")
    return str(finding["advice"])


def test_a_tile_without_swizzle_shall_have_one(tmp_path: Path) -> None:
    """Chunk 0 of each row, which rows of 128 bytes put into the same banks."""
    assert advice(tmp_path, 0) == (
        f"{HIGH}. Its descriptors say no swizzle. Choose a swizzle mode for it "
        "(`CU_TENSOR_MAP_SWIZZLE_128B` in the tensor map, the same in the descriptor), and index "
        "it by the same permutation: 16-byte chunk c of row r lies at `c ^ (r % 8)`."
    )


@pytest.mark.parametrize(
    ("mode", "row", "rows", "left"),
    [
        (1, 128, "r % 8", ""),
        (2, 64, "r / 2 % 4", ", which leaves 2-way conflicts"),
        (3, 32, "r / 4 % 2", ", which leaves 4-way conflicts"),
    ],
)
def test_a_swizzle_that_descriptors_say_is_that_of_all(
    tmp_path: Path, mode: int, row: int, rows: str, left: str
) -> None:
    assert advice(tmp_path, mode) == (
        f"The descriptors by which tensor cores read `tile` say a swizzle of {row} bytes: index "
        f"this tile by the same permutation{left}: in rows of {row} bytes, 16-byte chunk c of row "
        f"r lies at `c ^ ({rows})`."
    )


def test_where_the_swizzle_does_not_help_lanes_shall(tmp_path: Path) -> None:
    """Rows 8 apart are permuted alike."""
    assert advice(tmp_path, 1, shift=10) == (
        f"{HIGH} (its descriptors say a swizzle of 128 bytes): let 8 lanes one after another "
        "access the 16-byte chunks of one row."
    )


def test_what_is_permuted_already_need_not_be(tmp_path: Path) -> None:
    """By a wrong permutation, say: the second chunk of each row."""
    store, permuted = "st.shared.v4.b32 [%r13]", "xor.b32 %r13, %r13, 16; st.shared.v4.b32 [%r13]"
    before = FIXED + STORE.replace(store, permuted).format(shift=7, bits=1 << 62 | 64 << 32)
    (tmp_path / "k.ptx").write_text(kernel(before))
    done = ptxsw("check", tmp_path / "k.ptx", "--select", "bank-conflicts", "--format", "json")
    [finding] = json.loads(done.stdout)["findings"]
    assert "let 8 lanes" in finding["advice"]


def test_where_descriptors_differ_none_is_told(tmp_path: Path) -> None:
    """The second reads the tile 128 bytes on in another mode."""
    other = f"add.s64 %rd4, %rd3, 8; or.b64 %rd5, %rd4, {2 << 62 | 64 << 32};"
    both = WGMMA + other + WGMMA.replace("%rd1", "%rd5")
    assert "descriptors" not in advice(tmp_path, 1, multiply=both)
