"""The targets for which one run of nvcc compiles a source, as its command line names them.

    nvcc -gencode arch=compute_80,code=[sm_80,sm_86] -gencode arch=compute_90,code=sm_90 …

makes a PTX text for sm_80, of which ptxas makes code for sm_80 and for sm_86, and a second one for
sm_90. What `-arch=all` and its like stand for only nvcc knows: of these nothing is told. Nor is it
where nvcc works on several targets at once (`--threads`): then they have come already.
"""

from __future__ import annotations

from ptxsw.toolchain import other_process
from ptxsw.toolchain.lineage import lineage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Final

    CodeTarget = tuple[str, str]
    """The target of a text, and the one that ptxas makes code for: `("sm_80", "sm_86")`."""

_NAME: Final = "nvcc"
_GENERATE: Final = ("-gencode", "--generate-code")
_ARCHITECTURE: Final = ("-arch", "--gpu-architecture")
_CODE: Final = ("-code", "--gpu-code")


def expected_targets(process: int, text: str, code: str) -> list[CodeTarget]:
    """The targets that the nvcc which runs a process may still come to, when it has come to a
    `text` for one target and `code` for another. It takes texts in the order of its command line,
    and codes of one text in any."""
    for number, name in lineage(process):
        if name == _NAME:
            try:
                words = _words(number)
            except OSError:
                return []
            if any(map(_is_threads, words)):
                return []
            every = dict.fromkeys(targets(words))
            texts = list(dict.fromkeys(each for each, _ in every))
            behind = texts[texts.index(text) :] if text in texts else []
            return [each for each in every if each[0] in behind and each != (text, code)]
    return []


def _words(process: int) -> list[str]:
    """What a run of nvcc is told."""
    environ = other_process.environment(process)

    def flags(name: bytes) -> list[str]:
        return environ.get(name, b"").decode(errors="replace").split()

    own = other_process.command_line(process)[1:]
    return [*flags(b"NVCC_PREPEND_FLAGS"), *own, *flags(b"NVCC_APPEND_FLAGS")]


def _is_threads(word: str) -> bool:
    name = word.partition("=")[0]
    return name in ("-t", "--threads") or (name.startswith("-t") and name[2:].isdigit())


def targets(words: Sequence[str]) -> Iterator[CodeTarget]:
    """Those that the words of a command line name, except for that of `-arch` alone."""
    architecture = code = ""
    for option, value in _options(words):
        if option in _GENERATE:
            yield from _generated(value)
        elif option in _ARCHITECTURE:
            architecture = value
        elif option in _CODE:
            code = value
    if code:
        yield from _generated(f"arch={architecture},code={code}")


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option with its value, which stands in the same word or in the next one."""
    before = ""
    for word in words:
        if before:
            yield before, word
        option, equals, value = word.partition("=")
        if equals:
            yield option, value
        before = "" if equals else word


def _generated(value: str) -> Iterator[CodeTarget]:
    """Of `arch=compute_80,code=[sm_80,compute_80]`."""
    architecture, _, code = value.partition(",code=")
    architecture = architecture.removeprefix("arch=")
    if not architecture.startswith("compute_"):
        return
    for name in code.strip("[]\"'\\").split(","):
        if name.startswith("sm_"):
            yield f"sm_{architecture.removeprefix('compute_')}", name
