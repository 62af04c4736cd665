"""Symbolic execution of a function, from its entry to a trace of its memory accesses."""
