"""PTX text to `ptxsw.ir`: `parse(text)`, bodies on first use, operand places on demand."""

from ptxsw.parser.parse import body, parse
from ptxsw.parser.places import operand_spans

__all__ = ["body", "operand_spans", "parse"]
