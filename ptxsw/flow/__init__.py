"""Analyses of the instructions and the flow graph of a body: blocks, loops, data flow,
convergence."""
