"""What ptxas says of asynchronous matrix products and of register budgets that it could not keep:
it then writes code that waits after each product, or leaves the budget out. It says so of each
place; the first of a code is told.

    ptxas info : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from ptxsw.codegen.excerpt import Excerpts
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Fault, Proof
from ptxsw.ptx.patterns import pattern
from ptxsw.toolchain.ptxas import AssemblyError, NoPtxas, assemble

Said = Mapping[str, tuple[tuple[str, str], ...]]

RULE = "ptxas-warning"
_WORDS = ("wgmma", "setmaxnreg")
_COMPILING = pattern(r"Compiling entry function '([^']+)'")
_WARNING = pattern(r"\((C75(?:08|10|11|15|17|19))\)\s*(?:Potential Performance Loss:\s*)?(.*)")
_LINE = pattern(r"around line (\d+)")
_FUNCTION = pattern(r"\s*in (?:the )?function '([^']+)'")

_ADVICE = {
    "C7508": "Declare the block size and the minimum number of resident blocks, "
    "`__launch_bounds__(threads, 1)`, so that ptxas knows the register count at entry.",
    "C7511": "Use a smaller tile, or more warpgroups for it.",
}
_INJECTED = ("C7517", "C7519")  # it waits where the text does not: right, and slower
_FENCES = (
    "Use the accumulator registers only before `wgmma.fence` and after `wgmma.wait_group`, and "
    "keep the products of a stage in straight-line code."
)


def occurs(subject: Subject) -> bool:
    return any(one.opcode in _WORDS for one in subject.cfg.instructions)


def prove(subject: Subject) -> Proof:
    """What ptxas says, on the first instruction that it may mean: it names none."""
    arch = next((t for t in subject.module.targets if t.startswith("sm_")), None)
    if arch is None:
        return Proof(unknown="the PTX has no target")
    said = _said(subject.module.source.text, arch)
    if isinstance(said, str):
        return Proof(unknown=said)
    told = (*said.get(subject.function.name, ()), *_of_nobody(subject, said, arch))
    faults = [_fault(subject, code, words) for code, words in told]
    return Proof(faults=tuple(faults), reason="" if faults else f"ptxas was asked for {arch}")


def _of_nobody(subject: Subject, said: Said, arch: str) -> Iterator[tuple[str, str]]:
    """What ptxas says without a name, if it says it of this kernel alone, too."""
    unnamed = said.get("", ())
    if unnamed and len(subject.module.kernels) > 1:
        alone = _said(Excerpts(subject.module).of(subject.function).source.text, arch)
        unnamed = () if isinstance(alone, str) else alone.get("", ())
    yield from unnamed


def _fault(subject: Subject, code: str, words: str) -> Fault:
    level = "note" if code in _INJECTED else "warning"
    what, advice = f"ptxas says ({code}): {words}.", _ADVICE.get(code, _FENCES)
    return Fault(RULE, level, _place(subject, words), what, advice, measure=code)


def _place(subject: Subject, words: str) -> int:
    """The instruction on the line that ptxas names, or else the first that it may mean."""
    instructions = subject.cfg.instructions
    named = _LINE.search(words)
    if named:
        at = [i for i in range(len(instructions)) if subject.line(i) == int(named[1])]
        if at:
            return at[0]
    word = "setmaxnreg" if "setmaxnreg" in words else "wgmma"
    return next((index for index, one in enumerate(instructions) if one.opcode == word), 0)


@lru_cache(maxsize=4)
def _said(text: str, arch: str) -> Said | str:
    """By kernel ("" where ptxas names none), codes and words; or why it could not be asked."""
    try:
        messages = assemble(text, arch).messages
    except NoPtxas:
        return "no ptxas is installed"
    except AssemblyError as error:
        return f"ptxas rejects the PTX: {str(error).splitlines()[0]}"
    found: dict[str, list[tuple[str, str]]] = {}
    for kernel, code, words in _read(messages):
        if code not in [earlier for earlier, _ in found.setdefault(kernel, [])]:
            found[kernel].append((code, words))
    return {kernel: tuple(each) for kernel, each in found.items()}


def _read(messages: str) -> Iterator[tuple[str, str, str]]:
    """Kernel, code and words of each: of the function that it names, or that is being compiled."""
    kernel = ""
    for line in messages.splitlines():
        if match := _COMPILING.search(line):
            kernel = match[1]
        elif match := _WARNING.search(line):
            words = match[2].strip()
            named = _FUNCTION.search(words)
            if named:
                words = words[: named.start()] + words[named.end() :]
            yield named[1] if named else kernel, match[1], words.strip().removesuffix(".")
