"""From changes to edits over spans: all else of a text stays byte for byte."""
