"""Every rule has a page with a kernel before and after, and no page is without its rule."""

from __future__ import annotations

import pytest

from benchmarks.programs.faults.cases import FAULTS
from ptxsw.cli.check_run import RESOURCES
from ptxsw.findings import RULES, Rule, pages


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_page(rule: Rule) -> None:
    page = pages()[rule.name]
    assert "```cuda\n" in page and "after" in page
    assert rule.summary.endswith(".")


def test_no_page_without_a_rule() -> None:
    assert pages().keys() == {rule.name for rule in RULES} | {RESOURCES.name}


def test_every_rule_has_a_program() -> None:
    """But one, which is a note in any stencil of KernelGen."""
    assert {rule.name for rule in RULES} - set(FAULTS.values()) == {"ptxsw-neighbour-loads"}
