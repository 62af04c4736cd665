"""A lane's value in terms of another lane's: what `shfl.sync` brings.

    activemask.b32 m;                     who is here, and goes on together
    vote.sync.any.pred q, p, m;           q: whether p holds in any of them, the same for all
    shfl.sync.down.b32 d, s, N, 31, m;    d: what s holds in lane i + N

Those who are here go on together as long as they branch on what is the same for all of them.
If all 32 lanes are here and there is a lane i + N, then d is s as that lane computed it: the same
text on other values. A term becomes the other lane's by moving `%tid.x` and `%laneid` by N; what
is the same for the whole warp stays, and so does memory that nobody writes. Every other value that
may differ between lanes becomes an unknown of which nothing is known. In all other cases d is
unknown, too, so the second text has to see to them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ptxsw.emulator.node import Term, Variance
from ptxsw.emulator.terms import Terms
from ptxsw.flow.cfg import Cfg
from ptxsw.ir import Instruction, Int, Operand, Reg
from ptxsw.validate.equality import assumed
from ptxsw.validate.evaluate import BY_ZERO
from ptxsw.validate.memory import CONSTANT
from ptxsw.validate.outcome import LOCKSTEP, NO_RACE, GiveUp
from ptxsw.validate.path import Path
from ptxsw.validate.writers import may_write

LANES = 32
_MOVED = ("%tid.x", "%laneid")
_DIRECTIONS: Mapping[str, tuple[int, int]] = {"down": (1, 31), "up": (-1, 0)}
"""Of each mode the sign of the distance, and the clamp that lets all 32 lanes take part."""


class ShiftedLane:
    """Terms as lane i + `distance` has them. `shared` tells which addresses are the same for all
    lanes. Plain loads are followed where memory is `quiet` at their address; `raced` tells whether
    one was, and `in_row` whether the values hold only where a warp lies in one row of the block.
    """

    def __init__(
        self,
        terms: Terms,
        distance: int,
        shared: Callable[[Term], bool],
        quiet: Callable[[Term], bool],
    ) -> None:
        self._terms, self._distance = terms, distance
        self._shared, self._quiet = shared, quiet
        self._memo: dict[Term, Term] = {}
        self.raced = self.in_row = False

    def value(self, term: Term) -> Term:
        """The value of a term in the other lane, said in this lane's words."""
        return self._terms.substitute(term, self._leaf, self._memo)

    def _leaf(self, node: Term) -> Term | None:
        if node.kind == "atom":
            return self._atom(node)
        if node.kind == "apply" and not self._same_function(node):
            return self._unknown(node)
        return None

    def _atom(self, node: Term) -> Term:
        if node.value in _MOVED:
            self.in_row = self.in_row or node.value == "%tid.x"
            return self._terms.add(node, self._terms.const(self._distance, node.width))
        if node.variance is Variance.UNIFORM or self._shared(node):
            return node
        if node.variance is Variance.ROW:
            self.in_row = True
            return node
        return self._unknown(node)

    def _unknown(self, node: Term) -> Term:
        name = f"lane {self._distance:+}: {node.id}"
        return self._terms.atom(name, node.width, Variance.LANE)

    def _same_function(self, node: Term) -> bool:
        """Do equal arguments give another lane the equal value?"""
        name = node.value[0]
        if name[0] == BY_ZERO:
            return True
        if name[0] != "load" or name[1] not in ("global", "const", "param"):
            return False
        if len(name) == 2:  # of the symbolic run: memory that nobody writes
            return True
        if len(name) != 4 or not isinstance(name[3], tuple) or name[3]:
            return False
        if name[2] == CONSTANT:
            return True
        quiet = name[1] == "global" and self._quiet(node.args[0])
        self.raced = self.raced or quiet
        return quiet


def neighbours(terms: Terms) -> Term:
    """The condition that lanes of a warp follow each other along `%tid.x`: rows hold whole warps,
    or there is one row. No size is 0, so one row is where no bit above the lowest is set in
    either."""

    def size(axis: str) -> Term:
        bits = 0x7F if axis == "z" else 0x7FF
        return terms.atom(f"%ntid.{axis}", 32, Variance.UNIFORM, bits)

    whole = terms.eq(terms.extract(size("x"), 0, 5), terms.const(0, 5))
    flat = terms.eq(terms.or_(size("y"), size("z")), terms.const(1, 32))
    return terms.or_(whole, flat)


def shuffle(instruction: Instruction) -> tuple[Reg, Reg, int]:
    """Destination, source and signed distance of a shuffle. Raises GiveUp for one that is not
    understood."""
    _, mode, *_ = (*instruction.modifiers, "", "")
    operands = instruction.operands
    sign, clamp = _DIRECTIONS.get(mode, (0, 0))
    if instruction.modifiers != ("sync", mode, "b32") or len(operands) != 5 or not sign:
        raise GiveUp(f"{instruction.name} is not followed")
    dest, source, by, limit, _ = operands
    if not isinstance(dest, Reg) or not isinstance(source, Reg) or not isinstance(by, Int):
        raise GiveUp(f"{instruction.name} is not followed")
    if limit != Int(clamp) or not 0 < by.value < LANES or instruction.guard is not None:
        raise GiveUp(f"{instruction.name} is not followed")
    return dest, source, sign * by.value


def takes(terms: Terms, distance: int) -> Term:
    """The condition that a lane has a lane at a distance in its warp."""
    lane = terms.atom("%laneid", 32, Variance.LANE, 0x1F)
    if distance > 0:
        return terms.ule(lane, terms.const(LANES - 1 - distance, 32))
    return terms.ule(terms.const(-distance, 32), lane)


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

    def run(self, path: Path, instruction: Instruction, index: int) -> list[tuple[Reg, Term]]:
        """What the instruction writes. Raises GiveUp where it is not understood."""
        if instruction.guard is not None:
            raise GiveUp(f"a guarded {instruction.name} is not followed")
        if self._looping:
            self._assume(LOCKSTEP)
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
        return dest, answer

    def _shuffled(self, path: Path, instruction: Instruction, index: int) -> tuple[Reg, Term]:
        terms = self._terms
        dest, source, distance = shuffle(instruction)
        mask = instruction.operands[4]
        if path.mask is None or not self._names(path, mask, path.mask):
            raise GiveUp("the mask of a shuffle is not that of the lanes that are here")
        written = any(path.stores) or any(may_write(e.instruction) for e in path.events)
        still = NO_RACE in self._allowed and not written
        other = ShiftedLane(terms, distance, self._shared, self._quiet if still else _never)
        value = other.value(path.get(source))
        if other.raced:
            self._assume(NO_RACE)
        here = terms.eq(path.mask, terms.const(-1, 32))
        sure = terms.and_(here, takes(terms, distance))
        if other.in_row:
            sure = terms.and_(sure, neighbours(terms))
        unknown = terms.atom(f"shuffled at {index}", 32, Variance.LANE)
        return dest, terms.ite(sure, value, unknown)

    def _names(self, path: Path, operand: Operand, mask: Term) -> bool:
        """Does an operand name the lanes that are here? All of them may be named by a literal."""
        if isinstance(operand, Reg):
            return path.get(operand) is mask
        whole = self._terms.eq(mask, self._terms.const(-1, 32))
        return operand in (Int(-1), Int(0xFFFFFFFF)) and whole in path.conditions

    def _assume(self, name: str) -> None:
        if name not in self._allowed:
            raise GiveUp(f"the proof would need {name}")
        self.assumptions[name] = None


def _never(place: Term) -> bool:
    return False
