"""What a run of the tests has skipped, and why, in one line at its end; and a run of only that.

Whatever can be installed is installed by `.ci/everything`, which then runs with `--again` what the
run before has skipped: so no test is skipped everywhere.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

_LAST = "ptxsw/skipped"  # in pytest's cache
_LENGTH = 60  # of a reason


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--again",
        action="store_true",
        help="run what the last run skipped; what is skipped once more is a failure",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--again"):
        return
    last = config.cache.get(_LAST, []) if config.cache is not None else []
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        file = item.nodeid.partition("::")[0]  # skipped as a whole, perhaps
        (kept if {item.nodeid, file} & set(last) else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def skipped(config: pytest.Config) -> dict[str, str]:
    """The names of the tests that were skipped in this run, with the reasons."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if reporter is not None else []
    return {report.nodeid: _reason(report) for report in reports}


def _reason(report: pytest.TestReport) -> str:
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    told = re.sub(r"could not import '([\w.]+)'.*", r"no \1", told.removeprefix("Skipped: "))
    return told if len(told) <= _LENGTH else f"{told[: _LENGTH - 1]}…"


def line(reasons: dict[str, str]) -> str:
    """ "3 skipped: no clang (2), no ccache (1)"."""
    counted = Counter(reasons.values()).most_common()
    return f"{len(reasons)} skipped: {', '.join(f'{why} ({n})' for why, n in counted)}"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    reasons = skipped(config)
    if reasons:
        terminalreporter.write_line(line(reasons))
    if config.cache is not None:
        config.cache.set(_LAST, sorted(reasons))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if config.getoption("--again") and not hasattr(config, "workerinput") and skipped(config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
