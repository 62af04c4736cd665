"""Mutants of proved pairs: is any of them proved equal that is not?

    python -m benchmarks.proof_mutants OUT.jsonl [--count 5000] [--seed 0] [--longest 12000]

Each 25 seeds make an equal pair (`benchmarks.equal_pairs`), and each of them changes one place of
the second text: an opcode, modifier, operand, constant, guard, branch or the order. What `verify`
still proves is run in the interpreter under the hostile launches that `verify` invents. One line
for each seed is added to OUT.jsonl; seeds that stand there are not tried again, so it can be
stopped and gone on with. Exit 1 where a run shows that a proof was false.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from benchmarks.equal_pairs import WAYS
from ptxsw.parser import parse
from ptxsw.ptx.errors import PtxError
from ptxsw.ptx.ir import Function, Instruction, Label, Reg, leaves
from ptxsw.verify import proving
from ptxsw.verify.differential import compare
from ptxsw.verify.verdict import inventor

HERE = Path(__file__).parent
LIMIT_SECONDS = 20  # CPU time of a seed
MUTANTS, TRIES = 25, 20  # of a pair; of a place to change
OPCODES = {
    "add": "sub", "sub": "add", "min": "max", "max": "min", "and": "or", "or": "xor", "xor": "and",
    "shl": "shr", "mul": "add", "mad": "sad", "fma": "mad", "neg": "abs", "not": "cnot",
}  # fmt: skip
MODIFIERS = {
    "s32": "u32", "u32": "s32", "s64": "u64", "u64": "s64", "b32": "s32", "lo": "hi", "hi": "lo",
    "rn": "rz", "rz": "rn", "eq": "ne", "ne": "eq", "lt": "le", "le": "lt", "gt": "ge", "ge": "gt",
    "global": "volatile.global", "nc": "", "wide": "lo", "ftz": "", "sat": "", "f32": "b32",
    "and": "or", "up": "down", "down": "up", "idx": "bfly", "ca": "cg", "any": "all",
}  # fmt: skip


@cache
def texts(longest: int) -> tuple[Path, ...]:
    """The texts of which pairs are made: short ones make many mutants a minute."""
    found = sorted(HERE.rglob("ptx/**/*.ptx"))
    return tuple(p for p in found if p.stat().st_size <= longest)


@lru_cache(4)
def pair(path: Path, way: str) -> tuple[str, str] | None:
    """An equal pair that is proved; None where the way makes none of the text."""
    text = path.read_text()
    other = WAYS[way](text, Random(0))
    if other is None:
        return None
    first, second = parse(text), parse(other)
    proofs = (proving.prove(first, second, f.name) for f in first.kernels)
    return (text, other) if all(isinstance(p, proving.Proof) for p in proofs) else None


def mutant(text: str, random: Random) -> tuple[str, str] | None:
    """The text with one place changed, and what was done; None where the place allows nothing."""
    kernel = random.choice(parse(text).kernels)
    instruction = random.choice(kernel.body.instructions)
    ways = [_opcode, _modifier, _register, _register, _number, _guard, _gone, _order, _branch]
    way = random.choice(ways)
    new = way(text, kernel, instruction, random)
    said = text[instruction.start : instruction.end]
    if new is None or new == said:
        return None
    start, end = instruction.span
    if way is _order:
        end = start + len(new)
    return text[:start] + new + text[end:], f"{way.__name__[1:]}: {said} -> {new}"


def _opcode(text: str, _: Function, i: Instruction, __: Random) -> str | None:
    said = text[i.start : i.end]
    new = OPCODES.get(i.opcode)
    return None if new is None else re.sub(rf"\b{i.opcode}\b", new, said, count=1)


def _modifier(text: str, _: Function, i: Instruction, random: Random) -> str | None:
    said = text[i.start : i.end]
    able = [m for m in i.modifiers if m in MODIFIERS]
    if not able:
        return None
    old = random.choice(able)
    new = MODIFIERS[old]
    return re.sub(rf"\.{old}\b", f".{new}" if new else "", said, count=1)


def _register(text: str, kernel: Function, i: Instruction, random: Random) -> str | None:
    said = text[i.start : i.end]
    own = [o for o in leaves(i.operands) if isinstance(o, Reg) and not o.scope]
    if not own:
        return None
    old = random.choice(own)
    body = kernel.body
    used = {o for j in body.instructions for o in leaves(j.operands) if isinstance(o, Reg)}
    like = sorted(o.name for o in used if body.width(o) == body.width(old) and o != old)
    if not like:
        return None
    places = [m for m in re.finditer(re.escape(old.name) + r"(?![\w$])", said)]
    at = random.choice(places) if places else None
    return at and said[: at.start()] + random.choice(like) + said[at.end() :]


def _number(text: str, _: Function, i: Instruction, random: Random) -> str | None:
    said = text[i.start : i.end]
    places = list(re.finditer(r"(?<![\w$%.])-?\d+(?![\w.])", said))
    if not places:
        address = re.search(r"\[(%\w+)\]", said)
        return address and said.replace(address[0], f"[{address[1]}+{random.choice((-4, 4, 8))}]")
    at = random.choice(places)
    value = int(at[0])
    new = random.choice((value + 1, value - 1, 2 * value, -value, 0, value + 32))
    return said[: at.start()] + str(new) + said[at.end() :]


def _guard(text: str, _: Function, i: Instruction, random: Random) -> str | None:
    said = text[i.start : i.end]
    if i.guard is None:
        return None
    if random.random() < 0.5:
        return re.sub(r"^@!?\S+\s+", "", said)
    return said.replace("@!", "@", 1) if i.guard.negated else said.replace("@", "@!", 1)


def _gone(_: str, __: Function, ___: Instruction, ____: Random) -> str | None:
    return ""


def _order(text: str, kernel: Function, i: Instruction, _: Random) -> str | None:
    body = kernel.body.instructions
    at = body.index(i)
    if at + 1 == len(body):
        return None
    other = body[at + 1]
    between = text[i.end : other.start]
    if between.strip():
        return None
    return text[other.start : other.end] + between + text[i.start : i.end]


def _branch(text: str, kernel: Function, i: Instruction, random: Random) -> str | None:
    labels = [s.name for s in kernel.body.others if isinstance(s, Label)]
    if i.opcode != "bra" or len(labels) < 2:
        return None
    said = text[i.start : i.end]
    return re.sub(r"[\w$]+\s*;$", f"{random.choice(labels)};", said)


def judged(seed: int, *, longest: int) -> dict[str, Any]:
    """What became of one seed."""
    random = Random(seed // MUTANTS)
    path, way = random.choice(texts(longest)), random.choice(list(WAYS))
    told: dict[str, Any] = {"seed": seed, "text": str(path.relative_to(HERE)), "way": way}
    made = pair(path, way)
    random = Random(seed)
    tried = (made and mutant(made[1], random) for _ in range(TRIES))
    changed = next((m for m in tried if m), None)
    if made is None or changed is None:
        return told | {"outcome": "none"}
    told["change"] = changed[1]
    first = parse(made[0])
    try:
        second = parse(changed[0])
        names = [f.name for f in second.kernels if f.name in {k.name for k in first.kernels}]
        proofs = [proving.prove(first, second, name) for name in names]
    except (PtxError, ValueError):
        return told | {"outcome": "no PTX"}
    if not proofs or not all(isinstance(p, proving.Proof) for p in proofs):
        return told | {"outcome": "not proved"}
    for name in names:
        function = next(f for f in first.kernels if f.name == name)
        try:  # what the proof assumes, such as that buffers do not overlap, no launch denies
            shown = compare(
                first, second, name, inventor(first, second, function), seeds=(1, 2),
                repair_launch=True, conditions=False,
            )  # fmt: skip
        except PtxError as error:
            return told | {"outcome": "proved, cannot be run", "shown": error.message}
        if shown.difference is not None:
            return told | {"outcome": "FALSE", "shown": shown.difference.what}
        told["launches"] = told.get("launches", 0) + shown.launches
    return told | {"outcome": "proved, and no run differs"}


def _in_time(seed: int, *, longest: int) -> dict[str, Any]:
    """The same, unless it takes too long."""
    signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_SECONDS)
    try:
        return judged(seed, longest=longest)
    except TimeoutError:
        return {"seed": seed, "outcome": "took too long"}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _stop(*_: object) -> NoReturn:
    raise TimeoutError


def _done(out: Path) -> Iterator[dict[str, Any]]:
    if out.exists():
        yield from (json.loads(line) for line in out.read_text().splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description="Look for false proofs among mutants.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=int, default=12_000, help="characters of a text")
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU time of a proof")
    options = parser.parse_args()
    proving.SECONDS = options.seconds
    done = {told["seed"]: told for told in _done(options.out)}
    seed, count = options.seed, Counter(told["outcome"] for told in done.values())
    while count.total() - count["none"] - count["no PTX"] - count["took too long"] < options.count:
        if seed not in done:
            told = _in_time(seed, longest=options.longest)
            count[told["outcome"]] += 1
            with options.out.open("a") as file:
                file.write(json.dumps(told) + "\n")
            if told["outcome"] == "FALSE":
                print(json.dumps(told), flush=True)
        seed += 1
    for outcome, number in count.most_common():
        print(f"{number:6} {outcome}")
    return 1 if count["FALSE"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
