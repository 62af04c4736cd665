"""What the fields of public data are, in the words that stand at each: in its type, as
`Annotated[int, Meta(description=…)]`, where a JSON schema has them from, or in a text below it.
`help`, the schema and the API pages show the same.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any, get_args, get_type_hints

from msgspec import Meta, Struct


class Documented(Struct, frozen=True):
    """Data of which `help` says what each field is."""

    def __init_subclass__(cls) -> None:
        cls.__slots__ = _Slots(cls, cls.__slots__)  # type: ignore[attr-defined]


class _Slots(dict[str, str]):
    """Python shows the texts of `__slots__`, where that is a dictionary. They are read when
    somebody asks for them."""

    def __init__(self, kind: type, names: Any) -> None:
        super().__init__(dict.fromkeys(names, ""))
        self._kind = kind

    def __getitem__(self, name: str) -> str:
        return described(self._kind).get(name, "")


@cache
def described(kind: type) -> dict[str, str]:
    """What stands at the fields of a class, its own and those that it inherits, by their names."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("ptxsw."):
            texts |= _below(base)
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError:  # types that only a checker imports: those say nothing
        return texts
    return texts | {name: said for name, hint in hints.items() if (said := _said(hint))}


def _said(hint: Any) -> str | None:
    """Of types in one another the outermost that says something."""
    for meta in getattr(hint, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.description is not None:
            return meta.description
    return next((said for one in get_args(hint)[:1] if (said := _said(one)) is not None), None)


def _below(kind: type) -> dict[str, str]:
    """The texts below the fields of a class."""
    import ast
    import inspect

    try:
        source = inspect.getsource(inspect.getmodule(kind) or kind)
    except (OSError, TypeError):  # installed without its source
        return {}
    bodies = [
        node.body
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    ]
    return {
        ast.unparse(field.target): inspect.cleandoc(below.value.value)
        for body in bodies[:1]
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }
