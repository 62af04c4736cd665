"""Which version of a kernel a host program is to launch, by what `ptxsw tune` has measured.

A build makes one version of a kernel, for all launches. A host program that loads PTX at run time
can have another one for each shape of its blocks, as Orion's runtime has:

    choice = ptxsw.choose(text, (128, 1, 1), arch="sm_90")
    kernel = loaded.get(choice.version) or load(choice.text, choice.kernel)

Source: A. Hayes et al., "Orion: A Framework for GPU Occupancy Tuning", Middleware 2016, section
3.4. Orion measures while the program runs; here `ptxsw tune` has measured before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ptxsw.changes.options import Options, block_shape
from ptxsw.driver.pipeline import optimize, target
from ptxsw.gpu.measure import ORIGINAL, Measured
from ptxsw.gpu.results import VariantChoice, sizes
from ptxsw.gpu.results import choose as fastest
from ptxsw.parser import parse
from ptxsw.ptx.cxx_names import chosen
from ptxsw.rewrites import REGISTERS, every
from ptxsw.toolchain import tuned as store
from ptxsw.toolchain.tuned import KEEP, Timing, Tuned

if TYPE_CHECKING:
    from ptxsw.verify.launches import Launch

Shape = tuple[int, int, int]


class LaunchChoice(Struct, frozen=True):
    """The version of a kernel for a launch. `text` is the PTX to load (the input itself for the
    original), and `kernel` the name of the kernel in it. `scheme` and `form` name the version as
    `ptxsw tune` does ("keep" and "keep": the original). `speedup` is the measured time of the
    original divided by this version's, 1.0 for the original. `shared` is the dynamic shared memory
    per block to launch it with, in bytes: the launch's own, or more, unused, if the original was
    fastest with fewer resident blocks ("padded=75776"). More than 48 KiB require
    `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`. `measured` is true if a launch with this
    block shape was measured; otherwise the version is the best over all launches. `reason` is a
    sentence."""

    text: str
    kernel: str
    arch: str
    """The target, as in "sm_90"."""
    block: Shape
    """Threads along x, y and z."""
    scheme: str
    form: str
    speedup: float
    shared: int
    measured: bool
    reason: str

    @property
    def version(self) -> str:
        """A name of its own for each text of the kernel, to keep what was loaded."""
        if store.padding(self.scheme) is not None:
            return f"{KEEP} {KEEP}"
        return f"{self.scheme} {self.form}".strip()

    def __str__(self) -> str:
        return f"{self.kernel} in blocks of {sizes(self.block)} on {self.arch}: {self.reason}"


def choose(
    kernel: str,
    launch: int | Sequence[int] | Launch | Mapping[str, Any],
    *,
    entry: str | None = None,
    arch: str | None = None,
    tuned: str | os.PathLike[str] | None = None,
) -> LaunchChoice:
    """The version of a kernel that was fastest in launches such as this one.

    `kernel` is a PTX text, and `entry` the kernel's PTX or C++ name in it, if there are several.
    `launch` is the shape of its blocks (threads along x, y and z, or fewer axes), a `Launch`, or an
    object in the format of `ptxsw tune --launch`. Only its block and dynamic shared memory count: a
    launch with dynamic shared memory never gets a version that is padded or spills registers to
    shared memory. `arch` is the device's architecture (default: the text's target). `tuned` is the
    file of results (default: the one that `ptxsw tune` writes).

    A version is written and proved when it is first chosen, and cached for later calls. The result
    is the original if nothing was measured, or if this version of ptxsw no longer performs the
    rewrite. Raises ParseError; ValueError for an unknown kernel, an invalid launch or a damaged
    file.
    """
    known = _kernel(kernel, entry)
    shape, shared = _launch(launch)
    if known.block not in (None, shape):
        own, given = sizes(known.block or shape), sizes(shape)
        raise ValueError(f"{known.name} is for blocks of {own} (.reqntid), not of {given}")
    if known.most is not None and shape[0] * shape[1] * shape[2] > known.most:
        most, given = known.most, sizes(shape)
        raise ValueError(f"{known.name} is for blocks of up to {most} threads, not of {given}")
    asked = arch or known.target
    if asked is None:
        raise ValueError("the PTX has no target: give arch, such as sm_90")
    result = _result(known.text, store.same_arch(asked), tuned)
    made = _Made(kernel, known.name, asked, shape, shared)
    if result is None:
        return made.original(f"there is no measurement for it on {asked}: ptxsw tune measures")
    rows = [
        row
        for row in _rows(known.name, result, shape)
        if _is_known(row.scheme, row.form) and not (shared and _takes_shared(row.scheme))
    ]
    if rows:
        return made.version(fastest(rows, padded=True), result, is_measured=True)
    reason = f"blocks of {sizes(shape)} were not measured; over all launches {_best(result)}"
    overall = VariantChoice(result.scheme, result.form, result.speedup, reason)
    if shared and _takes_shared(result.scheme):
        return made.original(f"{reason}; but it spills to shared memory, which the launch takes")
    return made.version(overall, result, is_measured=False)


class _Kernel(Struct, frozen=True):
    name: str
    text: str  # its own
    block: Shape | None  # by .reqntid
    most: int | None  # threads of a block
    target: str | None


@lru_cache(maxsize=64)
def _kernel(text: str, entry: str | None) -> _Kernel:
    module = parse(text)
    kernels = chosen(module, entry)
    if len(kernels) != 1:
        names = ", ".join(kernel.name for kernel in kernels)
        raise ValueError(f"entry must name one kernel; available: {names or 'none'}")
    (function,) = kernels
    own = text[function.span.start : function.span.end]
    return _Kernel(function.name, own, function.block_shape, function.most_threads, target(module))


def _launch(launch: int | Sequence[int] | Launch | Mapping[str, Any]) -> tuple[Shape, int]:
    """The shape of its blocks, and bytes of dynamic shared memory of a block. Raises ValueError."""
    if isinstance(launch, Mapping):
        shared = launch.get("shared", 0)
        if "block" not in launch or not isinstance(shared, int) or shared < 0:
            raise ValueError("a launch is an object with block and, optionally, shared (in bytes)")
        return block_shape(launch["block"]), shared
    if isinstance(launch, int | Sequence):
        return block_shape(launch), 0
    return launch.block, launch.shared


def _result(text: str, arch: str, path: str | os.PathLike[str] | None) -> Tuned | None:
    """What was measured for a kernel. Raises ValueError for a file that was named and is none."""
    if path is not None:
        store.everything(os.fspath(path))
    return store.find(text, arch, file=None if path is None else os.fspath(path))


def _rows(kernel: str, result: Tuned, shape: Shape) -> Iterator[Measured]:
    """The measurements in blocks of a shape, as they were made: launch by launch, the original
    first."""
    base: Timing | None = None
    for timing in result.timings:
        base = timing if timing.scheme == ORIGINAL else base
        if timing.block != shape or base is None or not base.seconds:
            continue
        good = timing.equal and timing.seconds > 0
        yield Measured(
            kernel, timing.scheme, timing.form, (1, 1, 1), shape,
            timing.seconds if good else None, timing.noise if good else None,
            base.seconds / timing.seconds if good else None,
            wrong=None if good else "it gave other results",
        )  # fmt: skip


def _is_known(scheme: str, form: str) -> bool:
    """Is a version made of rewrites that there are? Those of a plugin may not be loaded."""
    named = Tuned(scheme, form, 1.0, "", "").rewrites
    is_text = scheme != ORIGINAL and store.padding(scheme) is None
    return not is_text or {one.name for one in every()}.issuperset(named)


def _takes_shared(scheme: str) -> bool:
    """May a version take shared memory that the text does not declare?"""
    if store.padding(scheme) is not None:
        return True
    parts = [part.partition("=") for part in scheme.split("+")]
    return any(name == REGISTERS and ("shared" in to or not to) for name, _, to in parts)


class _Made(Struct, frozen=True):
    """Versions of a kernel for a launch."""

    text: str
    kernel: str
    arch: str
    block: Shape
    shared: int

    def original(self, reason: str, *, is_measured: bool = False) -> LaunchChoice:
        return self._choice(self.text, VariantChoice(KEEP, KEEP, 1.0, reason), is_measured)

    def version(self, choice: VariantChoice, result: Tuned, *, is_measured: bool) -> LaunchChoice:
        """The version that was chosen; the original where it cannot be made."""
        if choice.kept or store.padding(choice.scheme) is not None:
            return self._choice(self.text, choice, is_measured)
        if not _is_known(choice.scheme, choice.form):
            return self.original(f"{choice}; but this version of ptxsw does not produce it")
        blocks = {timing.block for timing in result.timings}
        options = _options(self.kernel, self.arch, choice, self.block if len(blocks) == 1 else None)
        text = _written(self.text, options)
        if text == self.text:
            return self.original(f"{choice}; but this version of ptxsw does not produce it")
        return self._choice(text, choice, is_measured)

    def _choice(self, text: str, choice: VariantChoice, is_measured: bool) -> LaunchChoice:
        shared = store.padding(choice.scheme) or self.shared
        return LaunchChoice(
            text, self.kernel, store.same_arch(self.arch), self.block, choice.scheme, choice.form,
            choice.speedup, shared, is_measured, str(choice),
        )  # fmt: skip


def _options(kernel: str, arch: str, choice: VariantChoice, block: Shape | None) -> Options:
    """What makes a version, as `ptxsw tune` made it."""
    if choice.form:
        return Options(
            mode="force", only=kernel, arch=arch, block=block, scheme=choice.scheme,
            form=choice.form,
        )  # fmt: skip
    named = Tuned(choice.scheme, "", choice.speedup, "", "")
    return Options(
        mode="force", only=kernel, arch=arch, block=block, rewrites=named.rewrites,
        register_limit=named.register_limit,
    )  # fmt: skip


@lru_cache(maxsize=64)
def _written(text: str, options: Options) -> str:
    return optimize(text, options).text


def _best(result: Tuned) -> str:
    if (result.scheme, result.form) == (KEEP, KEEP):
        return "nothing was faster"
    return f"{result.scheme} {result.form}".strip() + " was best"
