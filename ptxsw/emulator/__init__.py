"""A function run symbolically, from its entry to a trace of its memory accesses."""
