"""What a trace shows of memory: reuse by lanes and threads, lanes and banks, traffic, divergence,
trip counts."""
