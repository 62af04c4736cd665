"""Data that rewrites, code generation and proofs exchange: options, assumptions, changes, claims,
plans."""
