"""Variants of a kernel measured on a GPU, and what was chosen."""
