"""Measurements of a kernel's variants on a GPU, and the choice among them."""
