"""What a term computes: the kinds of terms, and sets of them that belong together.

The names stand in the module, not only in the enum: Python 3.11 takes ten times as long to find a
member through its class, and kinds are compared millions of times.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Op(StrEnum):
    """The kind of a term: unknowns, a constant, or an operation on the arguments."""

    CONST = "const"
    ATOM = "atom"
    APPLY = "apply"
    FLOAT = "float"
    SUM = "sum"
    MUL = "mul"
    UDIV = "udiv"
    UREM = "urem"
    SDIV = "sdiv"
    SREM = "srem"
    AND = "and"
    OR = "or"
    XOR = "xor"
    NOT = "not"
    SHL = "shl"
    LSHR = "lshr"
    ASHR = "ashr"
    EXTRACT = "extract"
    CONCAT = "concat"
    ZEXT = "zext"
    SEXT = "sext"
    EQ = "eq"
    ULT = "ult"
    ULE = "ule"
    SLT = "slt"
    SLE = "sle"
    ITE = "ite"


CONST: Final = Op.CONST
ATOM: Final = Op.ATOM
APPLY: Final = Op.APPLY
FLOAT: Final = Op.FLOAT
SUM: Final = Op.SUM
MUL: Final = Op.MUL
UDIV: Final = Op.UDIV
UREM: Final = Op.UREM
SDIV: Final = Op.SDIV
SREM: Final = Op.SREM
AND: Final = Op.AND
OR: Final = Op.OR
XOR: Final = Op.XOR
NOT: Final = Op.NOT
SHL: Final = Op.SHL
LSHR: Final = Op.LSHR
ASHR: Final = Op.ASHR
EXTRACT: Final = Op.EXTRACT
CONCAT: Final = Op.CONCAT
ZEXT: Final = Op.ZEXT
SEXT: Final = Op.SEXT
EQ: Final = Op.EQ
ULT: Final = Op.ULT
ULE: Final = Op.ULE
SLT: Final = Op.SLT
SLE: Final = Op.SLE
ITE: Final = Op.ITE

OPAQUE: Final = frozenset({FLOAT, APPLY, ATOM})
"""Unknown values, but for the bits that they may set."""
QUOTIENTS: Final = frozenset({UDIV, UREM, SDIV, SREM})
BITWISE: Final = frozenset({AND, OR, XOR})
SHIFTS: Final = frozenset({SHL, LSHR, ASHR})
EXTENSIONS: Final = frozenset({ZEXT, SEXT})
ORDERS: Final = frozenset({ULT, ULE, SLT, SLE})
COMPARISONS: Final = ORDERS | {EQ}
POLYNOMIAL: Final = frozenset({SUM, MUL, ZEXT, SEXT})
SIGNED: Final = frozenset({SLT, SLE})
STRICT: Final = frozenset({ULT, SLT})
