"""The wrapper's work once there is a text that can profit: answer it, run ptxas on the answer.

`optimize` is given from above: a `Call` in; what became of its text out, and on the way each
finished kernel (`ptxsw.build.partial`). It runs in a child process, and its answers
are kept.
"""

from __future__ import annotations

import os
import sys

from ptxsw import __version__
from ptxsw.toolchain import cache
from ptxsw.toolchain.cache import Answer
from ptxsw.toolchain.process import Finished, PrivateFile, run_captured

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from ptxsw.build.arguments import CommandLine, Input
    from ptxsw.build.real_assembler import Target
    from ptxsw.toolchain.cache import KernelCache
    from ptxsw.toolchain.settings import Settings

    Tell = Callable[[bytes], None]
    Optimize = Callable[["Call", Tell], Answer]

_SAID = 500  # characters that are kept of what ptxas said
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Call:
    """What is asked of `optimize`: a text, the name to give it in reports, the architecture, how
    many processes to use, and where kernels are kept."""

    def __init__(
        self, text: str, name: str, arch: str | None, jobs: int, keep: KernelCache | None
    ) -> None:
        self.text: Final = text
        self.name: Final = name
        self.arch: Final = arch
        self.jobs: Final = jobs
        self.keep: Final = keep


class Job:
    """One call of ptxas with the texts of its inputs, by their index."""

    def __init__(
        self,
        settings: Settings,
        target: Target,
        line: CommandLine,
        texts: dict[int, bytes],
        optimize: Optimize,
    ) -> None:
        self._settings: Final = settings
        self._target: Final = target
        self._line: Final = line
        self._texts: Final = texts
        self._optimize: Final = optimize
        self._state: Final = cache.fingerprint(PACKAGE)
        common = [__version__, self._state, settings.key()]
        if settings.mode == "auto":  # ptxas is asked what a rewrite costs
            common.append(target.identity())
        self._common: Final = tuple(common)  # of what decides what becomes of a text
        store = cache.Cache(settings.cache) if settings.cache else None
        if store is not None and store.problem is not None:
            target.log(f"cache {store.directory} {store.problem}")
            store = None
        self._store: Final = store

    def run(self) -> Finished | None:
        """Does what ptxas would have done: what it said, or None where the real one is to do it
        with the arguments it was given. Raises Lost, ValueError or OSError."""
        found = {item.index: self._answer(item) for item in self._line.inputs}
        answers = {index: answer for index, answer in found.items() if answer is not None}
        faults = dict.fromkeys(a.fault for a in answers.values() if a.fault)
        if faults and self._settings.strict:
            raise ValueError("; ".join(faults))
        changed = {index: a.text for index, a in answers.items() if a.text is not None}
        if changed:
            return self._rewritten(changed, answers, "; ".join(faults))
        for fault in faults:
            self._target.log(f"left alone: {fault}")
        self._report(answers)
        return None

    # ------------------------------------------------------------ answers

    def _answer(self, item: Input) -> Answer | None:
        """What was kept, or what is made of the text now; one that was not finished in time is
        asked for again where there is more time. None where nothing can be made of it."""
        text = self._texts.get(item.index)
        if text is None:
            return None
        name = self._name(text)
        answer = self._store.get(name) if self._store is not None else None
        if answer is None or 0 < answer.limit < self._settings.timeout:
            _find_packages()  # the script starts Python without, which is quicker
            from ptxsw.build import prefilter

            if prefilter.may_contain_candidates(text):
                display = "<ptx>" if item.is_text or item.is_stdin else item.value
                answer = self._compute(text, display)
            else:
                answer = Answer(None, b"", "")
            if not answer.fault or answer.limit:  # a fault of ours may not come again
                self._keep(name, answer)
        return answer

    def _compute(self, text: bytes, display: str) -> Answer:
        """Has a text answered by a fork of this process; kernels of a long one are divided among
        the processes that are free. Raises Lost."""
        from ptxsw.build import subprocess_guard as subprocess_guard
        from ptxsw.toolchain.jobs import LONG, Jobs, processors

        timeout = self._settings.timeout
        jobs = Jobs(os.environ, processors() - 1 if len(text) > LONG else 0)
        try:
            call = Call(
                text.decode("ascii"), display, self._line.arch, jobs.count, self._kernel_cache()
            )
            reply = subprocess_guard.call(lambda tell: self._perform(call, tell), timeout)
        finally:
            jobs.end()
        if not reply.in_time:
            from ptxsw.build.partial import compose

            return compose(text, reply.pieces, timeout)
        answer = cache.decode(reply.pieces[-1])
        if answer is None:
            raise subprocess_guard.Lost("the answer was damaged")
        return answer

    def _kernel_cache(self) -> KernelCache | None:
        if self._store is None:
            return None
        from ptxsw.toolchain.cache import KernelCache

        settings = self._circumstances(self._line.arch).encode()
        return KernelCache(self._store, settings, lines=self._settings.report is not None)

    def _perform(self, call: Call, tell: Tell) -> None:
        """In a fork of this process: does what is asked for, and tells the answer last."""
        if self._target.is_ptxas:  # the one to ask what code costs
            os.environ["PTXSW_REAL_PTXAS"] = self._target.path
        tell(cache.encode(self._optimize(call, tell)))

    def _name(self, text: bytes) -> str:
        return cache.key(text, self._circumstances(self._line.arch).encode())

    def _circumstances(self, arch: str | None) -> str:
        """Names all but the text that decides what becomes of it."""
        return cache.key(*(part.encode() for part in (*self._common, arch or "")))

    def _keep(self, name: str, answer: Answer) -> None:
        if self._store is not None:
            try:
                self._store.put(name, answer)
            except OSError as error:
                self._target.log(f"not cached: {error}")

    # ------------------------------------------------------------ ptxas

    def _rewritten(
        self, changed: dict[int, bytes], answers: dict[int, Answer], fault: str
    ) -> Finished | None:
        """Runs ptxas on the changed texts, unless it is known to refuse them: what it said, or None
        where the original ones are left to it. `fault` is why less was changed than could be, or
        empty."""
        name = self._refusal(changed)
        stored = self._store.get(name) if self._store is not None else None
        if stored is not None:
            self._fall_back(stored.fault, answers)
            return None
        values = self._values(changed)
        arguments = [self._target.called, *self._line.replace(values)]
        done = run_captured(self._target.path, arguments, self._target.environ)
        if done.status == 0:
            self._target.log(f"rewritten in part: {fault}" if fault else "rewritten")
            self._report(answers)
            said = (self._map_back(words, changed, values) for words in (done.stdout, done.stderr))
            return Finished(0, *said)
        original = self._target.run()
        if original.status == 0:  # else the call is at fault, and says so itself
            reason = _refused(done, values)
            if names_a_line(done.stderr, values):  # else it may do better next time
                self._keep(name, Answer(None, b"", reason))
            if self._settings.strict:
                self._remove_output()
            self._fall_back(reason, answers)
        return original

    def _values(self, changed: dict[int, bytes]) -> dict[int, str]:
        """What stands for the inputs on the command line: files that end with this process, or
        texts where the inputs are texts."""
        texts = {item.index for item in self._line.inputs if item.is_text}
        return {
            index: text.decode("ascii") if index in texts else PrivateFile(text).path
            for index, text in changed.items()
        }

    def _refusal(self, changed: dict[int, bytes]) -> str:
        """The name under which is kept that ptxas refuses these texts. It may do so for these
        options only; the names of files are nothing to it."""
        nameless = self._line.replace({item.index: "" for item in self._line.inputs}, "")
        names = (self._name(self._texts[index]) for index in sorted(changed))
        parts = ("refused", self._target.identity(), *names, *nameless)
        return cache.key(*(os.fsencode(part) for part in parts))

    def _fall_back(self, reason: str, answers: dict[int, Answer]) -> None:
        """Says that the original texts are taken. Raises ValueError where that is no way out."""
        if self._settings.strict:
            raise ValueError(reason)
        self._target.log(f"left alone: {reason}")
        self._report(answers, reason)

    def _remove_output(self) -> None:
        """Has nobody take the output of the original for that of a build that failed."""
        path = self._line.output or self._line.default_output
        if path is not None and os.path.isfile(path):
            os.unlink(path)

    def _map_back(self, message: bytes, changed: dict[int, bytes], values: dict[int, str]) -> bytes:
        if not message:
            return message
        from ptxsw.build.messages import LineMap, map_back

        for item in self._line.inputs:
            if item.index in changed:
                lines = LineMap(
                    self._texts[item.index].decode("ascii"), changed[item.index].decode("ascii")
                )
                was = "application ptx input" if item.is_text else values[item.index]
                is_ = was if item.is_text else item.value
                message = map_back(message, was, is_, lines)
        return message

    def _report(self, answers: dict[int, Answer], reason: str | None = None) -> None:
        """Writes the reports; `reason` is why texts stay as they were that could be others."""
        if self._settings.report is None:
            return
        from ptxsw.build.report_files import save_report, undone

        for item in self._line.inputs:
            answer = answers.get(item.index)
            if answer is None or not answer.report:
                continue
            path = "" if item.is_text or item.is_stdin else item.value
            in_vain = reason is not None and answer.text is not None
            report = undone(answer.report, str(reason)) if in_vain else answer.report
            try:
                save_report(self._settings.report, path, self._line.arch or "", report)
            except OSError as error:
                self._target.log(f"no report: {error}")


def _find_packages() -> None:
    """Makes installed packages known to this process."""
    if "site" not in sys.modules:
        import site

        site.main()
    from ptxsw.driver import lean_start

    lean_start.import_msgspec()


def names_a_line(message: bytes, values: dict[int, str]) -> bool:
    """Does ptxas find fault with a line of a rewritten text? A file that it cannot open, or memory
    that it does not get, say nothing of the text."""
    import re

    places = (re.escape(value.encode()) for value in values.values())
    return re.search(rb"(?:%s), line \d" % b"|".join([*places, b"ptx input"]), message) is not None


def _refused(done: Finished, values: dict[int, str]) -> str:
    """What ptxas said of a rewritten text, in one line."""
    said = done.stderr.decode(errors="replace")
    for value in values.values():
        said = said.replace(value, "the rewritten text")
    how = f"status {done.status}" if done.status > 0 else f"signal {-done.status}"
    return f"ptxas rejected the rewritten PTX ({how}): {' '.join(said.split())[:_SAID]}"
