"""Is a kernel right? Rules that prove a fault absent, or show it in a launch."""
