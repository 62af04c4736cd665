"""The rules of `check` by name, in two groups: what a kernel costs, and whether it is right."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from ptxsw import correctness, findings
from ptxsw.correctness.fault_rules import RULES as CORRECTNESS
from ptxsw.findings import RULES as PERFORMANCE
from ptxsw.ptx.patterns import pattern
from ptxsw.report.sarif import RulePage

PREFIX = "ptxsw-"

RESOURCES = "ptxsw-resources"
"""The rule of `--resources`, which compares with a baseline and looks at no kernel by itself."""

SECONDS = 10.0
"""CPU time for one kernel and all rules of correctness."""

_DOCS = Path(__file__).parents[2] / "docs"
_SECTION = pattern(r"^## (ptxsw-[a-z-]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def groups() -> Mapping[str, frozenset[str]]:
    """The full names of rules, by the name of their group."""
    cost = frozenset(rule.name for rule in PERFORMANCE)
    right = frozenset(rule.full_name for rule in CORRECTNESS)
    return {"performance": cost, "correctness": right, "all": cost | right}


def chosen(
    select: str | Collection[str] | None = None, ignore: str | Collection[str] | None = None
) -> frozenset[str]:
    """The full names of the rules that two lists leave, which name rules, with or without `ptxsw-`,
    or groups; None selects what a kernel costs. A text is a list by commas. Raises ValueError for a
    name nobody knows."""
    wanted = _named("performance" if select is None else select)
    return wanted - _named(() if ignore is None else ignore)


def required(names: str | None) -> frozenset[str]:
    """The full names of rules that have to be absent, from a list by commas. Raises ValueError for
    a name nobody knows, and for a rule that proves nothing."""
    wanted = frozenset[str]() if names is None else _named(names)
    if strange := sorted(wanted - groups()["correctness"]):
        raise ValueError(f"{strange[0]} is not a correctness rule: it proves nothing absent")
    return wanted


def _named(names: str | Collection[str]) -> frozenset[str]:
    given = names.split(",") if isinstance(names, str) else names
    known, out = groups(), frozenset[str]()
    for name in filter(None, map(str.strip, given)):
        full = name if name.startswith(PREFIX) else f"{PREFIX}{name}"
        if name not in known and full not in known["all"]:
            every = ", ".join(sorted(known["all"]))
            raise ValueError(f"there is no rule {full}; known: {every}")
        out |= known.get(name, frozenset({full}))
    return out


def rule_pages() -> list[RulePage]:
    """All rules and `--resources`, each with a sentence and its page as Markdown: a section of
    `docs/findings.md` or `docs/correctness.md`, which the wheel carries, too. The page is empty
    where that is not installed."""
    page_of = pages()
    rules = [(rule.name, rule.summary, "performance") for rule in PERFORMANCE]
    rules += [(rule.full_name, rule.summary, "correctness") for rule in CORRECTNESS]
    rules += [(RESOURCES, "A kernel uses more than its pinned resources.", "performance")]
    return [RulePage(name, summary, page_of.get(name, ""), group) for name, summary, group in rules]


@lru_cache(maxsize=1)
def pages() -> Mapping[str, str]:
    texts = (_text(findings.__file__, "findings.md"), _text(correctness.__file__, "correctness.md"))
    return {match[1]: match[2].strip() for text in texts for match in _SECTION.finditer(text)}


def _text(package: str | None, name: str) -> str:
    places: Iterable[Path] = (Path(package or "").parent / name, _DOCS / name)
    return next((p.read_text(encoding="utf-8") for p in places if p.exists()), "")
