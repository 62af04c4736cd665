"""The Python interface: what is there, and what it says to wrong arguments."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from msgspec import Struct
from msgspec.structs import fields

import ptxsw
from ptxsw.ptx.documented import described

TEXT = (Path(__file__).parents[1] / "report" / "ptx" / "matmul.ptx").read_text()


def test_dir_shows_the_interface() -> None:
    assert set(ptxsw.__all__) <= set(dir(ptxsw))
    for name in ptxsw.__all__:
        assert getattr(ptxsw, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'analyse'"):
        _ = ptxsw.analyse  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "shape"),
    [(256, (256, 1, 1)), ((16, 16), (16, 16, 1)), ([8, 8, 4], (8, 8, 4)), ((32,), (32, 1, 1))],
)
def test_blocks_of_one_to_three_dimensions(given: Any, shape: tuple[int, ...]) -> None:
    report = ptxsw.analyze(TEXT, block=given)
    assert [kernel.block for kernel in report.kernels] == [shape, shape]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((64, 64), "64x64 is not a block of 1 to 1024 threads"),
        ((0,), "0 is not a block of 1 to 1024 threads"),
        ((-1, -1), "-1x-1 is not a block of 1 to 1024 threads"),
        ((), "() is not a block shape, which is one to three integers"),
        (
            (1, 1, 1, 1),
            "(1, 1, 1, 1) is not a block shape, which is one to three integers",
        ),
        ("16x16", "'16x16' is not a block shape, which is one to three integers"),
        (16.0, "16.0 is not a block shape, which is one to three integers"),
    ],
)
def test_what_is_no_block(given: Any, said: str) -> None:
    with pytest.raises(ValueError) as error:
        ptxsw.analyze(TEXT, block=given)
    assert str(error.value) == said


def test_a_kernel_that_is_not_there() -> None:
    said = "m.ptx: no kernel 'nope' with a body; available: naive, tiled"
    for ask in (
        lambda: ptxsw.analyze(TEXT, "m.ptx", kernel="nope"),
        lambda: ptxsw.optimize(TEXT, ptxsw.Options(only="nope"), "m.ptx"),
        lambda: ptxsw.verify(TEXT, TEXT, kernel="nope", names=("m.ptx", "n.ptx")),
    ):
        with pytest.raises(ValueError) as error:
            ask()
        assert str(error.value) == said


@pytest.mark.parametrize(("given", "kind"), [(Path("k.ptx"), "PosixPath"), (b".version", "bytes")])
def test_what_is_no_text(given: Any, kind: str) -> None:
    for ask in (ptxsw.analyze, ptxsw.check, ptxsw.optimize, ptxsw.predict, ptxsw.parse):
        with pytest.raises(TypeError, match=rf"passed as a text \(str\), not as {kind}"):
            ask(given)


# ---------------------------------------------------------------- what it says of itself


def test_help_says_what_verify_does() -> None:
    """Although it is a package: `help`, and what a notebook shows for `ptxsw.verify?`."""
    shown = pydoc.render_doc(ptxsw.verify, renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    for said in (
        "Do two PTX texts do the same?",
        "kernel: Only the kernel",
        "ParseError: If a text",
    ):
        assert said in shown
    assert list(inspect.signature(ptxsw.verify).parameters)[:3] == ["a", "b", "kernel"]


@pytest.mark.parametrize("name", ["analyze", "check", "optimize", "predict", "steps", "verify"])
def test_every_argument_is_described(name: str) -> None:
    function = getattr(ptxsw, name)
    shown = inspect.getdoc(function) or ""
    given = re.findall(r"^    (\w+): ", shown.partition("Raises:")[0], re.MULTILINE)
    assert given == list(inspect.signature(function).parameters)
    assert "ParseError" in shown.partition("Raises:")[2]


ROOTS = (
    "LaunchChoice",
    "Report",
    "Prediction",
    "Options",
    "Result",
    "Proved",
    "Different",
    "Undecided",
)


def public() -> list[type[Struct]]:
    """All data that the interface takes or returns: what it names, and what that holds."""
    waiting: list[Any] = [*(getattr(ptxsw, name) for name in ROOTS), ptxsw.SymbolicStep]
    waiting.append(import_module("ptxsw.verify.launches").Launch)
    known: list[type[Struct]] = []
    while waiting:
        kind = waiting.pop()
        if kind in known or not kind.__module__.startswith("ptxsw."):
            continue
        known.append(kind)
        for hint in hints(kind).values():
            waiting += [t for t in parts(hint) if isinstance(t, type) and issubclass(t, Struct)]
    return known


def hints(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind, include_extras=True)
    except NameError:  # of types that only a checker imports
        return {}


def parts(hint: Any) -> Iterator[Any]:
    yield hint
    for one in get_args(hint):
        yield from parts(one)


@pytest.mark.parametrize("kind", public(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_field_is_described(kind: type[Struct]) -> None:
    """In its type, in a text below it, or in that of the class, as `name`."""
    known = {*described(kind), *re.findall(r"`(\w+)`", kind.__doc__ or "")}
    assert [one.name for one in fields(kind) if one.name not in known] == []
    assert kind.__doc__


@pytest.mark.parametrize(
    ("name", "field", "said"),
    [
        ("Report", "kernels", "In the order of the PTX."),
        ("Options", "budget_s", "CPU seconds of symbolic work per kernel."),
        ("Proved", "assumptions", "Assumptions of the proof"),
        ("Prediction", "gpu", ""),
    ],
)
def test_help_says_what_each_field_is(name: str, field: str, said: str) -> None:
    shown = pydoc.render_doc(getattr(ptxsw, name), renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    assert re.search(rf"^ \|  {field}\n \|      {re.escape(said)}\w*", shown, re.MULTILINE)
