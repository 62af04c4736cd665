"""Answers kept from build to build."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from ptxsw.toolchain.cache import Answer, Cache, decode, encode, fingerprint, key

SOME = Answer(b"text", b'{"a": 1}')


def same(one: Answer | None, other: Answer) -> bool:
    return one is not None and (one.text, one.report) == (other.text, other.report)


@pytest.mark.parametrize(
    "answer", [SOME, Answer(None, b"{}"), Answer(b"", b""), Answer(b"\n", b"\n")]
)
def test_round_trip(tmp_path: Path, answer: Answer) -> None:
    cache = Cache(str(tmp_path / "new"))
    assert cache.problem is None and cache.get("a") is None
    cache.put("a", answer)
    assert same(cache.get("a"), answer)
    assert cache.tally().answers == 1
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.ptxsw"]


@pytest.mark.parametrize("damage", [0, 3, 20, -1])
def test_every_damaged_byte_is_noticed_and_repaired(tmp_path: Path, damage: int) -> None:
    cache = Cache(str(tmp_path))
    cache.put("a", SOME)
    path = tmp_path / "a.ptxsw"
    data = bytearray(path.read_bytes())
    data[damage] ^= 1
    path.write_bytes(bytes(data))
    assert cache.get("a") is None
    assert not path.exists()


def test_cut_entries_are_noticed() -> None:
    data = encode(SOME)
    assert all(decode(data[:length]) is None for length in range(len(data)))


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path), limit=3 * len(encode(SOME)))
    for age, name in enumerate("abc"):
        cache.put(name, SOME)
        os.utime(tmp_path / f"{name}.ptxsw", (age, age))
    assert cache.get("a") is not None
    cache.put("d", SOME)
    assert {path.stem for path in tmp_path.iterdir()} == {"a", "c", "d"}


def test_other_peoples_directories_are_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert Cache(str(tmp_path)).problem == "can be written by other users"
    tmp_path.chmod(0o755)
    assert Cache(str(tmp_path)).problem is None
    (tmp_path / "file").write_text("")
    assert Cache(str(tmp_path / "file")).problem == "is not a directory"
    if os.geteuid() == 0:
        os.chown(tmp_path, 12345, -1)
        assert Cache(str(tmp_path)).problem == "belongs to another user"


def test_clear_takes_what_killed_writers_left(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path))
    cache.put("a", SOME)
    (tmp_path / ".b.123").write_bytes(b"half")
    (tmp_path / "notes").write_text("not ours")
    assert cache.clear() == 1
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path))
    (tmp_path / "a.ptxsw").mkdir()
    with pytest.raises(OSError):
        cache.put("a", SOME)
    assert [path.name for path in tmp_path.iterdir()] == ["a.ptxsw"]


def hammer(directory: str) -> bool:
    cache = Cache(directory)
    for _ in range(100):
        cache.put("a", SOME)
        if not same(cache.get("a"), SOME):
            return False
    return True


def test_two_processes_on_one_entry(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2) as pool:
        assert all(pool.map(hammer, [str(tmp_path)] * 2))
    assert len(list(tmp_path.iterdir())) == 1


def test_keys() -> None:
    assert key(b"ab", b"c") != key(b"a", b"bc")
    assert key(b"a") == key(b"a")


def test_fingerprint_changes_with_the_package(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    before = fingerprint(str(tmp_path))
    assert fingerprint(str(tmp_path)) == before
    (tmp_path / "b.py").write_text("")
    assert fingerprint(str(tmp_path)) != before
