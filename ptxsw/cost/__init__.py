"""What a kernel costs: an account of figures, from a trace, a launch, or what ptxas made of it."""
