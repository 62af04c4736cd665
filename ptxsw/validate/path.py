"""A path through one text: what it has computed, accessed and asked, and how it ends."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from ptxsw.facts.conditions import assumed
from ptxsw.ptx.ir import Instruction, Reg
from ptxsw.terms.node import Term
from ptxsw.terms.terms import Terms
from ptxsw.validate.chain import Store
from ptxsw.validate.evaluate import Get
from ptxsw.validate.touches import Touch


class Event(Struct, frozen=True):
    """Something both texts must do: what it is, with which operands, and whether it happens.
    `mask`: which lanes are here, if that has been asked."""

    index: int
    instruction: Instruction
    what: tuple[Any, ...]
    operands: tuple[Term, ...]
    guard: Term
    epoch: int  # the epoch of memory that it ends or leaves alone
    mask: Term | None = None


class End(Struct, frozen=True):
    """How a path ends: "cut" at a place of comparison, "exit", "trap", or "brx", whose index
    chooses among `targets`."""

    kind: str
    index: int  # of the last instruction
    position: int = 0
    chosen: Term | None = None
    targets: tuple[int, ...] = ()


class Path(Struct):
    """A path through one text and what happened on it."""

    base: Get
    conditions: tuple[Term, ...]
    position: int
    written: dict[Reg, Term] = field(default_factory=dict)
    stores: list[list[Store]] = field(default_factory=lambda: [[]])  # by epoch
    touches: list[Touch] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    end: End | None = None
    forked: bool = False  # has a condition decided where it goes?
    parted: bool = False  # may lanes of a warp have decided differently?
    mask: Term | None = None  # which lanes were here at the last question, if they still are
    ahead: bool = False  # run only to see which bytes are read: what stores leave is not looked at

    def get(self, reg: Reg) -> Term:
        """The value of a register here."""
        value = self.written.get(reg)
        return self.base(reg) if value is None else value

    def fork(self, condition: Term, terms: Terms) -> Path:
        """The same path where a condition holds as well."""
        other = self.copy()
        other.conditions = assumed(self.conditions, condition, terms)
        return other

    def copy(self) -> Path:
        """The same path, which may go on in another way."""
        stores = [list(epoch) for epoch in self.stores]
        return Path(
            self.base, self.conditions, self.position, dict(self.written), stores,
            list(self.touches), list(self.events), self.end, self.forked, self.parted, self.mask,
            self.ahead,
        )  # fmt: skip
