"""The operators in numpy, with the operations of the CUDA sources in the same order.

The PTX is compiled with `-fmad=false`, so each operation is rounded once, here and there, and
results are equal bit for bit. Only `sincos` differs: its library functions are accurate to some
units in the last place (`TOLERANCE`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.kernelgen.operators import OPERATORS, Array, Operator

# Units in the last place by which a result may differ. CUDA documents 2 for sin and cos each (1
# in double), numpy's own are within 1; their sum is rounded once more.
TOLERANCE: Mapping[str, int] = {"sincos": 8}

Arrays = Mapping[str, Array]


class Points:
    """Arrays as seen from all interior points at once: `at("u", i=1)` is u at (i+1, j, k)."""

    def __init__(self, operator: Operator, arrays: Arrays) -> None:
        self._low = operator.low
        self._high = operator.high
        self._arrays = arrays
        self._scalars = dict(operator.scalars)
        self._dtype = next(iter(arrays.values())).dtype.type

    def at(self, name: str, i: int = 0, j: int = 0, k: int = 0) -> Array:
        array = self._arrays[name]
        offsets = (k, j, i)[-array.ndim :]
        return array[
            tuple(
                slice(self._low + offset, size - self._high + offset)
                for offset, size in zip(offsets, array.shape, strict=True)
            )
        ]

    def real(self, value: float) -> Array:
        """A constant of the arrays' type."""
        return self._dtype(value)  # type: ignore[no-any-return]

    def scalar(self, name: str) -> Array:
        return self.real(self._scalars[name])


Formula = Callable[[Points], dict[str, Array]]


def divergence(p: Points) -> dict[str, Array]:
    along_i = p.scalar("alpha") * (p.at("ux", i=1) - p.at("ux", i=-1))
    along_j = p.scalar("beta") * (p.at("uy", j=1) - p.at("uy", j=-1))
    along_k = p.scalar("gamma") * (p.at("uz", k=1) - p.at("uz", k=-1))
    return {"u": along_i + along_j + along_k}


def gradient(p: Points) -> dict[str, Array]:
    return {
        "ux": p.scalar("alpha") * (p.at("u", i=1) - p.at("u", i=-1)),
        "uy": p.scalar("beta") * (p.at("u", j=1) - p.at("u", j=-1)),
        "uz": p.scalar("gamma") * (p.at("u", k=1) - p.at("u", k=-1)),
    }


def _sum(p: Points, name: str, *offsets: tuple[int, ...]) -> Array:
    """The sum of an array at (i, j[, k]) offsets, from left to right."""
    total = p.at(name, *offsets[0])
    for offset in offsets[1:]:
        total = total + p.at(name, *offset)
    return total


def laplacian(p: Points) -> dict[str, Array]:
    faces = _sum(p, "w0", (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1))
    return {"w1": p.scalar("alpha") * p.at("w0") + p.scalar("beta") * faces}


def jacobi(p: Points) -> dict[str, Array]:
    edges = _sum(p, "w0", (-1, 0), (0, -1), (1, 0), (0, 1))
    corners = _sum(p, "w0", (-1, -1), (-1, 1), (1, -1), (1, 1))
    return {"w1": p.scalar("c0") * p.at("w0") + p.scalar("c1") * edges + p.scalar("c2") * corners}


def gameoflife(p: Points) -> dict[str, Array]:
    alive = _sum(p, "w0", (-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, -1), (-1, 1), (1, 1))
    one, three = p.real(1), p.real(3)
    return {
        "w1": one / (one + (p.at("w0") + alive - three) * (alive - three) * p.real(1e20)),
    }


def gaussblur(p: Points) -> dict[str, Array]:
    rings = {
        "s1": ((-1, 0), (1, 0), (0, -1), (0, 1)),
        "s2": ((-1, -1), (1, -1), (-1, 1), (1, 1)),
        "s4": ((-2, 0), (2, 0), (0, -2), (0, 2)),
        "s5": ((-2, -1), (-1, -2), (1, -2), (2, -1), (-2, 1), (-1, 2), (1, 2), (2, 1)),
        "s8": ((-2, -2), (2, -2), (-2, 2), (2, 2)),
    }
    total = p.scalar("s0") * p.at("w0")
    for weight, offsets in rings.items():
        total = total + p.scalar(weight) * _sum(p, "w0", *offsets)
    return {"w1": p.scalar("f") * total}


def lapgsrb(p: Points) -> dict[str, Array]:
    near = _sum(p, "w0", (-1, 0, 0), (1, 0, 0), (0, -1, 0), (0, 1, 0), (0, 0, -1), (0, 0, 1))
    edges = _sum(
        p, "w0",
        (-1, -1, 0), (1, -1, 0), (-1, 1, 0), (1, 1, 0),
        (-1, 0, -1), (1, 0, -1), (0, -1, -1), (0, 1, -1),
        (-1, 0, 1), (1, 0, 1), (0, -1, 1), (0, 1, 1),
    )  # fmt: skip
    far = _sum(p, "w0", (-2, 0, 0), (2, 0, 0), (0, -2, 0), (0, 2, 0), (0, 0, -2), (0, 0, 2))
    centre = p.scalar("c0") * p.at("w0")
    return {"w1": centre + p.scalar("c1") * near + p.scalar("c2") * edges + p.scalar("c3") * far}


def wave13pt(p: Points) -> dict[str, Array]:
    near = _sum(p, "w1", (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1))
    far = _sum(p, "w1", (2, 0, 0), (-2, 0, 0), (0, 2, 0), (0, -2, 0), (0, 0, 2), (0, 0, -2))
    centre = p.scalar("c0") * p.at("w1") - p.at("w0")
    return {"w2": centre + p.scalar("c1") * near + p.scalar("c2") * far}


def uxx1(p: Points) -> dict[str, Array]:
    c1, c2 = p.scalar("c1"), p.scalar("c2")
    d = _sum(p, "d1", (0, 0, 0), (0, -1, 0), (0, 0, -1), (0, -1, -1)) * p.real(0.25)
    stress = (
        c1 * (p.at("xx") - p.at("xx", i=-1))
        + c2 * (p.at("xx", i=1) - p.at("xx", i=-2))
        + c1 * (p.at("xy") - p.at("xy", j=-1))
        + c2 * (p.at("xy", j=1) - p.at("xy", j=-2))
        + c1 * (p.at("xz") - p.at("xz", k=-1))
        + c2 * (p.at("xz", k=1) - p.at("xz", k=-2))
    )
    return {"u1": p.at("u0") + p.scalar("dth") / d * stress}


def whispering(p: Points) -> dict[str, Array]:
    h = p.at("h")

    def along_j(j: int) -> Array:
        step: Array = p.at("h", j=j + 1) - p.at("h", j=j)
        field: Array = p.at("ca", j=j) * p.at("e0_0", j=j) + p.at("cb", j=j) * step
        return field

    def along_i(i: int) -> Array:
        step: Array = p.at("h", i=i + 1) - p.at("h", i=i)
        field: Array = p.at("ca", i=i) * p.at("e0_1", i=i) - p.at("cb", i=i) * step
        return field

    e0, e1 = along_j(0), along_i(0)
    h1 = p.at("da") * h + p.at("db") * (e0 - along_j(-1) + along_i(-1) - e1)
    energy = h1 * h1 / p.scalar("mu") + p.at("eps") * (e0 * e0 + e1 * e1)
    return {"e1_0": e0, "e1_1": e1, "h1": h1, "u1": p.at("u0") + energy * p.real(0.5)}


def _cubic(p: Points, x: Array) -> tuple[Array, Array, Array, Array]:
    """The weights of the samples at -1, 0, 1 and 2 of a point at fraction x."""
    one, two, half, sixth = p.real(1), p.real(2), p.real(0.5), p.real(1 / 6)
    return (
        x * (x + one) * (x + two) * sixth,
        -(x - one) * (x + one) * (x + two) * half,
        (x - one) * x * (x + two) * half,
        -(x - one) * x * (x + one) * sixth,
    )


def tricubic(p: Points) -> dict[str, Array]:
    wi, wj, wk = (_cubic(p, p.at(name)) for name in "abc")

    def blend(weights: tuple[Array, ...], sample: Callable[[int], Array]) -> Array:
        total = weights[0] * sample(-1)
        for weight, offset in zip(weights[1:], (0, 1, 2), strict=True):
            total = total + weight * sample(offset)
        return total

    def row(j: int, k: int) -> Array:
        return blend(wi, lambda i: p.at("u0", i, j, k))

    def plane(k: int) -> Array:
        return blend(wj, lambda j: row(j, k))

    return {"u1": blend(wk, plane)}


def tricubic2(p: Points) -> dict[str, Array]:
    wi, wj, wk = (_cubic(p, p.at(name)) for name in "abc")
    total = np.zeros_like(wi[0])
    for k in range(4):
        for j in range(4):
            for i in range(4):
                total = total + wi[i] * wj[j] * wk[k] * p.at("u0", i - 1, j - 1, k - 1)
    return {"u1": total}


def vecadd(p: Points) -> dict[str, Array]:
    return {"c": p.at("a") + p.at("b")}


def sincos(p: Points) -> dict[str, Array]:
    sine: Array = np.sin(p.at("x"))
    return {"xy": sine + np.cos(p.at("y"))}


def matmul(p: Points) -> dict[str, Array]:
    a, b = p.at("a"), p.at("b")
    total = np.zeros((b.shape[0], a.shape[1]), a.dtype)
    for step in range(a.shape[0]):
        total = total + a[step][None, :] * b[:, step][:, None]
    return {"c": total}


def matvec(p: Points) -> dict[str, Array]:
    a, x = p.at("a"), p.at("x")
    total = np.zeros(a.shape[1], a.dtype)
    for step in range(a.shape[0]):
        total = total + a[step] * x[step]
    return {"y": total}


FORMULAS: Mapping[str, Formula] = {
    formula.__name__: formula
    for formula in (
        divergence, gameoflife, gaussblur, gradient, jacobi, lapgsrb, laplacian, matmul, matvec,
        sincos, tricubic, tricubic2, uxx1, vecadd, wave13pt, whispering,
    )
}  # fmt: skip


def run(name: str, arrays: Arrays) -> dict[str, Array]:
    """The outputs of an operator on `arrays` (its inputs and initial outputs).

    Points outside the interior keep their initial values.
    """
    operator = OPERATORS[name]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        interior = FORMULAS[name](Points(operator, arrays))
    results = {}
    for output, values in interior.items():
        results[output] = arrays[output].copy()
        Points(operator, results).at(output)[...] = values
    return results
