"""What PTX instructions compute, each written once over an abstract algebra of bit vectors.

One function per opcode and section of the PTX ISA 9.0 manual, one file per group of sections.
Memory, control flow and what lanes say to each other are the business of those who run programs.
"""

from ptxsw.semantics import (  # noqa: F401  (imported for their registrations)
    bitfield,
    compare,
    convert,
    extended,
    floating,
    integer,
    logic,
    movement,
    video,
)
from ptxsw.semantics.algebra import Algebra
from ptxsw.semantics.registry import Meaning, meaning, opcodes

__all__ = ["Algebra", "Meaning", "meaning", "opcodes"]
