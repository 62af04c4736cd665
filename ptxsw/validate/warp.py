"""A lane's value in terms of another lane's: what `shfl.sync` brings.

    activemask.b32 m;                     who is here, and goes on together
    vote.sync.any.pred q, p, m;           q: whether p holds in any of them, the same for all
    shfl.sync.down.b32 d, s, N, 31, m;    d: what s holds in lane i + N
    shfl.sync.idx.b32 d, s, l, 31, m;     d: what s holds in lane l, which is i + N or N - i here

Those who are here go on together as long as they branch on what is the same for all of them.
If all 32 lanes are here and there is the lane, then d is s as that lane computed it
(`other_lane.py`). In all other cases d is unknown, so the second text has to see to them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ptxsw.emulator.node import Term, Variance
from ptxsw.emulator.terms import Terms
from ptxsw.flow.cfg import Cfg
from ptxsw.ir import Instruction, Int, Operand, Reg
from ptxsw.validate.equality import assumed
from ptxsw.validate.evaluate import Get
from ptxsw.validate.other_lane import LANES, OtherLane, Place, lane_number, neighbours
from ptxsw.validate.outcome import LOCKSTEP, NO_RACE, GiveUp
from ptxsw.validate.path import Path
from ptxsw.validate.writers import may_write

_DIRECTIONS: Mapping[str, tuple[int, int]] = {"down": (1, 31), "up": (-1, 0)}
"""Of each mode the sign of the distance, and the clamp that lets all 32 lanes take part."""


def source(terms: Terms, instruction: Instruction, get: Get) -> tuple[Reg, Reg, list[Place]]:
    """Destination and source register of a shuffle, and the places from which lanes take: each
    where there is such a lane, which is true of at most one. Raises GiveUp for a shuffle that is
    not understood."""
    _, mode, *_ = (*instruction.modifiers, "", "")
    operands = instruction.operands
    wrong = GiveUp(f"{instruction.name} is not followed")
    if instruction.modifiers != ("sync", mode, "b32") or len(operands) != 5:
        raise wrong
    dest, value, by, limit, _ = operands
    if not isinstance(dest, Reg) or not isinstance(value, Reg) or instruction.guard is not None:
        raise wrong
    if mode == "idx" and limit == Int(LANES - 1):
        places = _named(terms, get(by)) if isinstance(by, Reg) else None
    else:
        sign, clamp = _DIRECTIONS.get(mode, (0, 0))
        fits = sign and limit == Int(clamp) and isinstance(by, Int) and 0 < by.value < LANES
        places = [Place(sign * by.value)] if fits and isinstance(by, Int) else None
    if places is None:
        raise wrong
    return dest, value, places


def _named(terms: Terms, number: Term) -> list[Place] | None:
    """The places that a number of a lane tells, of which a shuffle takes the low five bits."""
    lane = lane_number(terms)
    for mirrored in (False, True):
        total = (terms.add if mirrored else terms.sub)(number, lane)
        if number.width == lane.width and total.kind == "const":
            near = total.value % LANES
            far = near + LANES if mirrored else near - LANES
            return [Place(near, mirrored), Place(far, mirrored)]
    return None


class WarpView:
    """What `activemask` and `shfl.sync` give in one segment of the second text.

    `block` is the block of the second text in which the segment begins, or None where lanes may
    have come to it from several places of the first. All lanes that execute an `activemask` of
    that block have then come through the same cut, in the same turn of every loop if lanes that
    are together are in the same turn: `looping` tells whether that has to be assumed. Memory is
    `quiet` at an address if, where lanes do not race, nobody writes there between what the lanes
    load. `assumptions` collects names.
    """

    def __init__(
        self,
        terms: Terms,
        cfg: Cfg,
        block: int | None,
        shared: Callable[[Term], bool],
        *,
        quiet: Callable[[Term], bool],
        looping: bool,
        allowed: frozenset[str],
    ) -> None:
        self._terms, self._cfg, self._block = terms, cfg, block
        self._shared, self._quiet, self._looping = shared, quiet, looping
        self._allowed = allowed
        self.assumptions: dict[str, None] = {}
        self._votes: list[tuple[Term, Term, Term]] = []  # mask, and what is true in each lane

    def run(self, path: Path, instruction: Instruction, index: int) -> list[tuple[Reg, Term]]:
        """What the instruction writes. Raises GiveUp where it is not understood."""
        if instruction.guard is not None:
            raise GiveUp(f"a guarded {instruction.name} is not followed")
        if self._looping:
            self.assume(LOCKSTEP)
        if instruction.opcode == "activemask":
            return [self._asked(path, instruction, index)]
        if instruction.opcode == "vote":
            return [self._voted(path, instruction, index)]
        return [self._shuffled(path, instruction, index)]

    def _asked(self, path: Path, instruction: Instruction, index: int) -> tuple[Reg, Term]:
        (dest,) = instruction.operands
        if self._block is None or path.parted or self._cfg.block_of[index] != self._block:
            raise GiveUp("lanes may come along different ways to where they ask who is there")
        if not isinstance(dest, Reg):
            raise GiveUp(f"{instruction.name} is not followed")
        path.mask = self._terms.atom(f"lanes at {index}", 32, Variance.UNIFORM)
        return dest, path.mask

    def _voted(self, path: Path, instruction: Instruction, index: int) -> tuple[Reg, Term]:
        """One answer for all who are here, which tells of each of them."""
        terms, operands = self._terms, instruction.operands
        _, mode, *_ = (*instruction.modifiers, "", "")
        understood = mode in ("any", "all") and instruction.modifiers == ("sync", mode, "pred")
        if not understood or len(operands) != 3:
            raise GiveUp(f"{instruction.name} is not followed")
        dest, asked, mask = operands
        if not isinstance(dest, Reg) or not isinstance(asked, Reg):
            raise GiveUp(f"{instruction.name} is not followed")
        if path.mask is None or not self._names(path, mask, path.mask):
            raise GiveUp("the mask of a vote is not that of the lanes that are here")
        own, answer = path.get(asked), terms.atom(f"voted at {index}", 1, Variance.UNIFORM)
        less, more = (own, answer) if mode == "any" else (answer, own)
        path.conditions = assumed(path.conditions, terms.or_(terms.not_(less), more), terms)
        self._votes.append((path.mask, less, more))
        return dest, answer

    def told(self, other: OtherLane, mask: Term) -> Iterator[Term]:
        """What votes of some lanes tell of another one of them."""
        for lanes, less, more in self._votes:
            if lanes is mask:
                yield self._terms.or_(self._terms.not_(other.value(less)), other.value(more))

    def _shuffled(self, path: Path, instruction: Instruction, index: int) -> tuple[Reg, Term]:
        terms = self._terms
        dest, register, places = source(terms, instruction, path.get)
        mask = instruction.operands[4]
        if path.mask is None or not self._names(path, mask, path.mask):
            raise GiveUp("the mask of a shuffle is not that of the lanes that are here")
        value = terms.atom(f"shuffled at {index}", 32, Variance.LANE)
        for place in places:
            other = self.other(place, quiet=not _writes(path))
            taken = other.value(path.get(register))
            if other.raced:
                self.assume(NO_RACE)
            sure = terms.and_(self.whole(path.mask), place.exists(terms))
            if other.in_row:
                sure = terms.and_(sure, neighbours(terms))
            value = terms.ite(sure, taken, value)
        return dest, value

    def whole(self, mask: Term) -> Term:
        """The condition that all lanes of the warp are here."""
        return self._terms.eq(mask, self._terms.const(-1, 32))

    def other(self, place: Place, *, quiet: bool) -> OtherLane:
        """Another lane; `quiet`: this one has written nothing here."""
        still = quiet and NO_RACE in self._allowed
        return OtherLane(self._terms, place, self._shared, self._quiet if still else _never)

    def _names(self, path: Path, operand: Operand, mask: Term) -> bool:
        """Does an operand name the lanes that are here? All of them may be named by a literal."""
        if isinstance(operand, Reg):
            return path.get(operand) is mask
        literal = operand in (Int(-1), Int(0xFFFFFFFF))
        return literal and self.whole(mask) in path.conditions

    def assume(self, name: str) -> None:
        """Let the proof rest on something. Raises GiveUp where it may not."""
        if name not in self._allowed:
            raise GiveUp(f"the proof would need {name}")
        self.assumptions[name] = None


def _writes(path: Path) -> bool:
    return any(path.stores) or any(may_write(e.instruction) for e in path.events)


def _never(place: Term) -> bool:
    return False
