"""The compiled form of `ptx.lark`, kept between runs.

Lark is imported and the grammar compiled only when a text holds something that the fast scan
does not know. The tables are kept as JSON beside the byte code Python keeps of this package,
under the same trust and without pickle; where that folder cannot be written they are compiled
anew.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from lark import Lark, Tree

STARTS = ("instruction", "operand", "declaration", "header")


def grammar_file() -> Path:
    """Where the grammar lies."""
    from pathlib import Path

    return Path(__file__).with_name("ptx.lark")


def compile_grammar(text: str) -> Lark:
    """The parser of `ptx.lark`, compiled from its text."""
    from lark import Lark

    return Lark(text, parser="lalr", lexer="contextual", start=list(STARTS))


def _numbered(pairs: list[tuple[str, Any]]) -> dict[str | int, Any]:
    """A JSON object with the numbers back that its keys were: Lark's tables are indexed so."""
    return {int(key) if key.isdecimal() else key: value for key, value in pairs}


def _stored(path: Path) -> Lark | None:
    """The parser from its stored tables; None where there are none or they are damaged."""
    try:
        text = path.read_text(encoding="ascii")
    except OSError:
        return None
    import json

    from lark import Lark

    try:
        loaded = Lark.__new__(Lark)._load(json.loads(text, object_pairs_hook=_numbered))
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError):
        return None
    assert isinstance(loaded, Lark)
    return loaded


def _keep(path: Path, lark: Lark) -> None:
    """Store the tables, or do without: a read-only installation only loses time."""
    import json
    import os

    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    data, memo = lark.memo_serialize([TerminalDef, Rule])
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(exist_ok=True)
        part.write_text(json.dumps({"data": data, "memo": memo}), encoding="ascii")
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)


@cache
def lark() -> Lark:
    """The parser of `ptx.lark`."""
    from hashlib import sha256

    from lark import __version__

    file = grammar_file()
    text = file.read_text(encoding="ascii")
    key = sha256(f"{__version__}\n{STARTS}\n{text}".encode()).hexdigest()[:16]
    path = file.parent / "__pycache__" / f"ptx.lark-{key}.json"
    stored = _stored(path)
    if stored is not None:
        return stored
    fresh = compile_grammar(text)
    _keep(path, fresh)
    return fresh


def tree(text: str, start: str) -> Tree[Any]:
    """Parse `text` by one rule of the grammar. Raises lark.exceptions.UnexpectedInput."""
    return lark().parse(text, start=start)
