"""PTX text to `ptxsw.ptx.ir`: `parse(text)`, bodies on first use, operand places on demand."""

from ptxsw.parser.operands import operand_spans
from ptxsw.parser.parse import body, parse

__all__ = ["body", "operand_spans", "parse"]
