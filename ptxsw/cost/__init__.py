"""The cost of a kernel: an account of figures, from a trace, a launch, or ptxas's output."""
