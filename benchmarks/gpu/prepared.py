"""What is made before a GPU is there, as it lies in a folder.

`manifest.json` holds all that is known before the run: versions of kernels, launches, digests of
expected results and forecasts. `texts/` holds each text as PTX, and as machine code if ptxas made
it, named after its digest. `ptxsw/`, `benchmarks/` and `__main__.py` are the program that runs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.gpu.subjects import subjects
from benchmarks.gpu.trials import Trial, changed, made
from ptxsw.gpu.problem import PreparedLaunch, from_launch
from ptxsw.verify.launches import Launch, from_json

MANIFEST, TEXTS = "manifest.json", "texts"
ORIGINAL = "original"


class Version(Struct, frozen=True):
    """A text of a kernel: "original", or what mode "auto" or "force" makes of it, by which
    rewrites. Counted in machine code; `wavefronts` are those of the first launch, None where they
    are not known."""

    name: str
    text: str  # the stem of its files
    rewrites: tuple[str, ...] = ()
    reason: str = ""
    instructions: int = 0
    wavefronts: float | None = None
    registers: int = 0


class Forecast(Struct, frozen=True):
    """Seconds of the large launch on a GPU, as `predict` tells them: the bounds, what is likely,
    what is expected."""

    low: float
    high: float
    likely_low: float
    likely_high: float
    expected: float
    bound: str


class Timed(Struct, frozen=True):
    """The launch that is timed, in words, the bytes it moves at least, and what is forecast: by
    GPU and version."""

    launch: str
    moved: int
    forecasts: Mapping[str, Mapping[str, Forecast]]


class Kernel(Struct, frozen=True):
    """A kernel, and how it is run. `words` are launches of its own, which trials change; a subject
    that is known by its name has none. `open` are its functions whose last bits PTX leaves open."""

    name: str
    group: str
    entry: str
    versions: tuple[Version, ...]
    trials: tuple[Trial, ...]
    left_out: tuple[str, ...] = ()  # trials that the original itself does not bear
    open: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    timed: Timed | None = None

    @property
    def rewritten(self) -> bool:
        return len({version.text for version in self.versions}) > 1

    def version(self, name: str) -> Version:
        return next(version for version in self.versions if version.name == name)

    def launch(self, trial: Trial) -> PreparedLaunch:
        """What a trial stands for. Raises ValueError where it cannot be made."""
        if self.words:
            return changed(word_launch(self.words[trial.run]), trial.change)
        return made(subjects()[self.name], trial)


class Fault(Struct, frozen=True):
    """A small kernel for a tool of compute-sanitizer: whether it is faulty, and what the
    interpreter says of it."""

    kernel: Kernel
    tool: str
    faulty: bool
    ours: str  # the fault that was found; "" for none


class Manifest(Struct, frozen=True):
    """All that is known before the run."""

    date: str
    tree: str
    versions: str
    arch: str
    share: float
    kernels: tuple[Kernel, ...]
    programs: tuple[Kernel, ...] = ()  # random ones
    faults: tuple[Fault, ...] = ()

    @property
    def by_name(self) -> Mapping[str, Kernel]:
        return {kernel.name: kernel for kernel in (*self.kernels, *self.programs)}


class Prepared:
    """A folder that was prepared."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError, and ValueError where it was not prepared by this version."""
        self.folder = folder
        content = (folder / MANIFEST).read_bytes()
        self.digest = sha256(content).hexdigest()[:16]
        try:
            self.manifest = msgspec.json.decode(content, type=Manifest)
        except msgspec.DecodeError as error:
            raise ValueError(f"{folder / MANIFEST} is of another version: {error}") from error

    def text(self, version: Version) -> str:
        return (self.folder / TEXTS / f"{version.text}.ptx").read_text()

    def cubin(self, version: Version) -> bytes | None:
        path = self.folder / TEXTS / f"{version.text}.cubin"
        return path.read_bytes() if path.exists() else None


def stem(text: str) -> str:
    """The name of a text's files."""
    return sha256(text.encode()).hexdigest()[:16]


def write(folder: Path, manifest: Manifest, texts: Mapping[str, bytes | None]) -> None:
    """`texts` are PTX with the machine code that ptxas made of it."""
    (folder / TEXTS).mkdir(parents=True, exist_ok=True)
    for text, cubin in texts.items():
        (folder / TEXTS / f"{stem(text)}.ptx").write_text(text)
        if cubin is not None:
            (folder / TEXTS / f"{stem(text)}.cubin").write_bytes(cubin)
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1))


def word_launch(words: str) -> PreparedLaunch:
    """A launch given in words."""
    return from_launch(one_launch(words))


def one_launch(words: str) -> Launch:
    return from_json(words)[0]


def unprepared(kernels: Sequence[Kernel], names: Sequence[str]) -> Iterator[str]:
    """The names that no kernel has."""
    known = {kernel.name for kernel in kernels}
    yield from (name for name in names if name not in known)
