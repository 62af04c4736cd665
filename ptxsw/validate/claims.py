"""Claims made ready to be used and proved: their code, parsed over the first text's registers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ptxsw.analysis.instruction_kinds import Kind, kind
from ptxsw.changes.claim import Claim
from ptxsw.parser import parse
from ptxsw.ptx.errors import ParseError
from ptxsw.ptx.ir import Function, Instruction, Module, Reg, Variable


class ReadClaim(Struct, frozen=True):
    """A claim made ready: instructions to run on the first text's registers."""

    claim: Claim
    register: Reg
    value: Reg
    function: Function
    instructions: tuple[Instruction, ...]

    @property
    def is_about_memory(self) -> bool:
        """Does it say what memory holds, or how the memories of the two texts differ?"""
        return any(kind(one) in (Kind.LOAD, Kind.STORE) for one in self.instructions)


def read_claim(claim: Claim, module: Module, old: Function) -> ReadClaim:
    """Parse the code of a claim. Raises ValueError where it is no code a claim may have."""
    # A kernel of its own with the first text's registers: so the parser checks a claim like any
    # other code. Registers of inner scopes have no meaning at a label outside.
    declared = " ".join(_declaration(v) for v in old.body.variables if v.space == "reg")
    major, minor = module.version
    text = (
        f".version {major}.{minor}\n.target {', '.join(module.targets)}\n"
        f".address_size {module.address_size}\n"
        f".visible .entry claim()\n{{\n{declared}\n{claim.declare}\n{claim.code}\n}}\n"
    )
    try:
        function = parse(text, "<claim>").functions[0]
        instructions = function.body.instructions
    except ParseError as error:
        raise ValueError(f"a claim cannot be read: {error}") from error
    computed = instructions[:-1] if claim.about_memory else instructions
    for instruction in computed:
        if kind(instruction) not in (Kind.COMPUTE, Kind.LOAD):
            raise ValueError(f"a claim may not hold {instruction.name}")
    if claim.about_memory and (not instructions or not _is_store(instructions[-1])):
        raise ValueError("a claim about memory does not end with a plain store")
    return ReadClaim(claim, Reg(claim.register), Reg(claim.value), function, instructions)


def _declaration(variable: Variable) -> str:
    count = "" if variable.count is None else f"<{variable.count}>"
    return f".reg .{variable.type} {variable.name}{count};" if not variable.scope else ""


def _is_store(instruction: Instruction) -> bool:
    return kind(instruction) is Kind.STORE and instruction.guard is None


def at_label(claims: Sequence[ReadClaim], labels: Sequence[str]) -> list[ReadClaim]:
    """The claims that hold where a block with these labels begins."""
    return [c for c in claims if c.claim.label in labels]


def is_inequality(claim: ReadClaim) -> bool:
    """May a claim say how large a value is?"""
    return claim.claim.relation in ("implies", "true")
