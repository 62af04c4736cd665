"""What the types of a report say of their fields (`ptxsw.report.fields.says`), for the API pages.

mkdocstrings reads docstrings. The fields of reports say what they are in their types, where the
JSON schema has it from, too: this extension of Griffe gives each the docstring that its type holds.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from griffe import Attribute, Class, Docstring, Expr, ExprSubscript, ExprTuple, Extension

from ptxsw.ptx.documented import described

_SAYING = ("ptxsw.report.", "ptxsw.ptx.")


class FieldDocs(Extension):
    def on_class(self, *, cls: Class, **_: Any) -> None:
        home = cls.module.path
        if not home.startswith(_SAYING):  # others may need what is not installed
            return
        kind: Any = getattr(import_module(home), cls.name, None)
        if not hasattr(kind, "__struct_fields__"):
            return
        for name, said in described(kind).items():
            member = cls.members.get(name)
            if isinstance(member, Attribute):
                member.annotation = _bare(member.annotation)
                if member.docstring is None:
                    member.docstring = Docstring(said, parent=member)


def _bare(annotation: Expr | str | None) -> Expr | str | None:
    """A type without what `Annotated` adds to it."""
    while isinstance(annotation, ExprSubscript) and str(annotation.left) == "Annotated":
        inside = annotation.slice
        annotation = inside.elements[0] if isinstance(inside, ExprTuple) else inside
    return annotation
