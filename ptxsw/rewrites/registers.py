"""Registers (Orion; RegDem): a limit of registers, and spills to shared memory, so that more warps
are resident.

    .visible .entry k(…)                   .visible .entry k(…)
    .reqntid 256, 1, 1              =>     .reqntid 256, 1, 1
    {                                      .maxnreg 32
                                           {
                                               .pragma "enable_smem_spilling";

Instructions stay as they are. Candidates are the steps of occupancy that the block allows, at most
five with the original, which comes first: if the kernel needs more registers than all warps leave
it, fewer registers, and one step to more of them as a fail-safe; else more. At each step ptxas is
asked what it makes, and spills to shared memory are tried where it would spill to local memory, or
by themselves. The predictor of RegDem (`cost/stalls.py`) chooses among what ptxas made.

Only by its name: a launch that passes dynamic shared memory to a kernel which declares none can
fail where spills take it.

Sources: A. Hayes et al., "Orion: A Framework for GPU Occupancy Tuning", Middleware 2016;
P. Sakdhnagool et al., "RegDem", arXiv:1907.02894, 2019; PTX ISA, `.maxnreg` and pragmas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from subprocess import TimeoutExpired
from typing import ClassVar, Final, NamedTuple

from ptxsw.changes.change import Change, Refusal
from ptxsw.changes.plan import Proof
from ptxsw.codegen.lower_registers import RegisterLimit, RegisterTrial, RegisterTrials, lower
from ptxsw.codegen.splice import Edit, apply
from ptxsw.cost import cubin, sass
from ptxsw.cost.disassembly import NoNvdisasm
from ptxsw.cost.executions import executions
from ptxsw.cost.machine_code import MachineKernel
from ptxsw.cost.occupancy import (
    OccupancyStep,
    UnknownTarget,
    limits,
    occupancy,
    register_steps,
)
from ptxsw.cost.stalls import LOOP_FACTOR, pace
from ptxsw.flow.cfg import build
from ptxsw.parser import parse
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Module, Special
from ptxsw.ptx.target import assembled_for, plain_name
from ptxsw.rewrites.base import Kernel, Outcome
from ptxsw.toolchain.ptxas import AssemblyError, NoCodeForTarget, NoPtxas, assemble

_VERSION = (8, 7)
_STATIC = 48 << 10  # bytes of shared memory that a block may have without being asked for
_SAME_WAY = 3  # steps; with the original and one of the other direction five candidates
_GAIN = 0.05  # that has to be predicted
_PATIENCE = 60.0  # seconds for each program that is run


class Registers:
    """See above."""

    name: ClassVar[str] = "registers"
    summary: ClassVar[str] = (
        "The register count is limited, with spills to shared memory, for more resident warps."
    )

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """The best of the candidates, if it is better than the original; or the one that is asked
        for."""
        reason = _obstacle(kernel)
        outcomes = reason or _outcomes(kernel)
        if isinstance(outcomes, str):
            yield Refusal(self.name, 0, outcomes)
            return
        original, *others = outcomes
        wanted = kernel.options.register_limit
        if wanted is not None:
            chosen = next((trial for trial in others if trial.name == wanted), None)
            if chosen is None:
                reason = f"{wanted} is no longer one of its candidates"
                yield Refusal(self.name, 0, reason, RegisterTrials(tuple(outcomes)))
            else:
                yield Change(
                    self.name, 0, frozenset(), Proof(), RegisterLimit(chosen, tuple(outcomes))
                )
            return
        # The predictor counts how long a warp waits, not the memory traffic that spills cause: so
        # no candidate may spill more to local memory than the original.
        usable = [o for o in others if o.local <= original.local]
        best = min(usable, key=lambda o: (o.pace, o.registers), default=None)
        if best is None or best.pace > (1 - _GAIN) * original.pace:
            reason = _stays(original, others, best)
            yield Refusal(self.name, 0, reason, RegisterTrials(tuple(outcomes)))
            return
        yield Change(self.name, 0, frozenset(), Proof(), RegisterLimit(best, tuple(outcomes)))

    def nothing(self, kernel: Kernel) -> str:
        """See `OwnSearch`."""
        return "it has no instructions"

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the change."""
        (change,) = changes
        assert isinstance(change.detail, RegisterLimit)
        best = change.detail.chosen
        return tuple(
            lower(kernel.text, kernel.function, best.limit, spills_to_shared=best.spills_to_shared)
        )


# ---------------------------------------------------------------- what forbids it


def _obstacle(kernel: Kernel) -> str | None:
    """Why a kernel cannot be changed, before ptxas is asked."""
    function, instructions = kernel.function, kernel.trace.cfg.instructions
    if kernel.module.version < _VERSION:
        major, minor = kernel.module.version
        return f"PTX {major}.{minor} has no spills to shared memory; .version 8.7 is needed"
    if function.most_threads is None:
        return "block size unknown: add __launch_bounds__ (.maxntid or .reqntid)"
    if any(name in ("minnctapersm", "maxnctapersm") for name, _ in function.directives):
        return "the kernel itself sets the number of resident blocks (.minnctapersm)"
    declared = (*kernel.module.variables, *function.body.variables)
    if any(variable.is_dynamic for variable in declared):
        return "the kernel uses dynamic shared memory, whose size is known only at launch"
    for instruction in instructions:
        if isa.effects(instruction.opcode, instruction.modifiers) & isa.Effect.CALL:
            return "the kernel calls functions, which use their own registers"
        if {Special("%dynamic_smem_size"), Special("%total_smem_size")} & set(
            isa.uses(instruction)
        ):
            return "the kernel asks how much shared memory it has"
    return None if instructions else "the kernel has no instructions"


def _stays(
    original: RegisterTrial, others: Sequence[RegisterTrial], best: RegisterTrial | None
) -> str:
    """Why the original is the best there is."""
    now = f"{original.registers} registers and {100 * original.occupancy:.0f} % of the warps"
    if not others:
        return f"it has {now}, and ptxas generates the same code under other limits"
    if best is None:
        return f"it has {now}; all other limits spill more to local memory"
    gain = original.pace / best.pace - 1
    return (
        f"it has {now}; the best other candidate, {best.registers} registers and "
        f"{100 * best.occupancy:.0f} %, is predicted to be {_percent(gain)}"
    )


def _percent(gain: float) -> str:
    return f"{abs(100 * gain):.1f} % {'faster' if gain >= 0 else 'slower'}"


# ---------------------------------------------------------------- candidates


def candidate_steps(
    target: str, *, threads: int, registers: int, shared: int
) -> tuple[OccupancyStep, ...]:
    """The steps of occupancy to try, given the registers of a thread and the threads and bytes of
    shared memory of a block: the nearest ones in the direction that Orion picks, then one in the
    other direction. Raises UnknownTarget."""
    now = occupancy(target, block_threads=threads, registers=registers, shared=shared).blocks
    steps = register_steps(target, block_threads=threads, shared=shared)
    fewer = [step for step in steps if step.blocks > now]
    more = [step for step in reversed(steps) if step.blocks < now]
    if registers > _of_all_warps(target):
        return (*fewer[:_SAME_WAY], *more[:1])
    return (*more[:_SAME_WAY], *fewer[:1])


def _of_all_warps(target: str) -> int:
    """The registers that are left to each thread where all warps are resident."""
    machine = limits(target)
    of_warp = machine.registers // machine.warps // machine.register_unit * machine.register_unit
    return of_warp // 32


def _outcomes(kernel: Kernel) -> list[RegisterTrial] | str:
    """What ptxas makes of the original and of each candidate, the original first, the same code
    once; or why that is not known."""
    try:
        trials = Trials(kernel)
        registers, shared = trials.needs()
        steps = candidate_steps(
            trials.arch, threads=trials.threads, registers=registers, shared=shared
        )
        asked = [AS_IT_IS, *(Trial(step.at, spills) for step in steps for spills in (False, True))]
        # Shared spills without a limit: ptxas then picks a number of registers by itself.
        if any(step.at < registers for step in steps):
            asked.append(Trial(None, True))
        outcomes = trials.outcomes(asked)
    except (NoPtxas, NoCodeForTarget, NoNvdisasm, UnknownTarget) as error:
        return str(error)
    except AssemblyError as error:
        return f"ptxas rejects the kernel: {' '.join(str(error).split())[:200]}"
    except (OSError, TimeoutExpired) as error:
        return f"ptxas could not be run: {error}"
    return [o for o in outcomes if o.shared <= max(_STATIC, shared)]


# ---------------------------------------------------------------- what ptxas makes of them


class Trial(NamedTuple):
    """A limit of registers (None for none), and whether to spill to shared memory."""

    limit: int | None
    spills_to_shared: bool


AS_IT_IS: Final = Trial(None, False)


class Trials:
    """The candidates of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.name = kernel.function.name
        self._module = kernel.module
        self.arch = kernel.arch or ""
        self._asked = assembled_for(self.arch)
        self.threads = kernel.function.most_threads or 0

    def needs(self) -> tuple[int, int]:
        """Registers of a thread and bytes of shared memory of a block, of the kernel as it is.
        Raises NoPtxas, AssemblyError, OSError, subprocess.TimeoutExpired."""
        text = self._module.source.text
        binary = cubin.read(assemble(text, self._asked, timeout=_PATIENCE).cubin)
        code = next(function for function in binary.functions if function.name == self.name)
        return code.registers, code.shared

    def outcomes(self, trials: Sequence[Trial]) -> list[RegisterTrial]:
        """What ptxas makes of the candidates, in their order, the same code once. Spills to shared
        memory are left out where ptxas refuses them, and at a limit at which it spills no more to
        local memory than `AS_IT_IS`, which comes first. Raises NoPtxas, AssemblyError,
        UnknownTarget, OSError, subprocess.TimeoutExpired; NoNvdisasm where its code cannot be
        read."""
        # A limit without shared spills comes before the same limit with them, so `local` is known.
        local, outcomes = dict[int | None, int](), dict[object, RegisterTrial]()
        for trial, text, kernel in self._compiled(trials):
            if not trial.spills_to_shared:
                local[trial.limit] = _local(kernel)
            elif trial.limit is not None and local[trial.limit] <= local[None]:
                continue
            code = kernel.registers, kernel.shared, _code(kernel)
            if code not in outcomes:
                outcomes[code] = self._outcome(trial, text, kernel)
        return list(outcomes.values())

    def _compiled(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Module, MachineKernel]]:
        texts = [self._text(trial) for trial in trials]
        kernels, note = sass.read_several(texts, self.name, self._asked, timeout=_PATIENCE)
        for trial, text, kernel in zip(trials, texts, kernels, strict=True):
            if isinstance(kernel, AssemblyError):
                if not trial.spills_to_shared:
                    raise kernel
                continue
            if not kernel.instructions:
                raise NoNvdisasm(note)
            yield trial, text, kernel

    def _text(self, trial: Trial) -> Module:
        text, function = self._module.source.text, self._module.kernel(self.name)
        edits = lower(text, function, trial.limit, spills_to_shared=trial.spills_to_shared)
        return parse(apply(text, edits))

    def _outcome(self, trial: Trial, text: Module, kernel: MachineKernel) -> RegisterTrial:
        resident = occupancy(
            self.arch, block_threads=self.threads, registers=kernel.registers, shared=kernel.shared
        ).fraction
        executed = executions(kernel, build(text.kernel(self.name).body), LOOP_FACTOR)
        arch = int(str(plain_name(self.arch)).removeprefix("sm_"))
        stalls = pace(kernel, arch, resident, executed) if resident else float("inf")
        return RegisterTrial(
            *trial, kernel.registers, _local(kernel), kernel.shared, resident, stalls
        )


def _local(kernel: MachineKernel) -> int:
    """Bytes that a thread spills to local memory, stored and loaded."""
    return (kernel.spill_stores or 0) + (kernel.spill_loads or 0)


def _code(kernel: MachineKernel) -> tuple[object, ...]:
    """Equal for machine code that is judged alike."""
    return tuple((i.opcode, i.predicate, i.control) for i in kernel.instructions)
