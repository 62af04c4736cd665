"""The real ptxas: finding it, its command line, running it, keeping answers from call to call."""
