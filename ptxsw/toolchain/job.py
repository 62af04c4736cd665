"""The stand-in's work once there is a text that can profit: answer it, run ptxas on the answer.

`optimize` is given from above: text, name and architecture in; what became of it out. It runs
in a child process, and its answers are kept.
"""

from __future__ import annotations

import os
import sys

from ptxsw import __version__
from ptxsw.toolchain import cache, screen
from ptxsw.toolchain.cache import Answer
from ptxsw.toolchain.process import PrivateFile, run_captured, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final, NoReturn

    from ptxsw.toolchain.arguments import CommandLine, Input
    from ptxsw.toolchain.settings import Settings
    from ptxsw.toolchain.target import Target

    Optimize = Callable[[str, str, str | None], Answer]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


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
        self._state: Final = cache.fingerprint(_PACKAGE)
        store = cache.Cache(settings.cache) if settings.cache else None
        if store is not None and store.problem is not None:
            target.log(f"cache {store.directory} {store.problem}")
            store = None
        self._store: Final = store

    def run(self) -> NoReturn:
        """Does what ptxas would have done. Raises Lost or OSError before anything was done."""
        answers = {
            item.index: self._answer(item)
            for item in self._line.inputs
            if screen.can_profit(self._texts.get(item.index, b""))
        }
        changed = {index: a.text for index, a in answers.items() if a.text is not None}
        if changed:
            self._assemble(changed, answers)
        self._report(answers)
        self._target.replace_us()

    # ------------------------------------------------------------ answers

    def _answer(self, item: Input) -> Answer:
        text = self._texts[item.index]
        name = self._name(text)
        found = self._store.get(name) if self._store is not None else None
        if found is None:
            display = "<ptx>" if item.is_text or item.is_stdin else item.value
            found = self._compute(text, display)
            self._keep(name, found)
        return found

    def _compute(self, text: bytes, display: str) -> Answer:
        from ptxsw.toolchain import isolated

        def work() -> bytes:
            if "site" not in sys.modules:  # the quick path goes without installed packages
                import site

                site.main()
            if self._target.called == "ptxas":
                os.environ["PTXSW_REAL_PTXAS"] = self._target.path
            return cache.encode(self._optimize(text.decode("ascii"), display, self._line.arch))

        answer = cache.decode(isolated.call(work, self._settings.timeout))
        if answer is None:
            raise isolated.Lost("the answer was damaged")
        return answer

    def _name(self, text: bytes) -> str:
        parts = (__version__, self._state, self._settings.key(), self._line.arch or "")
        return cache.key(text, *(part.encode() for part in parts))

    def _keep(self, name: str, answer: Answer) -> None:
        if self._store is not None:
            try:
                self._store.put(name, answer)
            except OSError as error:
                self._target.log(f"not cached: {error}")

    # ------------------------------------------------------------ ptxas

    def _assemble(self, changed: dict[int, bytes], answers: dict[int, Answer]) -> None:
        """Runs ptxas on the changed texts and ends; returns where it refuses them."""
        files = {}
        values = {}
        for item in self._line.inputs:
            if item.index not in changed:
                continue
            if item.is_text:
                values[item.index] = changed[item.index].decode("ascii")
            else:
                files[item.index] = PrivateFile(changed[item.index])
                values[item.index] = files[item.index].path
        arguments = [self._target.called, *self._line.replace(values)]
        done = run_captured(self._target.path, arguments, self._target.environ)
        if done.status != 0:
            for index in changed:
                self._keep(self._name(self._texts[index]), Answer(None, b""))
            said = done.stderr.decode(errors="replace")
            self._refused(f"ptxas refused the rewritten text (status {done.status}): {said}")
            return
        self._target.log("rewritten")
        write_all(1, self._map_back(done.stdout, changed, values))
        write_all(2, self._map_back(done.stderr, changed, values))
        self._report(answers)
        os._exit(0)

    def _refused(self, reason: str) -> None:
        if self._settings.strict:
            raise ValueError(reason)
        self._target.log(reason)

    def _map_back(self, message: bytes, changed: dict[int, bytes], values: dict[int, str]) -> bytes:
        if not message:
            return message
        from ptxsw.toolchain.messages import LineMap, map_back

        for item in self._line.inputs:
            if item.index in changed:
                lines = LineMap(
                    self._texts[item.index].decode("ascii"), changed[item.index].decode("ascii")
                )
                was = "application ptx input" if item.is_text else values[item.index]
                is_ = was if item.is_text else item.value
                message = map_back(message, was, is_, lines)
        return message

    def _report(self, answers: dict[int, Answer]) -> None:
        if self._settings.report is None:
            return
        from ptxsw.toolchain.collect import save_report

        for item in self._line.inputs:
            answer = answers.get(item.index)
            if answer is None or not answer.report:
                continue
            path = "" if item.is_text or item.is_stdin else item.value
            try:
                save_report(self._settings.report, path, self._line.arch or "", answer.report)
            except OSError as error:
                self._target.log(f"no report: {error}")
