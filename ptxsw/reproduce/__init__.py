"""The shuffle paper reproduced: its figures beside ours for the same operators."""
