"""Ways to spoil a uniform loop, as those of `mutators`: each yields texts that are wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

Mutator = Callable[[str], Iterator[str]]

LEAVE = re.compile(r"and\.pred (%sw_in\d+), \1, (%(?!sw_in)\w+);")
VOTE = re.compile(r"vote\.sync\.any\.pred (%sw_go\d+), (%sw_in\d+), -1;")
BALLOT = re.compile(
    r"vote\.sync\.ballot\.b32 (?P<mask>%sw_mask\d+), (?P<inside>%sw_in\d+), -1;\s+"
    r"setp\.ne(?P<or>\.or)?\.b32 (?P<part>%sw_part\d+), (?P=mask), -1(?:, (?P<rows>%\w+))?;"
)
START = re.compile(r"(not|mov)\.pred (%sw_in\d+), (%p\d+|-1);")
OUTER = re.compile(r"and\.pred (%sw_in\d+), \1, %sw_in\d+;\n")
OWN = re.compile(r"and\.pred (%sw_own\d+), (%sw_own\d+), %sw_in\d+;")
BOTH = re.compile(r"and\.pred (%sw_both\d+), (%\w+), %sw_in\d+;")
BRANCH = re.compile(r"@!?(%sw_go\d+) bra")
MERGE = re.compile(r"selp\.b32 (%\w+), \1, %sw_old\d+, %sw_in\d+;\n")


def _each(
    pattern: re.Pattern[str], text: str, new: Callable[[re.Match[str]], str]
) -> Iterator[str]:
    for found in pattern.finditer(text):
        changed = text[: found.start()] + new(found) + text[found.end() :]
        if changed != text:
            yield changed


def _unguarded(opcodes: str) -> Mutator:
    pattern = re.compile(rf"@%sw_in\d+ (?=(?:{opcodes})\.)")
    return lambda text: _each(pattern, text, lambda _: "")


def vote_all_for_ballot(text: str) -> Iterator[str]:
    """true in a warp of which some lanes never existed"""

    def asked(m: re.Match[str]) -> str:
        lines = f"vote.sync.all.pred {m['part']}, {m['inside']}, -1; not.pred {m['part']}, "
        rows = f" or.pred {m['part']}, {m['part']}, {m['rows']};" if m["rows"] else ""
        return f"{lines}{m['part']};{rows} mov.b32 {m['mask']}, -1;"

    return _each(BALLOT, text, asked)


def active_for_ballot(text: str) -> Iterator[str]:
    """lanes that have left are active, too"""
    pattern = re.compile(r"vote\.sync\.ballot\.b32 (%sw_mask\d+), %sw_in\d+, -1;")
    return _each(pattern, text, lambda m: f"activemask.b32 {m[1]};")


def comes_back(text: str) -> Iterator[str]:
    """a lane that has left takes part again"""
    return _each(LEAVE, text, lambda m: f"mov.pred {m[1]}, {m[2]};")


def never_leaves(text: str) -> Iterator[str]:
    """who takes part never changes, as long as one lane wants to go on"""
    return _each(LEAVE, text, lambda m: f"or.pred {m[1]}, {m[1]}, {m[2]};")


def leaves_with_the_first(text: str) -> Iterator[str]:
    """a vote of all instead of any"""
    return _each(VOTE, text, lambda m: m[0].replace(".any.", ".all."))


def no_vote(text: str) -> Iterator[str]:
    """each lane for itself"""
    return _each(VOTE, text, lambda m: f"mov.pred {m[1]}, {m[2]};")


def half_a_vote(text: str) -> Iterator[str]:
    """a vote of half a warp"""
    return _each(VOTE, text, lambda m: m[0].replace("-1", "65535"))


def all_take_part(text: str) -> Iterator[str]:
    """lanes that should go past the loop enter it"""
    return _each(START, text, lambda m: f"mov.pred {m[2]}, -1;")


def others_take_part(text: str) -> Iterator[str]:
    """the guard turned round"""

    def turned(m: re.Match[str]) -> str:
        if m[3] == "-1":
            return f"mov.pred {m[2]}, 0;"
        return f"{'mov' if m[1] == 'not' else 'not'}.pred {m[2]}, {m[3]};"

    return _each(START, text, turned)


def forgets_the_outer_loop(text: str) -> Iterator[str]:
    """lanes that have left the loop around enter the inner one"""
    return _each(OUTER, text, lambda _: "\n")


def branch_turned(text: str) -> Iterator[str]:
    """the branch of all lanes goes the other way"""
    return _each(
        BRANCH, text, lambda m: f"@{m[1]} bra" if m[0].startswith("@!") else f"@!{m[1]} bra"
    )


def own_loads_of_all(text: str) -> Iterator[str]:
    """lanes that have left load for themselves"""
    return _each(OWN, text, lambda m: f"mov.pred {m[1]}, {m[2]};")


def own_guard_alone(text: str) -> Iterator[str]:
    """a guard of the original without the predicate"""
    return _each(BOTH, text, lambda m: f"mov.pred {m[1]}, {m[2]};")


def not_merged(text: str) -> Iterator[str]:
    """what lasts is overwritten in lanes that have left"""
    return _each(MERGE, text, lambda _: "\n")


MUTATORS: dict[str, Mutator] = {
    "vote_all_for_ballot": vote_all_for_ballot,
    "active_for_ballot": active_for_ballot,
    "comes_back": comes_back,
    "never_leaves": never_leaves,
    "leaves_with_the_first": leaves_with_the_first,
    "no_vote": no_vote,
    "half_a_vote": half_a_vote,
    "all_take_part": all_take_part,
    "others_take_part": others_take_part,
    "forgets_the_outer_loop": forgets_the_outer_loop,
    "branch_turned": branch_turned,
    "own_loads_of_all": own_loads_of_all,
    "own_guard_alone": own_guard_alone,
    "not_merged": not_merged,
    "load_of_all": _unguarded("ld"),
    "store_of_all": _unguarded("st"),
    "accumulator_of_all": _unguarded("add|fma|mov"),
}
