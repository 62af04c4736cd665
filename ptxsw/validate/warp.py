"""A lane's value in terms of another lane's: what `shfl.sync` brings.

    activemask.b32 m;                     who is here, and goes on together
    vote.sync.any.pred q, p, m;           q: whether p holds in any of them, the same for all
    shfl.sync.down.b32 d, s, N, 31, m;    d: what s holds in lane i + N
    shfl.sync.idx.b32 d, s, l, 31, m;     d: what s holds in lane l, which is i + N or N - i here

Those who are here go on together as long as they branch on what is the same for all of them.
If all 32 lanes are here and there is the lane, then d is s as that lane computed it
(`other_lane.py`). In all other cases d is unknown, so the second text has to see to them itself.

    vote.sync.ballot.b32 m, p, -1;        who of all lanes has p, where all come (`merged_paths.py`)
    vote.sync.any.pred q, p, -1;          q: whether p holds in any of all lanes

If the ballot names all 32 lanes, then all are here and p holds in each. A lane that waits for
others (`waiting_lanes.py`) is here as well, so p has to be false in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ptxsw.changes.assumptions import LOCKSTEP
from ptxsw.emulator.operand_reader import Get
from ptxsw.facts.conditions import assumed, decided
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx.ir import Instruction, Int, Operand, Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, unknowns, walk
from ptxsw.terms.terms import Terms
from ptxsw.validate.memory import Memory
from ptxsw.validate.merged_paths import ALL, MergedPaths, names_all
from ptxsw.validate.other_lane import (
    LANES,
    MovedTerms,
    OtherLane,
    Place,
    Read,
    in_step,
    lane_number,
    neighbours,
)
from ptxsw.validate.outcome import GiveUp
from ptxsw.validate.path import Path

WARP_QUESTIONS = frozenset({"activemask", "shfl", "vote"})
"""What a view of the warp understands, where only the second text has it."""

_MAX_SIZE = 200  # nodes of a condition
_SHUFFLED = 32  # bits

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
    """The places that a lane number computed at run time may name. A shuffle takes its low five
    bits."""
    lane = lane_number(terms)
    for mirrored in (False, True):
        total = (terms.add if mirrored else terms.sub)(number, lane)
        if number.width == lane.width and total.kind is op.CONST:
            # Modulo 32 the number names a lane ahead or one behind; at most one of them exists for
            # a lane, and `Place.exists` tells which.
            near = total.value % LANES
            far = near + LANES if mirrored else near - LANES
            return [Place(near, mirrored), Place(far, mirrored)]
    return None


class WarpView:
    """What `activemask` and `shfl.sync` give in one segment of the second text.

    `block` is the block of the second text in which the segment begins, or None where lanes may
    have come to it from several places of the first. `merged` tells where all lanes come, and
    `lane_waits` whether this lane only waits for others. All lanes that execute an `activemask` of
    that block have then come through the same cut, in the same iteration of every loop if lanes
    that are together are in the same iteration: `looping` tells whether that has to be assumed.
    `asks`: is an instruction a question that only the second text asks?
    `rests_on` tells, by the paths of the first text, what has to be assumed so that two lanes find
    the same bytes in memory, or None. `assumptions` collects names.
    """

    def __init__(
        self,
        memory: Memory,
        cfg: Cfg,
        block: int | None,
        shared: Callable[[Term], bool],
        *,
        rests_on: Callable[[Sequence[Path], Read], frozenset[str] | None],
        looping: bool,
        allowed: frozenset[str],
        asks: Callable[[Instruction], bool],
        merged: MergedPaths,
        lane_waits: bool = False,
    ) -> None:
        self._memory, self._cfg, self._block = memory, cfg, block
        self._terms = memory.terms
        self._merged, self._lane_waits, self.asks = merged, lane_waits, asks
        self._ballots: set[Term] = set()  # masks that are ballots of all lanes
        self._taken: set[Term] = set()  # what shuffles give where no lane is known to hand it over
        self._shared, self._rests_on, self._looping = shared, rests_on, looping
        self._olds: Sequence[Path] = ()  # what the first text does in the segment
        self._moved: MovedTerms = {}  # with what they find in memory there
        self._allowed = allowed
        self.assumptions: dict[str, None] = {}
        self._votes: list[tuple[Term, Term, Term]] = []  # mask, and what is true in each lane
        self.given: tuple[Term, ...] = ()  # what holds where the segment begins, in any lane

    def run(self, path: Path, instruction: Instruction, index: int) -> list[tuple[Reg, Term]]:
        """What the instruction writes. Raises GiveUp where it is not understood."""
        if instruction.guard is not None:
            raise GiveUp(f"a guarded {instruction.name} is not followed")
        if self._looping and not names_all(instruction):
            self.assume(LOCKSTEP)  # a ballot of all lanes is of one iteration
        value: Term
        match instruction:
            case Instruction(opcode="activemask", operands=(Reg() as dest,)):
                value = self._active(path, index)
            case Instruction(
                opcode="vote",
                modifiers=("sync", "ballot", "b32"),
                operands=(Reg() as dest, Reg() as asked, mask),
            ) if mask in ALL:
                value = self._balloted(path, path.get(asked), index)
            case Instruction(
                opcode="vote",
                modifiers=("sync", "any" | "all" as mode, "pred"),
                operands=(Reg() as dest, Reg() as asked, mask),
            ):
                if not self._names(path, mask, index):
                    raise GiveUp("the mask of a vote is not the mask of the active lanes")
                value = self._voted(path, path.get(asked), mode, index)
            case Instruction(opcode="shfl"):
                dest, value = self._shuffled(path, instruction, index)
            case _:
                raise GiveUp(f"{instruction.name} is not followed")
        return [(dest, value)]

    def _active(self, path: Path, index: int) -> Term:
        if self._lane_waits:
            raise GiveUp("lanes that wait for others ask which lanes are active")
        if self._block is None or path.parted or self._cfg.block_of[index] != self._block:
            raise GiveUp("lanes may reach a query of the active lanes on different paths")
        path.mask = self._terms.atom(f"lanes at {index}", 32, Variance.UNIFORM)
        return path.mask

    def _balloted(self, path: Path, own: Term, index: int) -> Term:
        """Who of all lanes has a predicate, which is `own` in this lane. All lanes have come from
        where this segment begins: each from the same place of the first text, unless it waits."""
        apart = self._block is None or not self._merged.whole(self._block)
        if not self._lane_waits and (path.parted or apart):
            raise GiveUp("lanes may reach a query of the active lanes on different paths")
        self._merged.check(index)
        if self._lane_waits and decided(self._terms, own, path.conditions) is not False:
            raise GiveUp("a lane that waits for others is counted among them")
        # A full ballot: the predicate is true in this lane, and in every other one.
        path.mask = mask = self._terms.atom(f"lanes at {index}", 32, Variance.UNIFORM)
        self._learn(path, mask, self.whole(mask), own)
        self._ballots.add(mask)
        return mask

    def _voted(self, path: Path, own: Term, mode: str, index: int) -> Term:
        """A vote: one answer for all lanes that are here, from which a fact follows for each."""
        answer = self._terms.atom(f"voted at {index}", 1, Variance.UNIFORM)
        # `any`: where a lane has it, the answer is true. `all`: where that is true, each lane has
        # it. The converses are about all lanes at once, and are not used.
        less, more = (own, answer) if mode == "any" else (answer, own)
        self._learn(path, path.mask, less, more)
        return answer

    def _learn(self, path: Path, mask: Term | None, less: Term, more: Term) -> None:
        """From one condition follows another, in each lane of a mask."""
        if less.width != 1 or more.width != 1:
            raise GiveUp("a vote has no predicate")
        path.conditions = assumed(
            path.conditions, self._terms.or_(self._terms.not_(less), more), self._terms
        )
        if mask is not None:
            self._votes.append((mask, less, more))

    def told(self, other: OtherLane, mask: Term) -> Iterator[Term]:
        """The facts about another lane that follow from votes in which both took part."""
        for lanes, less, more in self._votes:
            if lanes is mask:
                yield self._terms.or_(self._terms.not_(other.value(less)), other.value(more))

    def _shuffled(self, path: Path, instruction: Instruction, index: int) -> tuple[Reg, Term]:
        terms = self._terms
        dest, register, places = source(terms, instruction, path.get)
        if not self._names(path, instruction.operands[4], index):
            raise GiveUp("the mask of a shuffle is not the mask of the active lanes")
        if path.get(register).width != _SHUFFLED:
            raise GiveUp(f"{instruction.name} is not followed")
        value = terms.atom(f"shuffled at {index}", _SHUFFLED, Variance.LANE)
        self._taken.add(value)
        # Without a known set of lanes, nothing is known of what comes: the unknown stays.
        if path.mask is None or self._lane_waits:
            return dest, value
        for place in places:
            other = self.other(place)
            held = path.get(register)
            taken = other.value(held)
            there = [other.value(condition) for condition in self._helpful(held)]
            if not self._taken.isdisjoint(walk(held)):  # it may have come from a third lane
                there += self.told(other, path.mask)
            self.rest_on(other)
            sure = terms.and_(self.whole(path.mask), place.exists(terms))
            for test in sorted(other.tests, key=lambda t: t.id):
                sure = terms.and_(sure, test)
            # The other lane's `%tid.x` is known only if rows do not wrap inside the warp. In that
            # case the low bits of this lane's `%tid.x` are its lane number, too.
            if other.in_row:
                rows = neighbours(terms)
                sure = terms.and_(sure, rows)
                step = terms.or_(terms.not_(rows), in_step(terms))
                path.conditions = assumed(path.conditions, step, terms)
            for condition in there:
                more = terms.or_(terms.not_(sure), condition)
                path.conditions = assumed(path.conditions, more, terms)
            value = terms.ite(sure, taken, value)
        return dest, value

    def _helpful(self, value: Term) -> list[Term]:
        """What is known in each lane where the segment begins, and may tell which path a value took
        that depends on the path."""
        conditions = [
            condition
            for condition in self.given
            if condition.variance is Variance.LANE and condition.size <= _MAX_SIZE
        ]
        choices = (node for node in walk(value) if node.kind is op.ITE) if conditions else ()
        choosing = {choice.args[0] for choice in choices}
        asked = {
            unknown
            for condition in choosing
            if condition.variance is Variance.LANE
            for unknown in unknowns(condition)
        }
        return [c for c in conditions if not asked.isdisjoint(unknowns(c))]

    def whole(self, mask: Term) -> Term:
        """The condition that all lanes of the warp are here."""
        return self._terms.eq(mask, self._terms.const(-1, 32))

    def other(self, place: Place) -> OtherLane:
        """Another lane."""
        return OtherLane(self._memory, place, self._shared, self._finds, self._moved)

    def follow(self, olds: Sequence[Path]) -> None:
        """Say what the first text does in the segment."""
        self._olds, self._moved = olds, {}

    def _finds(self, read: Read) -> frozenset[str] | None:
        names = self._rests_on(self._olds, read)
        return names if names is not None and names <= self._allowed else None

    def rest_on(self, other: OtherLane) -> None:
        """Let the proof rest on what another lane's values rest on."""
        for name in other.assumed:
            self.assume(name)

    def _names(self, path: Path, operand: Operand, index: int) -> bool:
        """Does an operand name the lanes that are here? All of them may be named by a literal:
        where it is known that all are here, or where all come, whichever they are. A ballot names
        those that have a predicate, while the others are here, too."""
        if isinstance(operand, Reg):
            all_here = path.mask is not None and path.mask not in self._ballots
            return all_here and path.get(operand) is path.mask
        if operand not in ALL:
            return False
        if path.mask is None or self.whole(path.mask) not in path.conditions:
            self._merged.check(index)
        return True

    def assume(self, name: str) -> None:
        """Let the proof rest on something. Raises GiveUp where it may not."""
        if name not in self._allowed:
            raise GiveUp(f"the proof would need {name}")
        self.assumptions[name] = None
