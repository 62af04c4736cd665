"""The banks of shared memory, and how many passes through them some accesses take.

32 lanes, 4 bytes each, 8 bytes apart     two lanes want each of 16 banks: 2 wavefronts
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache

from ptxsw.analysis.coalescing import LANES, Offsets, touched

Words = tuple[int, ...]
Passes = frozenset[tuple[frozenset[int], int]]
"""Words that are wanted at a time, and how often that occurs."""

BANKS = 32
_WORD = 4  # bytes


def unpermuted(words: Iterable[int]) -> list[int]:
    """The bank of each word, where words lie where they are."""
    return [word % BANKS for word in words]


class Banks:
    """How many words lie in each bank, of which `banks_of` tells. `exclusive`: the bank of a word
    is a sum of its bits by exclusive or (`passes`)."""

    def __init__(
        self,
        banks_of: Callable[[Iterable[int]], list[int]] = unpermuted,
        *,
        exclusive: bool = True,
    ) -> None:
        self._banks_of, self.exclusive = banks_of, exclusive
        self._of_pass: dict[frozenset[int], int] = {}

    def wavefronts(self, addresses: Offsets, size: int) -> int:
        """The wavefronts for `size` bytes at each address."""
        return sum(map(self.most, _served(addresses, size)))

    def most(self, words: Iterable[int]) -> int:
        """How many of some words lie in the bank that has most of them."""
        return _most_alike(self._banks_of(words))

    def of_pass(self, words: frozenset[int]) -> int:
        """The same, once for each set of words."""
        most = self._of_pass.get(words)
        if most is None:
            most = self._of_pass[words] = self.most(words)
        return most

    def total(self, passes: Passes) -> int:
        """The wavefronts of all passes."""
        return sum([often * self.of_pass(words) for words, often in passes])

    def ways(self, addresses: Offsets, size: int) -> int:
        """How many words are wanted of one bank, in the pass with the most for one bank: the ways
        of the conflict, 1 where there is none."""
        return max(map(self.most, _served(addresses, size)))

    def worst(self, addresses: Offsets, size: int) -> tuple[int, ...]:
        """The number of words accessed in each bank, in the pass with the most for one bank."""
        passes = (_counts(self._banks_of(words)) for words in _served(addresses, size))
        return tuple(max(passes, key=max))


@lru_cache(maxsize=1 << 14)
def wavefronts(addresses: Offsets, size: int) -> int:
    """The wavefronts for `size` bytes at each address, without a permutation."""
    return sum(_most_alike(unpermuted(words)) for words in _served(addresses, size))


def _most_alike(banks: list[int]) -> int:
    """How often the most frequent bank occurs."""
    if len(set(banks)) == len(banks):
        return min(1, len(banks))
    return max(_counts(banks))


def _counts(banks: Iterable[int]) -> list[int]:
    """How often each bank occurs."""
    counts = [0] * BANKS
    for bank in banks:
        counts[bank] += 1
    return counts


@lru_cache(maxsize=1 << 14)
def _served(addresses: Offsets, size: int) -> tuple[Words, ...]:
    """The words that are wanted by all lanes that are served at a time: those that want the same
    word together, 8 and 16 bytes by half and quarter warps."""
    together = _together(size)
    return tuple(
        tuple(touched(addresses[first : first + together], size, _WORD))
        for first in range(0, len(addresses), together)
    )


def _together(size: int) -> int:
    """The lanes that are served at a time: the banks give 128 bytes, so to 32 lanes of 4 bytes, 16
    of 8, or 8 of 16."""
    return LANES * _WORD // max(_WORD, size)


def passes(requests: tuple[Offsets, ...], size: int) -> Passes:
    """The words that are wanted at a time, each without those bits that it has in common with
    all of them by exclusive or, and how often that occurs in the requests. The bank of a word is a
    sum of its bits by exclusive or, so that such bits exchange banks and no more."""
    counts = Counter(
        frozenset([word ^ addresses[0] // _WORD for word in words])
        for addresses in requests
        for words in _served(addresses, size)
    )
    return frozenset(counts.items())


# ---------------------------------------------------------------- one request

_STAYS = Banks()


def bank_ways(offsets: Offsets, size: int) -> int:
    """The ways of the bank conflict without a permutation."""
    return _STAYS.ways(offsets, size)


def own_banks(offsets: Offsets, size: int) -> bool:
    """Has each lane that is served at a time banks of its own? Then no two wait for each other,
    not even for one word."""
    together = _together(size)
    for first in range(0, len(offsets), together):
        lanes = offsets[first : first + together]
        banks = [word % BANKS for at in lanes for word in touched((at,), size, _WORD)]
        if len(set(banks)) < len(banks):
            return False
    return True


def contention(offsets: Offsets, size: int) -> int:
    """How many lanes want the same word, at most."""
    words = Counter(word for at in offsets for word in touched((at,), size, _WORD))
    return max(words.values(), default=1)
