"""Ways to spoil a rewritten text: each yields texts that are wrong, at several places if it can.

They work on the lines that code generation writes; where a scheme writes none of a kind, the
mutator yields nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

Mutator = Callable[[str], Iterator[str]]

SHUFFLE = re.compile(
    r"shfl\.sync\.(?P<way>up|down)\.b32 (?P<dest>[^,]+), (?P<source>[^,]+), (?P<by>\d+), "
    r"(?P<clamp>\d+), (?P<mask>[^;]+);"
)
LANE = re.compile(r"(setp\.(lt|gt)\.or\.u32 [^,]+, %sw_lane, )(\d+)(, [^;]+;)")
PART = re.compile(r"(setp\.ne(?:\.or)?\.b32 %sw_part\d+, (%sw_mask\d+), )-1")
ROWS = re.compile(r"setp\.ne\.or\.b32 (%sw_part\d+), (%sw_mask\d+), -1, %sw_rows;")
WRAP = re.compile(r"(setp\.gt\.u(32|64) %sw_wrap\d+, %sw_idx\d+, )\d+;")
EDGE = re.compile(r"(setp\.(lt|gt)\.u32 %sw_(?:first|last)\d+, %sw_lane, )(\d+);")
FROM = re.compile(r"(add\.s32 %sw_from(m?)\d+, %sw_lane, )(-?\d+);")
FAR = re.compile(r"(selp\.b64 %sw_farm?\d+_\d+, )(-?\d+), (-?\d+), ")
HALO = re.compile(r"(\n\s*)@(%sw_\w+) (ld\.global\S* %sw_beyond\d+, \[[^\]]+\]);")
FIT = re.compile(r"and\.pred (%sw_halo\d+), (%sw_\w+), %sw_fit\d+;")
SELECT = re.compile(r"(selp\.b\d+ [^,]+, )([^,]+), ([^,]+), (%sw_\w+;)")
EARLY = re.compile(r"(ld\.global\S* %sw_early\d+, \[%\w+)(?:\+(-?\d+))?\];")
BRANCH = re.compile(r"@(%sw_\w+) bra (\$sw_slow\d+);")
BALLOT = re.compile(r"vote\.sync\.ballot\.b32 (%sw_mask\d+), (%sw_in\d+), -1;")
ANY = re.compile(r"vote\.sync\.any(\.pred %sw_go\d+)")
BAD = re.compile(r"vote\.sync\.any\.pred (%sw_bad\d+), [^;]+;")
UNDER = re.compile(r"@%sw_in\d+ ((\w+)[^;\n]*;)")
KEPT = re.compile(r"mov\.b32 (%sw_(?:src|keep)\d+), (%f\d+);")
ANY_SHUFFLE = re.compile(r"shfl\.sync\.\w+\.b32 [^,]+, (%sw_\w+), ")
SLOW = re.compile(r"\$sw_slow\d+:.*?\$sw_done\d+:", re.DOTALL)
COPY = re.compile(r"mov\.b32 (%sw_src\d+), ([^;]+);")
LOAD = re.compile(r"^\s*ld\.global\.\S+\s+(%\w+), \[")
ANY_LOAD = re.compile(r"^\s*ld\.\S+\.f32\s+(%\w+), \[")


def _each(
    pattern: re.Pattern[str], text: str, new: Callable[[re.Match[str]], str]
) -> Iterator[str]:
    for found in pattern.finditer(text):
        yield text[: found.start()] + new(found) + text[found.end() :]


def _shuffle(found: re.Match[str], **changes: str) -> str:
    parts = {**found.groupdict(), **changes}
    return "shfl.sync.{way}.b32 {dest}, {source}, {by}, {clamp}, {mask};".format(**parts)


def farther(text: str) -> Iterator[str]:
    """delta one more"""
    return _each(SHUFFLE, text, lambda m: _shuffle(m, by=str(int(m["by"]) + 1)))


def nearer(text: str) -> Iterator[str]:
    """delta one less"""
    return _each(SHUFFLE, text, lambda m: _shuffle(m, by=str(int(m["by"]) - 1)))


def swapped(text: str) -> Iterator[str]:
    """up for down"""

    def other(m: re.Match[str]) -> str:
        if m["way"] == "up":
            return _shuffle(m, way="down", clamp="31")
        return _shuffle(m, way="up", clamp="0")

    return _each(SHUFFLE, text, other)


def corner_dropped(text: str) -> Iterator[str]:
    """lanes without a neighbour take a value all the same"""
    return _each(LANE, text, lambda m: m[1] + {"lt": "0", "gt": "31"}[m[2]] + m[4])


def partial_warp_dropped(text: str) -> Iterator[str]:
    """no test that all lanes are here"""
    return _each(PART, text, lambda m: m[1] + m[2])


def block_shape_dropped(text: str) -> Iterator[str]:
    """no test that rows do not wrap"""
    return _each(ROWS, text, lambda m: f"setp.ne.b32 {m[1]}, {m[2]}, -1;")


def overflow_guard_dropped(text: str) -> Iterator[str]:
    """no test that the index does not wrap"""
    return _each(WRAP, text, lambda m: f"{m[1]}{(1 << int(m[2])) - 1};")


def other_row(text: str) -> Iterator[str]:
    """the shuffle takes the value of another load"""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        copy = COPY.search(line)
        if copy is None:
            continue
        earlier = [m[1] for m in map(LOAD.match, lines[:at]) if m is not None]
        parameters = [m[1] for m in map(ANY_LOAD.match, lines[:at]) if m is not None]
        others = [name for name in (*parameters, *earlier) if name != copy[2]]
        if others:
            changed = line.replace(f", {copy[2]};", f", {others[-1]};")
            yield "\n".join([*lines[:at], changed, *lines[at + 1 :]])


def hoisted(text: str) -> Iterator[str]:
    """the shuffle stands before the load of its source"""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        shuffle = SHUFFLE.search(line)
        if shuffle is None:
            continue
        copies = (m[1] if (m := COPY.search(other)) and m[2] != "0" else None for other in lines)
        copy = list(copies).index(shuffle["source"])
        load = next((n for n in range(copy, -1, -1) if LOAD.match(lines[n])), None)
        if load is None:  # a vector
            continue
        asked = [f"activemask.b32 {shuffle['mask']};"] if shuffle["mask"].startswith("%") else []
        moved = [*asked, line]
        yield "\n".join([*lines[:load], *moved, *lines[load:at], *lines[at + 1 :]])


def corner_predicate_dropped(text: str) -> Iterator[str]:
    """the first or last lanes are taken for others, in whatever asks for them"""
    return _each(EDGE, text, lambda m: m[1] + {"lt": "0;", "gt": "31;"}[m[2]])


def rotated_farther(text: str) -> Iterator[str]:
    """a rotation one lane too far"""
    return _each(FROM, text, lambda m: f"{m[1]}{int(m[3]) + (-1 if m[2] else 1)};")


def halo_of_the_other_side(text: str) -> Iterator[str]:
    """the halo is loaded from the other end of the warp"""
    return _each(FAR, text, lambda m: f"{m[1]}{m[3]}, {m[2]}, ")


def halo_one_lane_wider(text: str) -> Iterator[str]:
    """a lane more than is needed makes the halo load"""
    sides_of = {fit[1]: fit[2] for fit in FIT.finditer(text)}
    for found in HALO.finditer(text):
        line, guard, load = found.groups()
        first, last = _lanes(sides_of.get(guard, guard))
        added = [f"setp.eq.u32 %sw_wide, %sw_lane, {first or last};"]
        if guard in sides_of:
            added.append(f"and.pred %sw_wide, %sw_wide, {guard.replace('halo', 'fit')};")
        added += [f"or.pred %sw_wide, %sw_wide, {guard};", f"@%sw_wide {load};"]
        spoilt = text[: found.start()] + line + line.join(added) + text[found.end() :]
        yield spoilt.replace(".reg .pred %sw_", ".reg .pred %sw_wide, %sw_", 1)


def _lanes(sides: str) -> tuple[int, int]:
    """The first lane behind those at the start that make a halo load, and the last one before
    those at the end; 0 where none do."""
    both = re.fullmatch(r"%sw_sides(\d+)_(\d+)", sides)
    if both is not None:
        return int(both[1]), 31 - int(both[2])
    number = int(re.sub(r"\D", "", sides.removeprefix("%sw_")))
    return (number, 0) if "first" in sides else (0, number)


def halo_in_partial_warps(text: str) -> Iterator[str]:
    """the halo is loaded where the warp is not whole"""
    return _each(FIT, text, lambda m: f"mov.pred {m[1]}, {m[2]};")


def arms_swapped(text: str) -> Iterator[str]:
    """what is selected is the other one"""
    return _each(SELECT, text, lambda m: f"{m[1]}{m[3]}, {m[2]}, {m[4]}")


def moved_up_from_elsewhere(text: str) -> Iterator[str]:
    """a load that is made early is that of another address"""
    return _each(EARLY, text, lambda m: f"{m[1]}+{int(m[2] or 0) + 4}];")


def copies_exchanged(text: str) -> Iterator[str]:
    """the slow copy is taken where the warp is whole"""
    return _each(BRANCH, text, lambda m: f"@!{m[1]} bra {m[2]};")


def always_fast(text: str) -> Iterator[str]:
    """the slow copy is never taken"""
    return _each(BRANCH, text, lambda m: "")


def kept_of_other_row(text: str) -> Iterator[str]:
    """what is kept for the shuffles is what another load gave"""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        copy = KEPT.search(line)
        if copy is None:
            continue
        loaded = [m[1] for m in map(LOAD.match, lines[:at]) if m is not None and m[1] != copy[2]]
        if loaded:
            changed = line.replace(f", {copy[2]};", f", {loaded[-1]};")
            yield "\n".join([*lines[:at], changed, *lines[at + 1 :]])


def shuffled_too_early(text: str) -> Iterator[str]:
    """the shuffle stands before what it sends is set"""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        shuffle = ANY_SHUFFLE.search(line)
        if shuffle is None:
            continue
        sets = re.compile(rf"^\s*\w[\w.]* {re.escape(shuffle[1])}, ")
        place = max(n for n in range(at) if sets.match(lines[n]))
        if not any("activemask" in other for other in lines[place:at]):
            yield "\n".join([*lines[:place], line, *lines[place:at], *lines[at + 1 :]])


def slow_store_unguarded(text: str) -> Iterator[str]:
    """a store in the slow copy without its guard"""
    for found in SLOW.finditer(text):
        for store in re.finditer(r"@!?%p\d+ (st\.)", found[0]):
            at = found.start() + store.start()
            yield text[:at] + "st." + text[found.start() + store.end() :]


def slow_load_dropped(text: str) -> Iterator[str]:
    """a load of the slow copy is left out"""
    for found in SLOW.finditer(text):
        for load in re.finditer(r"ld\.global[^;]*;", found[0]):
            at = found.start() + load.start()
            yield text[:at] + text[found.start() + load.end() :]


def all_for_ballot(text: str) -> Iterator[str]:
    """whether all lanes say so, lanes that never existed included"""

    def other(m: re.Match[str]) -> str:
        return f"vote.sync.all.pred %sw_all, {m[2]}, -1; selp.b32 {m[1]}, -1, 0, %sw_all;"

    for found in BALLOT.finditer(text):
        spoilt = text[: found.start()] + other(found) + text[found.end() :]
        yield spoilt.replace(".reg .pred %sw_", ".reg .pred %sw_all, %sw_", 1)


def all_for_any(text: str) -> Iterator[str]:
    """one lane that leaves a uniform loop ends it"""
    return _each(ANY, text, lambda m: f"vote.sync.all{m[1]}")


def wrap_vote_dropped(text: str) -> Iterator[str]:
    """indices of other lanes may wrap"""
    return _each(BAD, text, lambda m: f"setp.ne.b32 {m[1]}, 0, 0;")


def accumulator_unguarded(text: str) -> Iterator[str]:
    """lanes that have left a uniform loop go on adding"""
    for found in UNDER.finditer(text):
        if found[2] not in ("ld", "st"):
            yield text[: found.start()] + found[1] + text[found.end() :]


def access_unguarded(text: str) -> Iterator[str]:
    """lanes that have left a uniform loop go on loading and storing"""
    for found in UNDER.finditer(text):
        if found[2] in ("ld", "st"):
            yield text[: found.start()] + found[1] + text[found.end() :]


MUTATORS: dict[str, Mutator] = {
    m.__name__: m
    for m in (
        farther, nearer, swapped, corner_dropped, partial_warp_dropped, block_shape_dropped,
        overflow_guard_dropped, other_row, hoisted,
    )
}  # fmt: skip
"""For the paper's scheme."""

MORE: dict[str, Mutator] = {
    m.__name__: m
    for m in (
        farther, nearer, swapped, corner_dropped, partial_warp_dropped, block_shape_dropped,
        overflow_guard_dropped, corner_predicate_dropped, rotated_farther,
        kept_of_other_row, shuffled_too_early, halo_of_the_other_side, halo_one_lane_wider,
        halo_in_partial_warps, arms_swapped,
        moved_up_from_elsewhere, copies_exchanged, always_fast, slow_store_unguarded,
        slow_load_dropped, all_for_ballot, all_for_any, wrap_vote_dropped,
        accumulator_unguarded, access_unguarded,
    )
}  # fmt: skip
"""For the other schemes and forms."""
