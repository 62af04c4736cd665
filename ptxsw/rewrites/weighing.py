"""Mode auto keeps what certainly pays: the texts of one kernel, as each rewrite left it, are held
against one another by what ptxas makes of them (`cost/decide.py`).

Rewrites whose cost only ptxas knows are weighed before others build on them, all others at the end:
so ptxas is asked twice at most, each time for several texts at once. No rewrite takes part in it,
and all are judged alike. Questions are yielded, so that those of several kernels can be answered
together.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ptxsw.cost.decide import COUNTS, Decision, ResourceUse, decide, figures
from ptxsw.cost.dominance import FALLS
from ptxsw.emulator.trace import Trace
from ptxsw.ir import Module
from ptxsw.target import assembled_for

if TYPE_CHECKING:
    from ptxsw.cost.combined import Question
    from ptxsw.cost.counted import Answered, Counted

Asking = Generator["Question", "Answered", "Weighed"]
Block = tuple[int, int, int]

_FIRST_ARCH = 70  # whose machine code is read


class WeighedText(Struct, frozen=True):
    """A kernel as a rewrite left it, or the original. `trace` runs it symbolically, or knows what
    that gave. Where ptxas cannot be asked only a `sure` one may stay."""

    module: Module
    trace: Callable[[], Trace]
    sure: bool = True


class Weighed(Struct, frozen=True):
    """The number of the text to keep, why others are not, by their numbers, and what is reported:
    of the original and of what is kept, or else of the last text."""

    kept: int
    reasons: dict[int, str]
    decision: Decision


def cannot_count(arch: str | None) -> str | None:
    """Why ptxas cannot be asked what a kernel costs; None where it can."""
    from ptxsw.cost.counted import NotCounted, tools
    from ptxsw.cost.occupancy import UnknownTarget, limits

    try:
        name = limits(arch or "").name
        if int(name.removeprefix("sm_")) < _FIRST_ARCH:
            return f"ptxsw cannot read machine code for {name}"
        tools(name)
    except (UnknownTarget, NotCounted) as error:
        return str(error)
    return None


class Scales:
    """Weighs the texts of one kernel against one another. Each has to improve on the last one kept
    by the share `falls`. What ptxas made of a text is remembered."""

    def __init__(
        self, name: str, arch: str | None, block: Block | None, falls: float = FALLS
    ) -> None:
        self._name, self._arch, self._block, self._falls = name, arch, block, falls
        self._uses: dict[int, ResourceUse] = {}

    def choose(self, texts: Sequence[WeighedText], base: int) -> Asking:
        """Which of the texts behind number `base`, which is kept already, to keep. The first is
        the original."""
        from ptxsw.cost.counted import NotCounted, RefusedByPtxas
        from ptxsw.cost.occupancy import UnknownTarget

        reason = cannot_count(self._arch)
        rest = range(base, len(texts))
        if reason is None:
            try:
                return (yield from self._counted(texts, base))
            except RefusedByPtxas as error:
                decision = Decision(base > 0, COUNTS, str(error))
                return Weighed(base, dict.fromkeys(rest, str(error)), decision)
            except (NotCounted, UnknownTarget) as error:
                reason = str(error)
        # Each text contains the rewrites of all earlier ones, so all of them have to be sure.
        kept = max(n for n in rest if n == base or all(texts[m].sure for m in range(base, n + 1)))
        said = f"by the rewrites' own counts; their cost in registers is not known: {reason}"
        why = f"its cost in registers is not known: {reason}"
        return Weighed(kept, dict.fromkeys(rest, why), Decision(kept > 0, COUNTS, said))

    def forget(self, kept: int) -> None:
        """Forget what is known of texts behind number `kept`."""
        self._uses = {number: use for number, use in self._uses.items() if number <= kept}

    def _counted(self, texts: Sequence[WeighedText], base: int) -> Asking:
        """The same by what ptxas makes of them: each that dominates the one kept before it. Raises
        NotCounted, UnknownTarget."""
        yield from self._ask(texts, base)
        kept, reasons = base, dict[int, str]()
        for number in range(base + 1, len(texts)):
            if number in self._uses:
                decision = decide(self._uses[kept], self._uses[number], self._falls)
                reasons[number] = decision.reason
                kept = number if decision.kept else kept
        last = len(texts) - 1
        why = {n: reasons.get(n, reasons[last]) for n in range(base + 1, len(texts))}
        decision = decide(self._uses[0], self._uses[kept or last], self._falls)
        self.forget(kept)
        return Weighed(kept, why, decision)

    def _ask(self, texts: Sequence[WeighedText], base: int) -> Generator[Question, Answered, None]:
        """Learns what ptxas makes of all these texts; where they differ in more than the kernel,
        of the first and the last."""
        from ptxsw.cost.combined import Question, differ_in_one_kernel
        from ptxsw.cost.counted import NotCounted

        arch = self._arch or ""
        asked = assembled_for(arch)
        wanted = dict.fromkeys((0, *range(base, len(texts))))
        numbers = [number for number in wanted if number not in self._uses]
        if not numbers:
            return
        if differ_in_one_kernel([texts[n].module for n in numbers], self._name):
            groups = [numbers]
        else:
            groups = [[n] for n in dict.fromkeys((numbers[0], numbers[-1]))]
        for group in groups:
            modules = tuple(texts[n].module for n in group)
            answer = yield Question(modules, self._name, asked)
            if isinstance(answer, NotCounted):
                raise answer
            for number, counted in zip(group, answer, strict=True):
                self._uses[number] = self._figures(texts[number], counted)

    def _figures(self, text: WeighedText, counted: Counted) -> ResourceUse:
        from ptxsw.cost.counted import NotCounted
        from ptxsw.cost.wavefronts import wavefronts_of

        trace = text.trace()
        if trace.statistics.timed_out:
            raise NotCounted("the symbolic run of the kernel did not finish")
        return figures(counted, wavefronts_of(trace, self._block), self._arch or "", self._block)
