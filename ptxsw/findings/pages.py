"""The pages of the rules: `docs/findings.md`, a section each, which the wheel carries as well."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from ptxsw.ptx.patterns import pattern

_HERE = Path(__file__).parent
_PLACES = (_HERE / "findings.md", _HERE.parents[1] / "docs" / "findings.md")
_SECTION = pattern(r"^## (ptxsw-[a-z-]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


@lru_cache(maxsize=1)
def pages() -> Mapping[str, str]:
    """The page of each rule as Markdown, without its heading; none where it is not installed."""
    for place in _PLACES:
        if place.exists():
            text = place.read_text(encoding="utf-8")
            return {match[1]: match[2].strip() for match in _SECTION.finditer(text)}
    return {}
