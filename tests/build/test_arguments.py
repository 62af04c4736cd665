"""The command line of ptxas."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ptxsw.build.arguments import CommandLine, expand


def inputs(*arguments: str) -> list[str]:
    return [item.value for item in CommandLine(arguments).inputs]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a.ptx", ["a.ptx"]),
        ("-arch=sm_80 a.ptx -o a.cubin", ["a.ptx"]),
        ("-arch sm_80 a.ptx -o=a.cubin", ["a.ptx"]),
        ("--gpu-name sm_80 --output-file a.cubin a.ptx b.ptx", ["a.ptx", "b.ptx"]),
        ("-m64 -O3 -v a.ptx", ["a.ptx"]),
        ("-O 3 a.ptx", ["3", "a.ptx"]),
        ("--opt-level 3 a.ptx", ["a.ptx"]),
        ("-maxrregcount 32 --fmad false -e main a.ptx", ["a.ptx"]),
        ("--regAllocOptLevel=2 a.ptx", ["a.ptx"]),
        ("--warn-on-spills -c a.ptx", ["a.ptx"]),
        ("- -arch=sm_80", ["-"]),
        ("-o", []),
        ("", []),
    ],
)
def test_inputs(line: str, found: list[str]) -> None:
    assert inputs(*line.split()) == found


@pytest.mark.parametrize("form", [["-ias", "TEXT"], ["-ias=TEXT"], ["--input-as-string=TEXT"]])
def test_text_as_argument(form: list[str]) -> None:
    line = CommandLine(["-arch=sm_80", *form])
    assert [(item.value, item.is_text) for item in line.inputs] == [("TEXT", True)]
    replaced = line.replace({line.inputs[0].index: "OTHER"})
    assert replaced == ["-arch=sm_80", *(part.replace("TEXT", "OTHER") for part in form)]


def test_replacing_keeps_everything_else() -> None:
    line = CommandLine(["-v", "a.ptx", "--unknown", "b.ptx", "-o", "a.ptx"])
    assert line.replace({1: "/tmp/x"}) == ["-v", "/tmp/x", "--unknown", "b.ptx", "-o", "a.ptx"]


@pytest.mark.parametrize(
    ("line", "worthwhile"),
    [
        ("-arch=sm_80 a.ptx", True),
        ("--gpu-name sm_90a a.ptx -o x", True),
        ("-lineinfo -arch=sm_80 a.ptx", True),
        ("-arch=compute_80 a.ptx", False),
        ("-arch=sm_80 a.ptx --version", False),
        ("-arch=sm_80 a.ptx -o /dev/null", False),
        ("-arch=sm_80 -g a.ptx", False),
        ("-arch=sm_80 -O0 a.ptx", False),
        ("-arch=sm_80 --opt-level 0 a.ptx", False),
        ("-arch=sm_80", False),
    ],
)
def test_worthwhile(line: str, worthwhile: bool) -> None:
    assert CommandLine(line.split()).worthwhile is worthwhile


def files(**contents: str) -> Callable[[str], str]:
    def read(path: str) -> str:
        if path not in contents:
            raise FileNotFoundError(path)
        return contents[path]

    return read


def test_options_files() -> None:
    read = files(one="-arch=sm_80\n a.ptx", two="-optf one -v", three="-w")
    assert expand(["-o", "-optf", "-optf", "two"], read) == [
        "-o", "-optf", "-arch=sm_80", "a.ptx", "-v",
    ]  # fmt: skip
    assert expand(["--options-file=one,three"], read) == ["-arch=sm_80", "a.ptx", "-w"]
    with pytest.raises(FileNotFoundError):
        expand(["-optf", "four"], read)


@pytest.mark.parametrize("text", ["'a b'", '"a"', "a\\ b", "-optf self"])
def test_options_files_that_we_do_not_read(text: str) -> None:
    with pytest.raises(ValueError, match="self"):
        expand(["-optf", "self"], files(self=text))


@pytest.mark.parametrize(
    "line",
    ["", "-m64", "-O3", "--opt-level 3", "-v -lineinfo", "--warn-on-spills -w", "-arch sm_90"],
)
def test_options_that_steer_no_code(line: str) -> None:
    assert not CommandLine(["-arch=sm_80", *line.split(), "a.ptx", "-o", "a"]).steers_code


@pytest.mark.parametrize(
    "line",
    [
        "-O1", "--opt-level 2", "-maxrregcount 32", "--maxrregcount=32", "-c",
        "--fmad false", "-e main", "--unheard-of", "-dlcm=cg", "-Werror", "-split-compile 2",
    ],
)  # fmt: skip
def test_options_that_may(line: str) -> None:
    assert CommandLine(["-arch=sm_80", *line.split(), "a.ptx", "-o", "a"]).steers_code
