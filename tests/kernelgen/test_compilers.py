"""The operators as other compilers write them, and that the OpenACC sources are all there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.kernelgen.make import HERE, path
from benchmarks.kernelgen.operators import OPERATORS
from ptxsw.driver.pipeline import Options, optimize

DOCUMENT = Path(__file__).parents[2] / "docs" / "kernelgen.md"


@pytest.mark.parametrize(
    "folder", ["openacc", "ptx/clang", "ptx/gcc", "ptx/clang/double", "ptx/gcc/double"]
)
def test_all_sixteen(folder: str) -> None:
    found = {path.stem for path in (HERE / folder).iterdir() if path.suffix in (".c", ".ptx")}
    assert found == set(OPERATORS)


@pytest.mark.parametrize(
    ("name", "least"), [("jacobi", 6), ("laplacian", 2), ("whispering", 5), ("vecadd", 0)]
)
def test_clang(name: str, least: int) -> None:
    text = (HERE / "ptx" / "clang" / f"{name}.ptx").read_text()
    (kernel,) = optimize(text, Options(mode="force", scheme="paper")).report.kernels
    assert kernel.shuffles is not None
    assert kernel.shuffles >= least


@pytest.mark.parametrize("compiler", ["", "clang", "gcc"])
@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_counts(name: str, compiler: str) -> None:
    """Those of the document, and in double as many shuffles as in float."""
    counts = []
    for real in ("float", "double"):
        text = path(name, real, compiler).read_text()
        assert (".f64" in text) == (real == "double") or name == "sincos"
        (kernel,) = optimize(text, Options(mode="force", scheme="paper")).report.kernels
        counts.append((kernel.shuffles, kernel.loads))
    assert counts[0][0] == counts[1][0]
    (row,) = re.findall(rf"^\| {name} \|(.*)\|$", DOCUMENT.read_text(), re.MULTILINE)
    documented = row.split("|")[("", "clang", "gcc").index(compiler)].strip()
    assert f"{counts[0][0]}/{counts[0][1]}" == documented


def test_gcc_loads_through_generic_addresses() -> None:
    text = (HERE / "ptx" / "gcc" / "jacobi.ptx").read_text()
    (kernel,) = optimize(text, Options(mode="force", scheme="paper")).report.kernels
    assert kernel.name == "jacobi$_omp_fn$0"
    assert kernel.loads >= 9
    proofs = [made.proof for made in kernel.rewrites or () if made.delta]
    assert len(proofs) == 6
    assert all(any("does not point to local memory" in g for g in p.guards) for p in proofs)
