"""What a trace shows of memory: equal addresses, reuse by lanes and threads, lanes and banks,
traffic, divergence, trip counts."""
