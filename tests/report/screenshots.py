"""Takes the pictures of the documents: `python -m tests.report.screenshots`. It needs chromium,
nvdisasm and Pillow."""

from __future__ import annotations

import tempfile
from pathlib import Path

from PIL import Image

from tests.report.browser import Browser
from tests.report.test_html import ROOT, beside

IMAGES = ROOT / "docs" / "images"
PTX, CUDA = ROOT / "tests" / "report" / "ptx", ROOT / "tests" / "report" / "cuda"
PICTURES = (
    # name, kernel file, width, height, colours
    ("page", "transpose", 1440, 860, "light"),
    ("page-dark", "transpose", 1440, 860, "dark"),
    ("page-narrow", "transpose", 400, 860, "light"),
)


SUMMARY = """<body style="margin:0;background:#16181d;color:#e6e6e6">
<pre style="margin:20px;font:15px/1.5 'DejaVu Sans Mono',monospace">{}</pre>"""


def summary() -> str:
    """The summary of a build as `docs/integrations.md` has it, as in a terminal."""
    text = (ROOT / "docs" / "integrations.md").read_text().partition("## Reports of a build")[2]
    shown = text.partition("```text\n")[2].partition("```")[0]
    return SUMMARY.format(f"$ ptxsw report reports\n{shown}")


def take(browser: Browser, page: Path, name: str, width: int, height: int) -> None:
    """The picture of a page, in few colours."""
    browser.resize(width, height)
    browser.open(page)
    picture = IMAGES / f"{name}.png"
    browser.screenshot(picture)
    Image.open(picture).convert("RGB").quantize(48).save(picture, optimize=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        browser = Browser(Path(directory, "chromium"))
        try:
            for name, kernel, width, height, colours in PICTURES:
                page = Path(directory, f"{kernel}.html")
                page.write_text(beside(PTX / f"{kernel}.ptx", CUDA))
                browser.prefer(colours)
                take(browser, page, name, width, height)
            page = Path(directory, "summary.html")
            page.write_text(summary())
            take(browser, page, "summary", 1200, 330)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
