"""Man pages and the page of all commands, both read off the command line as Typer has it.

The wheel's build hook writes the man pages; the site has the commands from `on_page_markdown`.
`typer utils docs`, which mkdocs-typer2 calls, joins the lines of tables and examples and cuts
summaries short; click-man does not know the click that Typer brings along.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
MARKER = "<!-- the commands -->\n"


class Block(NamedTuple):
    """A paragraph, or with `exact` lines that stay as they are."""

    text: str
    exact: bool = False


class Page(NamedTuple):
    """A command: `tables` hold its arguments, options and, for all of ptxsw, its commands."""

    name: str
    summary: str
    usage: str
    blocks: tuple[Block, ...]
    tables: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    sections: tuple[tuple[str, Block], ...] = ()


def pages() -> Iterator[Page]:
    """That of ptxsw itself first, then each command's in the order of `ptxsw --help`."""
    sys.path.insert(0, str(ROOT))  # in the environment of a build, ptxsw is not installed
    from typer.main import get_command

    from ptxsw.cli.app import GROUPS, SECTIONS
    from ptxsw.cli.commands import app

    root: Any = get_command(app)
    context = root.context_class(root, info_name="ptxsw", **root.context_settings)
    commands = {n: c for n, c in root.commands.items() if not c.hidden}
    contexts = {n: c.context_class(c, info_name=n, parent=context) for n, c in commands.items()}
    of = {name: _page(command, contexts[name]) for name, command in commands.items()}
    grouped = dict.fromkeys(name for members in GROUPS.values() for name in members)
    names = [name for name in (*grouped, *(n for n in of if n not in grouped)) if name in of]
    listed = tuple((f"ptxsw {name}", of[name].summary) for name in names)
    whole = _page(root, context)
    sections = tuple((title, Block(text, exact=True)) for title, text in SECTIONS.items())
    yield whole._replace(tables=(*whole.tables, ("Commands", listed)), sections=sections)
    for name in names:
        yield of[name]


def _page(command: Any, context: Any) -> Page:
    tables: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            tables.setdefault(kind, []).append(record)
    first, *blocks = _blocks(command.help or "")
    summary = first.text.removeprefix("ptxsw - ")
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
    return Page(
        context.command_path, summary[:1].upper() + summary[1:], usage, tuple(blocks),
        tuple((title, tuple(rows)) for title, rows in tables.items()),
    )  # fmt: skip


def _blocks(help: str) -> Iterator[Block]:
    r"""Paragraphs of a help text; behind a line with `\b` alone, their lines stay as they are."""
    for part in re.split(r"\n\s*\n", help.strip("\n")):
        _, exact, text = part.rpartition("\b\n")
        if exact:
            yield Block(text, exact=True)
        else:
            yield Block(" ".join(part.split()))


# ---------------------------------------------------------------- man pages


def man_pages(version: str) -> dict[str, str]:
    """The text of each page by its file's name."""
    every = {_file(page.name): page for page in pages()}
    return {f"{name}.1": _man(page, version, [n for n in every if n != name])
            for name, page in every.items()}  # fmt: skip


def _file(name: str) -> str:
    return name.replace(" ", "-")


def _man(page: Page, version: str, others: list[str]) -> str:
    lines = [
        f'.TH {_file(page.name).upper()} 1 "" "ptxsw {version}" "ptxsw"',
        ".SH NAME", rf"{_roff(_file(page.name))} \- {_roff(page.summary)}",
        ".SH SYNOPSIS", _roff(page.usage), ".SH DESCRIPTION", *map(_man_block, page.blocks),
    ]  # fmt: skip
    for title, rows in page.tables:
        lines.append(f".SH {title.upper()}")
        for term, text in rows:
            lines += [".TP", rf"\fB{_roff(term)}\fR", _roff(text)]
    for title, block in page.sections:
        lines += [f".SH {title.upper()}", _man_block(block)]
    lines += [".SH SEE ALSO", " ,\n".join(f".BR {_roff(name)} (1)" for name in others)]
    return "\n".join(lines) + "\n"


def _man_block(block: Block) -> str:
    return f".PP\n.nf\n{_roff(block.text)}\n.fi" if block.exact else f".PP\n{_roff(block.text)}"


def _roff(text: str) -> str:
    """A text in which nothing commands troff, whose hyphens can be copied to a shell, and which
    every locale can show."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("…", "...")
    return re.sub(r"^(?=[.'])", r"\&", text, flags=re.MULTILINE)


# ---------------------------------------------------------------- the site


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls this for each page: the one with the marker gets all commands."""
    if MARKER not in markdown:
        return markdown
    return markdown.replace(MARKER, "\n".join(map(_markdown, pages())))


def _markdown(page: Page) -> str:
    lines = [f"## {page.name}", f"{page.summary}", f"```text\n{page.usage}\n```"]
    lines += [_markdown_block(block) for block in page.blocks]
    for title, rows in page.tables:
        cells = [f"| `{term}` | {_prose(text)} |" for term, text in rows]
        lines.append("\n".join((f"| {title} | |", "|---|---|", *cells)))
    for title, block in page.sections:
        lines += [f"**{title}**", _markdown_block(block)]
    return "\n\n".join(lines) + "\n"


def _markdown_block(block: Block) -> str:
    return f"```text\n{block.text}\n```" if block.exact else _prose(block.text)


def _prose(text: str) -> str:
    """Text in which nothing outside of code is HTML, emphasis, a link or the border of a cell."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([<*_\[|])", r"\\\1", p) for p in parts)
