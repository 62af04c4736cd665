"""The compiled form of `ptx.lark`, kept between runs.

Lark is imported and the grammar compiled only when a text holds something that the fast scan
does not know. The tables are kept as JSON beside the byte code Python keeps of this package,
under the same trust and without pickle; where that folder cannot be written they are compiled
anew.
"""

from __future__ import annotations

import json
import os
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lark import Lark, Tree

GRAMMAR = Path(__file__).with_name("ptx.lark")
STARTS = ("instruction", "operand")


def compile_grammar(text: str) -> Lark:
    """The parser of `ptx.lark`, compiled from its text."""
    from lark import Lark

    return Lark(text, parser="lalr", lexer="contextual", start=list(STARTS))


def _tables(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _keep(path: Path, lark: Lark) -> None:
    """Store the tables, or do without: a read-only installation only loses time."""
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
    text = GRAMMAR.read_text(encoding="ascii")
    key = sha256(f"{version('lark')}\n{STARTS}\n{text}".encode()).hexdigest()[:16]
    path = GRAMMAR.parent / "__pycache__" / f"ptx.lark-{key}.json"
    stored = _tables(path)
    if stored is not None:
        from lark import Lark

        try:
            return Lark.__new__(Lark)._load(stored)
        except (KeyError, TypeError, ValueError):
            pass  # damaged: compile it anew
    fresh = compile_grammar(text)
    _keep(path, fresh)
    return fresh


def tree(text: str, start: str) -> Tree[Any]:
    """Parse `text` by one rule of the grammar. Raises lark.exceptions.UnexpectedInput."""
    return lark().parse(text, start=start)
