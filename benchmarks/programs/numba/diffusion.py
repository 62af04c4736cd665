"""Seven points in space, of arrays with strides: `python diffusion.py OUT.ptx` compiles them.

Numba passes an array as eleven numbers: two objects of the host, how many elements there are and
how many bytes one has, where they are, the sizes and the strides in bytes, of 64 bits each.
"""

import re
import sys
from pathlib import Path

import numpy as np
from numba import cuda, float32


def diffusion(given, out):
    x, y, z = cuda.grid(3)
    depth, height, width = given.shape
    if 0 < x < width - 1 and 0 < y < height - 1 and 0 < z < depth - 1:
        around = given[z, y, x - 1] + given[z, y, x + 1]
        around += given[z, y - 1, x] + given[z, y + 1, x]
        around += given[z - 1, y, x] + given[z + 1, y, x]
        here = given[z, y, x] * np.float32(0.25)
        out[z, y, x] = here + around * np.float32(0.125)


if __name__ == "__main__":
    strided = float32[:, :, :]
    text, _ = cuda.compile(diffusion, (strided, strided), cc=(8, 0), device=False, abi="numba")
    (name,) = set(re.findall(r"\.entry (\w+)", text))
    text = re.sub(r"(NumbaEnv)\w+", r"\1", text.replace(name, "diffusion"))
    Path(sys.argv[1]).write_text(text)
