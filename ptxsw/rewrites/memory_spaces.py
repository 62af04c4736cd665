"""Memory spaces (gpucc, 3.2): generic accesses whose address is known to lie in one state space
name it. ptxas then knows that a store to one space writes no other.

    cvta.to.global.u64 %rd2, %rd1;         cvta.to.global.u64 %rd2, %rd1;
    ld.f32 %f1, [%rd2];            =>      ld.global.f32 %f1, [%rd2];

    cvta.shared.u64 %rd4, %rd3;            cvta.shared.u64 %rd4, %rd3;
    st.f32 [%rd4+8], %f1;          =>      cvta.to.shared.u64 %sw_shared1, %rd4;
                                           st.shared.f32 [%sw_shared1+8], %f1;

Where the address is a sum, its terms tell (`Access.space`). Where it may be one of several pointers
of one space, data flow does: at a `selp`, where paths meet, and in loops that move a pointer along.

Compilers mark kernel parameters as global before they optimize; what is left are texts of GCC,
unoptimized ones, and pointers that went through a structure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ptxsw.changes.assumptions import PARAMETERS_ARE_GLOBAL
from ptxsw.changes.change import Change, Refusal, Worth
from ptxsw.changes.plan import Proof
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_memory_spaces import KnownSpace, lower
from ptxsw.codegen.splice import Edit
from ptxsw.emulator.spaces import may_hold_pointer
from ptxsw.emulator.trace import Access
from ptxsw.flow.dataflow import defs
from ptxsw.flow.pointer_spaces import PointerSpaces, Points
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Mem, Reg
from ptxsw.rewrites.base import Kernel, Outcome
from ptxsw.terms.node import Term, split
from ptxsw.terms.origin import Origin

_ACCESSES = isa.opcodes(isa.Trait.SCALAR_ACCESS)
# Windows of the generic address space: inside them an address is the window's base plus an offset,
# and `ld.shared` wants the offset. A global address is the same number either way.
_WINDOWS = frozenset({"shared", "local"})
_POINTER = 8  # bytes
_POINTS = {Points.GLOBAL: "global", Points.SHARED: "shared", Points.LOCAL: "local"}
_UNORDERED = isa.Effect.FENCE | isa.Effect.ASYNC
_NOT_KNOWN = "its address is not known to lie in one state space"
_KEPT = frozenset({"volatile", "mmio"})  # accesses that have to be made as they are written


class MemorySpaces:
    """See above."""

    name: ClassVar[str] = "memory-spaces"
    summary: ClassVar[str] = "Generic accesses name the state space in which they are known to lie."

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """Generic accesses of a known space. Those in shared or local memory, whose addresses have
        to be converted, only where an access to another space may gain from it."""
        named: list[tuple[Access, str, Proof]] = []
        parameters = frozenset(parameter.name for parameter in kernel.function.params)
        pointers = PointerSpaces(kernel.trace.cfg, parameters, kernel.module.address_size)
        for access in _generic(kernel):
            space_and_proof = _space(kernel, access, pointers)
            if space_and_proof is not None:
                named.append((access, *space_and_proof))
            elif kernel.explains:
                yield Refusal(self.name, access.index, _NOT_KNOWN)
        gain = any(space not in _WINDOWS for _, space, _ in named) or _others(kernel)
        converted: dict[tuple[int, Reg], int] = {}
        for access, space, proof in named:
            at = None
            if space in _WINDOWS:
                if not gain:
                    reason = (
                        f"it lies in {space} memory, but no other rewrite would gain from naming it"
                    )
                    yield Refusal(self.name, access.index, reason)
                    continue
                if kernel.options.mode == "auto":
                    reason = f"converting its address to {space} memory takes an instruction"
                    yield Refusal(self.name, access.index, f"{reason}; force rewrites it")
                    continue
                at = _conversion(kernel, access, converted)
            worth = Worth(instructions=float(at == access.index))
            yield Change(
                self.name, access.index, frozenset({access.index}), proof,
                KnownSpace(access.index, space, at), worth=worth,
            )  # fmt: skip

    def nothing(self, kernel: Kernel) -> str:
        """See `OwnSearch`."""
        return "all accesses name their state space, or have to be made as they are written"

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        builder = Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)
        lower(builder, kernel.text, changes)
        return builder.edits()


def _generic(kernel: Kernel) -> Iterator[Access]:
    """Accesses that name no space, through a register, and are neither volatile nor ordered."""
    for access in kernel.trace.accesses:
        instruction = access.instruction
        effects = isa.effects(instruction.opcode, instruction.modifiers)
        address = next((o for o in instruction.operands if isinstance(o, Mem)), None)
        if (
            instruction.opcode in _ACCESSES
            and isa.space(instruction) == "generic"
            and not effects & _UNORDERED
            and _KEPT.isdisjoint(instruction.modifiers)
            and address is not None
            and isinstance(address.base, Reg)
        ):
            yield access


def _space(kernel: Kernel, access: Access, pointers: PointerSpaces) -> tuple[str, Proof] | None:
    """The space of a generic access, and why it is that one."""
    if access.space == "global" or access.space in _WINDOWS:
        return access.space, Proof()
    told = pointers.at(access.index, isa.address(access.instruction).base)
    if told in _POINTS:
        return _POINTS[told], Proof()
    if PARAMETERS_ARE_GLOBAL not in kernel.options.assume:
        return None
    by_terms = all(_from_parameters(variant.address) for variant in access.variants)
    if by_terms or told is Points.PARAMETER:
        return "global", Proof(assumptions=(PARAMETERS_ARE_GLOBAL,))
    return None


def _from_parameters(address: Term) -> bool:
    """Are parameters of the kernel all that may be a pointer in a sum?"""
    # A second 64-bit parameter may be an offset to the first, so several are fine. Any other
    # summand that might be a pointer, such as a loaded value, could lead to shared memory.
    parameters = 0
    for term, factor in split(address)[1]:
        if factor == 1 and term.width == 64 and _is_parameter(term):
            parameters += 1
        elif may_hold_pointer(term):
            return False
    return parameters > 0


def _is_parameter(term: Term) -> bool:
    """Is it a parameter, or a field of one, that may be a pointer?"""
    return term.origin is Origin.PARAMETER and int(term.of[1]) % _POINTER == 0


def _others(kernel: Kernel) -> bool:
    """Is there an access to global memory by name?"""
    return any(isa.space(a.instruction) == "global" for a in kernel.trace.accesses)


def _conversion(kernel: Kernel, access: Access, converted: dict[tuple[int, Reg], int]) -> int:
    """The access at which the address register is converted: an earlier one of the block if the
    register has not been written since."""
    cfg = kernel.trace.cfg
    address = isa.address(access.instruction)
    assert isinstance(address.base, Reg)
    key = (cfg.block_of[access.index], address.base)
    at = converted.get(key)
    if at is None or any(
        address.base in defs(cfg.instructions[i]) for i in range(at, access.index)
    ):
        at = converted[key] = access.index
    return at
