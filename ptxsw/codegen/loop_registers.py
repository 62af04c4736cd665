"""What loops keep in registers, as data: loads that take what a register holds, stores that are
made behind the loop; and what must not stand where a loop begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ptxsw.changes.change import Line
from ptxsw.codegen.entry_guard import EntryGuard
from ptxsw.codegen.loop_guard import GuardedLoop
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx.ir import Function

Test = EntryGuard | GuardedLoop


class Carried(Struct, frozen=True):
    """Load `at` takes what a register holds since the iteration before, in which `source` read or
    wrote the same bytes (None: it reads the same in every iteration). `computed` are the
    instructions of an iteration that make its address. `test`, here and below: without it nothing
    of this is right. Where a test needs the value, it names the `register`."""

    header: int
    at: int
    computed: tuple[int, ...]
    source: int | None
    test: Test | None = None
    register: str = ""

    def facts(self, line: Line) -> Mapping[str, Any]:
        source = None if self.source is None else line(self.source)
        kind = "invariant" if source is None else "rotated"
        return {"kind": kind, "source_line": source, "tested": self.test is not None}


class Repeated(Struct, frozen=True):
    """Load `at` takes what `source` has read or written in this iteration."""

    header: int
    at: int
    source: int
    test: Test | None = None

    def facts(self, line: Line) -> Mapping[str, Any]:
        tested = self.test is not None
        return {"kind": "repeated", "source_line": line(self.source), "tested": tested}


class DeferredStores(Struct, frozen=True):
    """Stores to one address are made once, behind the loop; loads of it take the register. The
    instructions `computed` make the address of access `first`. With `loaded`, what memory holds
    before the loop is needed. The loads `compared` may be of the same bytes: each takes the
    register where it is."""

    header: int
    stores: tuple[int, ...]
    loads: tuple[int, ...]
    first: int
    computed: tuple[int, ...]
    loaded: bool
    compared: tuple[int, ...] = ()
    test: Test | None = None

    def facts(self, line: Line) -> Mapping[str, Any]:
        return {
            "kind": "promoted",
            "store_lines": list(map(line, self.stores)),
            "load_lines": list(map(line, self.loads)),
            **({"compared_lines": list(map(line, self.compared))} if self.compared else {}),
            "tested": self.test is not None,
        }


def obstacle(function: Function, cfg: Cfg, loop: Loop) -> str | None:
    """Why nothing can stand in front of a loop; None where it can."""
    block = cfg.blocks[loop.header]
    if not block.labels:
        return "the loop has no label"
    if loop.header == 0:
        return "the kernel begins with the loop"
    # Lines before the header's label are executed by code that falls through into it, so that must
    # not be an iteration of the loop. Branches into the loop are redirected to a new label, which
    # is not possible for a table of targets.
    before = cfg.blocks[loop.header - 1]
    last = cfg.instructions[before.end - 1]
    falls = not (last.guard is None and last.opcode in ("bra", "brx", "ret", "exit", "trap"))
    if falls and before.number in loop.blocks:
        return "the last block of the loop falls through to its header"
    for number in cfg.predecessors[loop.header]:
        if (
            number not in loop.blocks
            and cfg.instructions[cfg.blocks[number].end - 1].opcode == "brx"
        ):
            return "an indirect branch enters the loop"
    return None
