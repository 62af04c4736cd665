"""Arguments of a kernel as words: `3`, `0.5`, `random:1000:f32:7`, `zeros:64:u32+16`, `in.npy`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ptxsw.ptx.patterns import pattern
from ptxsw.verify.contents import DTYPES, full, mixed, pattern_of, spelled

Array = NDArray[Any]

KINDS = ("zeros", "iota", "random", "full", "mixed", "values")
_DATA = pattern(rf"({'|'.join(KINDS)}):(\d+)(?::(\w+))?(?::(\d+))?(?:\+(\d+))?(?:=([-+.,\w]+))?")
_FILE = pattern(r"(.+\.npy)(?:\+(\d+))?")


class Data(Struct, frozen=True):
    """A buffer: `count` elements of a PTX type; the pointer is to element number `first`.

    "zeros"; "iota": 0, 1, 2, …; "random": floats from -1 to 1, integers from 0 to 63, so that
    they can serve as indices; "full": floats with all bits of their mantissas, integers of all
    sizes; "mixed": half of them as "full", the others corners of the type (NaN, infinities, -0,
    subnormals; the least and the largest integers) and `values`; "values": `values` in turn;
    "file": an array as `.npy`. `values` are given by their bits.
    """

    kind: str
    """One of these words."""
    count: int = 0
    """Elements."""
    type: str = "f32"
    """Of an element, a PTX type."""
    seed: int = 0
    """Of "random", "full" and "mixed"."""
    first: int = 0
    """The element to which the pointer leads."""
    path: str = ""
    """Of a "file"."""
    values: tuple[int, ...] = ()
    """By their bits."""

    def __str__(self) -> str:
        ahead = f"+{self.first}" if self.first else ""
        if self.kind == "file":
            return f"{self.path}{ahead}"
        seed = f":{self.seed}" if self.seed else ""
        listed = ",".join(spelled(value, self.type) for value in self.values)
        return f"{self.kind}:{self.count}:{self.type}{seed}{ahead}{listed and '='}{listed}"

    @property
    def bytes(self) -> int:
        return int(self.array().nbytes)

    @property
    def before(self) -> int:
        """Bytes before the pointer."""
        return self.first * int(self.array().itemsize) if self.first else 0

    def array(self) -> Array:
        """Its elements, not to be written to. Raises OSError and ValueError for a bad file."""
        return _array(replace(self, first=0))

    def plain_array(self) -> Array:
        """The same, for reading alone: zeros take no memory, however many."""
        if self.kind != "zeros":
            return self.array()
        return np.broadcast_to(np.zeros((), DTYPES.get(self.type, "u1")), (self.count,))

    def longer(self, before: int, behind: int) -> Data:
        """With so many more elements before the pointer and at the end."""
        return replace(self, count=self.count + before + behind, first=self.first + before)


Argument: TypeAlias = int | float | Data


@lru_cache(maxsize=64)
def _array(data: Data) -> Array:
    dtype = np.dtype(DTYPES.get(data.type, "u1"))
    generator = np.random.default_rng(data.seed)
    if data.kind == "file":
        array: Array = np.load(data.path, allow_pickle=False)
    elif data.kind == "zeros":
        array = np.zeros(data.count, dtype)
    elif data.kind == "iota":
        array = np.arange(data.count).astype(dtype)
    elif data.kind == "values":
        array = bits_array(data.values or (0,), data.count, dtype)
    elif data.kind == "full":
        array = full(generator, data.count, data.type).view(dtype)
    elif data.kind == "mixed":
        array = mixed(generator, data.count, data.type, data.values).view(dtype)
    elif dtype.kind == "f":
        array = (generator.random(data.count, np.float32) * 2 - 1).astype(dtype)
    else:
        array = generator.integers(0, 64, data.count).astype(dtype)
    array.flags.writeable = False
    return array


def bits_array(values: Sequence[int], count: int, dtype: np.dtype[Any]) -> Array:
    """Elements by their bits, in turn."""
    words = np.array(values, np.uint64).astype(f"u{dtype.itemsize}")
    return np.resize(words, count).view(dtype)


def parse_argument(text: str) -> Argument:
    """The argument a word stands for. Raises ValueError with a message for the user."""
    match = _DATA.fullmatch(text)
    if match is not None:
        return _data(text, *match.groups())
    file = _FILE.fullmatch(text)
    if file is not None:
        if not Path(file[1]).is_file():
            raise ValueError(f"{file[1]}: no such file")
        return Data("file", path=file[1], first=int(file[2] or 0))
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not an argument; it can be a number, FILE.npy, zeros:N:TYPE, iota:N:TYPE "
            "or random:N:TYPE:SEED"
        ) from None


def _data(
    text: str, kind: str, count: str, type_: str | None, seed: str | None, first: str | None,
    listed: str | None,
) -> Data:  # fmt: skip
    type_ = type_ or "f32"
    if type_ not in DTYPES:
        raise ValueError(f"{text}: no type {type_!r}; available: {', '.join(DTYPES)}")
    if (kind == "values") > (listed is not None):
        raise ValueError(f"{text}: which values? write values:{count}:{type_}=1,2,3")
    try:
        values = tuple(pattern_of(word, type_) for word in listed.split(",")) if listed else ()
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from None
    return Data(kind, int(count), type_, int(seed or 0), int(first or 0), values=values)
