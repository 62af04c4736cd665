"""What is asked of the process that rewrites a text, as it crosses to another one."""

from __future__ import annotations

import os

from ptxsw.toolchain.cache import Answer, Cache, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

    from ptxsw.toolchain.kernel_cache import KernelCache

    Tell = Callable[[bytes], None]
    Optimize = Callable[["Call", Tell], Answer]


class Call:
    """What is asked of `optimize`: a text, the name to give it in reports, the architecture, how
    many processes to use, where kernels are kept, and the path of the cubin that ptxas made of the
    text as it is, or nothing."""

    def __init__(
        self,
        text: str,
        name: str,
        arch: str | None,
        jobs: int,
        keep: KernelCache | None,
        cubin: str = "",
    ) -> None:
        self.text: Final = text
        self.name: Final = name
        self.arch: Final = arch
        self.jobs: Final = jobs
        self.keep: Final = keep
        self.cubin: Final = cubin


class ExpectedText:
    """A text that a build is expected to come to: its target, the architecture for which ptxas
    will make code of it, and the circumstances that decide under which name its answer is kept."""

    def __init__(self, target: str, arch: str, circumstances: str) -> None:
        self.target: Final = target
        self.arch: Final = arch
        self.circumstances: Final = circumstances

    def __str__(self) -> str:
        return f"{self.target} {self.arch} {self.circumstances}"


class CallRequest:
    """A call, and what has to be set up for it. `cubin` is what ptxas made of the text as it is,
    empty where that is not known; `ptxas` is the one to ask, empty for that of the
    environment; `store` the directory where kernels are kept, empty for nowhere, under names that
    `circumstances` decide, with their `lines` or without. `expected` are texts that are likely to
    be asked about next, in which this one's target has given way to another; they may be answered
    in a free slot of the build's `jobserver` (`jobs.jobserver`)."""

    def __init__(
        self,
        text: bytes,
        name: str,
        arch: str | None,
        jobs: int,
        ptxas: str,
        store: str,
        circumstances: str,
        *,
        lines: bool,
        cubin: str = "",
        expected: Sequence[ExpectedText] = (),
        jobserver: str = "",
    ) -> None:
        self.text: Final = text
        self.name: Final = name
        self.arch: Final = arch
        self.jobs: Final = jobs
        self.ptxas: Final = ptxas
        self.store: Final = store
        self.circumstances: Final = circumstances
        self.lines: Final = lines
        self.cubin: Final = cubin
        self.expected: Final = tuple(expected)
        self.jobserver: Final = jobserver

    def fields(self) -> list[bytes]:
        return [
            self.text, os.fsencode(self.name), (self.arch or "").encode(), b"%d" % self.jobs,
            os.fsencode(self.ptxas), os.fsencode(self.store), self.circumstances.encode(),
            b"1" if self.lines else b"", os.fsencode(self.cubin),
            "\n".join(map(str, self.expected)).encode(), os.fsencode(self.jobserver),
        ]  # fmt: skip


def of_fields(fields: Sequence[bytes]) -> CallRequest:
    """The request that has these `fields`. Raises ValueError."""
    text, name, arch, jobs, ptxas, store, circumstances, lines, cubin, expected, jobserver = fields
    return CallRequest(
        text, os.fsdecode(name), arch.decode() or None, int(jobs), os.fsdecode(ptxas),
        os.fsdecode(store), circumstances.decode(), lines=bool(lines), cubin=os.fsdecode(cubin),
        expected=[ExpectedText(*line.split()) for line in expected.decode().splitlines()],
        jobserver=os.fsdecode(jobserver),
    )  # fmt: skip


def perform(request: CallRequest, optimize: Optimize, tell: Tell) -> None:
    """Does what is asked for, in a process of its own, and tells the answer last."""
    if request.ptxas:
        os.environ["PTXSW_REAL_PTXAS"] = request.ptxas
    call = Call(
        request.text.decode("ascii"), request.name, request.arch, request.jobs, _keep(request),
        request.cubin,
    )  # fmt: skip
    tell(encode(optimize(call, tell)))


def _keep(request: CallRequest) -> KernelCache | None:
    if not request.store:
        return None
    from ptxsw.toolchain.kernel_cache import KernelCache

    return KernelCache(Cache(request.store), request.circumstances.encode(), lines=request.lines)
