"""What rewrites, code generation and proofs hand one another, as data: options, assumptions,
changes, claims, plans."""
