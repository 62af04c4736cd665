"""The options of `optimize`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

from msgspec.structs import force_setattr

from ptxsw.changes.assumptions import ASSUMPTIONS, DEFAULT_ASSUME
from ptxsw.ptx.documented import Documented
from ptxsw.ptx.target import MOST_THREADS, plain_name

MODES = ("auto", "force")
SCHEMES = ("auto", "keep", "paper", "early", "halo")
"""What code generation can write. "keep" only makes copies."""
FORMS = ("auto", "keep", "versioned", "uniform")


def block_shape(given: int | Sequence[int]) -> tuple[int, int, int]:
    """Threads of a block along x, y and z, from one to three numbers. Raises ValueError."""
    try:
        sizes = tuple(map(index, given if isinstance(given, Sequence) else (given,)))
    except TypeError:
        sizes = ()
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"{given!r} is not a block shape, which is one to three integers")
    x, y, z = (*sizes, 1, 1)[:3]
    if min(sizes) < 1 or x * y * z > MOST_THREADS:
        shape = "x".join(map(str, sizes))
        raise ValueError(f"{shape} is not a block of 1 to {MOST_THREADS} threads")
    return x, y, z


class Options(Documented, frozen=True):
    """The options of `optimize`. Raises ValueError for an invalid value."""

    mode: str = "auto"
    """"auto": only known gains; "force": whatever is proved."""
    scheme: str = "auto"
    """The code of shuffles, one of SCHEMES. "auto" is what was tuned, or "paper"."""
    form: str = "auto"
    """The surrounding code, one of FORMS. "auto" is "uniform" in loops that lanes leave in
    different iterations, otherwise "keep"; with scheme "paper" it is the paper's own, "keep"."""
    max_delta: int = 31
    """Maximum lane distance of a shuffle: 0 to 31."""
    only: str | None = None
    """The kernel to rewrite, by its PTX or C++ name; None: all."""
    skip: tuple[str, ...] = ()
    """Kernels to leave alone: patterns of PTX or C++ names."""
    arch: str | None = None
    """The target, as in "sm_80"; None: the module's."""
    assume: frozenset[str] = DEFAULT_ASSUME
    """Names of the assumptions that proofs may use."""
    budget_s: float = 10.0
    """CPU seconds of symbolic work per kernel."""
    smt2: bool = False
    """Keep the proofs as SMT-LIB 2 texts."""
    hoist: bool | None = None
    """Move loads up for shuffles. None depends on the scheme: yes for "halo", otherwise no."""
    min_gain: float | None = None
    """Gain in percent that mode "auto" requires; None is 5."""
    rewrites: tuple[str, ...] | None = None
    """Rewrites to consider; ("all",) is all of them. None is all but those that must be named or,
    with a scheme or a form, the three that have them."""
    block: tuple[int, int, int] | None = None
    """Threads along x, y and z of the blocks to choose for, in kernels without `.reqntid`. The
    result is right for all blocks."""
    register_limit: str | None = None
    """The candidate that `registers` uses instead of the predicted best, by its name in `tune`:
    "32", "32-shared" with spills to shared memory, or "shared"."""

    def __post_init__(self) -> None:
        for name, words in (("mode", MODES), ("scheme", SCHEMES), ("form", FORMS)):
            value = getattr(self, name)
            if value not in words:
                raise ValueError(f"{name} is {value!r}; it can be {', '.join(words)}")
        if not 0 <= self.max_delta <= 31:
            raise ValueError(f"max_delta is {self.max_delta}; it can be 0 to 31")
        if not self.assume <= ASSUMPTIONS.keys():
            raise ValueError(f"unknown assumption {min(self.assume - ASSUMPTIONS.keys())!r}")
        if self.arch is not None and plain_name(self.arch) is None:
            raise ValueError(f"arch is {self.arch!r}; it must be a name such as sm_80")
        if self.min_gain is not None and not 0 <= self.min_gain < float("inf"):
            raise ValueError(f"min_gain is {self.min_gain:g}; it must be 0 or more percent")
        if self.min_gain is not None and self.mode == "force":
            raise ValueError("min_gain is for mode auto: force rewrites whatever is proved")
        if self.block is not None:
            force_setattr(self, "block", block_shape(self.block))  # one or two numbers, too
