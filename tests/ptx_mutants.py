"""PTX texts with one to four small faults, as an author or a generator makes them.

    python -m tests.ptx_mutants --count 20000 --seed 1

Each mutant goes through everything that reads kernels, in this process: parse, analyze, check,
optimize, verify, predict and run. What is wrong with it has to be said by an error of our own.
Prints each other exception with the mutant's seed; exit 1 if there was one.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any, NoReturn

import ptxsw
import ptxsw.findings.judge
import ptxsw.verify.verdict
from ptxsw.changes.options import FORMS, SCHEMES
from ptxsw.driver import pipeline, prediction
from ptxsw.driver.checking import check
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.ptx import failures
from ptxsw.ptx.ir import Module
from ptxsw.simt import launch as simulate
from ptxsw.verify import proving
from ptxsw.verify.invented import invent
from ptxsw.verify.runs import placed
from tests.real import CORPUS, FIXTURES, text_of

ROOT = Path(__file__).parents[1]
LIMIT_SECONDS = 5
"""CPU time after which a mutant is left."""
LONGEST = 8_000  # characters of a text: small kernels make many mutants a second
STATEMENT = re.compile(r"^[ \t]*(@!?[%\w$]+[ \t]+)?([a-z][\w.:]*)([ \t]+[^;\n]*)?;", re.MULTILINE)
OPERANDS = [
    "%r1", "%rd1", "%f1", "%fd1", "%p1", "%r99999", "%nothing", "nothing", "%tid.x", "%tid",
    "%clock64", "0", "1", "-1", "31", "64", "0xffffffffffffffff", "-9223372036854775808",
    "18446744073709551615", "99999999999999999999", "0f3F800000", "0d3FF0000000000000", "1.5",
    "[%rd1]", "[%rd1+4]", "[%rd1+-9223372036854775807]", "[0]", "[%r1]", "[%f1+8]", "[nothing]",
    "{%r1, %r2}", "{%f1, %f2, %f3, %f4}", "{%r1}", "{%rd1, _}", "{}", "{{%r1}, %r2}", "(%r1)",
    "%r1|%p1", "_|_", "_", "!%p1", "%r1+4", "%r1.b0", "%rd1.x", "%rd1.hi",
]  # fmt: skip
MODIFIERS = [
    "s32", "u32", "s64", "u64", "b8", "b16", "b32", "b64", "b128", "f16", "f16x2", "f32", "f64",
    "pred", "v2", "v4", "wide", "lo", "hi", "rn", "sat", "ftz", "global", "shared", "local",
    "param", "const", "nc", "volatile", "relaxed", "gpu", "sys", "sync", "add", "cas", "eq", "and",
    "to", "approx", "cc", "uni", "aligned", "x4", "async", "L1::evict_last", "nothing", "s128",
]  # fmt: skip
OPCODES = [
    "add", "sub", "mul", "mad", "fma", "div", "rem", "min", "abs", "neg", "and", "not", "shl",
    "shr", "shf", "bfe", "bfi", "bfind", "brev", "popc", "clz", "prmt", "lop3", "setp", "set",
    "selp", "slct", "mov", "cvt", "cvta", "ld", "st", "ldu", "atom", "red", "shfl", "vote", "match",
    "redux", "elect", "activemask", "bar", "barrier", "membar", "fence", "bra", "brx", "call",
    "ret", "exit", "trap", "prefetch", "isspacep", "cp", "mbarrier", "addc", "subc", "madc",
    "testp", "copysign", "sin", "ex2", "dp4a", "vadd", "vset", "mma", "wmma", "ldmatrix", "tex",
    "alloca", "griddepcontrol", "nanosleep", "discard", "nothing",
]  # fmt: skip
LINES = [
    "bra NOWHERE;", "L1: L1:", ".reg .b32 %r<5>;", ".reg .b64 %rd1;", "{", "}", ".shared .b8 z[4];",
    ".param .b64 nothing;", "bar.sync 99;", "ret.uni;", "@%p1 ret;", "call f;", "exit;",
    '.pragma "nounroll";', '.pragma "used_bytes_mask 3";', ".loc 1 2 3", ";",
]  # fmt: skip


@cache
def texts() -> tuple[str, ...]:
    """Short texts of all compilers, of the benchmarks and of the tests."""
    own = [path for name in ("benchmarks", "tests") for path in (ROOT / name).glob("**/*.ptx")]
    every = map(text_of, dict.fromkeys([*sorted(own), *FIXTURES, *CORPUS]))
    return tuple(text for text in every if len(text) <= LONGEST and ".entry" in text)


def mutant(seed: int) -> tuple[str, str]:
    """A text and the same with some faults, as `seed` says."""
    dice = random.Random(seed)
    text = dice.choice(texts())
    changed = text
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 4))):
        changed = dice.choice(FAULTS)(changed, dice)
    return text, changed


# ---------------------------------------------------------------- faults


def _statement(text: str, dice: random.Random) -> re.Match[str] | None:
    every = list(STATEMENT.finditer(text))
    return dice.choice(every) if every else None


def _operands(match: re.Match[str]) -> list[str]:
    pieces = re.findall(r"(?:[^,\[\](){}]|\[[^\[\]]*\]|\{[^{}]*\}|\([^()]*\))+", match[3] or "")
    return [piece.strip() for piece in pieces]


def _with_operands(text: str, match: re.Match[str], operands: list[str]) -> str:
    line = f"{match[1] or ''}{match[2]} {', '.join(operands)};"
    return text[: match.start()] + "\t" + line + text[match.end() :]


def _of_operands(change: Callable[[list[str], random.Random], None]) -> Callable[..., str]:
    def fault(text: str, dice: random.Random) -> str:
        match = _statement(text, dice)
        operands = [] if match is None else _operands(match)
        if match is None or not operands:
            return text
        change(operands, dice)
        return _with_operands(text, match, operands)

    return fault


def _swap(operands: list[str], dice: random.Random) -> None:
    dice.shuffle(operands)


def _drop(operands: list[str], dice: random.Random) -> None:
    del operands[dice.randrange(len(operands))]


def _repeat(operands: list[str], dice: random.Random) -> None:
    operands.insert(dice.randrange(len(operands) + 1), dice.choice(operands))


def _replace(operands: list[str], dice: random.Random) -> None:
    operands[dice.randrange(len(operands))] = dice.choice(OPERANDS)


def _add(operands: list[str], dice: random.Random) -> None:
    operands.insert(dice.randrange(len(operands) + 1), dice.choice(OPERANDS))


def _bracket(operands: list[str], dice: random.Random) -> None:
    at = dice.randrange(len(operands))
    operands[at] = dice.choice(("[{}]", "{{{}}}", "({})", "!{}", "{}+4", "-{}", "{}|%p1")).format(
        operands[at]
    )


def _borrow(text: str, dice: random.Random) -> str:
    """An operand of another statement: mostly of another width or kind."""
    one, other = _statement(text, dice), _statement(text, dice)
    if one is None or other is None:
        return text
    operands, lent = _operands(one), _operands(other)
    if operands and lent:
        operands[dice.randrange(len(operands))] = dice.choice(lent)
    return _with_operands(text, one, operands)


def _opcode(text: str, dice: random.Random) -> str:
    match = _statement(text, dice)
    if match is None:
        return text
    _, dot, rest = match[2].partition(".")
    return text[: match.start(2)] + dice.choice(OPCODES) + dot + rest + text[match.end(2) :]


def _modifier(text: str, dice: random.Random) -> str:
    match = _statement(text, dice)
    if match is None:
        return text
    words = match[2].split(".")
    at = dice.randrange(len(words) + 1)
    match_kind = dice.randrange(3)
    if match_kind == 0 and at < len(words) and at:
        words[at] = dice.choice(MODIFIERS)
    elif match_kind == 1 and at < len(words) and at:
        del words[at]
    else:
        words.insert(max(at, 1), dice.choice(MODIFIERS))
    return text[: match.start(2)] + ".".join(words) + text[match.end(2) :]


def _guard(text: str, dice: random.Random) -> str:
    match = _statement(text, dice)
    if match is None:
        return text
    guard = dice.choice(("", "@%p1 ", "@!%p1 ", "@%r1 ", "@%p999 "))
    return text[: match.start()] + "\t" + guard + text[match.start(2) :]


def _line(text: str, dice: random.Random) -> str:
    """A line lost, twice, elsewhere, or another one."""
    lines = text.split("\n")
    at, to = dice.randrange(len(lines)), dice.randrange(len(lines))
    kind = dice.randrange(4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(to, lines[at])
    elif kind == 2:
        lines[at], lines[to] = lines[to], lines[at]
    else:
        lines.insert(at, dice.choice(LINES))
    return "\n".join(lines)


def _number(text: str, dice: random.Random) -> str:
    every = list(re.finditer(r"(?<![\w.%$])\d+\b", text))
    if not every:
        return text
    match = dice.choice(every)
    chosen = ("0", "1", "3", "7", "4294967295", "9223372036854775808", "9" * 30, "-1", "x")
    return text[: match.start()] + dice.choice(chosen) + text[match.end() :]


def _declaration(text: str, dice: random.Random) -> str:
    """A declaration lost, of another type or count."""
    every = list(re.finditer(r"\.reg\s+\.(\w+)\s+[^;]*;", text))
    if not every:
        return text
    match = dice.choice(every)
    kind = dice.randrange(3)
    if kind == 0:
        return text[: match.start()] + text[match.end() :]
    if kind == 1:
        return text[: match.start(1)] + dice.choice(MODIFIERS[:14]) + text[match.end(1) :]
    fewer = re.sub(r"<\d+>", f"<{dice.choice((0, 1, 2, 3))}>", match[0])
    return text[: match.start()] + fewer + text[match.end() :]


FAULTS: tuple[Callable[[str, random.Random], str], ...] = (
    *map(_of_operands, (_swap, _drop, _repeat, _replace, _replace, _replace, _add, _bracket)),
    _borrow, _borrow, _opcode, _opcode, _modifier, _modifier, _guard, _line, _number, _declaration,
)  # fmt: skip


# ---------------------------------------------------------------- what reads it


class TooLong(BaseException):
    """A step took more than its time; nothing in between may take it for an error of its own."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Ends what takes longer."""

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _run(module: Module) -> None:
    for function in module.kernels:
        for launch in [*invent(emulate(module, function), wide=False)][:1]:
            values, memory, _ = placed(module, function.name, launch)
            simulate(
                module, function.name, launch.grid, launch.block, values, memory=memory,
                limit=2_000, races=True,
            )  # fmt: skip


def _options(text: str) -> ptxsw.Options:
    """One of the schemes and forms, always the same for a text."""
    dice = random.Random(text)
    scheme, form = dice.choice(SCHEMES), dice.choice(FORMS)
    return ptxsw.Options(mode="force", scheme=scheme, form=form, budget_s=2.0)


STEPS: dict[str, Callable[[str, str], Any]] = {
    "parse": lambda _, new: [f.body for f in parse(new).functions],
    "run": lambda _, new: _run(parse(new)),
    "check": lambda _, new: check(new, ptxas=False),
    "analyze": lambda _, new: pipeline.analyze(new),
    "optimize": lambda _, new: pipeline.optimize(new, _options(new)),
    "predict": lambda _, new: prediction.predict(new, rewrites=False, arch="sm_80"),
    "verify": lambda old, new: ptxsw.verify(old, new, seeds=(1,), launches=()),
}  # fmt: skip


def faults(seed: int) -> Iterator[tuple[str, BaseException]]:
    """The exceptions that are none of ours, each with the step that raised it."""
    old, new = mutant(seed)
    yield from faults_of(old, new)


def faults_of(old: str, new: str) -> Iterator[tuple[str, BaseException]]:
    """The same of a text and its mutant."""
    for name, step in STEPS.items():
        try:
            step(old, new)
        except Exception as error:
            if failures.is_ours(error):
                yield name, error
            if name == "parse":
                return


@contextmanager
def without_tools() -> Iterator[None]:
    """No ptxas, proofs of a second at most, and faults of ours that go through to us."""
    path, seconds = os.environ.get("PATH"), proving.SECONDS
    os.environ["PATH"], proving.SECONDS = "", 1.0
    keep = failures.failure
    holders = [m for m in list(sys.modules.values()) if getattr(m, "failure", None) is keep]
    for module in holders:
        vars(module)["failure"] = _let_through
    try:
        yield
    finally:
        for module in holders:
            vars(module)["failure"] = keep
        proving.SECONDS = seconds
        if path is not None:
            os.environ["PATH"] = path


def _let_through(error: Exception, *_: object) -> NoReturn:
    raise error


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--show", type=int, help="print this mutant and what becomes of it")
    asked = parser.parse_args(argv)
    kinds: Counter[str] = Counter()
    late = 0
    begin = process_time()
    seeds = range(asked.seed, asked.seed + asked.count) if asked.show is None else [asked.show]
    with without_tools():
        for seed in seeds:
            if asked.show is not None:
                print(mutant(seed)[1])
            try:
                with limited(LIMIT_SECONDS):
                    for step, error in faults(seed):
                        frame = traceback.extract_tb(error.__traceback__)[-1]
                        where = f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
                        kind = f"{step}: {type(error).__name__}: {where}"
                        kinds[kind] += 1
                        if kinds[kind] == 1:
                            print(f"{seed}: {kind}: {error}", flush=True)
                        if asked.show is not None:
                            traceback.print_exception(error)
            except TooLong:
                late += 1
                print(f"{seed}: more than {LIMIT_SECONDS} s", flush=True)
    for kind, number in kinds.most_common():
        print(f"{number:6d} {kind}")
    print(f"{len(seeds)} mutants, {sum(kinds.values())} exceptions of {len(kinds)} kinds, "
          f"{late} took too long, {process_time() - begin:.0f} s")  # fmt: skip
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
