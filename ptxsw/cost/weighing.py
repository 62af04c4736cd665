"""Mode auto keeps what certainly pays: the texts of one kernel, as each rewrite left it, are held
against one another by what ptxas makes of them (`cost/decide.py`).

Rewrites whose cost only ptxas knows are weighed before others build on them, and so are those of
which it is known beforehand what they ask of memory; all others at the end. So ptxas is asked three
times at most, each time for several texts at once. No rewrite takes part in it, and all are judged
alike. Questions are yielded, so that those of several kernels can be answered together.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.cost.accesses import KernelFigures, access_figures, figures
from ptxsw.cost.account import exactly, total
from ptxsw.cost.combined import Question, differ_in_one_kernel
from ptxsw.cost.counted import Answered, Counted, NotCounted, RefusedByPtxas, cannot_count
from ptxsw.cost.decide import COUNTS, FALLS, Decision, account, decide
from ptxsw.cost.instructions import Mix
from ptxsw.cost.occupancy import UnknownTarget
from ptxsw.cost.wavefronts import Line, Wavefronts, alike, wavefronts_of
from ptxsw.emulator.trace import Trace
from ptxsw.ptx.ir import Module
from ptxsw.ptx.target import assembled_for

Asking = Generator[Question, Answered, "Weighed"]
Block = tuple[int, int, int]


class WeighedText(Struct, frozen=True):
    """A kernel as a rewrite left it, or the original. `trace` runs it symbolically, or knows what
    that gave; `foreseen` tells, without that, what of it a rewrite knows. Where ptxas cannot be
    asked, the `cycles` decide that its changes add by their own counts; None where these say too
    little."""

    module: Module
    trace: Callable[[], Trace]
    cycles: float | None = 0.0
    foreseen: Callable[[], Wavefronts | None] = lambda: None


class Weighed(Struct, frozen=True):
    """The number of the text to keep, why others are not, by their numbers, and what is reported:
    of the original and of what is kept, or else of the last text."""

    kept: int
    reasons: dict[int, str]
    decision: Decision


class CostGate:
    """Weighs the texts of one kernel against one another. Each has to improve on the last one kept
    by the share `falls`. What ptxas made of a text is remembered."""

    def __init__(
        self, name: str, arch: str | None, block: Block | None, falls: float = FALLS
    ) -> None:
        self.block = block
        self._name, self._arch, self._falls = name, arch, falls
        self._counts: dict[int, Counted] = {}
        self._asked: dict[int, Wavefronts] = {}

    def choose(self, texts: Sequence[WeighedText], base: int) -> Asking:
        """Which of the texts behind number `base`, which is kept already, to keep. The first is
        the original."""
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
        kept = _by_own_counts(texts, base)
        said = f"by the rewrites' own counts; their register cost is not known: {reason}"
        why = {number: _unknown_gain(texts[number], reason) for number in rest}
        return Weighed(kept, why, Decision(kept > 0, COUNTS, said))

    def forget(self, kept: int) -> None:
        """Forget what is known of texts behind number `kept`."""
        self._counts = {number: one for number, one in self._counts.items() if number <= kept}
        self._asked = {number: asked for number, asked in self._asked.items() if number <= kept}

    def _counted(self, texts: Sequence[WeighedText], base: int) -> Asking:
        """The same by what ptxas makes of them: each that dominates the one kept before it. Raises
        NotCounted, UnknownTarget."""
        yield from self._ask(texts, base)
        kept, decisions = base, dict[int, Decision]()
        for number in range(base + 1, len(texts)):
            if number in self._counts:
                decisions[number] = self._beside(texts, kept, number)
                kept = number if decisions[number].kept else kept
        last = decisions[len(texts) - 1]
        final = kept or len(texts) - 1
        why = {n: decisions.get(n, last).reason for n in range(base + 1, len(texts))}
        decision = self._beside(texts, 0, kept) if kept else last
        both = self._figures(texts, 0), self._figures(texts, final)
        decision = replace(decision, figures=both)
        self.forget(kept)
        return Weighed(kept, why, decision)

    def _ask(self, texts: Sequence[WeighedText], base: int) -> Generator[Question, Answered, None]:
        """Learns what ptxas makes of all these texts; where they differ in more than the kernel,
        of the first and the last. Raises NotCounted."""
        arch = self._arch or ""
        asked = assembled_for(arch)
        wanted = dict.fromkeys((0, *range(base, len(texts))))
        numbers = [number for number in wanted if number not in self._counts]
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
            self._counts.update(zip(group, answer, strict=True))

    def _beside(self, texts: Sequence[WeighedText], kept: int, number: int) -> Decision:
        """Does a text gain on one that is kept? What is foreseen suffices to say no. Raises
        NotCounted, UnknownTarget."""
        before = self._wavefronts(texts, kept)
        foreseen = None if number in self._asked else texts[number].foreseen()
        if foreseen is not None:
            decision = self._decide(texts, (kept, before), (number, foreseen))
            if not decision.kept:
                return decision
        return self._decide(texts, (kept, before), (number, self._wavefronts(texts, number)))

    def _wavefronts(self, texts: Sequence[WeighedText], number: int) -> Wavefronts:
        if number not in self._asked:
            trace = texts[number].trace()
            if trace.statistics.timed_out:
                raise NotCounted("the symbolic run of the kernel did not finish")
            self._asked[number] = wavefronts_of(trace, self.block)
        return self._asked[number]

    def _figures(self, texts: Sequence[WeighedText], number: int) -> KernelFigures | None:
        """Of a text that was run symbolically."""
        if number not in self._asked or number not in self._counts:
            return None
        counted, trace = self._counts[number], texts[number].trace()
        accesses = access_figures(trace, self.block, self._asked[number])
        pipes = {pipe: exactly(count) for pipe, count in counted.once.items()}
        mix = Mix(total(pipes.values()), pipes)
        return figures(accesses, mix, (counted.registers, counted.shared))

    def _decide(
        self,
        texts: Sequence[WeighedText],
        before: tuple[int, Wavefronts],
        after: tuple[int, Wavefronts],
    ) -> Decision:
        """By what two texts, given by their numbers, ask of memory."""
        (old, asked_before), (new, asked_after) = before, after
        both = alike(asked_before, self._line(texts[old]), asked_after, self._line(texts[new]))
        use_before, use_after = (
            account(self._counts[number], asked, self._arch or "", self.block)
            for number, asked in zip((old, new), both, strict=True)
        )
        return decide(use_before, use_after, self._falls)

    def _line(self, text: WeighedText) -> Line:
        """The line of the original from which an instruction of a text comes."""
        source, kernel = text.module.source, text.module.kernel(self._name)
        return lambda index: source.line(kernel.body.instructions[index].span.start)


def _by_own_counts(texts: Sequence[WeighedText], base: int) -> int:
    """The last text that takes less time than the one kept before it, where none on the way takes
    more than the one before: each contains the rewrites of all earlier ones."""
    kept, saved = base, 0.0
    for number in range(base + 1, len(texts)):
        cycles = texts[number].cycles
        if cycles is None or cycles > 0:
            break
        saved -= cycles
        kept = number if saved > 0 else kept
    return kept


def _unknown_gain(text: WeighedText, reason: str) -> str:
    if text.cycles is None or text.cycles < 0:
        return f"its register cost is not known: {reason}"
    return f"by its own counts it saves nothing, and ptxas is not available: {reason}"
