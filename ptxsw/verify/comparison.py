"""What comparing two kernels by launches has come to: the first difference, and what was run."""

from __future__ import annotations

from msgspec import Struct, field

from ptxsw.ptx.documented import Documented
from ptxsw.ptx.ir import Function, Module
from ptxsw.verify.launches import Launch
from ptxsw.verify.runs import Outcome

_OVERHEAD = 100  # of a run, in steps
_MANY = 2048  # threads of which a step costs twice as much as one of few


class Difference(Documented, frozen=True):
    """The first difference between two kernels."""

    launch: Launch
    """A launch that shows it."""
    seed: int | None
    """Its schedule; None is the one in which threads reconverge."""
    what: str
    """Which element differs, its values, and who stored it."""

    @property
    def condition(self) -> str:
        return self.launch.condition


class Comparison(Struct):
    """What was run, and the first difference."""

    difference: Difference | None = None
    launches: int = 0  # on which both were compared
    runs: int = 0
    skipped: list[str] = field(default_factory=list)  # why a launch said nothing
    work: int = 0  # as `WORK` counts it
    outcomes: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    """By text (0 or 1) and function, which outcomes of each guard ran."""
    open: bool = False  # launches differ unless ptxas fuses products and sums
    race: str = ""  # that the second kernel has and the first has not, where no order shows it

    def ran(self, text: int, launch: Launch, outcome: Outcome) -> Outcome:
        """Counts a run."""
        self.runs += 1
        self.work += outcome.steps * (_MANY + launch.threads) // _MANY + _OVERHEAD
        for name, taken in outcome.sides.items():
            so_far = self.outcomes.setdefault((text, name), [0] * len(taken))
            self.outcomes[text, name] = [a | b for a, b in zip(so_far, taken, strict=True)]
        return outcome

    def taken(self, text: int, module: Module) -> tuple[int, int]:
        """How many outcomes of the guards in what was run of a text were taken, of how many."""
        taken = every = 0
        for (number, name), outcomes in self.outcomes.items():
            body = body_of(module, name).body if number == text else None
            for outcome, instruction in zip(
                outcomes, body.instructions if body else (), strict=False
            ):
                if instruction.guard is not None:
                    taken += outcome.bit_count()
                    every += 2
        return taken, every


def body_of(module: Module, name: str) -> Function:
    """The function of a name that has a body."""
    return next(f for f in module.functions if f.name == name and f.body_span is not None)
