"""The steps by which a kernel was rewritten, as comments behind its text.

    // ptxsw step of k: {"claims":[{"label":"LOOP","register":"%sw_prev", …}]}

`verify` proves each step again, with what is claimed of it here, and so the whole. It believes
nothing of this: a step that was changed, or belongs to another text, proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from ptxsw.changes.claim import Claim
from ptxsw.changes.permutation import Permutation

_BEGIN = "// ptxsw step of "

Replaced = tuple[int, int, str]
"""From where to where, in characters behind the start of the kernel as it was before all steps (a
function may be put in before it), and what stands there now."""


class RewriteStep(Struct, frozen=True, omit_defaults=True):
    """One rewrite of a kernel. Behind the last step is the text that the comments stand in."""

    claims: tuple[Claim, ...] = ()
    """What is claimed of its registers."""
    layout: Permutation | None = None
    """How shared memory was permuted."""
    edits: tuple[Replaced, ...] = ()
    """Those that made the text behind it from the kernel before all steps."""


def comments(steps: Mapping[str, Sequence[RewriteStep]]) -> str:
    """The steps of some kernels as comments, to stand behind their text."""
    lines = [
        f"{_BEGIN}{kernel}: {msgspec.json.encode(step).decode()}\n"
        for kernel, several in steps.items()
        for step in several
    ]
    return "\n" + "".join(lines) if lines else ""


def read_steps(text: str, kernel: str) -> Iterator[RewriteStep]:
    """The steps that a text's comments tell of a kernel. Raises ValueError where they cannot be
    read."""
    begin = f"{_BEGIN}{kernel}: "
    at = text.find(begin)
    while at >= 0:
        end = text.find("\n", at)
        line = text[at + len(begin) : end if end >= 0 else len(text)]
        try:
            yield msgspec.json.decode(line, type=RewriteStep)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise ValueError(f"a step of {kernel} cannot be read: {error}") from error
        at = text.find(begin, at + 1)


def without_steps(text: str) -> str:
    """A text without such comments."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_BEGIN))
