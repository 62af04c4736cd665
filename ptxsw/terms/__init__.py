"""Bit-vector terms in normal form: made, evaluated, bounded, and asked about with Z3."""
