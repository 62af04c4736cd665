"""Runs the jobs of all parts, each in a process of its own, within the minutes that there are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct

from benchmarks.gpu import races
from benchmarks.gpu.child import NO_GPU
from benchmarks.gpu.job import Job, Order, Part
from benchmarks.gpu.journal import Journal, Line
from benchmarks.gpu.parts import PARTS
from benchmarks.gpu.prepared import Prepared
from ptxsw.gpu.driver import Device, NoGpu
from ptxsw.gpu.measure import Effort

_ROOT = Path(__file__).resolve().parents[2]
_AT_LEAST = 2.0  # seconds that a process needs to do anything
_ATTEMPTS = 8  # processes for one job, of which each but the last has failed


class Ended(Struct, frozen=True):
    """How a process ended: its status, what it said of items, and what else it printed. Without a
    status it ran too long."""

    status: int | None
    said: tuple[dict[str, Any], ...]
    output: str

    @property
    def device(self) -> Device | None:
        found = (line["device"] for line in self.said if "device" in line)
        return next((msgspec.convert(each, Device) for each in found), None)

    def problem(self, limit: float) -> str:
        """Why an item that was begun has no result."""
        last = self.output.strip().splitlines()[-1:] or ["it said nothing"]
        if self.status is None:
            return f"ran longer than {limit:.0f} s"
        if self.status < 0:
            return f"the process was ended by {signal.Signals(-self.status).name}"
        return f"the process ended with {self.status}: {last[0]}"


class Experiment:
    """What is run, on what, and where results go."""

    def __init__(
        self, prepared: Prepared, driver: str, effort: Effort, limit: float,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        """`limit` is that of one process, in seconds."""
        self._prepared, self._driver, self._effort = prepared, driver, effort
        self._limit, self._say = limit, say
        self._journal: Journal  # that of the run
        self.left_out: dict[str, str] = {}  # parts that can't be run here, and why

    def device(self) -> Device:
        """Asks a process what the device is. Raises NoGpu."""
        ended = self._process(Job("correct", "", ()), (), 60.0)
        device = ended.device
        if ended.status == NO_GPU or device is None:
            said = ended.output.strip().splitlines() or [ended.problem(60.0)]
            raise NoGpu(said[-1])
        return device

    def run(self, journal: Journal, seconds: float, workers: int) -> Iterator[Part]:
        """All parts, each told when it is done; what one leaves of its time goes to the others."""
        self._journal = journal
        begin, share = monotonic(), 0.0
        for part in PARTS.values():
            share += part.SHARE
            jobs = self._open_jobs(part)
            if not jobs:
                continue
            self._say(f"{part.TITLE} {len(jobs)} jobs")
            deadline = begin + share * seconds
            with ThreadPoolExecutor(1 if part.ALONE else workers) as pool:
                list(pool.map(lambda job, until=deadline: self._job(job, until), jobs))
            yield part

    def _open_jobs(self, part: Part) -> list[Job]:
        jobs = part.jobs(self._prepared.manifest)
        if any(job.tool for job in jobs):
            try:
                races.prefix(jobs[0])
            except FileNotFoundError as error:
                self.left_out[part.NAME] = str(error)
                return []
        return [job for job in jobs if set(job.items) - set(self._done(job))]

    def _done(self, job: Job) -> tuple[str, ...]:
        return self._journal.done(job.part, job.name)

    def _job(self, job: Job, deadline: float) -> None:
        """In as many processes as it takes: a kernel that fails ends its own."""
        for _ in range(_ATTEMPTS):
            done = self._done(job)
            left = deadline - monotonic()
            if len(done) == len(job.items) or left < _AT_LEAST:
                return
            own = min(job.seconds, self._limit)
            limit = min(own, left)
            ended = self._process(job, done, limit)
            if job.tool:
                self._journal.add(races.line(job, ended.status, ended.output, limit))
                return
            if ended.status is None and limit < own:
                self._record(job, ended)
                return  # it was the minutes that ended
            if not self._recorded(job, ended, limit):
                return

    def _record(self, job: Job, ended: Ended) -> list[dict[str, Any]]:
        """Writes down the items that a process has done."""
        fresh = [line for line in ended.said if "item" in line]
        for line in fresh:
            self._journal.add(Line(job.part, job.name, **line))
        return fresh

    def _recorded(self, job: Job, ended: Ended, limit: float) -> bool:
        """Writes down what a process has done, and the item that ended it; False where it has not
        even begun one: then another process would do no better."""
        fresh = self._record(job, ended)
        begun = [line["begin"] for line in ended.said if "begin" in line]
        if len(begun) > len(fresh):
            failed = ended.problem(limit)
            self._journal.add(Line(job.part, job.name, begun[-1], failed=failed))
        elif not fresh:
            self._say(f"{job.name}: {ended.problem(limit)}")
        return bool(begun)

    def _process(self, job: Job, done: tuple[str, ...], limit: float) -> Ended:
        order = Order(str(self._prepared.folder), self._driver, job, done, self._effort)
        words = [sys.executable, "-m", "benchmarks.gpu.child", msgspec.json.encode(order).decode()]
        command = [*(races.prefix(job) if job.tool else ()), *words]
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen(
                command, stdout=out, stderr=err, cwd=_ROOT, start_new_session=True
            )
            status = _waited(process, limit)
            out.seek(0)
            err.seek(0)
            lines = out.read().splitlines()
            other = "\n".join([*(x for x in lines if not x.startswith("{")), err.read()])
            return Ended(status, tuple(_said(lines)), other)


def _waited(process: subprocess.Popen[Any], limit: float) -> int | None:
    """The status of a process; None where it was ended because it ran too long."""
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # its own group: it leads one
            process.wait()


def _said(lines: list[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("{") and line.endswith("}"):
            yield json.loads(line)
