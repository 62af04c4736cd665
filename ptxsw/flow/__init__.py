"""What needs the instructions and the flow graph of a body alone: blocks, loops, data flow,
convergence."""
