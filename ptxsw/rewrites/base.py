"""What a rewrite is: a value that finds changes in a kernel. `REWRITES` lists them all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from ptxsw.changes.change import Change, Line, Refusal
    from ptxsw.changes.options import Options
    from ptxsw.changes.permutation import Permutation
    from ptxsw.codegen.splice import Edit
    from ptxsw.emulator.budget import Budget
    from ptxsw.emulator.trace import Trace
    from ptxsw.ptx.ir import Function, Module
    from ptxsw.terms.solver import Solver

Outcome: TypeAlias = "Change | Refusal | Choice"

LOAD_ELIMINATION, UNIFORM_LOOPS, SHUFFLE = "load-elimination", "uniform-loops", "shuffle"
TOGETHER = (LOAD_ELIMINATION, UNIFORM_LOOPS, SHUFFLE)
"""The rewrites that are planned together (`joint.py`)."""
IN_PARTS = (*TOGETHER, "memory-spaces")
"""Those of whose changes a part stays where all of them cannot be proved (`parts.py`)."""

ASKED, TUNED, MODEL = "asked", "tuned", "model"


class Choice(Struct, frozen=True):
    """Why shuffles are made, or not. `by` says what decided: who asked, a measurement, or what
    ptxas makes of it; `gain` what is expected of it (0.04: 4% faster; None: nothing is known)."""

    by: str
    gain: float | None
    reason: str


class RefusedSource(Struct, frozen=True):
    """The load whose value a refused load would have taken, and the lanes between them."""

    index: int
    delta: int

    def facts(self, line: Line) -> Mapping[str, Any]:
        return {"source_line": line(self.index), "delta": self.delta}


class Requires(Struct, frozen=True):
    """What a rewrite needs, checked without parsing the kernel's body. A kernel whose text
    contains none of the `words` has nothing to rewrite; without words every kernel may have.
    `least` of them are needed, those left out that `but` counts."""

    version: tuple[int, int] = (0, 0)  # of PTX
    version_reason: str = ""
    sm: int = 0
    sm_reason: str = ""
    words: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    least: int = 1
    # Even mode force puts a kernel back if ptxas makes more instructions of the new text.
    shorter_code: bool = False
    # The rewrite looks at loops alone. No rewrite makes one where there was none.
    loops: bool = False

    def missing(self, module: Module) -> str | None:
        """Why no kernel of the module can be rewritten; None where some may be."""
        if module.address_size != 64:
            return "kernels with 32-bit addresses (.address_size 32) are left alone"
        if module.version < self.version:
            (major, minor), (least, wanted) = module.version, self.version
            return f"PTX {major}.{minor} {self.version_reason}; it needs .version {least}.{wanted}"
        if module.sm < self.sm:
            target = module.targets[0] if module.targets else "?"
            return f"the target {target} {self.sm_reason}"
        return None

    def may_apply(self, text: str) -> bool:
        """Does the text of a kernel hold one of the words?"""
        return not self.words or any(word in text for word in self.words)

    def may_profit(self, text: str) -> bool:
        """Does the text of a function, of which no more is known, hold as many words as are needed,
        and a branch where a loop is?"""
        if self.loops and "bra" not in text:
            return False
        meant = sum(map(text.count, self.words)) - sum(map(text.count, self.but))
        return not self.words or meant >= self.least

    @property
    def no_words(self) -> str:
        """Why it does not apply to a text without the words."""
        return f"the kernel holds none of the words {', '.join(self.words)}"


_OTHER_LOADS = ("ld.param", "ld.shared", "ld.local", "ld.const")
TWO_LOADS = Requires(words=("ld.",), but=_OTHER_LOADS, least=2)
"""Loads that may be of global memory."""
FOR_SHUFFLES = replace(
    TWO_LOADS, version=(6, 2), version_reason="has no activemask", sm=30, sm_reason="has no shuffle"
)
"""What shuffles and votes need."""


class Kernel(Struct, frozen=True):
    """One kernel, as handed down to each rewrite. `arch` is the target for which gains are
    judged ("sm_80"); `considered` names the rewrites that were asked for."""

    module: Module
    function: Function
    trace: Trace
    solver: Solver
    options: Options
    arch: str | None
    considered: frozenset[str]
    budget: Budget
    block: tuple[int, int, int] | None = None  # threads along x, y and z, where they are known

    @property
    def text(self) -> str:
        """The text of the whole module."""
        return self.module.source.text

    @property
    def block_shape(self) -> tuple[int, int, int] | None:
        """Threads of a block along x, y and z, where they are declared or were given."""
        return self.function.block_shape or self.options.block or self.block

    @property
    def explains(self) -> bool:
        """Does the report say why rewrites that need ptxas leave things alone? They leave nearly
        every load and loop alone, so the reasons are listed only if rewrites are named."""
        return self.options.rewrites is not None

    def line(self, index: int) -> int:
        """The line of an instruction of the body in the original text, counted from 1."""
        return self.module.source.line(self.trace.cfg.instructions[index].span.start)

    def is_copy(self, index: int) -> bool:
        """Did a rewrite write an instruction of the body beside one of which it is a copy?"""
        return self.module.source.is_copy(self.trace.cfg.instructions[index].span.start)


def leads(name: str, kernel: Kernel) -> bool:
    """Does this rewrite make the joint plan: is it the last of them that is considered?"""
    return name == [one for one in TOGETHER if one in kernel.considered][-1]


class Attempt(Struct, frozen=True):
    """What one rewrite changed in a kernel, and what it refused."""

    rewrite: str
    kernel: Kernel  # as the rewrite saw it
    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    choice: Choice | None

    @property
    def shared_layout(self) -> Permutation | None:
        """What all shared memory of the kernel goes through."""
        layouts = (change.shared_layout for change in self.changes)
        return next((layout for layout in layouts if layout is not None), None)

    def line(self, index: int) -> int:
        """The line in the original text of an instruction that the rewrite saw, or of what has
        become that instruction."""
        return self.kernel.line(index)


class Search(Protocol):
    """The part of a rewrite that looks at kernels: what its file in `rewrites/` holds."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str:
        """One sentence for `ptxsw rewrites`."""
        ...

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """Changes that are proved right and worth making, refusals with their reasons, and at most
        one choice."""
        ...

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits of the module's text that make all of these changes."""
        ...


class OwnSearch(Search, Protocol):
    """The same of a rewrite of our own."""

    def nothing(self, kernel: Kernel) -> str:
        """What it looked for in a kernel for which `find` yields nothing: who asks for a rewrite by
        name is told."""
        ...


class Rewrite(Search, Protocol):
    """One way to change kernels. It keeps nothing from one kernel to the next. Its name is the word
    of the command line, the report and the tune store."""

    @property
    def requires(self) -> Requires: ...

    @property
    def follows(self) -> frozenset[str]:
        """Instructions whose operands the trace must have."""
        ...

    @property
    def needs_ptxas(self) -> bool:
        """Mode auto: is it made only where ptxas can say what it costs?"""
        ...


class LazyRewrite(Struct, frozen=True):
    """A rewrite of our own. The file with its search, `rewrites/NAME.py`, is imported when a kernel
    has what the rewrite requires: importing them all costs more than reading most kernels."""

    name: str
    requires: Requires = Requires()
    needs_ptxas: bool = False
    follows: frozenset[str] = frozenset()

    @property
    def search(self) -> OwnSearch:
        """What its file holds: of "bank-conflicts" the class `BankConflicts`."""
        return _search(self.name)

    @property
    def summary(self) -> str:
        return self.search.summary

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        return self.search.find(kernel)

    def nothing(self, kernel: Kernel) -> str:
        return self.search.nothing(kernel)

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        return self.search.lower(kernel, changes)


@cache
def _search(name: str) -> OwnSearch:
    module = import_module(f"ptxsw.rewrites.{name.replace('-', '_')}")
    search: OwnSearch = getattr(module, name.title().replace("-", ""))()
    return search
