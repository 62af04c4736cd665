"""Results as they come: a line of JSON for each item, so that a run can go on where one ended."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

FILE = "journal.jsonl"
_T = TypeVar("_T")


class Head(Struct, frozen=True):
    """Where results come from. `invented`: times are not measured."""

    device: str
    arch: str
    driver: str
    clocks: tuple[int, int]  # MHz, 0 where they are not known
    prepared: str  # the digest of its manifest
    prepared_from: str  # the tree that it was prepared from, and when
    date: str
    machine: str
    versions: str
    invented: bool

    def same_run(self, other: Head) -> bool:
        """May results of both stand in one folder?"""
        return (self.device, self.driver, self.prepared) == (
            other.device, other.driver, other.prepared
        )  # fmt: skip


class Line(Struct, frozen=True, omit_defaults=True):
    """An item of a part: its result, or how it failed."""

    part: str
    job: str
    item: str
    result: Any = None
    failed: str = ""


class Journal:
    """The lines of a folder, of which each is written at once. Raises ValueError for what is no
    journal."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.head: Head | None = None
        self.lines: list[Line] = []
        self._lock = Lock()
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        """A last line that was cut off does not count."""
        first, *others = self.path.read_text().splitlines(keepends=True) or [""]
        whole = [line for line in others if line.endswith("\n")]
        try:
            if first.endswith("\n"):
                self.head = msgspec.json.decode(first, type=Head)
            self.lines = [msgspec.json.decode(line, type=Line) for line in whole]
        except msgspec.DecodeError as error:
            raise ValueError(f"{self.path} is no journal: {error}") from error
        if self.head is None or len(whole) < len(others):
            self.path.write_text("".join([first, *whole]) if self.head is not None else "")

    def begin(self, head: Head) -> None:
        """Raises ValueError where the results that are there are of another run."""
        if self.head is None:
            self.head = head
            self._write(msgspec.to_builtins(head))
        elif not self.head.same_run(head):
            raise ValueError(
                f"{self.path.parent} holds results of {self.head.device}, prepared as "
                f"{self.head.prepared}: name another folder with --out"
            )

    def add(self, line: Line) -> None:
        with self._lock:
            self.lines.append(line)
            self._write(msgspec.to_builtins(line))

    def _write(self, content: Any) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(content) + "\n")

    def done(self, part: str, job: str) -> tuple[str, ...]:
        return tuple(line.item for line in self.lines if (line.part, line.job) == (part, job))

    def results(self, part: str, type_: type[_T]) -> dict[str, _T]:
        """Those of a part, by item."""
        found = (line for line in self.lines if line.part == part and line.result is not None)
        return {line.item: msgspec.convert(line.result, type_) for line in found}

    def failed(self, part: str) -> dict[str, str]:
        """Why items of a part have no result."""
        return {line.item: line.failed for line in self.lines if line.part == part and line.failed}
