"""The real ptxas: finding it, its command line, running it, caching results."""
