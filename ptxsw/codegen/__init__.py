"""From changes to edits over spans; the rest of a text stays the same, byte for byte."""
