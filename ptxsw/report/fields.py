"""Types of what a report holds, and what its JSON schema says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, field

NULL: Any = field(default_factory=lambda: None)
EMPTY: Any = field(default_factory=lambda: ())


def says(text: str) -> Meta:
    """What the schema says of a field."""
    return Meta(description=text)


def one_of(*words: str) -> Meta:
    """These are all words that a field may hold."""
    return Meta(extra_json_schema={"enum": list(words)})


Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Lanes = Annotated[int, Meta(ge=1, le=32)]
Share = Annotated[float, Meta(ge=0, le=1)]
Weight = Annotated[float, Meta(ge=0)]
Line = Annotated[int, Meta(ge=1), says("A line of the PTX, from 1.")]
Delta = Annotated[
    int,
    Meta(ge=-31, le=62),
    says("The source is lane i + delta; for a mirrored row, lane delta - i."),
]
Name = Annotated[str, says("The name of a rewrite, as `ptxsw rewrites` prints it.")]
Detail = Annotated[Mapping[str, Any], says("Details of this kind of rewrite; places are lines.")]
Status = Annotated[
    str,
    one_of("proved", "guarded", "assumed"),
    says("Proved outright, tested at run time, or relying on named assumptions."),
]
