"""A kernel goes through the rewrites, one after the other.

A kernel that a rewrite has changed is read and run again for the next one. What was written is
checked before anything else is made of it; where the check fails the kernel stays as it was.
Each kernel is taken out of its module first: kernels know nothing of each other.
"""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from ptxsw.analysis.lane_reuse import global_loads
from ptxsw.change import Change, Refusal
from ptxsw.codegen.lower_bank_conflicts import PermutedBanks
from ptxsw.codegen.splice import Edit, Origins, apply, compose
from ptxsw.cost.select import Choice
from ptxsw.emulator.budget import CHECKING, OUT_OF_TIME, PLANNING, Budget, OutOfTime
from ptxsw.emulator.run import emulate
from ptxsw.emulator.solver import Solver
from ptxsw.emulator.trace import Trace
from ptxsw.excerpt import Excerpt
from ptxsw.ir import Function, Module
from ptxsw.options import Options
from ptxsw.parser import parse
from ptxsw.rewrites import every, joint, named
from ptxsw.rewrites.base import Found, Kernel, Made, Rewrite
from ptxsw.source import Source
from ptxsw.validate import ASSUMPTIONS, Proved, validate

UNCHECKED = "what was written for it could not be shown to be right"


class Progress(Struct):
    """One kernel on its way through the rewrites."""

    original: Trace
    excerpt: Excerpt
    module: Module  # as it is now, with `function` and `trace` (None: not run yet)
    function: Function
    trace: Trace | None
    solver: Solver
    budget: Budget
    since: tuple[Edit, ...] = ()  # that made the text of `module` from that of the excerpt
    made: list[Made] = field(default_factory=list)


def considered(options: Options) -> tuple[Rewrite, ...]:
    """The rewrites that are asked for, in order. Asking for a scheme or a form asks for those
    that have them. Raises ValueError for a name nobody knows."""
    names = None if options.rewrites is None else named(options.rewrites)
    if options.rewrites is None and (options.scheme, options.form) != ("auto", "auto"):
        names = joint.TOGETHER
    if names is None:
        return tuple(one for one in every() if not one.opt_in)
    return tuple(one for one in every() if one.name in names)


class Passes:
    """Sends kernels through the rewrites that are asked for. Raises ValueError for
    a rewrite nobody knows."""

    def __init__(
        self,
        options: Options,
        arch: str | None,
        block: tuple[int, int, int] | None = None,
    ) -> None:
        """`block` are the threads of a block along x, y and z, where they are known."""
        self._options, self._arch, self._block = options, arch, block
        self._rewrites = considered(options)
        self._names = frozenset(one.name for one in self._rewrites)

    def run(self, excerpt: Excerpt) -> Progress:
        """One kernel, and what was made of it. Raises ParseError."""
        with Budget(self._options.budget_s) as budget:
            solver, module, function = Solver(), excerpt.module, excerpt.function
            trace = emulate(module, function, budget_s=budget.seconds, solver=solver)
            each = Progress(trace, excerpt, module, function, trace, solver, budget)
            for one in self._rewrites:
                made = self._find(one, each)
                if made is not None:
                    each.made.append(made)
                if made is not None and made.changes:
                    self._write(one, each, made)
        return each

    # ------------------------------------------------------------ finding

    def _find(self, one: Rewrite, each: Progress) -> Made | None:
        """What a rewrite has to say of a kernel."""
        span = each.function.span
        if not one.requires.may_apply(each.module.source.text[span.start : span.end]):
            return None
        joined = one.name in joint.TOGETHER
        if not joined and (each.original.statistics.timed_out or each.budget.spent(PLANNING)):
            return None
        kernel = self._kernel(each, one.follows)
        missing = one.requires.missing(each.module)
        found: list[Found] = []
        if missing is None:
            found = list(one.find(kernel))
        elif joined and joint.leads(one.name, kernel):
            found = [Refusal(one.name, a.index, missing) for a in global_loads(kernel.trace)]
        return Made(
            one.name,
            kernel,
            tuple(item for item in found if isinstance(item, Change)),
            tuple(item for item in found if isinstance(item, Refusal)),
            next((item for item in found if isinstance(item, Choice)), None),
        )

    def _kernel(self, each: Progress, follows: frozenset[str]) -> Kernel:
        """The kernel as it is now, run symbolically if it has not been. A rewrite that follows
        more instructions has a run of its own: others find what they would find without it."""
        budget = self._options.budget_s
        if each.trace is None:
            each.solver = Solver()
            each.trace = emulate(each.module, each.function, budget_s=budget, solver=each.solver)
        trace, solver = each.trace, each.solver
        if follows:
            solver = Solver()
            trace = emulate(
                each.module, each.function, budget_s=budget, solver=solver, follow=follows
            )
        return Kernel(
            each.module, each.function, trace, solver, self._options, self._arch, self._names,
            each.budget, self._block,
        )  # fmt: skip

    # ------------------------------------------------------------ writing

    def _write(self, one: Rewrite, each: Progress, made: Made) -> None:
        """Splice what a rewrite wrote, and check it. Of a kernel whose time runs out meanwhile the
        changes are kept that were checked by then."""
        for share in (CHECKING, 1.0):
            since = _composed(each, one.lower(made.kernel, made.changes))
            module = parse(_rewritten(each.excerpt.module.source, since))
            try:
                problem = self._problem(one, made, module, share)
            except OutOfTime as late:
                if not late.done or share == 1.0:
                    self._give_up(each, made, OUT_OF_TIME)
                    return
                made = each.made[-1] = joint.reduced(made, late.done)
                continue
            if problem is not None:
                self._give_up(each, made, problem)
                return
            each.since, each.module, each.trace = since, module, None
            each.function = _named(module, each.function.name)
            return

    def _problem(self, one: Rewrite, made: Made, rewritten: Module, share: float) -> str | None:
        """Why the text that was written is not taken: it does not do what the one before did, or
        whether it does cannot be told. None where it is right. Raises OutOfTime."""
        kernel = made.kernel
        if one.name in joint.TOGETHER:
            wrong = joint.check(kernel, made.changes, rewritten, share)
            return None if wrong is None else f"a bug of ptxsw: {wrong}"
        kernel.budget.check()
        new = _named(rewritten, kernel.function.name)
        allowed = kernel.options.assume & ASSUMPTIONS.keys()
        layouts = [
            c.detail.permutation for c in made.changes if isinstance(c.detail, PermutedBanks)
        ]
        claims = tuple(dict.fromkeys(claim for c in made.changes for claim in c.claims))
        outcome = validate(
            (kernel.module, kernel.function), (rewritten, new), claims=claims, assume=allowed,
            shared_layout=layouts[0] if layouts else None,
        )  # fmt: skip
        return None if isinstance(outcome, Proved) else f"{UNCHECKED}: {outcome}"

    def _give_up(self, each: Progress, made: Made, reason: str) -> None:
        """Take back what a rewrite has made, and say why. What earlier ones made stays."""
        name, refusals = made.rewrite, made.refusals
        left = [change.at for change in made.changes]
        if name in joint.TOGETHER:
            left, refusals = [load.index for load in global_loads(made.kernel.trace)], ()
        refusals += tuple(Refusal(name, at, reason) for at in left)
        each.made[-1] = replace(made, changes=(), refusals=refusals, choice=None)


def _named(module: Module, name: str) -> Function:
    return next(function for function in module.kernels if function.name == name)


def _composed(each: Progress, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """Edits of the text as it is, as edits of the excerpt."""
    if not each.since:
        return edits
    return compose(len(each.excerpt.module.source.text), each.since, edits)


def _rewritten(source: Source, edits: tuple[Edit, ...]) -> Source:
    """The text that edits make, with the lines of the one it was made from."""
    origins = Origins(len(source.text), edits)
    return Source(
        apply(source.text, edits), "the rewritten text", lambda at: source.line(origins(at))
    )
