"""What the modifiers and the operands of a memory instruction say of its accesses."""

from __future__ import annotations

from msgspec import Struct, structs

from ptxsw.ptx.ir import Instruction, Operand, type_width
from ptxsw.simt.code import Code
from ptxsw.simt.extents import Extent, extent_of
from ptxsw.simt.releases import PLAIN, Ordering, ordering_of

SPACES = ("global", "shared", "local", "const", "param")


class AccessModifiers(Struct, frozen=True):
    """What the modifiers of a memory instruction say."""

    space: str  # "" for generic
    type: str
    width: int  # bits of an element
    count: int  # elements
    write: bool
    counted: bool = True  # may be a load of global memory
    ordering: Ordering = PLAIN
    extent: Extent | None = None  # of the variable that it has to stay in
    used: int = -1  # the bytes of a load that anybody uses, a bit each

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.width // 8

    @property
    def bytes(self) -> int:
        return self.size * self.count


def access_of(instruction: Instruction, write: bool) -> AccessModifiers:
    """Raises ValueError for what the interpreter does not do."""
    names = [modifier.split("::")[0] for modifier in instruction.modifiers]
    if "shared::cluster" in instruction.modifiers:
        raise ValueError("memory of other blocks of a cluster is not modelled")
    if "async" in names or "bulk" in names:
        raise ValueError("asynchronous accesses are not modelled")
    space = next((name for name in names if name in SPACES), "")
    counted = space in ("", "global")
    # A parameter is in the arena (a kernel's) or in the caller's frame: the address tells.
    space = "" if space == "param" else {"const": "global"}.get(space, space)
    type_ = next((name for name in reversed(names) if type_width(name)), "")
    width = type_width(type_)
    count = next((int(n[1:]) for n in names if n in ("v2", "v4", "v8")), 1)
    if width not in (8, 16, 32, 64):
        raise ValueError(f"accesses of type .{type_} are not modelled")
    ordering = ordering_of(instruction)
    used = instruction.used_bytes if instruction.used_bytes is not None else -1
    return AccessModifiers(space, type_, width, count, write, counted, ordering, used=used)


def within(code: Code, operand: Operand, access: AccessModifiers) -> AccessModifiers:
    """An access that has to stay in the variable that its address is made of."""
    extent = None if access.space == "global" else extent_of(code, operand)
    return access if extent is None else structs.replace(access, extent=extent)
