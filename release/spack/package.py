# ruff: noqa: F403, F405, I001
# For a Spack repository (packages/py_ptxsw/package.py); `make release` fills in the checksum.

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyPtxsw(PythonPackage):
    """Symbolic execution of PTX: finds what makes CUDA kernels slow or wrong without a GPU, proves
    that two kernels do the same, and rewrites kernels with proof, inside any build."""

    homepage = "https://github.com/OWNER/ptxsw"
    pypi = "ptxsw/ptxsw-0.2.0.tar.gz"

    license("MIT")

    version("0.2.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    variant("cuda", default=True, description="With nvcc, ptxas and nvdisasm of a CUDA toolkit")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-hatchling@1.27:", type="build")
    depends_on("py-hatch-fancy-pypi-readme@24.1:", type="build")
    # For the man pages, the command line is imported at build time, too.
    depends_on("py-typer@0.26:0.28", type=("build", "run"))
    depends_on("py-msgspec@0.20:0", type=("build", "run"))
    depends_on("z3@4.15.4:5+python", type="run")
    depends_on("py-lark@1.2:1", type="run")
    depends_on("py-numpy@1.26:", type="run")
    depends_on("cuda@12:", type="run", when="+cuda")
