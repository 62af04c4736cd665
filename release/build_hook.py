"""The wheel has man pages, which are read off the command line while it is built."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface):  # type: ignore[type-arg, misc, unused-ignore]
    """Adds `share/man/man1`, where `man` finds it beside a `bin` on PATH."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, str(Path(__file__).parent))
        from manual import man_pages

        self.made = TemporaryDirectory()
        for name, text in man_pages(self.metadata.version).items():
            path = Path(self.made.name, name)
            path.write_text(text, encoding="utf-8")
            build_data["shared_data"][str(path)] = f"share/man/man1/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self.made.cleanup()
