"""Memory spaces (gpucc, 3.2): generic accesses whose address is known to lie in one state space
name it. ptxas then knows that a store to one space writes no other.

    cvta.to.global.u64 %rd2, %rd1;         cvta.to.global.u64 %rd2, %rd1;
    ld.f32 %f1, [%rd2];            =>      ld.global.f32 %f1, [%rd2];

    cvta.shared.u64 %rd4, %rd3;            cvta.shared.u64 %rd4, %rd3;
    st.f32 [%rd4+8], %f1;          =>      cvta.to.shared.u64 %sw_shared1, %rd4;
                                           st.shared.f32 [%sw_shared1+8], %f1;

Where the address is a sum, its terms tell (`Access.space`). Where it may be one of several pointers
of one space, data flow does: at a `selp`, where paths meet, and in loops that move a pointer along.

A function that the kernel calls is looked at with the arguments that it is given. Where they tell
the space of one of its accesses, the kernel calls a copy of the function, which names it.

Compilers mark kernel parameters as global before they optimize; what is left are texts of GCC,
unoptimized ones, and pointers that went through a structure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.changes.assumptions import PARAMETERS_ARE_GLOBAL
from ptxsw.changes.change import Change, Refusal, Worth
from ptxsw.changes.plan import Proof
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_memory_spaces import WINDOWS, Converted, lower, named_access
from ptxsw.codegen.splice import Edit
from ptxsw.emulator.spaces import may_hold_pointer
from ptxsw.emulator.trace import Access
from ptxsw.flow.pointer_spaces import PointerSpaces, Points
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Mem, Reg
from ptxsw.rewrites.base import Kernel, Outcome
from ptxsw.rewrites.called_functions import (
    CalledAccess,
    Calls,
    calls_of,
    opaque_calls,
)
from ptxsw.terms.node import Term, split
from ptxsw.terms.origin import Origin

_ACCESSES = isa.opcodes(isa.Trait.SCALAR_ACCESS)
_POINTER = 8  # bytes
_POINTS = {Points.GLOBAL: "global", Points.SHARED: "shared", Points.LOCAL: "local"}
_UNORDERED = isa.Effect.FENCE | isa.Effect.ASYNC
_NOT_KNOWN = "its address is not known to lie in one state space"
_KEPT = frozenset({"volatile", "mmio"})  # accesses that have to be made as they are written


class MemorySpaces:
    """See above."""

    name: ClassVar[str] = "memory-spaces"
    summary: ClassVar[str] = "Generic accesses name their state space if it is known."

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """Generic accesses of a known space. Those in shared or local memory, whose addresses have
        to be converted, only where an access to another space may gain from it."""
        own, called = list(_known(kernel)), list[_Known]()
        calls = calls_of(kernel, own=any(known.space is None for known in own))
        if calls is not None:
            called = list(_known(calls.kernel))
            own = list(_completed(own, calls, called))
        whole = kernel if calls is None else calls.kernel
        named = {known.space for known in (*own, *called)} - {None}
        gain = not named <= WINDOWS or _others(whole)
        converted: Converted = {}
        for known in own:
            converts = kernel.options.mode != "auto"
            reason = _refused(known.space, gain=gain, converts=converts)
            if reason is not None:
                if known.space is not None or kernel.explains:
                    yield Refusal(self.name, known.access.index, reason)
                continue
            at = known.access.index
            detail = named_access(kernel.trace.cfg, at, str(known.space), converted)
            worth = Worth(instructions=float(detail.converted == at))
            yield Change(self.name, at, frozenset({at}), known.proof, detail, worth=worth)
        if calls is not None:
            yield from self._called(kernel, calls, called, gain=gain)
        if kernel.explains:
            yield from (Refusal(self.name, *call) for call in opaque_calls(kernel))

    def _called(
        self, kernel: Kernel, calls: Calls, accesses: Iterable[_Known], *, gain: bool
    ) -> Iterator[Outcome]:
        """Calls of functions of which the kernel gets a copy, for the spaces of what it gives
        them."""
        chosen: list[CalledAccess] = []
        for known in accesses:
            number = calls.number(known.access)
            if number is None:
                continue
            reason = calls.uncopied(number) or _refused(known.space, gain=gain)
            if reason is None:
                start = known.access.instruction.start
                chosen.append(CalledAccess(number, start, str(known.space), known.proof))
            elif kernel.explains:
                at = calls.at(number)
                yield Refusal(self.name, at, f"{calls.place(known.access)}: {reason}")
        yield from calls.changes(self.name, chosen)

    def nothing(self, kernel: Kernel) -> str:
        """See `OwnSearch`."""
        return "all accesses already name their state space, or must stay as written"

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        builder = Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)
        lower(builder, kernel.module, kernel.function, [change.detail for change in changes])
        return builder.edits()


class _Known(Struct, frozen=True):
    """A generic access, its space (None: it is not known), and why it is that one."""

    access: Access
    space: str | None
    proof: Proof = Proof()


def _known(kernel: Kernel) -> Iterator[_Known]:
    parameters = frozenset(parameter.name for parameter in kernel.function.params)
    pointers = PointerSpaces(kernel.trace.cfg, parameters, kernel.module.address_size)
    for access in _generic(kernel):
        space_and_proof = _space(kernel, access, pointers)
        yield _Known(access, None) if space_and_proof is None else _Known(access, *space_and_proof)


def _completed(own: Iterable[_Known], calls: Calls, accesses: Iterable[_Known]) -> Iterator[_Known]:
    """The kernel's own accesses, with what is known of them where functions stand in place of its
    calls."""
    known = {k.access.instruction.start: k for k in accesses if calls.number(k.access) is None}
    for one in own:
        better = known.get(one.access.instruction.start) if one.space is None else None
        yield one if better is None else replace(better, access=one.access)


def _refused(space: str | None, *, gain: bool, converts: bool = True) -> str | None:
    """Why an access does not name its space; None where it does. `converts`: an address may be
    converted for that."""
    if space is None:
        return _NOT_KNOWN
    if space in WINDOWS and not gain:
        return f"it lies in {space} memory, but no other rewrite would gain from naming it"
    if space in WINDOWS and not converts:
        return f"converting its address to {space} memory takes an instruction; force rewrites it"
    return None


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
    if access.space == "global" or access.space in WINDOWS:
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
