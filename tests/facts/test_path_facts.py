"""Questions that come back to themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptxsw.facts.path_facts import PathFact, PathFacts

UNKNOWN = PathFact(0)


class Sums:
    """Each name is worth one more than those that it refers to. `looks` counts how often a name
    was looked into."""

    def __init__(self, refers: Mapping[str, Sequence[str]]) -> None:
        self._refers, self._facts = refers, PathFacts()
        self.looks: dict[str, int] = dict.fromkeys(refers, 0)

    def of(self, name: str) -> int:
        def find() -> PathFact:
            self.looks[name] += 1
            return PathFact(1 + sum(map(self.of, self._refers[name])))

        value: int = self._facts.once((name,), find, UNKNOWN).value
        return value


def test_an_answer_is_kept() -> None:
    sums = Sums({"a": "bb", "b": ""})
    assert [sums.of("a"), sums.of("a"), sums.of("b")] == [3, 3, 1]
    assert sums.looks == {"a": 1, "b": 1}


def test_an_answer_that_missed_another_is_not_kept() -> None:
    """`b` is found without `a` while `a` is looked into. That is not its own answer."""
    sums = Sums({"a": "b", "b": "ac", "c": ""})
    assert sums.of("a") == 3
    assert sums.of("b") == 1 + 3 + 1
    assert sums.looks == {"a": 1, "b": 2, "c": 1}  # `c` met nothing that was missing


def test_an_answer_that_met_only_itself_is_kept_where_others_wait() -> None:
    sums = Sums({"a": "bb", "b": "b"})
    assert sums.of("a") == 3
    assert sums.looks["b"] == 1


def test_many_questions_about_one_another_end() -> None:
    names = [chr(ord("a") + n) for n in range(20)]
    sums = Sums({name: names for name in names})
    assert sums.of("a") > 0
    assert sum(sums.looks.values()) < 1000


def test_a_long_chain_ends() -> None:
    sums = Sums({chr(1000 + n): chr(1001 + n) for n in range(2000)} | {chr(3000): ""})
    assert sums.of(chr(1000)) == 16
    assert sums.of(chr(2999)) == 2
