"""What one process does on the GPU, and what it says of it, line by line.

    {"begin": ITEM}, then {"item": ITEM, "result": {...}}

A process that ends, or is ended, behind a line that begins an item has failed with that item.
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct, field

from benchmarks.gpu.prepared import Manifest, Prepared
from ptxsw.gpu.driver import Driver
from ptxsw.gpu.measure import Effort


class Job(Struct, frozen=True):
    """The work of one process: items, in order. `seconds` is its limit on a GPU, `tool` that of
    compute-sanitizer under which it runs."""

    part: str
    name: str
    items: tuple[str, ...]
    seconds: float = 60.0
    tool: str = ""


class Order(Struct, frozen=True):
    """What a process is started with. `skip` are the items that are done."""

    folder: str
    driver: str  # module:function
    job: Job
    skip: tuple[str, ...] = ()
    effort: Effort = field(default_factory=Effort)


class Part(Protocol):
    """A part of the experiment: a module. Its results are plain data, which go into the journal."""

    NAME: str
    TITLE: str
    SHARE: float
    """Of the minutes; what a part leaves goes to those behind it."""
    ALONE: bool
    """Does it measure time, so that nothing else may run meanwhile?"""

    def jobs(self, manifest: Manifest) -> list[Job]: ...

    def work(self, driver: Driver, prepared: Prepared, order: Order, item: str) -> Any:
        """The result of one item. Raises GpuError."""
        ...
