"""The language as data: sources, statements, operands, the table of opcodes, targets, errors."""
