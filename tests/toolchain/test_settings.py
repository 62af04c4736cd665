"""The environment of the wrapper."""

from __future__ import annotations

import pytest

from ptxsw.changes.assumptions import DEFAULT_ASSUME
from ptxsw.toolchain.settings import Settings, parse_assume


def test_defaults() -> None:
    settings = Settings({"HOME": "/home/me"})
    assert not settings.disabled and not settings.strict
    assert (settings.mode, settings.scheme, settings.max_delta) == ("auto", "auto", 31)
    assert (
        settings.assume
        == DEFAULT_ASSUME
        == {
            "access-in-array",
            "finite-loops",
            "lockstep-iterations",
            "no-lane-race",
            "no-outside-writer",
            "parameters-are-global",
            "same-contraction",
        }
    )
    assert settings.cache == "/home/me/.cache/ptxsw"
    assert settings.report is settings.log is settings.real_ptxas is None


def test_values() -> None:
    settings = Settings(
        {
            "PTXSW_DISABLE": "1",
            "PTXSW_MODE": "force",
            "PTXSW_SCHEME": "halo",
            "PTXSW_MAX_DELTA": "3",
            "PTXSW_ASSUME": "none",
            "PTXSW_TIMEOUT": "0.5",
            "PTXSW_CACHE": "off",
        }
    )
    assert settings.disabled and settings.mode == "force" and settings.scheme == "halo"
    assert (settings.max_delta, settings.assume, settings.timeout) == (3, frozenset(), 0.5)
    assert settings.cache is None


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        ({}, None),
        ({"HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/x/ptxsw"),
        ({"HOME": "/h", "XDG_CACHE_HOME": "relative"}, "/h/.cache/ptxsw"),
        ({"HOME": "/h", "PTXSW_CACHE": "/c"}, "/c"),
        ({"HOME": "/h", "PTXSW_CACHE": "0"}, None),
    ],
)
def test_cache_directory(environ: dict[str, str], directory: str | None) -> None:
    assert Settings(environ).cache == directory


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PTXSW_MODE", "maybe"),
        ("PTXSW_SCHEME", "other"),
        ("PTXSW_MAX_DELTA", "32"),
        ("PTXSW_MAX_DELTA", "many"),
        ("PTXSW_TIMEOUT", "0"),
        ("PTXSW_TIMEOUT", "nan"),
        ("PTXSW_ASSUME", "no-bugs"),
    ],
)
def test_nonsense_is_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"PTXSW_|assumption") as error:
        Settings({name: value})
    assert value in str(error.value)


def test_assumptions() -> None:
    assert parse_assume("no-index-wrap, no-lane-race") == {"no-index-wrap", "no-lane-race"}
    assert parse_assume("") == DEFAULT_ASSUME


def test_the_key_tells_settings_apart() -> None:
    variants: list[dict[str, str]] = [
        {}, {"PTXSW_MODE": "force"}, {"PTXSW_SCHEME": "halo"}, {"PTXSW_MAX_DELTA": "1"},
        {"PTXSW_ASSUME": "none"},
    ]  # fmt: skip
    assert len({Settings(variant).key() for variant in variants}) == len(variants)


def test_no_variable_asks_for_wrong_results() -> None:
    """`--unsafe-bound` is for `optimize` alone."""
    asking = {name: "noload" for name in ("PTXSW_UNSAFE_BOUND", "PTXSW_BOUND", "UNSAFE_BOUND")}
    assert Settings(asking).key() == Settings({}).key()
    assert not any("bound" in name for name in vars(Settings(asking)))
