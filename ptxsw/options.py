"""What `optimize` can be asked for."""

from __future__ import annotations

from dataclasses import dataclass

from ptxsw.shuffle.cost import plain_name
from ptxsw.shuffle.legal import ASSUMPTIONS, LOCKSTEP, NO_RACE

MODES = ("auto", "force")
SCHEMES = ("auto", "keep", "paper", "early", "halo")
"""What code generation can write. "keep" makes copies only."""
FORMS = ("auto", "keep", "versioned", "uniform")
BOUNDS = ("noload", "nocorner")
DEFAULT_ASSUME = frozenset({LOCKSTEP, NO_RACE})


@dataclass(frozen=True, slots=True)
class Options:
    """What `optimize` is asked for. Raises ValueError for a value that makes no sense.

    `scheme` and `form` "auto" leave the choice to the model of the target or to what was tuned;
    only scheme "paper" in form "auto" is the paper's own, which is "keep". `hoist` None is what
    the scheme wants: yes for "halo", else no. `min_gain` is in percent, and for mode "auto"; None
    is what the model of the target can tell.
    `unsafe_bound` makes kernels that compute nonsense, to see how fast they could be.
    """

    mode: str = "auto"
    scheme: str = "auto"
    form: str = "auto"
    max_delta: int = 31
    only: str | None = None  # the kernel to rewrite, by its PTX or C++ name
    arch: str | None = None  # "sm_80"; default: the module's target
    assume: frozenset[str] = DEFAULT_ASSUME
    budget_s: float = 10.0  # for the symbolic work on one kernel
    smt2: bool = False  # keep the proofs as SMT-LIB 2 texts
    hoist: bool | None = None
    min_gain: float | None = None
    unsafe_bound: str | None = None

    def __post_init__(self) -> None:
        for name, known in (("mode", MODES), ("scheme", SCHEMES), ("form", FORMS)):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"{name} is {value!r}; it can be {', '.join(known)}")
        if not 0 <= self.max_delta <= 31:
            raise ValueError(f"max_delta is {self.max_delta}; it can be 0 to 31")
        if not self.assume <= ASSUMPTIONS:
            raise ValueError(f"unknown assumption {min(self.assume - ASSUMPTIONS)!r}")
        if self.arch is not None and plain_name(self.arch) is None:
            raise ValueError(f"arch is {self.arch!r}; it has to be a name such as sm_80")
        if self.min_gain is not None and not 0 <= self.min_gain < float("inf"):
            raise ValueError(f"min_gain is {self.min_gain:g}; it has to be 0 or more percent")
        if self.min_gain is not None and self.mode == "force":
            raise ValueError("min_gain is for mode auto: force rewrites whatever is proved")
        self._check_bound()

    def _check_bound(self) -> None:
        if self.unsafe_bound is None:
            return
        if self.unsafe_bound not in BOUNDS:
            known = ", ".join(BOUNDS)
            raise ValueError(f"unsafe_bound is {self.unsafe_bound!r}; it can be {known}")
        if self.mode != "force":
            raise ValueError("unsafe_bound makes wrong results: it takes mode force")
        if self.scheme not in ("auto", "paper") or self.form not in ("auto", "keep"):
            raise ValueError("unsafe_bound goes with scheme paper and form keep")
