"""Are results right? Every kernel in all versions, on usual and hostile launches.

A result is a digest of all buffers. Those of the versions have to be equal, and equal to the
interpreter's, which was taken before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from benchmarks.gpu.job import Job, Order
from benchmarks.gpu.prepared import ORIGINAL, Kernel, Manifest, Prepared, Version
from benchmarks.gpu.trials import Trial, digest, inputs
from ptxsw.gpu.driver import Driver, GpuError, LoadedKernel
from ptxsw.gpu.problem import Stage
from ptxsw.parser import parse
from ptxsw.ptx.ir import Function

NAME, TITLE, SHARE, ALONE = "correct", "Correct?", 0.25, False


class Ran(Struct, frozen=True):
    """What a version of a kernel left in memory. `same_inputs`: was it given what the expected
    result was made for? `code`: was machine code loaded, or did the driver compile the text?"""

    digest: str
    same_inputs: bool
    code: str


class Compared(Struct, frozen=True):
    """A result beside the original's on the same device, and the interpreter's. None: that is not
    known."""

    kernel: str
    version: str
    trial: str
    like_original: bool | None
    like_interpreter: bool | None
    code: str
    failed: str = ""

    @property
    def wrong(self) -> bool:
        return bool(self.failed) or self.like_original is False or self.like_interpreter is False


def items(kernel: Kernel) -> Iterator[str]:
    """A word for each version on each launch; the original's first. Equal texts once."""
    seen: set[str] = set()
    for version in kernel.versions:
        if version.text not in seen:
            seen.add(version.text)
            yield from (f"{kernel.name}|{version.name}|{trial.name}" for trial in kernel.trials)


def jobs(manifest: Manifest) -> list[Job]:
    made = [(kernel.name, tuple(items(kernel))) for kernel in manifest.kernels]
    return [Job(NAME, name, own, 20 + 0.5 * len(own)) for name, own in made if own]


def work(driver: Driver, prepared: Prepared, order: Order, item: str) -> Ran:
    name, version_name, trial_name = item.split("|")
    kernel = prepared.manifest.by_name[name]
    version = kernel.version(version_name)
    trial = next(each for each in kernel.trials if each.name == trial_name)
    return ran(driver, prepared, kernel, version, trial)


def ran(driver: Driver, prepared: Prepared, kernel: Kernel, version: Version, trial: Trial) -> Ran:
    """Runs a version once. Raises GpuError, ValueError."""
    launch = kernel.launch(trial)
    text = prepared.text(version)
    function = next(f for f in parse(text).functions if f.name == kernel.entry)
    loaded, code = load(driver, prepared, version, function)
    with Stage(driver, function, launch) as stage:
        found = stage.results(loaded)
    return Ran(digest(found), inputs(launch) == trial.inputs, code)


def load(
    driver: Driver, prepared: Prepared, version: Version, function: Function
) -> tuple[LoadedKernel, str]:
    """A kernel as the machine code that was prepared, or compiled by the driver where the device
    does not take that. Raises GpuError."""
    text, arch, cubin = prepared.text(version), driver.device.arch, prepared.cubin(version)
    if cubin is not None and arch == prepared.manifest.arch:
        try:
            return driver.load(text, function.name, arch, cubin), "machine code"
        except GpuError:
            pass  # as from a ptxas that is newer than the driver
    return driver.load(text, function.name, arch), "text"


# ---------------------------------------------------------------- what came out


def compared(
    kernels: Sequence[Kernel], results: dict[str, Ran], failed: dict[str, str]
) -> Iterator[Compared]:
    """A row for each item that was run."""
    for kernel in kernels:
        trials = {trial.name: trial for trial in kernel.trials}
        for item in items(kernel):
            _, version, trial = item.split("|")
            if item in failed:
                yield Compared(kernel.name, version, trial, None, None, "", failed[item])
            elif item in results:
                original = results.get(f"{kernel.name}|{ORIGINAL}|{trial}")
                yield _compared(kernel, version, trials[trial], results[item], original)


def _compared(
    kernel: Kernel, version: str, trial: Trial, own: Ran, original: Ran | None
) -> Compared:
    like_original = None
    if version != ORIGINAL and original is not None:
        like_original = own.digest == original.digest
    like_interpreter = own.digest == trial.expected if own.same_inputs else None
    return Compared(kernel.name, version, trial.name, like_original, like_interpreter, own.code)
