"""The committed PTX has the loads of the paper's Table 2, and the numpy references compute what
the CUDA sources say."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.kernelgen import reference
from benchmarks.kernelgen.make import HERE
from benchmarks.kernelgen.operators import OPERATORS, make_inputs

# Unrolled by nvcc in its own way (four times, and a remainder), or with the library's tables.
OTHER_LOADS = {"matmul": 14, "matvec": 14, "sincos": 4, "sincos double": 9}

GLOBAL_LOAD = re.compile(r"^\s+(?:@!?%p\d+ )?ld\.global\.", re.MULTILINE)
DTYPES = {"float": np.float32, "double": np.float64}


def ptx(name: str, real: str) -> Path:
    return HERE / "ptx" / ("double" if real == "double" else "") / f"{name}.ptx"


def test_all_sixteen_operators_are_there() -> None:
    sources = {path.stem for path in (HERE / "cuda").glob("*.cu")}
    assert sources == set(OPERATORS) == set(reference.FORMULAS)
    assert len(sources) == 16


@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_static_loads(name: str, real: str) -> None:
    expected = OTHER_LOADS.get(f"{name} {real}", OTHER_LOADS.get(name, OPERATORS[name].loads))
    text = ptx(name, real).read_text()
    assert len(GLOBAL_LOAD.findall(text)) == expected
    assert f".entry {OPERATORS[name].entry}(" in text


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_parameters_are_the_kernels(name: str) -> None:
    operator = OPERATORS[name]
    header = ptx(name, "float").read_text().partition(".entry")[2].partition("{")[0]
    types = re.findall(r"\.param \.(\w+)", header)
    expected = ["u32"] * len(operator.sizes)
    expected += ["f32" if p in operator.scalars else "u64" for p in operator.params]
    assert types == expected


HOST = """
#include <math.h>
struct Dim { int x, y, z; };
static Dim threadIdx, blockIdx, blockDim = {1, 1, 1}, gridDim = {1, 1, 1};
#define __global__
#define __device__ static
"""


@pytest.fixture(scope="session")
def compiler() -> str:
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        pytest.skip("no C++ compiler")
    return found


@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_reference_is_the_source(compiler: str, tmp_path: Path, name: str, real: str) -> None:
    """The CUDA source, compiled for the host as a grid of one thread, gives the same bits."""
    operator = OPERATORS[name]
    code, library = tmp_path / "host.cpp", tmp_path / "host.so"
    code.write_text(f'{HOST}#define REAL {real}\n#include "{HERE}/cuda/{name}.cu"\n')
    options = ["-O1", "-ffp-contract=off", "-shared", "-fPIC", str(code), "-o", str(library)]
    subprocess.run([compiler, *options], check=True, timeout=60)

    sizes = (9, 10, 11)[: len(operator.sizes)]
    arrays = make_inputs(operator, sizes, DTYPES[real])
    expected = reference.run(name, arrays)
    scalar = ctypes.c_float if real == "float" else ctypes.c_double
    arguments: list[Any] = [ctypes.c_int(size) for size in sizes]
    arguments += [
        scalar(operator.scalars[p])
        if p in operator.scalars
        else ctypes.c_void_p(arrays[p].ctypes.data)
        for p in operator.params
    ]
    getattr(ctypes.CDLL(str(library)), operator.entry)(*arguments)

    for output in operator.outputs:
        assert (expected[output] != -1).any()
        if name in reference.TOLERANCE:
            np.testing.assert_array_max_ulp(
                arrays[output], expected[output], reference.TOLERANCE[name]
            )
        else:
            assert arrays[output].tobytes() == expected[output].tobytes()
