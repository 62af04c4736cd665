"""The workers of a Dask cluster, in place of processes of this machine.

What is to be done is sent to each worker once, with the text that it is about; a task is a number
then. Files are read where the work is done: workers see them at the same paths, as on a shared file
system. A worker that is lost costs what it had in hand, which another does again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import ptxsw

if TYPE_CHECKING:
    from ptxsw.driver.workers import Result, Work

SCHEME = "dask://"
_PATIENCE = 10.0  # seconds until a scheduler answers


class NoCluster(Exception):
    """A cluster cannot be used; the message says why."""


class Cluster:
    """A cluster whose workers have this version of ptxsw."""

    def __init__(self, address: str) -> None:
        """Of an address such as "dask://host:8786". Raises NoCluster."""
        host = address.removeprefix(SCHEME)
        if host == address or not host:
            raise NoCluster(f"{address} is not a cluster address: {SCHEME}HOST:PORT")
        try:
            import distributed
        except ModuleNotFoundError as error:
            raise NoCluster("a cluster needs Dask: pip install 'ptxsw[dask]'") from error
        connect: Any = distributed.Client
        self._as_completed: Any = distributed.as_completed
        try:
            self._client = connect(f"tcp://{host}", timeout=_PATIENCE)
        except (OSError, ValueError) as error:
            raise NoCluster(f"no Dask scheduler answers at {host}") from error
        versions: Mapping[str, str] = self._client.run(_version, on_error="return")
        if not versions:
            raise NoCluster(f"the cluster at {host} has no workers")
        for worker, version in versions.items():
            if version != ptxsw.__version__:
                has = f"ptxsw {version}" if isinstance(version, str) else "no ptxsw"
                raise NoCluster(f"{worker} has {has}, not ptxsw {ptxsw.__version__}")

    def streamed(self, order: Sequence[int], work: Work[Result]) -> Iterator[tuple[int, Result]]:
        """As `workers.streamed`. What the workers fail at is done again here."""
        sent = self._client.scatter(work, broadcast=True, hash=False)
        asked = {self._client.submit(_done, sent, number, pure=False): number for number in order}
        try:
            for future, results in self._as_completed(asked, with_results=True, raise_errors=False):
                if future.status == "finished":
                    yield from results
                else:
                    yield from work(iter([asked[future]]))
        finally:
            with suppress(Exception):  # the scheduler may be gone
                self._client.cancel(list(asked))


def _version() -> str:
    return ptxsw.__version__


def _done(work: Work[Any], number: int) -> list[tuple[int, Any]]:
    return list(work(iter([number])))
