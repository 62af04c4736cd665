"""Which loads may take part in a shuffle, and which two fill registers alike (rule 5).

A load takes part only if it could be made by another lane at another time: nothing orders it,
no predicate guards it, and the byte that it names is the same one for every thread.
"""

from __future__ import annotations

from ptxsw.analysis.lane_reuse import Candidate, is_plain
from ptxsw.analysis.pointers import pointer_bases
from ptxsw.changes.plan import Refused
from ptxsw.emulator.trace import Access, Trace
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Reg, Vec
from ptxsw.ptx.isa import Effect
from ptxsw.terms import op

NOT_GLOBAL = "the generic address is not known to be in global memory"


class PlainLoads:
    """The loads of one trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._loadable: dict[int, Refused | None] = {}

    def loadable(self, access: Access) -> Refused | None:
        """Is it a load that may take part at all?"""
        if access.index not in self._loadable:
            self._loadable[access.index] = self._is_loadable(access)
        return self._loadable[access.index]

    def _is_loadable(self, access: Access) -> Refused | None:
        instruction = access.instruction
        if not is_plain(access):
            strong = isa.effects(instruction.opcode, instruction.modifiers) & ~Effect.READ
            kind = "ordered or strong access" if strong else "load of a special kind"
            kind = "volatile access" if "volatile" in instruction.modifiers else kind
            return Refused(f"{instruction.name} is a{'n' if kind[0] == 'o' else ''} {kind}")
        if instruction.guard is not None:
            return Refused("the load is guarded by a predicate")
        widths = self._register_widths(access)
        if access.bits > 64 or not widths or any(w not in (0, 16, 32, 64) for w in widths):
            return Refused("the load does not fill registers of 16, 32 or 64 bits")
        # The shuffle writes the destination before the predicated load reads its address.
        if set(isa.defs(instruction)) & set(isa.uses(instruction)):
            return Refused("the load overwrites its own address")
        if access.space == "generic" and not (
            surely_global(self._trace, access) or self._by_loaded_pointer(access)
        ):
            return Refused(NOT_GLOBAL)
        return None

    def _register_widths(self, access: Access) -> tuple[int, ...]:
        """Of the registers that the elements go to, in bits; 0 for an element that goes nowhere;
        none where these are not as many registers as the load has elements."""
        operand = access.instruction.operands[0]
        elements = operand.elements if isinstance(operand, Vec) else (operand,)
        named = [reg for reg in elements if isinstance(reg, Reg)]
        if len(elements) != access.elements or len(set(named)) != len(named):
            return ()
        body = self._trace.function.body
        return tuple(body.width(reg) if isinstance(reg, Reg) else 0 for reg in elements)

    def same_shape(self, candidate: Candidate) -> Refused | None:
        """The same bytes must give the same register contents."""
        source, dest = candidate.source, candidate.dest
        width = self._register_widths(source)[candidate.element]
        widths = self._register_widths(dest)
        if not width or not all(widths):
            return Refused("an element of the vector is discarded")
        if width != widths[candidate.dest_element]:
            return Refused("the loads fill registers of different widths")
        if source.bits != dest.bits:
            return Refused("the loads have different types")
        # `ld.s8` and `ld.u8` fill a wider register in different ways.
        if source.bits < width and _signed(source) != _signed(dest):
            return Refused("one load extends the sign, the other does not")
        return None

    def _by_loaded_pointer(self, access: Access) -> bool:
        """Is each pointer one that was loaded, and that a register holds for a test?"""
        loaded = {term for pointer in self._trace.pointers for term in pointer.terms}
        bases = [pointer_bases(variant.address) for variant in access.variants]
        return bool(bases) and all(each and loaded.issuperset(each) for each in bases)


def surely_global(trace: Trace, access: Access) -> bool:
    """A kernel parameter or a global symbol as base: the same byte for every thread."""
    function, module = trace.function, trace.module
    fit = {p.name for p in function.params} | {
        f"&{v.name}" for v in (*module.variables, *function.body.variables) if v.space == "global"
    }
    for variant in access.variants:
        bases = pointer_bases(variant.address)
        if not bases or any(b.kind is not op.ATOM or str(b.value) not in fit for b in bases):
            return False
    return True


def _signed(access: Access) -> bool:
    return (isa.access_type(access.instruction) or "").startswith("s")
