"""The paper that shuffles come from, done again: its figures beside those of the same operators."""
