"""What an instruction is to a proof of equality.

Five kinds. Instructions that compute are functions of the registers they read. Plain loads and
stores are followed through a model of memory. Control decides where a path goes. Everything else
is an event: both texts must have it, in the same order, with equal operands. What this file does
not know is an event, so that nothing unknown is ever moved, merged or left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from ptxsw.flow.cfg import Cfg
from ptxsw.flow.convergence import waits, waits_for
from ptxsw.flow.dataflow import CARRY, defs, uses, writers
from ptxsw.ptx import isa
from ptxsw.ptx.ir import USED_BYTES, Float, Instruction, Int, Mem, Reg, Special, Symbol, type_width
from ptxsw.ptx.isa import Trait
from ptxsw.terms.specials import SIZES, SPECIALS


class Kind(Enum):
    COMPUTE = auto()
    LOAD = auto()
    STORE = auto()
    CONTROL = auto()
    EVENT = auto()


_CONTROL = isa.opcodes(Trait.JUMP) | isa.opcodes(Trait.LEAVE)
_IMPURE = isa.opcodes(Trait.IMPURE)
_MEET = isa.opcodes(Trait.MEETS)
_ASK = isa.opcodes(Trait.ASKS_WHO_IS_HERE)
_WRITES = isa.Effect.WRITE | isa.Effect.CALL
_WRITERS = isa.opcodes(Trait.SCALAR_ACCESS) - {"ld"}
_MAY_ASK = frozenset({"shfl", "vote"})  # of those that meet, the two that are understood

# Modifiers of plain accesses. Cache operators and hints say how, not what; what is not here
# (`.volatile`, `.cv`, `.wt`, `.unified`, `shared::cluster`) makes the access an event. Of global
# memory `.lu` is `.cs` (manual 9.7.9.1); elsewhere it may drop what it has read, and is an event.
_SPACES = frozenset(
    {"const", "global", "local", "param", "param::entry", "param::func", "shared", "shared::cta"}
)
_PLAIN = _SPACES | {"weak", "ca", "cg", "cs", "v2", "v4", "v8"}
_HINTS = ("L1::", "L2::", "level::", USED_BYTES)
_SIMPLE = frozenset({Reg, Int, Float})

SPACE_WORDS = _SPACES
"""Modifiers that name a state space."""


def kind(instruction: Instruction) -> Kind:
    """The kind of an instruction."""
    told, sets = _by_name(instruction.opcode, instruction.modifiers)
    operands = instruction.operands
    if sets and operands and type(operands[0]) is Reg and _SIMPLE.issuperset(map(type, operands)):
        return told  # nearly always
    # An instruction that computes but writes nothing is there for an effect that is not known.
    if told is Kind.COMPUTE:
        return Kind.EVENT if _unstable(instruction) or not defs(instruction) else told
    if told is Kind.LOAD or told is Kind.STORE:
        return told if _is_access(instruction) else Kind.EVENT
    return told


def kinds(cfg: Cfg) -> tuple[Kind, ...]:
    """The kind of each instruction of a flow graph. It is worked out once for a graph."""
    kept = vars(cfg)
    every: tuple[Kind, ...] | None = kept.get(_KINDS)
    if every is None:
        every = kept[_KINDS] = tuple(map(kind, cfg.instructions))
    return every


_KINDS = "kinds of instructions"


@isa.by_name
def _by_name(opcode: str, modifiers: tuple[str, ...]) -> tuple[Kind, bool]:
    """The kind of an instruction by its name, and does it compute what it sets its first operand
    to? Its operands may make it an event."""
    told = _named_kind(opcode, modifiers)
    row = isa.row(opcode, modifiers)
    return told, told is Kind.COMPUTE and row is not None and row.defs > 0


def _named_kind(opcode: str, modifiers: tuple[str, ...]) -> Kind:
    if opcode in _CONTROL:
        return Kind.CONTROL
    effects = isa.effects(opcode, modifiers)
    if opcode in ("ld", "st"):
        plain = isa.Effect.READ if opcode == "ld" else isa.Effect.WRITE
        # `.lu` says that the line is not needed again. Of local memory the bytes may then be
        # dropped, so that a second load would find something else.
        last_use = ("lu",) if "global" in modifiers else ()
        more = ("nc", *last_use) if opcode == "ld" else ("wb",)
        if effects == plain and _is_plain(modifiers, more):
            return Kind.LOAD if opcode == "ld" else Kind.STORE
        return Kind.EVENT
    row = isa.row(opcode, modifiers)
    if row is None or effects or opcode in _IMPURE or row.space:
        return Kind.EVENT
    return Kind.COMPUTE


def _is_plain(modifiers: tuple[str, ...], more: tuple[str, ...]) -> bool:
    *_, type_name = modifiers or ("",)
    known = all(
        m in _PLAIN or m in more or m.startswith(_HINTS) or type_width(m) >= 8 for m in modifiers
    )
    return known and type_width(type_name) >= 8


def _is_access(instruction: Instruction) -> bool:
    """Is one address, without a second part, where an access has it?"""
    at = 1 if instruction.opcode == "ld" else 0
    addresses = [o for o in instruction.operands if isinstance(o, Mem)]
    return (
        len(instruction.operands) >= 2
        and len(addresses) == 1
        and instruction.operands[at] is addresses[0]
        and not addresses[0].extra
    )


def _unstable(instruction: Instruction) -> bool:
    """Does it read a special register that may change from read to read?"""
    if _SIMPLE.issuperset(map(type, instruction.operands)):  # nearly always
        return False
    read = isa.uses(instruction)
    return any(isinstance(r, Special) and r.name not in SPECIALS for r in read)


def clobbers(instruction: Instruction) -> bool:
    """May an event read or write memory, or order what others write?"""
    if not isa.known(instruction):
        return True
    return bool(isa.effects(instruction.opcode, instruction.modifiers))


def may_write(instruction: Instruction) -> bool:
    """May it write global memory, or let another kernel's writes be seen?"""
    if instruction.opcode == "griddepcontrol":
        return True
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    private = instruction.opcode in _WRITERS and isa.space(instruction) in isa.WITHIN_BLOCK
    return bool(effects & _WRITES) and not private


def written_address(instruction: Instruction) -> Mem | None:
    """Where a store or atomic writes; None for what may write anywhere."""
    addresses = [o for o in instruction.operands if isinstance(o, Mem)]
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    single = instruction.opcode in _WRITERS and len(addresses) == 1
    sized = isa.access_type(instruction) is not None and not effects & isa.Effect.ASYNC
    return addresses[0] if single and sized else None


def meets(instruction: Instruction) -> bool:
    """Must lanes or threads execute this very instruction together?"""
    return _meets(instruction.opcode, instruction.modifiers)


@isa.by_name
def _meets(opcode: str, modifiers: tuple[str, ...]) -> bool:
    return opcode in _MEET or isa.row(opcode, modifiers) is None


def may_part(instruction: Instruction) -> bool:
    """May lanes that reach an event together be separated by it? A call may end some of them, and a
    barrier number or member mask that is not a literal may differ between lanes, so that they wait
    for different threads."""
    if not isa.known(instruction):
        return True
    if isa.effects(instruction.opcode, instruction.modifiers) & isa.Effect.CALL:
        return True
    whom = waits_for(instruction)
    return whom is not None and not isinstance(whom, Int)


def passes(instruction: Instruction) -> bool:
    """Is a thread certain to get past an event, whatever other threads do? It is at fences and
    atomics, which wait for no other thread."""
    return not waits(instruction)


def asks_convergence(instruction: Instruction) -> bool:
    """Does its result depend on which lanes happen to be together?"""
    if instruction.opcode in _ASK:
        return True
    return instruction.opcode in _MAY_ASK and "sync" not in instruction.modifiers


def asked_anywhere(cfg: Cfg) -> bool:
    """Does any instruction of a graph do so? It is worked out once for a graph."""
    kept = vars(cfg)
    asked: bool | None = kept.get(_ASKED)
    if asked is None:
        asked = kept[_ASKED] = any(map(asks_convergence, cfg.instructions))
    return asked


_ASKED = "asks for convergence"


def uniform_registers(body: Sequence[Instruction], parameters: frozenset[str]) -> set[Reg]:
    """Registers with one value for all threads of a grid: written once, and computed from
    parameters of the kernel, given by name, its size, and numbers alone."""
    written_at = writers([defs(one) for one in body])
    single = {reg: body[at[0]] for reg, at in written_at.items() if len(at) == 1}
    uniform = {reg for reg, writer in single.items() if _of_parameters(writer, parameters)}
    while lost := {reg for reg in uniform if not uses(single[reg]) <= uniform}:
        uniform -= lost
    return uniform


def _of_parameters(instruction: Instruction, parameters: frozenset[str]) -> bool:
    """Does it compute with registers and numbers alone, or read a parameter?"""
    specials = {r.name for r in isa.uses(instruction) if isinstance(r, Special)}
    if instruction.guard is not None or not specials <= SIZES:
        return False
    if kind(instruction) is Kind.COMPUTE:
        return True
    bases = [o.base for o in instruction.operands if isinstance(o, Mem)]
    return isa.space(instruction) == "param" and all(
        isinstance(base, Symbol) and base.name in parameters for base in bases
    )


def is_equation(
    instruction: Instruction, is_a: Kind, written: tuple[Reg, ...], read: tuple[Reg, ...]
) -> bool:
    """Does what an instruction of a kind has `written` equal what it computes of what it has
    `read`, for as long as no register it names is written? Loads count: what they say of memory
    holds at that moment only."""
    if instruction.guard is not None or not written or CARRY in written:
        return False
    if any(reg in read for reg in written):
        return False
    return is_a is Kind.COMPUTE or is_a is Kind.LOAD
