"""Analyses of a trace: reuse by lanes and threads, lanes and banks, traffic, divergence, trip
counts."""
