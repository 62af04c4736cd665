"""Real programs, each changed in one place: an opcode, a modifier, an operand, a guard, a constant,
or the order of two instructions. A seed always makes the same mutant.

What is changed may make no difference: of a mutant that is not named different somebody has to
look. Those that were found to be the same are in `EQUAL`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

from ptxsw.parser import parse
from ptxsw.toolchain.ptxas import AssemblyError, NoPtxas, assemble
from tests.real import FIXTURES, text_of
from tests.verify.differing import Pair
from tests.verify.programs import KERNELGEN, OWN

EQUAL: frozenset[int] = frozenset()
"""Seeds of mutants that do what the program does, found by hand."""

_LONGEST = 30_000  # characters of a text
_STATEMENT = re.compile(
    r"^(?P<before>[ \t]+)(?P<guard>@!?[%\w$]+[ \t]+)?(?P<name>[a-z][\w.:]*)"
    r"(?P<operands>[ \t]+[^;\n]*)?;",
    re.MULTILINE,
)
_OPCODES = [
    {"add", "sub"}, {"and", "or", "xor"}, {"min", "max"}, {"shl", "shr"}, {"mul", "add"},
    {"div", "rem"}, {"popc", "clz"}, {"ex2", "lg2"}, {"sin", "cos"}, {"neg", "abs"}, {"mad", "sad"},
]  # fmt: skip
_MODIFIERS = [
    {"eq", "ne", "lt", "le", "gt", "ge"}, {"s32", "u32"}, {"s64", "u64"}, {"lo", "hi"},
    {"rn", "rz", "rp", "rm"}, {"and", "or", "xor"}, {"up", "down", "bfly", "idx"}, {"rzi", "rni"},
    {"l", "r"}, {"min", "max"}, {"inc", "dec"}, {"ltu", "leu", "gtu", "geu"}, {"any", "all"},
    {"s16", "u16"}, {"s8", "u8"}, {"add", "min"}, {"clamp", "wrap"}, {"equ", "neu"},
]  # fmt: skip
_SIGNED = frozenset({"s16", "u16", "s32", "u32", "s64", "u64"})
_NUMBER = re.compile(r"(?<![\w.%$+])-?\d+\b(?!\.)|(?<=\+)\d+|0f[0-9A-Fa-f]{8}|0d[0-9A-Fa-f]{16}")
_REGISTER = re.compile(r"%[a-z]+\d+")
Match = re.Match[str]


def _swapped(words: list[str], sets: list[set[str]], dice: random.Random) -> str | None:
    """The words with one that has a counterpart replaced by it."""
    able = [(at, kin) for at, word in enumerate(words) for kin in sets if word in kin]
    if not able:
        return None
    at, kin = dice.choice(able)
    words[at] = dice.choice(sorted(kin - {words[at]}))
    return ".".join(words)


def _opcode(match: Match, dice: random.Random, _: str) -> str | None:
    first, *rest = match["name"].split(".")
    changed = _swapped([first], _OPCODES, dice)
    return changed and _written(match, name=".".join([changed, *rest]))


def _modifier(match: Match, dice: random.Random, _: str) -> str | None:
    first, *rest = match["name"].split(".")
    alike = first in ("mov", "add", "sub") or "lo" in rest  # signed or not
    changed = _swapped(rest, [k for k in _MODIFIERS if not (alike and k & _SIGNED)], dice)
    return changed and _written(match, name=f"{first}.{changed}")


def _operand(match: Match, dice: random.Random, text: str) -> str | None:
    """Another register that is read, of the same family, in place of one."""
    operands = match["operands"] or ""
    head, comma, sources = operands.partition(",")
    found = list(_REGISTER.finditer(sources))
    if not found:
        return None
    old = dice.choice(found)
    family = old[0].rstrip("0123456789")
    before = sorted(set(re.findall(re.escape(family) + r"\d+", text[: match.start()])) - {old[0]})
    if not before:
        return None
    changed = sources[: old.start()] + dice.choice(before) + sources[old.end() :]
    return _written(match, operands=head + comma + changed)


def _guard(match: Match, dice: random.Random, text: str) -> str | None:
    if match["guard"] is None:
        return None
    word = match["guard"].strip()
    negated = word.replace("@!", "@") if "!" in word else word.replace("@", "@!")
    other = dice.choice(("", f"{negated} "))
    return _written(match, guard=other)


def _constant(match: Match, dice: random.Random, _: str) -> str | None:
    operands = match["operands"] or ""
    found = list(_NUMBER.finditer(operands))
    if not found:
        return None
    old = dice.choice(found)
    if old[0].startswith(("0f", "0d")):
        new = f"{old[0][:2]}{int(old[0][2:], 16) ^ 1 << dice.choice((0, 20)):0{len(old[0]) - 2}X}"
    else:
        new = str(int(old[0]) + dice.choice((-1, 1, 4)))
    return _written(match, operands=operands[: old.start()] + new + operands[old.end() :])


def _written(match: Match, **changes: str) -> str:
    parts = {**match.groupdict(default=""), **changes}
    return "{before}{guard}{name}{operands};".format(**parts)


_CHANGES: list[Callable[[Match, random.Random, str], str | None]] = [
    _opcode, _modifier, _operand, _guard, _constant,
]  # fmt: skip


def _order(text: str, dice: random.Random) -> str | None:
    """Two instructions that stand one behind the other, exchanged."""
    every = [m for m in _STATEMENT.finditer(text) if m["name"].startswith(("ld.", "st.", "bar"))]
    pairs = [
        (one, two)
        for one, two in pairwise(every)
        if "param" not in one["name"] and not text[one.end() : two.start()].count(":")
    ]
    if not pairs:
        return None
    one, two = dice.choice(pairs)
    return "".join((
        text[: one.start()], two[0], text[one.end() : two.start()], one[0], text[two.end() :],
    ))  # fmt: skip


@cache
def programs() -> tuple[tuple[str, str], ...]:
    """Names and texts of what is changed."""
    paths = [*sorted(KERNELGEN.glob("*.ptx")), *sorted(OWN.glob("*.ptx")), *FIXTURES]
    texts = ((path.stem, text_of(path)) for path in paths)
    return tuple((name, text) for name, text in texts if len(text) < _LONGEST and ".entry" in text)


def mutant(seed: int) -> Pair | None:
    """A program and the same with one change; None where this seed makes none that assembles."""
    dice = random.Random(seed)
    name, text = dice.choice(programs())
    kernels = parse(text, name).kernels
    if not kernels:
        return None
    kernel = dice.choice(kernels)
    low, high = kernel.body_span  # type: ignore[misc]
    body = text[low:high]
    kind = dice.choice([*_CHANGES, None])
    if kind is None:
        changed, what = _order(body, dice), "order"
    else:
        statements = list(_STATEMENT.finditer(body))
        if not statements:
            return None
        match = dice.choice(statements)
        made = kind(match, dice, body)
        what = f"{kind.__name__[1:]}: {match[0].strip()} => {(made or '').strip()}"
        changed = made and body[: match.start()] + made + body[match.end() :]
    if not changed or changed == body:
        return None
    second = text[:low] + changed + text[high:]
    if not _assembles(second):
        return None
    return Pair(f"{seed}: {name} {kernel.name}: {what}", text, second, kernel.name)


def _assembles(text: str) -> bool:
    found = re.search(r"^\.target\s+sm_(\d+)(\w?)", text, re.MULTILINE)
    number, suffix = (int(found[1]), found[2]) if found else (80, "")
    arch = f"sm_{max(number, 75)}{suffix}"  # ptxas 13 makes no code for older ones
    try:
        assemble(text, arch, options=["-O0", "-c"])
    except AssemblyError:
        return False
    except NoPtxas:
        pass
    return True


def mutants(count: int, seed: int = 1) -> Iterator[Pair]:
    """So many mutants, of one seed after the other."""
    made = 0
    while made < count:
        pair = mutant(seed)
        if pair is not None and seed not in EQUAL:
            made += 1
            yield pair
        seed += 1
