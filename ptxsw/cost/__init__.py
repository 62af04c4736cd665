"""What a kernel costs: the code that ptxas made of it, and how many warps fit at a time.

`sass` reads a cubin, `occupancy` counts resident blocks. Neither decides anything.
"""
