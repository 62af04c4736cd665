"""The command line of ptxas, understood just far enough to replace its inputs.

What ptxas does with it: `-x V`, `-x=V`, `--long V`, `--long=V`; one letter and a number may be
glued (`-O3`, `-m64`), nothing else may. `-optf` and `--options-file` include a file of further
arguments. Anything that does not start with a dash and is no option's value is an input, and
`-` is standard input. An option that we do not know is passed on, and taken to have no value of
its own: should it have one, that value is at worst looked at as if it were an input.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

# Options that take the next argument as their value where no `=` follows.
_VALUED = {
    "--Ofast-compile", "-Ofc", "--allow-expensive-optimizations",
    "-allow-expensive-optimizations", "--apply-controls", "-apply-controls", "--def-load-cache",
    "-dlcm", "--def-store-cache", "-dscm", "--device-function-maxrregcount", "-func-maxrregcount",
    "--device-stack-protector", "-device-stack-protector", "--enable-func-clone-sc",
    "-enable-func-clone-sc", "--entry", "-e", "--fmad", "-fmad", "--force-load-cache", "-flcm",
    "--force-store-cache", "-fscm", "--gpu-name", "-arch", "--input-as-string", "-ias",
    "--machine", "-m", "--maxntid", "-maxntid", "--maxrregcount", "-maxrregcount",
    "--minnctapersm", "-minnctapersm", "--opt-level", "--options-file", "-optf", "--output-file",
    "-o", "--position-independent-code", "-pic", "--register-usage-level", "-regUsageLevel",
    "--sanitize", "-sanitize", "--split-compile", "-split-compile",
}  # fmt: skip
_INFORMING = {
    "--help", "-h", "--version", "-V", "--list-arch", "-arch-ls", "--list-version", "-version-ls",
}  # fmt: skip
_HARMLESS = {
    "--disable-warnings", "--generate-line-info", "--verbose", "--warn-on-double-precision-use",
    "--warn-on-local-memory-usage", "--warn-on-spills", "-O3", "-lineinfo", "-m64", "-v", "-w",
    "-warn-double-usage", "-warn-lmem-usage", "-warn-spills",
}  # fmt: skip
_LONG = {
    "-arch": "--gpu-name",
    "-o": "--output-file",
    "-ias": "--input-as-string",
    "-optf": "--options-file",
    "-g": "--device-debug",
    "-O": "--opt-level",
}


class Input:
    """One PTX text on a command line: `arguments[index]` is it, or ends with it."""

    def __init__(self, index: int, value: str, *, is_text: bool = False) -> None:
        self.index: Final = index
        self.value: Final = value  # a path, "-", or the text itself
        self.is_text: Final = is_text

    @property
    def is_stdin(self) -> bool:
        return self.value == "-" and not self.is_text


class CommandLine:
    """`arguments`, options files included in place, with what matters in them."""

    default_output: str | None = "elf.o"

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments: Final = tuple(arguments)
        self.inputs: list[Input] = []
        self.informing = False  # --version and the like: nothing is assembled
        self.arch: str | None = None
        self.output: str | None = None
        self._output_index = -1
        self.debug = False
        self.steers_code = False  # an option may change the code that is made for `arch`
        self._read()

    @property
    def worthwhile(self) -> bool:
        """Does this call make code that somebody will run? Not where ptxas only checks its
        input (a virtual architecture, output to nowhere), and not in a debug build, in which
        the user wants to meet the instructions as written."""
        checks_only = (self.arch or "").startswith(("compute_", "lto_"))
        nowhere = self.output == "/dev/null"
        return bool(self.inputs) and not (self.informing or checks_only or nowhere or self.debug)

    def replace(self, values: dict[int, str], output: str | None = None) -> list[str]:
        """The arguments with new values for the inputs at these indices, and for the output
        where one is given and `output` too."""
        arguments = list(self.arguments)
        for item in self.inputs:
            if item.index in values:
                _exchange(arguments, item.index, item.value, values[item.index])
        if self.output is not None and output is not None:
            _exchange(arguments, self._output_index, self.output, output)
        return arguments

    def _read(self) -> None:
        at = 0
        while at < len(self.arguments):
            argument = self.arguments[at]
            if argument == "-" or not argument.startswith("-"):
                self.inputs.append(Input(at, argument))
                at += 1
                continue
            name, equals, value = argument.partition("=")
            if not equals and name in _VALUED and at + 1 < len(self.arguments):
                at += 1
                value = self.arguments[at]
            self._option(name, value, at)
            at += 1

    def _option(self, name: str, value: str, index: int) -> None:
        match _LONG.get(name, name):
            case "--gpu-name":
                self.arch = value
            case "--output-file":
                self.output, self._output_index = value, index
            case "--device-debug":
                self.debug = True
            case "--opt-level":
                self.debug = self.debug or value == "0"
                self.steers_code = self.steers_code or value != "3"
            case "--input-as-string":
                self.inputs.append(Input(index, value, is_text=True))
            case "-O0":
                self.debug = True
            case long if long in _INFORMING:
                self.informing = True
            case long:
                self.steers_code = self.steers_code or long not in _HARMLESS


def _exchange(arguments: list[str], index: int, old: str, new: str) -> None:
    """Replaces a value that is an argument, or the end of one after `=`."""
    argument = arguments[index]
    arguments[index] = argument[: len(argument) - len(old)] + new


def expand(arguments: Sequence[str], read: Callable[[str], str], depth: int = 8) -> list[str]:
    """`arguments` with each options file replaced by what is in it.

    `read` gives a file's text. Raises OSError where it does, and ValueError where a file quotes
    or escapes something or files include each other: how ptxas reads those we do not guess.
    """
    expanded: list[str] = []
    at = 0
    while at < len(arguments):
        name, equals, value = arguments[at].partition("=")
        if _LONG.get(name, name) != "--options-file":
            skip = not equals and name in _VALUED  # the value may look like an option
            expanded += arguments[at : at + 1 + skip]
            at += 1 + skip
            continue
        if not equals:
            at += 1
            value = arguments[at] if at < len(arguments) else ""
        for path in value.split(","):
            text = read(path)
            if depth == 0 or any(c in text for c in "'\"\\"):
                raise ValueError(f"options file {path} is not read")
            expanded += expand(text.split(), read, depth - 1)
        at += 1
    return expanded


def has_options_file(arguments: Sequence[str]) -> bool:
    return any(a.partition("=")[0] in ("-optf", "--options-file") for a in arguments)
