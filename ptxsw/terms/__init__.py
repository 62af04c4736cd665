"""Bit-vector terms in normal form: built, evaluated, bounded, and given to Z3."""
