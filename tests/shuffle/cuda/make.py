"""Compile the CUDA sources of this folder to ../ptx. Needs nvcc; the tests do not.

python tests/shuffle/cuda/make.py
"""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    for source in sorted(HERE.glob("*.cu")):
        target = HERE.parent / "ptx" / f"{source.stem}.ptx"
        subprocess.run(
            ["nvcc", "-arch=sm_80", "-ptx", source.name, "-o", target], cwd=HERE, check=True
        )
        print(target)


if __name__ == "__main__":
    main()
