"""Working ahead on the texts that a build still comes to.

nvcc compiles a source for one target after the other, and what it hands to ptxas often differs in
the name of the target alone. Where the build has a free slot meanwhile, the next answers are in the
cache by the time they are asked for. A text that is another than was expected is answered as any.
"""

from __future__ import annotations

from ptxsw.toolchain.cache import Cache, decode, key
from ptxsw.toolchain.jobs import Jobs
from ptxsw.toolchain.request import CallRequest, perform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from ptxsw.toolchain.request import Optimize

_TARGET: Final = b"\n.target "
_PATIENCE: Final = 0.05  # seconds for the first slot: who has got his answer may give one back


def target_of(text: bytes) -> str:
    """The first target that a text names, such as "sm_80"; empty where there is none."""
    _, found, rest = text.partition(_TARGET)
    words = rest[:80].replace(b",", b" ").split()
    return words[0].decode("ascii", errors="replace") if found and words else ""


def work(request: CallRequest, optimize: Optimize, limit_time: Callable[[], None]) -> None:
    """Answers the texts that are expected after the one of the request, each in a slot that it
    takes and gives back; ends where none is free. `limit_time` is called before each."""
    store = Cache(request.store)
    was = b"%s%s" % (_TARGET, target_of(request.text).encode())
    patience = _PATIENCE
    for each in request.expected:
        text = request.text.replace(was, b"%s%s" % (_TARGET, each.target.encode()), 1)
        name = key(text, each.circumstances.encode())
        if store.has(name):
            continue
        slot, patience = Jobs(request.jobserver, 1, patience), 0.0
        try:
            if slot.count == 1:
                return
            limit_time()
            one = CallRequest(
                text, request.name, each.arch, 1, request.ptxas, request.store,
                each.circumstances, lines=request.lines,
            )  # fmt: skip
            told: list[bytes] = []
            perform(one, optimize, told.append)
            answer = decode(told[-1])
            if answer is not None:
                store.put(name, answer)
        finally:
            slot.end()
