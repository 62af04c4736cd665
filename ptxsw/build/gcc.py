"""GCC's assembler for nvptx: its command line, and finding the real one.

`nvptx-none-as` reorders a PTX text, has `ptxas` check it, and writes it as the object file; the
driver assembles it when the program runs. Its arguments are getopt's: `-m TARGET`, `-o FILE`
(glued or not), `-v`, four long options without values, one input.
"""

from __future__ import annotations

import os

from ptxsw.build.arguments import CommandLine, Input
from ptxsw.toolchain.find import TRIED, PossiblePtxas, listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NAME = "nvptx-none-as"
VARIABLE = "PTXSW_REAL_NVPTX_AS"
_COMPILERS = "/usr/lib/gcc"
_VALUED = "mo"


class AsCommandLine(CommandLine):
    """The command line of `nvptx-none-as`. Standard input is left to the real one."""

    default_output = None  # GCC names it always

    def _read(self) -> None:
        at = 0
        while at < len(self.arguments):
            argument = self.arguments[at]
            if argument == "--":
                for index in range(at + 1, len(self.arguments)):
                    self._input(index)
                return
            if argument.startswith("--"):
                self.informing = self.informing or argument in ("--help", "--version")
            elif argument.startswith("-") and argument != "-":
                at = self._letters(at)
            else:
                self._input(at)
            at += 1

    def _input(self, index: int) -> None:
        if self.arguments[index] != "-":
            self.inputs.append(Input(index, self.arguments[index]))

    def _letters(self, at: int) -> int:
        """Reads `-vo out`, `-msm_80` and the like; returns the index of the last argument read."""
        letters = self.arguments[at][1:]
        position = next((i for i, letter in enumerate(letters) if letter in _VALUED), None)
        if position is None:
            return at
        value = letters[position + 1 :]
        if not value and at + 1 < len(self.arguments):
            at += 1
            value = self.arguments[at]
        if letters[position] == "m":
            self.arch = value
        else:
            self.output, self._output_index = value, at
        return at


def candidates(environ: Mapping[str, str]) -> Iterator[PossiblePtxas]:
    """All places to look at, best first. An answer in `PTXSW_REAL_NVPTX_AS` is the only one."""
    chosen = environ.get(VARIABLE)
    if chosen:
        yield PossiblePtxas(chosen, VARIABLE)
        return
    for directory in environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(directory or ".", NAME)
        if os.path.exists(path):
            yield PossiblePtxas(path, "PATH")
    for host in listed(_COMPILERS):
        for version in sorted(listed(os.path.join(_COMPILERS, host)), reverse=True):
            path = os.path.join(_COMPILERS, host, version, "accel", "nvptx-none", "as")
            if os.path.exists(path):
                yield PossiblePtxas(path, "GCC")


def real_nvptx_as(environ: Mapping[str, str]) -> PossiblePtxas | None:
    """The assembler to run, or None."""
    tried = {os.path.realpath(p) for p in environ.get(TRIED, "").split(os.pathsep) if p}
    for candidate in candidates(environ):
        if candidate.problem is None and os.path.realpath(candidate.path) not in tried:
            return candidate
    return None
