"""What a run of the tests has skipped, and why, in one line at its end; and a run of only that.

`.ci/everything` installs whatever can be installed and runs with `--again` what the run before has
skipped: so no test is skipped everywhere.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

LAST = "ptxsw/skipped"  # in pytest's cache
_LENGTH = 60  # of a reason
_NOWHERE = {"no corpus", "ptxas does not take the file as it is"}
"""Against these nothing can be installed: texts that are not ours to publish, or not whole."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--again", action="store_true", help="run what the last run skipped")
    parser.addoption("--none-skipped", action="store_true", help="fail where one is skipped")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Other files are not even read."""
    if not config.getoption("--again") or collection_path.suffix != ".py":
        return None
    return collection_path not in {config.rootpath / _file(n) for n in _last(config)} or None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--again"):
        return
    last = _last(config)
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:  # or the whole file was skipped
        (kept if {item.nodeid, _file(item.nodeid)} & last else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def _last(config: pytest.Config) -> set[str]:
    """The names of tests that the last run skipped."""
    return set(config.cache.get(LAST, [])) if config.cache is not None else set()


def _file(name: str) -> str:
    return name.partition("::")[0]


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
    if getattr(config, "cache", None) is not None:
        config.cache.set(LAST, sorted(reasons))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workerinput"):
        return
    if config.getoption("--none-skipped") and set(skipped(config).values()) - _NOWHERE:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    elif config.getoption("--again") and not _last(config) and not session.testsfailed:
        session.exitstatus = pytest.ExitCode.OK  # nothing is left
