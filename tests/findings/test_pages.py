"""Every rule has a page with a kernel before and after, and no page is without its rule."""

from __future__ import annotations

import pytest

from benchmarks.programs.faults.cases import FAULTS
from ptxsw.driver import check_rules
from ptxsw.findings import RULES
from ptxsw.report.sarif import RulePage


@pytest.mark.parametrize("page", check_rules.rule_pages(), ids=lambda page: page.name)
def test_page(page: RulePage) -> None:
    assert page.sentence.endswith(".")
    if page.name != check_rules.RESOURCES:
        assert "```cuda\n" in page.page and "after" in page.page


def test_no_page_without_a_rule() -> None:
    assert check_rules.pages().keys() == {page.name for page in check_rules.rule_pages()}


def test_every_rule_has_a_program() -> None:
    """But one, which is a note in any stencil of KernelGen."""
    assert {rule.name for rule in RULES} - set(FAULTS.values()) == {"ptxsw-neighbour-loads"}
