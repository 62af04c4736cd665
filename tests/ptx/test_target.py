"""Names of architectures."""

from __future__ import annotations

import pytest

from ptxsw.ptx.target import assembled_for, plain_name

NAMES = [
    ("sm_80", "sm_80", "sm_80"),
    ("sm_90a", "sm_90", "sm_90a"),
    ("sm_100f", "sm_100", "sm_100f"),
    ("compute_75", "sm_75", "sm_75"),
    ("compute_90a", "sm_90", "sm_90"),
]


@pytest.mark.parametrize(("name", "plain", "assembled"), NAMES)
def test_a_name_without_its_features_and_as_ptxas_takes_it(
    name: str, plain: str, assembled: str
) -> None:
    assert plain_name(name) == plain
    assert assembled_for(name) == assembled


@pytest.mark.parametrize("name", [None, "", "native", "sm_", "all-major", "texmode_unified"])
def test_what_is_no_architecture_has_no_plain_name(name: str | None) -> None:
    assert plain_name(name) is None
